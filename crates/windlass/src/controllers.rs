//! The controllers that run in our processes: what keeps a server tidy, and the reconcilers that are bundled.
//!
//! There is one manager for all of them, so that they share their watches and are looked at in one place. Where there is
//! a configuration, it is read again when it changes. Start at [`Controllers::start`].

use std::{
    fs::{self, File},
    io::Read,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use windlass_housekeeping::Options;
use windlass_machinery::decode::decode_yaml;
use windlass_runtime::{HubConfig, Manager, Registration, manager::Pages};

use crate::{
    args::Usage,
    exit::chain,
    reload::{Files, Followed},
};

/// How often the configuration is looked at: what is disabled in it stops within two seconds.
const LOOK: Duration = Duration::from_millis(250);

/// More than any configuration has.
const MOST_BYTES: u64 = 1 << 20;

/// How long controllers may take to stop: what they are given themselves, and time to write events.
const STOP: Duration = Duration::from_secs(8);

/// Up to here every whole number is a float, too.
const MOST_WHOLE: f64 = 9e15;

/// The lease of servers that share a store.
const SERVERS: &str = "windlass-servers";

/// Who says in the managed fields of a definition that it is one of ours.
const INSTALLER: &str = "windlass";

/// Every reconciler that is bundled.
pub(crate) fn bundled() -> Vec<Registration> {
    windlass_samples::REGISTRATIONS.to_vec()
}

/// What is to run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What keeps a server tidy.
    pub(crate) housekeeping: Option<Options>,
    /// Reconcilers.
    pub(crate) reconcilers: Vec<Registration>,
    /// What is configured.
    pub(crate) config: Configured,
    /// Whether others act on the same objects, so that one has to be chosen.
    pub(crate) is_shared: bool,
    /// Where to serve health and metrics unless the configuration says where; nowhere without.
    pub(crate) pages: Option<SocketAddr>,
}

/// A configuration, and the file that it came from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configured {
    pub(crate) config: HubConfig,
    file: Option<PathBuf>,
    /// Whether what it says of other reconcilers does not matter.
    only: Option<&'static str>,
}

impl Configured {
    /// Reads a file; `flag` is the one that named it.
    pub(crate) fn read(file: Option<&Path>, flag: &str) -> Result<Self, Usage> {
        let Some(file) = file else { return Ok(Configured::default()) };
        let config =
            read(file).map_err(|error| Usage(format!("{flag} {}: {}", file.display(), chain(&error))))?;
        Ok(Configured { config: config.unwrap_or_default(), file: Some(file.to_owned()), only: None })
    }

    /// Leaves only what it says of one reconciler, which runs whatever it says.
    pub(crate) fn only(mut self, name: &'static str) -> Self {
        self.only = Some(name);
        self.config = only(self.config, name);
        self
    }
}

/// Reads a configuration as YAML or JSON; nothing from a file without words.
fn read(file: &Path) -> anyhow::Result<Option<HubConfig>> {
    // Before it is opened: others than files may keep whoever opens them waiting.
    if !fs::metadata(file)?.is_file() {
        bail!("expected a file");
    }
    let mut bytes = vec![];
    File::open(file)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        bail!("expected at most {MOST_BYTES} bytes");
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let decoded = decode_yaml(&bytes).map_err(|error| anyhow!("{error}; expected a map of settings"))?;
    if let Some(path) = decoded.duplicates.first() {
        bail!("{path} is given twice");
    }
    Ok(Some(serde_json::from_value(Value::Object(decoded.object))?))
}

fn only(mut config: HubConfig, name: &str) -> HubConfig {
    config.reconcilers.retain(|other, _| other == name);
    config.reconcilers.entry(name.to_owned()).or_default().enabled = true;
    config
}

/// Controllers that run.
pub(crate) struct Controllers {
    pub(crate) manager: Manager,
    /// Where health and metrics are, if anywhere.
    pub(crate) url: Option<String>,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Controllers {
    /// Starts them. They are at work once their caches have seen everything.
    pub(crate) async fn start(client: Client, plan: Plan) -> anyhow::Result<Self> {
        let Plan { housekeeping, reconcilers, config: Configured { config, file, only: one }, .. } = plan;
        let manager = Manager::new(client);
        for registration in &reconcilers {
            manager.add(registration.name, registration.build)?;
        }
        if let Some(options) = &housekeeping {
            windlass_housekeeping::add_to(&manager, options)?;
        }
        let mut election = config.leader_election.clone();
        if plan.is_shared && !election.enabled {
            // A hub beside them has a lease of its own.
            (election.enabled, election.name) = (true, SERVERS.to_owned());
        }
        let taken = manager.apply(&config).and_then(|()| manager.elect_as(&election));
        taken.map_err(|error| match &file {
            Some(file) => Usage(format!("{}: {error}", file.display())),
            None => Usage(error.to_string()),
        })?;
        let stop = CancellationToken::new();
        let (url, serving) = serve(&manager, &config, plan.pages, &stop).await?;
        let files = follow(&manager, file.as_deref(), one)?;
        let (runs, until) = (manager.clone(), stop.clone());
        let running = tokio::spawn(async move {
            tokio::select! {
                () = runs.run(until) => {}
                () = serving => {}
                () = files.follow(LOOK) => {}
            }
        });
        Ok(Controllers { manager, url, stop, running })
    }

    /// Lets what is under way end, and then the rest.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        if tokio::time::timeout(STOP, self.running).await.is_err() {
            tracing::warn!(seconds = STOP.as_secs(), "controllers did not stop in time");
        }
    }
}

/// Serves health and metrics; returns where, and what has to be awaited.
async fn serve(
    manager: &Manager,
    config: &HubConfig,
    otherwise: Option<SocketAddr>,
    stop: &CancellationToken,
) -> anyhow::Result<(Option<String>, impl Future<Output = ()> + Send + use<>)> {
    // The pages are there until the controllers have stopped, and this ends with them.
    let forever = CancellationToken::new();
    let configured = config.health_probe_bind_address.or(config.metrics_bind_address);
    let listener = match configured.is_none().then_some(otherwise).flatten() {
        None => None,
        Some(address) => Some(TcpListener::bind(address).await.context("cannot serve health and metrics")?),
    };
    let url = match &listener {
        Some(listener) => Some(listener.local_addr().context("a bound socket has an address")?),
        None => configured,
    };
    let pages = manager.serve_configured(config, forever.clone()).await;
    let pages = pages.context("cannot serve health and metrics where the configuration says")?;
    let (manager, stop) = (manager.clone(), stop.clone());
    let serving = async move {
        let own = async {
            match listener {
                Some(listener) => manager.serve(listener, Pages::All, forever).await,
                None => stop.cancelled().await,
            }
        };
        tokio::join!(pages, own);
        std::future::pending().await
    };
    Ok((url.map(|address| format!("http://{address}")), serving))
}

/// Has the manager told what the file says whenever that changes.
fn follow(manager: &Manager, file: Option<&Path>, one: Option<&'static str>) -> anyhow::Result<Files> {
    let mut files = Files::default();
    let Some(file) = file else { return Ok(files) };
    let take = move |manager: &Manager, config: HubConfig| -> anyhow::Result<()> {
        Ok(manager.apply(&match one {
            Some(one) => only(config, one),
            None => config,
        })?)
    };
    let manager = manager.clone();
    // It may have changed since it was read for the first time.
    let begin = |file: &Path| take(&manager, read(file)?.unwrap_or_default());
    let again = {
        let manager = manager.clone();
        // Somebody who empties it is about to write it.
        let reread = move |file: &Path| take(&manager, read(file)?.context("it is empty")?);
        move |file: &Path| match reread(file) {
            Ok(()) => tracing::warn!(file = %file.display(), "the configuration has changed"),
            Err(error) => {
                let error = chain(&error);
                tracing::error!(file = %file.display(), error, "the configuration stays as it was");
            }
        }
    };
    files.add(Followed::new(file, begin, again)?);
    Ok(files)
}

/// The address for pages that nobody has asked for elsewhere.
pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// Makes a definition.
pub(crate) type Define = fn() -> CustomResourceDefinition;

/// The definitions of the kinds that reconcilers bring along.
pub(crate) fn brought(reconcilers: &[Registration]) -> impl Iterator<Item = Define> {
    reconcilers.iter().filter_map(|registration| registration.crd)
}

/// The definitions of rules.
pub(crate) fn of_rules() -> impl Iterator<Item = Define> {
    windlass_opensergo::kinds::KINDS.iter().map(|kind| kind.definition)
}

/// Definitions as other clients would write them.
pub(crate) fn written(definitions: impl Iterator<Item = Define>) -> anyhow::Result<Vec<Value>> {
    let written = definitions.map(|definition| {
        let mut definition = serde_json::to_value(definition())?;
        without_points(&mut definition);
        Ok(definition)
    });
    written.collect()
}

/// Writes 1 for 1.0, as everybody else does.
fn without_points(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0);
            if let Some(whole) = whole.filter(|whole| whole.abs() < MOST_WHOLE) {
                *value = (whole as i64).into();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(without_points),
        Value::Object(fields) => fields.values_mut().for_each(without_points),
        _ => {}
    }
}

/// Brings definitions into a server. Those that somebody else has changed stay as they are.
pub(crate) async fn install(client: &Client, definitions: &[Value]) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let applied = api.patch(name, &PatchParams::apply(INSTALLER), &Patch::Apply(definition)).await;
        match applied {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {
                tracing::warn!(name, why = status.message, "this definition is somebody else's and stays so");
            }
            Err(error) => return Err(error).with_context(|| format!("cannot install {name}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_in_the_document_is_one() {
        let text = include_str!("../../../docs/controllers.md");
        let block = text.split("```yaml hub\n").nth(1).and_then(|rest| rest.split("```").next());
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), block.expect("the document has one")).expect("the file is ours");
        let config = read(file.path()).expect("it is right").expect("it has words");
        let names: Vec<&str> = bundled().iter().map(|registration| registration.name).collect();
        for name in config.reconcilers.keys() {
            assert!(names.contains(&name.as_str()), "{name} is not among {names:?}");
        }
        let Configured { config: alone, .. } = Configured { config, ..Configured::default() }.only("at");
        assert_eq!(alone.reconcilers.keys().collect::<Vec<_>>(), ["at"]);
        assert!(alone.reconcilers["at"].enabled, "who is asked for by name runs");
    }

    #[test]
    fn a_file_without_words_says_nothing() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for (text, expected) in [("", None), (" \n", None), ("{}", Some(HubConfig::default()))] {
            fs::write(file.path(), text).expect("the file is ours");
            assert_eq!(read(file.path()).expect("nothing is wrong with it"), expected, "{text:?}");
        }
    }
}
