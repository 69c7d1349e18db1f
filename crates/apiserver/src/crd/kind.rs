//! A custom kind in one version: its schema, compiled when it is first needed, and what follows from it.
//!
//! Objects are stored in one version and shown in any. What is stored in the wanted version, and was written by the
//! rules that are in force, is shown as it is. Everything else is put in order by the schema of the version it was
//! stored in, turned into the wanted version, and cut to its schema, as Kubernetes does on every read.

use std::sync::{Arc, LazyLock, OnceLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde_json::Value;
use windlass_cel::{Budget, rules as cel};
use windlass_machinery::{
    field::{Errors, Fault},
    object::{Object, list_at, str_at},
    schema::{Field, Format, Merge, Node, Presence, Report, check, check_applied},
    stored,
    structural::{Overgrown, Schema},
};
use windlass_store::Entry;

use super::{convert, definition::Definition};
use crate::{
    registry::with_value,
    resources::Rules,
    status::{Outcome, Status},
    verbs::without_blocking,
    webhook::Webhooks,
};

/// A custom kind in one version.
pub struct Kind {
    definition: Arc<Definition>,
    /// The place of the version in its definition.
    index: usize,
}

/// What is made of one version of a definition.
pub(super) struct Form {
    pub(super) api_version: String,
    /// How the stored form of its objects begins.
    head: String,
    compiled: OnceLock<Compiled>,
}

struct Compiled {
    /// What Kubernetes would not have taken, an earlier Windlass might have: then anything goes.
    schema: Option<Schema>,
    /// The rules in CEL, if there are any.
    rules: Option<cel::Rules>,
    node: Node,
}

impl Form {
    pub(super) fn new(group: &str, version: &str) -> Self {
        let api_version = format!("{group}/{version}");
        Form { head: format!("{{\"apiVersion\":\"{api_version}\","), api_version, compiled: OnceLock::new() }
    }
}

impl Kind {
    pub(super) fn new(definition: Arc<Definition>, index: usize) -> Self {
        Kind { definition, index }
    }

    /// The definition it is of.
    pub(crate) fn definition(&self) -> &Definition {
        &self.definition
    }

    fn form(&self) -> &Form {
        self.definition.form(self.index)
    }

    fn compiled(&self, index: usize) -> &Compiled {
        let form = self.definition.form(index);
        // Schemas of a megabyte take a while.
        let compile = || {
            let document = self.definition.schema(index);
            let schema = Schema::compile(&document, &mut Errors::new());
            let node = schema.as_ref().map_or(Node::Any, Schema::node);
            let rules = cel::Rules::compile(&document).ok().flatten();
            Compiled { schema, rules, node }
        };
        form.compiled.get_or_init(|| without_blocking(usize::MAX, compile))
    }

    /// The schema for whoever merges and tracks fields.
    pub(crate) fn node(&self) -> &Node {
        &self.compiled(self.index).node
    }

    /// The schema as it was written.
    pub(crate) fn document(&self) -> Value {
        self.definition.schema(self.index)
    }

    /// Checks the metadata of what a client sent and drops what the kind does not have.
    pub(crate) fn inspect(&self, object: &mut Object) -> Report {
        let mut report = inspect_head(object, check);
        if let Some(schema) = &self.compiled(self.index).schema {
            let mut errors = Errors::new();
            report.unknown.extend(schema.prune(object, Some(&mut errors)));
            report.faults.extend(errors.list().iter().map(ToString::to_string));
            schema.drop_nulls(object);
        }
        report
    }

    /// Checks the metadata of what a client applies. What else is in it is merged, and looked at then.
    pub(crate) fn inspect_applied(&self, object: &mut Object) -> Report {
        inspect_head(object, check_applied)
    }

    /// Drops what the kind does not have from what has become of an object that was applied to, but for `null`s: those
    /// are held against the schema like any value, and go when the object is stored.
    pub(crate) fn inspect_merged(&self, object: &mut Object) {
        inspect_head(object, check);
        if let Some(schema) = &self.compiled(self.index).schema {
            schema.prune(object, Some(&mut Errors::new()));
        }
    }

    /// Whether objects come into this version by a webhook, which has to be waited for.
    pub(crate) fn asks(&self) -> bool {
        self.definition.converter().is_some()
    }

    /// Whether an entry is what is shown of it.
    pub(crate) fn is_shown(&self, entry: &Entry) -> bool {
        entry.revision.get() > self.definition.since() && entry.value.starts_with(self.form().head.as_bytes())
    }

    /// An entry in this version. Only for kinds that need not ask.
    pub(crate) fn show(&self, entry: Arc<Entry>) -> Arc<Entry> {
        if self.is_shown(&entry) {
            return entry;
        }
        let Ok(mut object) = serde_json::from_slice::<Object>(&entry.value) else { return entry };
        self.settle(&mut object);
        self.rename(&mut object);
        with_value(&entry, stored::encode(&object).into())
    }

    /// Entries in this version, in the same order.
    pub(crate) async fn show_all(
        &self,
        mut entries: Vec<Arc<Entry>>,
        webhooks: &Webhooks,
    ) -> Outcome<Vec<Arc<Entry>>> {
        let mut places = vec![];
        let mut objects = vec![];
        for (place, entry) in entries.iter().enumerate().filter(|(_, entry)| !self.is_shown(entry)) {
            let object = serde_json::from_slice(&entry.value);
            objects.push(object.map_err(|_| Status::internal("a stored object cannot be read"))?);
            places.push(place);
        }
        let objects = self.read_all(objects, webhooks).await?;
        for (place, object) in places.into_iter().zip(objects) {
            entries[place] = with_value(&entries[place], stored::encode(&object).into());
        }
        Ok(entries)
    }

    /// An object as it was stored, in this version.
    pub(crate) async fn read(&self, object: Object, webhooks: &Webhooks) -> Outcome<Object> {
        let mut objects = self.read_all(vec![object], webhooks).await?;
        objects.pop().ok_or_else(|| Status::internal("an object was lost in its conversion"))
    }

    async fn read_all(&self, mut objects: Vec<Object>, webhooks: &Webhooks) -> Outcome<Vec<Object>> {
        for object in &mut objects {
            self.settle(object);
        }
        let own = &self.form().api_version;
        if let Some(converter) = self.definition.converter() {
            objects = convert::all(converter, objects, own, webhooks).await?;
        }
        for object in &mut objects {
            self.rename(object);
        }
        Ok(objects)
    }

    /// An object of this version, as it is to be stored.
    pub(crate) async fn write(&self, mut object: Object, webhooks: &Webhooks) -> Outcome<Object> {
        let storage = self.definition.storage();
        if let Some(schema) = &self.compiled(self.index).schema {
            schema.drop_nulls(&mut object);
        }
        if storage == self.index {
            return Ok(object);
        }
        let api_version = &self.definition.form(storage).api_version;
        if let Some(converter) = self.definition.converter() {
            let converted = convert::all(converter, vec![object], api_version, webhooks).await?.pop();
            object = converted.ok_or_else(|| Status::internal("an object was lost in its conversion"))?;
        }
        object.insert("apiVersion".to_owned(), api_version.as_str().into());
        self.order(storage, &mut object).map_err(Status::too_large)?;
        Ok(object)
    }

    /// Puts a stored object in order by the schema of the version it was stored in.
    fn settle(&self, object: &mut Object) {
        let api_version = str_at(object, &["apiVersion"]).unwrap_or_default();
        let stored = self.definition.place_of(api_version).unwrap_or(self.index);
        // What the defaults would make too large is shown with some of them.
        let _ = self.order(stored, object);
    }

    /// Drops and fills in what the schema of a version says.
    fn order(&self, index: usize, object: &mut Object) -> Result<(), Overgrown> {
        match &self.compiled(index).schema {
            None => Ok(()),
            Some(schema) => {
                schema.prune(object, None);
                schema.drop_nulls(object);
                schema.default(object)
            }
        }
    }

    /// Makes an object one of this version, unless a webhook would have to be asked for that.
    pub(crate) fn rename_if_that_is_all(&self, object: &mut Object) -> Option<()> {
        let is_own = str_at(object, &["apiVersion"]) == Some(&self.form().api_version);
        (is_own || !self.asks()).then(|| self.rename(object))
    }

    /// Makes an object one of this version, if it is not that yet.
    fn rename(&self, object: &mut Object) {
        let own = &self.form().api_version;
        if str_at(object, &["apiVersion"]) != Some(own) {
            object.insert("apiVersion".to_owned(), own.as_str().into());
        }
        if let Some(schema) = &self.compiled(self.index).schema {
            schema.prune(object, None);
        }
    }
}

impl Rules for Kind {
    fn default(&self, object: &mut Object) -> Outcome<()> {
        // What it does not have was dropped when the object was read.
        match &self.compiled(self.index).schema {
            Some(schema) => schema.default(object).map_err(Status::too_large),
            None => Ok(()),
        }
    }

    fn default_again(&self, object: &mut Object, changed: bool) -> Outcome<()> {
        match changed {
            true => self.order(self.index, object).map_err(Status::too_large),
            false => Ok(()),
        }
    }

    fn validate(&self, new: &Object, old: Option<&Object>, _: Option<&str>, errors: &mut Errors) {
        let compiled = self.compiled(self.index);
        if let Some(schema) = &compiled.schema {
            schema.validate(new, old, errors);
        }
        let Some(rules) = &compiled.rules else { return };
        match errors.list().iter().any(|error| BLOCKING.contains(&error.fault)) {
            true => errors.push(Fault::Invalid, "<nil>", "null".to_owned(), UNCHECKED),
            false => rules.check_object(new, old, &mut Budget::default(), errors),
        }
    }

    fn warn(&self, new: &Object, old: Option<&Object>, warnings: &mut Vec<String>) {
        let finalizers =
            |object| list_at(object, &["metadata", "finalizers"]).iter().filter_map(Value::as_str);
        let known: Vec<&str> = old.into_iter().flat_map(finalizers).collect();
        let mut added: Vec<&str> = finalizers(new).filter(|name| !known.contains(name)).collect();
        added.sort_unstable();
        added.dedup();
        warnings.extend(added.into_iter().filter_map(unqualified));
    }
}

/// Faults after which rules are not looked at, because they rely on what the schema promises them.
const BLOCKING: &[Fault] =
    &[Fault::NotSupported, Fault::Required, Fault::TooLong, Fault::TooMany, Fault::TypeInvalid];

const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; \
                         correct the existing errors to complete validation";

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: &[&str] = &["foregroundDeletion", "kubernetes", "orphan"];

/// What whoever adds a finalizer without a domain is told.
fn unqualified(name: &str) -> Option<String> {
    if name.contains('/') || STANDARD_FINALIZERS.contains(&name) {
        return None;
    }
    let path = if name.contains('.') { " including a path (/)" } else { "" };
    Some(format!(
        "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts \
         with other finalizer writers"
    ))
}

/// Checks what every object has.
fn inspect_head(object: &mut Object, check: fn(&Node, &mut Object) -> Report) -> Report {
    let mut head = Object::new();
    for field in ["apiVersion", "kind", "metadata"] {
        head.extend(object.remove_entry(field));
    }
    let report = check(&HEAD, &mut head);
    object.append(&mut head);
    report
}

/// What every object has, whatever its kind.
static HEAD: LazyLock<Node> = LazyLock::new(|| {
    let metadata = crate::openapi::compile(&ObjectMeta::schema_name(), |generator| {
        generator.subschema_for::<ObjectMeta>()
    });
    let field = |name: &str, node| Field {
        name: name.into(),
        node,
        required: false,
        merge: Merge::PLAIN,
        presence: Presence::Optional,
    };
    Node::Object(vec![
        field("apiVersion", Node::String(Format::Plain)),
        field("kind", Node::String(Format::Plain)),
        field("metadata", metadata),
    ])
});
