//! Registrations: what a reconciler says of itself, in one place, and what it is given in return.
//!
//! A binary lists the reconcilers it has; nothing registers itself behind its back.
//!
//! ```
//! use windlass_runtime::{Action, Key, Registration, Scope};
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! const HELLO: Registration = Registration {
//!     name: "hello",
//!     about: "Greets every ConfigMap",
//!     crd: None,
//!     graph: None,
//!     build: |context| {
//!         let (maps, recorder) = (context.informers.of::<ConfigMap>(&Scope::all()), context.recorder());
//!         let cache = maps.cache().clone();
//!         let greet = move |key: Key| {
//!             if let Some(map) = cache.get(&key) {
//!                 recorder.normal(&*map, "Greeted", format!("hello, {key}"));
//!             }
//!             async { Ok(Action::Done) }
//!         };
//!         Ok(context.controller(greet).reconciles(&maps))
//!     },
//! };
//! ```

use std::{error::Error as StdError, fmt, sync::Arc};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::{
    Controller, Events, Informers, Key, Leadership, Reconciler, ReconcilerConfig, Recorder, election::Fence,
    metrics::Metrics, phase::GraphFormat,
};

/// Why a controller could not be put together.
pub type BuildError = Box<dyn StdError + Send + Sync>;

/// This process does not lead, so it must not act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead")]
pub struct NotLeading;

/// What a reconciler says of itself.
#[derive(Clone, Copy)]
pub struct Registration {
    /// The name by which it is configured.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The kind that it brings along, if any.
    pub crd: Option<fn() -> CustomResourceDefinition>,
    /// Draws its phases, if it is a machine that has some.
    pub graph: Option<fn(GraphFormat) -> String>,
    /// Puts its controller together: whenever it is enabled, configured anew, leads again, or its kind comes back.
    pub build: fn(&Context) -> Result<Controller, BuildError>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a reconciler is given.
#[derive(Clone)]
pub struct Context {
    /// Its name.
    pub name: Arc<str>,
    /// Talks to the API server.
    pub client: Client,
    /// Gives out informers, which all reconcilers of a manager share.
    pub informers: Informers,
    /// What is counted.
    pub metrics: Metrics,
    /// Writes events.
    pub events: Events,
    /// What the configuration says that only it understands.
    pub settings: serde_json::Value,
    pub(crate) config: ReconcilerConfig,
    pub(crate) leadership: watch::Receiver<Option<Leadership>>,
    pub(crate) has_election: bool,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Context {
    /// A controller of its name, still without sources.
    pub fn controller(&self, reconciler: impl Reconciler) -> Controller {
        Controller::new(self.name.to_string(), reconciler, &self.metrics)
    }

    /// Tells people what it does, under its name.
    pub fn recorder(&self) -> Recorder {
        self.events.recorder(Arc::clone(&self.name))
    }

    /// The settings, as a type of its own. Settings that are not there are an empty object.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match &self.settings {
            serde_json::Value::Null => serde_json::from_value(serde_json::json!({})),
            settings => serde_json::from_value(settings.clone()),
        }
    }

    /// Whether objects of this key are seen: for keys that come from elsewhere than from informers.
    pub fn sees(&self, key: &Key) -> bool {
        self.config.sees(key)
    }

    /// The right to act, if it is at stake and this process has it.
    pub fn leadership(&self) -> Option<Leadership> {
        self.leadership.borrow().clone().filter(Leadership::is_valid)
    }

    /// The number to leave on what one writes: none where nobody has to lead, and an error where another may.
    pub fn fence(&self) -> Result<Option<Fence>, NotLeading> {
        match self.leadership() {
            Some(leadership) => Ok(Some(leadership.fence().clone())),
            None if self.has_election => Err(NotLeading),
            None => Ok(None),
        }
    }
}
