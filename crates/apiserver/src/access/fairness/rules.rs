//! FlowSchemas and PriorityLevelConfigurations in a form that can be used at once.

use std::{sync::Arc, time::Duration};

use http::HeaderValue;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_access::{
    Attributes, User,
    fair::{Begun, Classifier, Dispatcher, FlowSchemaSpec, LevelId, LevelSpec, Schema, Shape},
};
use windlass_machinery::{
    object::{Object, name, str_at},
    stored::Stored,
};
use windlass_store::Snapshot;

use super::{
    Turn,
    metrics::{Counters, FlowLabels, FlowMetrics},
    objects::{self, CATCH_ALL, GROUP, LEVELS, SCHEMAS},
};
use crate::resources::Catalog;

/// All requests of one schema.
pub(crate) struct Flow {
    pub(super) labels: FlowLabels,
    /// `None` when they need no seats.
    pub(super) level: Option<LevelId>,
    pub(super) schema_uid: Option<HeaderValue>,
    pub(super) level_uid: Option<HeaderValue>,
    pub(super) counters: Counters,
}

/// One object of ours.
struct Written<T> {
    name: String,
    uid: String,
    spec: T,
}

/// The objects as they are at a revision.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) revision: u64,
    levels: Vec<Written<LevelSpec>>,
    schemas: Vec<Written<FlowSchemaSpec>>,
}

impl Objects {
    pub(super) fn read(snapshot: &Snapshot, catalog: &Catalog) -> Self {
        Objects {
            revision: snapshot.revision().get(),
            levels: read_all(snapshot, catalog, LEVELS),
            schemas: read_all(snapshot, catalog, SCHEMAS),
        }
    }

    /// With what has to be there even when someone has deleted it.
    fn completed(mut self) -> Self {
        for given in objects::levels().iter().filter(|given| given.is_mandatory) {
            if !self.levels.iter().any(|level| level.name == given.name) {
                self.levels.extend(written(given.name.to_owned(), String::new(), given.spec.clone()));
            }
        }
        for given in objects::schemas().iter().filter(|given| given.is_mandatory) {
            if !self.schemas.iter().any(|schema| schema.name == given.name) {
                self.schemas.extend(written(given.name.to_owned(), String::new(), given.spec.clone()));
            }
        }
        self
    }
}

fn read_all<T: DeserializeOwned>(snapshot: &Snapshot, catalog: &Catalog, plural: &str) -> Vec<Written<T>> {
    let Some(row) = catalog.get(GROUP, plural) else { return vec![] };
    let entries = snapshot.iter(row.prefix.as_bytes(), None);
    let objects = entries.filter_map(|entry| Stored::new(&entry.value)?.object(entry.revision.get()));
    objects
        .filter_map(|object: Object| {
            let uid = str_at(&object, &["metadata", "uid"]).unwrap_or_default().to_owned();
            written(name(&object).to_owned(), uid, object.get("spec")?.clone())
        })
        .collect()
}

fn written<T: DeserializeOwned>(name: String, uid: String, spec: Value) -> Option<Written<T>> {
    match serde_json::from_value(spec) {
        Ok(spec) => Some(Written { name, uid, spec }),
        Err(error) => {
            tracing::warn!(name, %error, "an object that steers fairness cannot be read and is left out");
            None
        }
    }
}

/// Which requests belong where.
pub(super) struct Rules {
    revision: u64,
    classifier: Classifier<Arc<Flow>>,
    /// For what no schema names.
    rest: (Schema, Arc<Flow>),
}

impl Rules {
    /// Rules by these objects, which the dispatcher goes by as well from now on. Gives those whose turn has come by that.
    pub(super) fn new(
        objects: Objects,
        dispatcher: &mut Dispatcher<Turn>,
        now: Duration,
        metrics: &FlowMetrics,
    ) -> (Self, Begun<Turn>) {
        let Objects { revision, levels, schemas } = objects.completed();
        let shapes: Vec<(&str, Shape)> =
            levels.iter().filter_map(|level| Some((level.name.as_str(), Shape::of(&level.spec)?))).collect();
        let begun = dispatcher.configure(&shapes, now);
        let flow = |name: &str, uid: &str, level: &str| {
            // A schema whose level does not exist is as good as none.
            let level = levels.iter().find(|one| one.name == level)?;
            let labels = FlowLabels { priority_level: level.name.clone(), flow_schema: name.to_owned() };
            Some(Arc::new(Flow {
                counters: metrics.counters(&labels),
                labels,
                level: dispatcher.level(&level.name),
                schema_uid: header(uid),
                level_uid: header(&level.uid),
            }))
        };
        let mut rest = None;
        let mut flows = vec![];
        for Written { name, uid, spec } in schemas {
            let schema = Schema::new(name, spec);
            let Some(flow) = flow(&schema.name, &uid, schema.level()) else { continue };
            if schema.name == CATCH_ALL {
                rest = Some((schema.clone(), Arc::clone(&flow)));
            }
            flows.push((schema, flow));
        }
        let rest = rest.unwrap_or_else(|| {
            let spec = FlowSchemaSpec::default();
            let labels =
                FlowLabels { priority_level: CATCH_ALL.to_owned(), flow_schema: CATCH_ALL.to_owned() };
            let flow = Flow {
                counters: metrics.counters(&labels),
                labels,
                level: dispatcher.level(CATCH_ALL),
                schema_uid: None,
                level_uid: None,
            };
            (Schema::new(CATCH_ALL, spec), Arc::new(flow))
        });
        (Rules { revision, classifier: Classifier::new(flows), rest }, begun)
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Where a request belongs, and which flow of it that is.
    pub(super) fn classify(&self, user: &User, attributes: &Attributes<'_>, seed: u64) -> (Arc<Flow>, u64) {
        let (schema, flow) = self.classifier.classify(user, attributes).unwrap_or(&self.rest);
        let number = if flow.level.is_some() { schema.flow(user, attributes, seed) } else { 0 };
        (Arc::clone(flow), number)
    }

    fn labels(&self) -> impl Iterator<Item = &FlowLabels> {
        self.classifier.iter().map(|(_, flow)| flow).chain([&self.rest.1]).map(|flow| &flow.labels)
    }

    /// Stops counting what is no more, now that there are other rules.
    pub(super) fn forget(&self, others: &Rules, metrics: &FlowMetrics) {
        let gone = self.labels().filter(|labels| !others.labels().any(|other| other == *labels));
        gone.for_each(|labels| metrics.forget(labels));
    }
}

fn header(uid: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(uid).ok().filter(|value| !value.is_empty())
}
