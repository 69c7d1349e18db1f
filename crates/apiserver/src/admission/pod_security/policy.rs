//! What the labels of a namespace ask for: a level and a version for each way of using it.

use std::{borrow::Cow, fmt};

use windlass_machinery::field::Errors;

/// How strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

const LEVELS: [(&str, Level); 3] =
    [("privileged", Level::Privileged), ("baseline", Level::Baseline), ("restricted", Level::Restricted)];

/// As of which minor version of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Latest,
    Minor(u32),
}

/// A level as of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standard {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = LEVELS.iter().find(|(_, level)| *level == self.level).map_or("", |(name, _)| name);
        match self.version {
            Version::Latest => write!(f, "{name}:latest"),
            Version::Minor(minor) => write!(f, "{name}:v1.{minor}"),
        }
    }
}

/// What is refused, what is only written down, and what is only warned of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: Standard,
    pub(super) audit: Standard,
    pub(super) warn: Standard,
}

/// Reads the labels. What cannot be read is noted; it enforces the strictest and warns of nothing.
pub(super) fn read(labels: &[(Cow<'_, str>, Cow<'_, str>)], errors: &mut Errors) -> Policy {
    let mut read = |mode: &str| {
        let level = mode_label(labels, mode, "", errors, level);
        let version = mode_label(labels, mode, "-version", errors, version);
        (level, version)
    };
    let (enforce_level, enforce_version) = read("enforce");
    let (audit_level, audit_version) = read("audit");
    let (warn_level, warn_version) = read("warn");
    let enforced = enforce_level.flatten();
    let enforce = Standard {
        level: enforce_level.map_or(Level::Privileged, |level| level.unwrap_or(Level::Restricted)),
        version: enforce_version.flatten().unwrap_or(Version::Latest),
    };
    let audit = Standard {
        level: audit_level.flatten().unwrap_or(Level::Privileged),
        version: audit_version.flatten().unwrap_or(Version::Latest),
    };
    let mut warn = Standard {
        level: warn_level.flatten().unwrap_or(Level::Privileged),
        version: warn_version.flatten().unwrap_or(Version::Latest),
    };
    // Who does not say otherwise is warned of what would be refused.
    if let (None, Some(level)) = (warn_level, enforced) {
        warn.level = level;
        if warn_version.is_none() {
            warn.version = enforce.version;
        }
    }
    Policy { enforce, audit, warn }
}

/// The value of one label: `None` when it is not set, `Some(None)` when it means nothing.
fn mode_label<T>(
    labels: &[(Cow<'_, str>, Cow<'_, str>)],
    mode: &str,
    suffix: &str,
    errors: &mut Errors,
    read: fn(&str) -> Result<T, &'static str>,
) -> Option<Option<T>> {
    let label = format!("pod-security.kubernetes.io/{mode}{suffix}");
    let (_, value) = labels.iter().find(|(name, _)| *name == label)?;
    match read(value) {
        Ok(value) => Some(Some(value)),
        Err(why) => {
            errors.at("metadata", |errors| {
                errors.at_key("labels", &label, |errors| errors.invalid_str("", value, why));
            });
            Some(None)
        }
    }
}

fn level(text: &str) -> Result<Level, &'static str> {
    let found = LEVELS.iter().find(|(name, _)| *name == text);
    found.map(|(_, level)| *level).ok_or("must be one of privileged, baseline, restricted")
}

fn version(text: &str) -> Result<Version, &'static str> {
    if text == "latest" {
        return Ok(Version::Latest);
    }
    let digits = text.strip_prefix("v1.").filter(|digits| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain && (*digits == "0" || !digits.starts_with('0'))
    });
    let minor = digits.and_then(|digits| digits.parse().ok());
    minor.map(Version::Minor).ok_or("must be \"latest\" or \"v1.x\"")
}
