//! Versions of a group, and which of them is preferred.

use std::cmp::Ordering;

/// How far a version is, the furthest last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Alpha,
    Beta,
    Stable,
}

/// Orders versions by preference, the most preferred first: `v2`, `v1`, `v2beta1`, `v1alpha2`, then all that are
/// named otherwise, by their letters.
///
/// ```
/// let mut versions = ["v1alpha1", "foo", "v1", "v10", "v2beta2"];
/// versions.sort_by(|one, other| windlass_machinery::version::compare(one, other));
/// assert_eq!(versions, ["v10", "v1", "v2beta2", "v1alpha1", "foo"]);
/// ```
pub fn compare(one: &str, other: &str) -> Ordering {
    match (parse(one), parse(other)) {
        (Some(one), Some(other)) => other.cmp(&one),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => one.cmp(other),
    }
}

fn parse(version: &str) -> Option<(Stage, u64, u64)> {
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse::<u64>().ok(),
        false => None,
    };
    let rest = version.strip_prefix('v')?;
    for (word, stage) in [("alpha", Stage::Alpha), ("beta", Stage::Beta)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stage, number(major)?, number(minor)?));
        }
    }
    Some((Stage::Stable, number(rest)?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_strange_ones_last() {
        let sorted = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v1gamma1",
            "v1beta",
        ];
        let mut versions = sorted;
        versions.reverse();
        versions.sort_by(|one, other| compare(one, other));
        let mut strange: Vec<&str> = sorted[8..].to_vec();
        strange.sort_unstable();
        assert_eq!(versions[..8], sorted[..8]);
        assert_eq!(versions[8..], strange);
        assert_eq!(compare("v1", "v1"), Ordering::Equal);
        // Too large for a number, so that it is none.
        assert_eq!(compare("v99999999999999999999999", "v1alpha1"), Ordering::Greater);
    }
}
