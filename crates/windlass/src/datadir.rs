//! The data directory: taken for one process, and written so that no reader ever sees half a file.
//!
//! ```text
//! DIR/admin.kubeconfig   for kubectl; written when ready
//! DIR/endpoints.json     what is where; there while it is ready, and after a crash until the next start
//! DIR/pki/               the authority, the certificates it has signed, the keys that sign tokens and encrypt Secrets
//! DIR/store/             the embedded store
//! DIR/LOCK               the process that has the directory, for people
//! ```

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::args::Usage;

const KUBECONFIG: &str = "admin.kubeconfig";
const ENDPOINTS: &str = "endpoints.json";
const PKI: &str = "pki";
const HOLDER: &str = "LOCK";

/// What the controllers are called among the services.
pub(crate) const CONTROLLERS: &str = "controllers";

/// What the OpenSergo control plane is called among them, and where it says how it is.
pub(crate) const OPENSERGO: &str = "opensergo";
pub(crate) const OPENSERGO_STATUS: &str = "opensergo-status";

/// What runs where, by service.
pub(crate) type Endpoints = BTreeMap<String, String>;

/// Where the administrator's kubeconfig is.
pub(crate) fn kubeconfig(directory: &Path) -> PathBuf {
    directory.join(KUBECONFIG)
}

/// Where certificates and keys are.
pub(crate) fn pki(directory: &Path) -> PathBuf {
    directory.join(PKI)
}

/// Reads what runs where; nothing if nothing has become ready.
pub(crate) fn endpoints(directory: &Path) -> anyhow::Result<Option<Endpoints>> {
    let path = directory.join(ENDPOINTS);
    match fs::read(&path) {
        Ok(bytes) => {
            let parsed = serde_json::from_slice(&bytes);
            Ok(Some(parsed.with_context(|| format!("{} is damaged", path.display()))?))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// A data directory that this process has for itself.
pub(crate) struct DataDirectory {
    path: PathBuf,
    /// The lock is on the directory itself, so that no file can be removed from under it.
    handle: File,
}

impl DataDirectory {
    /// Creates the directory if there is none, and takes it.
    pub(crate) fn take(path: &Path) -> anyhow::Result<Self> {
        if path.exists() && !path.is_dir() {
            return Err(Usage(format!("--data-dir {}: expected a directory", path.display())).into());
        }
        create_folder(path)?;
        let handle = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        match handle.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "{} is in use by another process{}\nhint: stop that one, or name another directory with --data-dir",
                path.display(),
                holder(path)
            ),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        let directory = DataDirectory { path: path.to_owned(), handle };
        if !is_ours(path) {
            return Err(Usage(format!(
                "--data-dir {}: expected a directory that nobody else can read; chmod 700 makes it one",
                path.display()
            ))
            .into());
        }
        make_private(path)?;
        write_file(&path.join(HOLDER), format!("{}\n", std::process::id()).as_bytes(), 0o600)?;
        directory.forget_endpoints();
        Ok(directory)
    }

    /// The directory as it was named.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the administrator's kubeconfig.
    pub(crate) fn write_kubeconfig(&self, text: &str) -> anyhow::Result<()> {
        write_file(&kubeconfig(&self.path), text.as_bytes(), 0o600)
    }

    /// Says what runs where: whoever waits for this file knows that it is ready.
    pub(crate) fn write_endpoints(&self, endpoints: &Endpoints) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(endpoints).context("text is always JSON")?;
        text.push(b'\n');
        write_file(&self.path.join(ENDPOINTS), &text, 0o600)
    }

    /// Takes that back.
    pub(crate) fn forget_endpoints(&self) {
        let _ = fs::remove_file(self.path.join(ENDPOINTS));
    }
}

impl Drop for DataDirectory {
    fn drop(&mut self) {
        // Closing the handle would not do: a child that is being started holds a copy of it for a moment.
        let _ = self.handle.unlock();
    }
}

fn holder(path: &Path) -> String {
    let pid = fs::read_to_string(path.join(HOLDER)).unwrap_or_default();
    pid.trim().parse::<u32>().map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

/// Whether nobody else can read it, or it is for us alone and may be made so.
fn is_ours(path: &Path) -> bool {
    let mode = fs::metadata(path).map_or(0o777, |metadata| metadata.permissions().mode());
    let holds_ours = || [HOLDER, PKI, "store"].iter().any(|name| path.join(name).exists());
    let is_empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    // What everyone may write to is a place like /tmp.
    mode & 0o077 == 0 || (mode & 0o1002 == 0 && (holds_ours() || is_empty()))
}

/// Takes from everyone but the owner what they may do with a file or folder of ours.
pub(crate) fn make_private(path: &Path) -> anyhow::Result<()> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    let mode = metadata.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    tracing::warn!(path = %path.display(), "others could read this; it is for its owner alone from now on");
    let mut permissions = metadata.permissions();
    permissions.set_mode(mode & 0o700);
    fs::set_permissions(path, permissions)
        .with_context(|| format!("others can read {}, and that cannot be changed", path.display()))
}

/// Warns about a file with keys or tokens in it that others can read and that is not ours to change.
pub(crate) fn warn_if_open(path: &Path) {
    if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0) {
        tracing::warn!(file = %path.display(), "others can read this secret; chmod 600 would stop them");
    }
}

/// Creates a folder for the owner alone, unless it is there.
pub(crate) fn create_folder(path: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot create {}", path.display()))
}

/// Writes a file in one step: after a crash there is the old one or the new one, whole.
pub(crate) fn write_file(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    replace(path, bytes, mode).with_context(|| format!("cannot write {}", path.display()))
}

fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new("."));
    let beside = folder.join(format!(".{name}.new"));
    // One that a crash left behind may have another mode.
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(folder)?.sync_all()
}
