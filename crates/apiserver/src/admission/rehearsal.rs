//! A small world for the tests of plugins: a store in memory, written to as the registry writes.

use std::sync::Arc;

use serde_json::Value;
use windlass_machinery::{
    object::{Object, name, namespace},
    stored,
};
use windlass_store::{Expect, Memory, Read, Store, Txn};

use super::{Effects, Operation, Outside, Plugin, Request, User, View};
use crate::{
    access::Rights,
    resources::{Catalog, Resource, builtin},
};

/// The map in a JSON value.
pub(super) fn object(value: &Value) -> Object {
    value.as_object().expect("an object is a map").clone()
}

/// A store and what is served from it.
pub(super) struct World {
    store: Arc<Memory>,
    catalog: Arc<Catalog>,
}

impl World {
    pub(super) fn new() -> Self {
        let store = Arc::new(Memory::new().expect("a store in memory can be made"));
        World { store, catalog: Arc::new(Catalog::new(builtin::rows())) }
    }

    pub(super) async fn view(&self) -> View {
        let snapshot = self.store.snapshot(Read::Latest).await.expect("memory can be read");
        View { snapshot, catalog: Arc::clone(&self.catalog) }
    }

    /// The row of `pods` or `deployments.apps`.
    pub(super) fn resource(&self, plural: &str) -> Arc<Resource> {
        let (plural, group) = plural.split_once('.').unwrap_or((plural, ""));
        Arc::clone(self.catalog.get(group, plural).expect("it is served"))
    }

    /// Writes an object past all plugins.
    pub(super) async fn put(&self, plural: &str, value: &Value) {
        let value = object(value);
        let key = self.resource(plural).key(namespace(&value), name(&value));
        let txn = Txn::new().put(key, stored::encode(&value), Expect::Any);
        self.store.commit(txn).await.expect("nothing is expected");
    }

    /// One object as it is stored, without its revision.
    pub(super) async fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = self.resource(plural);
        let (mut object, _) = self.view().await.get(&resource.group, &resource.plural, namespace, name)?;
        windlass_machinery::object::metadata_mut(&mut object).remove("resourceVersion");
        Some(Value::Object(object))
    }

    pub(super) async fn create(
        &self,
        plugin: &dyn Plugin,
        plural: &str,
        value: Value,
    ) -> Result<Value, String> {
        self.write(&self.view().await, plugin, Operation::Create, plural, None, &value)
            .await
            .map(|(value, _)| value)
    }

    pub(super) async fn update(
        &self,
        plugin: &dyn Plugin,
        plural: &str,
        part: Option<&str>,
        value: Value,
    ) -> Result<Value, String> {
        self.write(&self.view().await, plugin, Operation::Update, plural, part, &value)
            .await
            .map(|(value, _)| value)
    }

    pub(super) async fn delete(
        &self,
        plugin: &dyn Plugin,
        plural: &str,
        value: &Value,
    ) -> Result<(), String> {
        self.write(&self.view().await, plugin, Operation::Delete, plural, None, value).await.map(|_| ())
    }

    /// What creating the object would warn of; nothing is written.
    pub(super) async fn warnings(&self, plugin: &dyn Plugin, plural: &str, value: &Value) -> Vec<String> {
        let view = self.view().await;
        let written = self.write(&view, plugin, Operation::Create, plural, None, value).await;
        written.expect("it is allowed").1
    }

    /// Does as the registry does, but with a view that may be old: plugins, then one transaction. What is
    /// refused by the store is told as `conflict`.
    pub(super) async fn write(
        &self,
        view: &View,
        plugin: &dyn Plugin,
        operation: Operation,
        plural: &str,
        part: Option<&str>,
        value: &Value,
    ) -> Result<(Value, Vec<String>), String> {
        let resource = self.resource(plural);
        let sent = object(value);
        let (namespace, name) = (namespace(&sent).to_owned(), name(&sent).to_owned());
        let old = view.get(&resource.group, &resource.plural, &namespace, &name);
        let expect = old.as_ref().map_or(Expect::Absent, |(_, revision)| Expect::At(*revision));
        let user = User::default();
        let rights = Rights::new(Arc::clone(&self.store) as _);
        let mut request = Request {
            operation,
            resource: &resource,
            part,
            namespace: &namespace,
            name: &name,
            user: &user,
            dry_run: false,
            object: if operation == Operation::Delete { Object::new() } else { sent },
            old: old.as_ref().map(|(old, _)| old),
            now: jiff::Timestamp::UNIX_EPOCH,
            view,
            rights: &rights,
            effects: Effects::default(),
            warnings: vec![],
            api_version: "v1",
            through: "",
            manager: "",
            deletion: None,
            notes: None,
            outside: Outside::default(),
        };
        plugin.mutate(&mut request).await.map_err(|status| status.message)?;
        plugin.validate(&mut request).await.map_err(|status| status.message)?;
        let Request { object, effects, warnings, .. } = request;
        let key = resource.key(&namespace, &name);
        let mut txn = match operation {
            Operation::Delete => Txn::new().delete(key, expect),
            _ => Txn::new().put(key, stored::encode(&object), expect),
        };
        for effect in effects.writes {
            txn = match effect.value {
                Some(value) => txn.put(effect.key, value, effect.expect),
                None => txn.delete(effect.key, effect.expect),
            };
        }
        for (key, expect) in effects.requires {
            txn = txn.require(key, expect);
        }
        self.store.commit(txn).await.map_err(|_| "conflict".to_owned())?;
        Ok((Value::Object(object), warnings))
    }
}
