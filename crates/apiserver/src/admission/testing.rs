//! Requests over a small world of objects, for the tests of the plugins.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use windlass_machinery::{
    object::{self, Object},
    stored,
};
use windlass_store::{Expect, Memory, Read, Store, Txn};

use super::{Effects, Operation, Outside, Plugin, Request, User, View};
use crate::{
    access::Rights,
    resources::{Catalog, Resource, builtin},
    status::Outcome,
};

static USER: LazyLock<User> = LazyLock::new(User::default);

/// A store with some objects in it, and a view of it.
pub(super) struct World {
    store: Arc<Memory>,
    pub(super) view: View,
    rights: Arc<Rights>,
}

impl World {
    /// A world of these objects: group, plural, and the object.
    pub(super) async fn new(objects: &[(&str, &str, Value)]) -> Self {
        let catalog = Arc::new(Catalog::new(builtin::rows()));
        let store = Arc::new(Memory::new().unwrap());
        for (group, plural, value) in objects {
            let object = Self::object(value.clone());
            let row = catalog.get(group, plural).unwrap();
            let key = row.key(object::namespace(&object), object::name(&object));
            store.commit(Txn::new().put(key, stored::encode(&object), Expect::Any)).await.unwrap();
        }
        let snapshot = store.snapshot(Read::Latest).await.unwrap();
        let rights = Rights::new(Arc::clone(&store) as _);
        World { store, view: View { snapshot, catalog }, rights }
    }

    pub(super) fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    pub(super) fn row(&self, group: &str, plural: &str) -> &Resource {
        self.view.catalog.get(group, plural).unwrap()
    }

    /// A creation.
    pub(super) fn request<'a>(
        &'a self,
        group: &str,
        plural: &str,
        namespace: &'a str,
        object: Value,
    ) -> Request<'a> {
        Request {
            operation: Operation::Create,
            resource: self.row(group, plural),
            part: None,
            namespace,
            name: "",
            user: &USER,
            dry_run: false,
            object: Self::object(object),
            old: None,
            now: jiff::Timestamp::UNIX_EPOCH,
            view: &self.view,
            rights: &self.rights,
            effects: Effects::default(),
            warnings: vec![],
            api_version: "v1",
            through: "",
            manager: "",
            deletion: None,
            notes: None,
            outside: Outside::default(),
        }
    }

    /// A change of `old`.
    pub(super) fn update<'a>(
        &'a self,
        group: &str,
        plural: &str,
        namespace: &'a str,
        old: &'a Object,
        object: Value,
    ) -> Request<'a> {
        let request = self.request(group, plural, namespace, object);
        Request { operation: Operation::Update, old: Some(old), name: object::name(old), ..request }
    }

    /// A deletion of `old`.
    pub(super) fn deletion<'a>(
        &'a self,
        group: &str,
        plural: &str,
        namespace: &'a str,
        old: &'a Object,
    ) -> Request<'a> {
        let request = self.update(group, plural, namespace, old, Value::Object(Object::new()));
        Request { operation: Operation::Delete, ..request }
    }

    /// Commits the effects of a request, and looks at the world anew.
    pub(super) async fn commit(&mut self, effects: Effects) {
        let mut txn = Txn::new();
        for (key, expect) in effects.requires {
            txn = txn.require(key, expect);
        }
        for effect in effects.writes {
            txn = match effect.value {
                Some(value) => txn.put(effect.key, value, effect.expect),
                None => txn.delete(effect.key, effect.expect),
            };
        }
        self.store.commit(txn).await.unwrap();
        self.view.snapshot = self.store.snapshot(Read::Latest).await.unwrap();
    }
}

/// Runs both halves of a plugin, and gives the object and the effects.
pub(super) async fn admit(plugin: &dyn Plugin, mut request: Request<'_>) -> Outcome<(Object, Effects)> {
    plugin.mutate(&mut request).await?;
    plugin.validate(&mut request).await?;
    Ok((request.object, request.effects))
}
