//! Encryption at rest: which keys there are, and what the store does with them.
//!
//! The keys are in the file that `--encryption-provider-config` names. Without one, the embedded store gets a file of
//! its own beside the authority, with a new key for Secrets. What is in etcd may belong to several servers, which
//! must have the same keys; there nothing is encrypted unless a file is given. Start at [`prepare`].

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use windlass_access::atrest::{Configuration, Random, Sealing, Stored};
use windlass_apiserver::resources::builtin;
use windlass_machinery::decode::decode_yaml;
use windlass_store::{Opened, Seal, SealError};

use crate::{
    args::Usage,
    datadir::{make_private, warn_if_open, write_file},
    flags::Backend,
};

/// The file with the keys that a server makes for itself.
const OWN: &str = "encryption.yaml";

/// What stands before the keys of an embedded store, as far as encryption goes: the same as in etcd by default.
const ROOT: &str = "/registry/";

/// How values are sealed, and the file that was made for it just now.
pub(crate) struct AtRest {
    pub(crate) seal: Arc<dyn Seal>,
    made: Option<PathBuf>,
}

impl AtRest {
    /// Takes a key back that was made for a store which turns out to be sealed with another.
    pub(crate) fn forget(&self) {
        if let Some(made) = &self.made {
            let _ = fs::remove_file(made);
        }
    }
}

/// Finds or makes the keys for a store. `given` is the file on the command line, `folder` where our own would be.
pub(crate) fn prepare(given: Option<&Path>, folder: &Path, backend: &Backend) -> anyhow::Result<AtRest> {
    let own = folder.join(OWN);
    let root = match backend {
        Backend::Embedded => ROOT,
        Backend::Etcd(etcd) => &etcd.prefix,
    };
    let (configuration, source, made) = match (given, backend) {
        (Some(file), _) => (read_given(file)?, file.to_owned(), None),
        (None, Backend::Embedded) => {
            let made = !own.exists();
            if made {
                write_file(&own, Configuration::fresh(&Random::default()).as_bytes(), 0o600)?;
            }
            make_private(&own)?;
            let configuration = read(&own).map_err(|why| {
                anyhow::anyhow!("{} is damaged: {why}\nhint: put a copy back", own.display())
            })?;
            (configuration, own.clone(), made.then(|| own.clone()))
        }
        (None, Backend::Etcd(_)) => {
            tracing::warn!(
                "Secrets are not encrypted in etcd: give all servers the same keys with --encryption-provider-config"
            );
            (Configuration::default(), PathBuf::from("the file for --encryption-provider-config"), None)
        }
    };
    let builtin: Vec<Stored> = builtin::rows()
        .iter()
        .filter(|row| row.is_stored())
        .map(|row| Stored {
            prefix: row.prefix.clone(),
            group: row.group.clone(),
            plural: row.plural.clone(),
        })
        .collect();
    let hint = match source == own {
        true => format!(
            "start with the --encryption-provider-config that it was written under, or put a copy of {} back that has the key",
            own.display()
        ),
        false if own.exists() => {
            format!(
                "add the key to {}; the one of this server's own is in {}",
                source.display(),
                own.display()
            )
        }
        false => format!("add the key to {}", source.display()),
    };
    let seal = Arc::new(Keys { sealing: Sealing::new(configuration, &builtin, root), hint });
    Ok(AtRest { seal, made })
}

fn read_given(file: &Path) -> anyhow::Result<Configuration> {
    let wrong = |why: String| Usage(format!("--encryption-provider-config {}: {why}", file.display()));
    if !file.is_file() {
        return Err(wrong("expected a file with an EncryptionConfiguration".into()).into());
    }
    warn_if_open(file);
    read(file).map_err(|why| wrong(why).into())
}

/// Reads a configuration, or tells all that is wrong with it.
fn read(file: &Path) -> Result<Configuration, String> {
    let bytes = fs::read(file).map_err(|error| error.to_string())?;
    let decoded = decode_yaml(&bytes).map_err(|error| error.to_string())?;
    if let Some(twice) = decoded.duplicates.first() {
        return Err(format!("{twice}: the field is there twice"));
    }
    Configuration::parse(&decoded.object.into())
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// A configuration in force, as the store wants it.
#[derive(Debug)]
struct Keys {
    sealing: Sealing,
    /// What to do when a value cannot be opened.
    hint: String,
}

impl Seal for Keys {
    fn seal(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        self.sealing.seal(key, value)
    }

    fn open(&self, key: &[u8], stored: &[u8]) -> Result<Opened, SealError> {
        match self.sealing.open(key, stored) {
            Ok(opened) => Ok(Opened { value: opened.value, is_current: opened.is_current }),
            Err(error) => Err(SealError(format!("{error}\nhint: {}", self.hint))),
        }
    }
}
