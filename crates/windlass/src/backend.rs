//! Opens the store that was asked for, and says so when that takes a while.

use std::{fs, path::Path, sync::Arc, time::Duration};

use anyhow::Context;
use windlass_store::{
    ConnectError, Embedded, Etcd, EtcdConfig, EtcdIdentity, EtcdTls, OpenError, Retention, Store,
};

use crate::{
    args::{DataDir, Usage},
    encryption::AtRest,
    exit::chain,
    flags::{Backend, EtcdArgs},
    store::with_hint,
};

/// People begin to wonder after about this long.
const PATIENCE: Duration = Duration::from_secs(1);

impl Backend {
    /// What a person reads about it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Backend::Embedded => "embedded".to_owned(),
            Backend::Etcd(etcd) => format!("etcd at {}, under {}", etcd.servers.join(", "), etcd.prefix),
        }
    }

    /// Opens it, to keep as much of the past as `keep` says, with its values sealed.
    pub(crate) async fn open(
        &self,
        data_dir: &DataDir,
        keep: Retention,
        at_rest: &AtRest,
    ) -> anyhow::Result<Arc<dyn Store>> {
        let doing = match self {
            Backend::Embedded => format!("opening the store in {}", data_dir.store().display()),
            Backend::Etcd(_) => format!("loading from {}", self.describe()),
        };
        let opening = async {
            match self {
                Backend::Embedded => embedded(data_dir, keep, at_rest).await,
                Backend::Etcd(args) => etcd(args, keep, at_rest).await,
            }
        };
        tokio::pin!(opening);
        tokio::select! {
            store = &mut opening => return store,
            () = tokio::time::sleep(PATIENCE) => eprintln!("{doing} ..."),
        }
        opening.await
    }
}

async fn embedded(data_dir: &DataDir, keep: Retention, at_rest: &AtRest) -> anyhow::Result<Arc<dyn Store>> {
    let (directory, seal) = (data_dir.store(), Some(at_rest.seal.clone()));
    let opened = tokio::task::spawn_blocking(move || Embedded::open_sealed(&directory, keep, seal));
    let store = opened.await.context("opening the store")?.map_err(|error| {
        if matches!(error, OpenError::Sealed(_)) {
            at_rest.forget();
        }
        with_hint(error, data_dir)
    })?;
    Ok(Arc::new(store))
}

async fn etcd(args: &EtcdArgs, keep: Retention, at_rest: &AtRest) -> anyhow::Result<Arc<dyn Store>> {
    let mut config = EtcdConfig::new(&args.servers);
    config.prefix.clone_from(&args.prefix);
    config.tls = tls(args)?;
    config.retention = keep;
    config.seal = Some(at_rest.seal.clone());
    match Etcd::connect(config).await {
        Ok(store) => Ok(Arc::new(store)),
        Err(error @ (ConnectError::BadEndpoint { .. } | ConnectError::TlsMismatch { .. })) => {
            Err(Usage(format!("--etcd-servers: {}", chain(&error.into()))).into())
        }
        Err(error) => Err(error.into()),
    }
}

fn tls(args: &EtcdArgs) -> Result<Option<EtcdTls>, Usage> {
    let Some(cafile) = &args.cafile else { return Ok(None) };
    let identity = match &args.identity {
        Some((cert, key)) => {
            Some(EtcdIdentity { cert: read("--etcd-certfile", cert)?, key: read("--etcd-keyfile", key)? })
        }
        None => None,
    };
    Ok(Some(EtcdTls { ca: read("--etcd-cafile", cafile)?, identity }))
}

/// Reads a file with PEM in it that a flag names.
fn read(flag: &str, path: &Path) -> Result<Vec<u8>, Usage> {
    let wrong = |why: String| Usage(format!("{flag} {}: {why}, expected a PEM file", path.display()));
    let bytes = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    if !bytes.windows(11).any(|window| window == b"-----BEGIN ") {
        return Err(wrong("there is no PEM in it".into()));
    }
    Ok(bytes)
}
