//! JSON schemas of types: gathered from their sources, and put into the form that Kubernetes publishes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use k8s_openapi::{
    api::{
        authentication::v1::TokenRequest,
        autoscaling::v1::Scale,
        core::v1::{Binding, ConfigMap},
        policy::v1::Eviction,
    },
    apimachinery::pkg::{
        apis::meta::v1::{APIResourceList, DeleteOptions, ListMeta, ObjectMeta, Patch, Status, WatchEvent},
        runtime::RawExtension,
    },
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    custom,
    merge::{self, Rule},
};
use crate::resources::{Action, Resource, Source, Version};

/// Which kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

impl Dialect {
    fn definitions(self) -> &'static str {
        match self {
            Dialect::V2 => "/definitions",
            Dialect::V3 => "/components/schemas",
        }
    }

    /// A reference to a type.
    pub(super) fn reference(self, type_name: &str) -> Value {
        json!({"$ref": format!("#{}/{type_name}", self.definitions())})
    }

    /// A reference to a type, with words about the field it is in.
    pub(super) fn described(self, type_name: &str, description: Value) -> Value {
        let mut schema = self.reference(type_name);
        schema["description"] = description;
        if self == Dialect::V3 {
            wrap(&mut schema);
        }
        schema
    }
}

/// The fields that every object has, as all types have them.
pub(super) static HEAD: LazyLock<Value> = LazyLock::new(|| {
    let mut schema = ConfigMap::json_schema(&mut SchemaGenerator::default()).to_value();
    schema["properties"].take()
});

/// Group, version and kind.
pub(super) type Gvk = (String, String, String);

/// What the documents say of a group, version and kind.
pub(super) fn gvk(gvk: &Gvk) -> Value {
    json!({"group": gvk.0, "version": gvk.1, "kind": gvk.2})
}

/// The types of bodies that belong to no row: what they are called and where they come from.
pub(super) struct Extra {
    pub(super) type_name: &'static str,
    gvk: (&'static str, &'static str, &'static str),
    add: fn(&mut SchemaGenerator),
}

fn ask<T: JsonSchema>(generator: &mut SchemaGenerator) {
    let _ = generator.subschema_for::<T>();
}

impl Extra {
    /// Its group, version and kind.
    pub(super) fn gvk(&self) -> Gvk {
        (self.gvk.0.to_owned(), self.gvk.1.to_owned(), self.gvk.2.to_owned())
    }

    /// What an action takes and gives, if that is an object.
    pub(super) fn of(action: Action) -> Option<&'static Extra> {
        match action {
            Action::Bind => Some(&BINDING),
            Action::Evict => Some(&EVICTION),
            Action::Token => Some(&TOKEN_REQUEST),
            Action::Kubelet => None,
        }
    }
}

pub(super) const SCALE: Extra = Extra {
    type_name: "io.k8s.api.autoscaling.v1.Scale",
    gvk: ("autoscaling", "v1", "Scale"),
    add: ask::<Scale>,
};
const BINDING: Extra =
    Extra { type_name: "io.k8s.api.core.v1.Binding", gvk: ("", "v1", "Binding"), add: ask::<Binding> };
const EVICTION: Extra = Extra {
    type_name: "io.k8s.api.policy.v1.Eviction",
    gvk: ("policy", "v1", "Eviction"),
    add: ask::<Eviction>,
};
const TOKEN_REQUEST: Extra = Extra {
    type_name: "io.k8s.api.authentication.v1.TokenRequest",
    gvk: ("authentication.k8s.io", "v1", "TokenRequest"),
    add: ask::<TokenRequest>,
};

pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const RESOURCE_LIST: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList";
const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Says which fields objects can be selected by; of custom kinds only.
const SELECTABLE: &str = "x-kubernetes-selectable-fields";

/// The name of a type's list type.
pub(super) fn list_type(type_name: &str, resource: &Resource) -> String {
    let package = type_name.rsplit_once('.').map_or("", |(package, _)| package);
    format!("{package}.{}", resource.list_kind)
}

/// The types of one document.
pub(super) struct Schemas {
    dialect: Dialect,
    generator: SchemaGenerator,
    /// Types that no generator knows: lists.
    own: Map<String, Value>,
    /// Types that are ready to be published: those of custom kinds.
    custom: Map<String, Value>,
    /// Which types are of which kinds.
    kinds: BTreeMap<String, BTreeSet<Gvk>>,
}

impl Schemas {
    /// No types yet.
    pub(super) fn new(dialect: Dialect) -> Self {
        let settings = SchemaSettings::draft07().with(|settings| {
            settings.definitions_path = dialect.definitions().into();
            settings.transforms.clear();
        });
        Schemas {
            dialect,
            generator: settings.into_generator(),
            own: Map::new(),
            custom: Map::new(),
            kinds: BTreeMap::new(),
        }
    }

    /// Adds a type and what it refers to.
    pub(super) fn add(&mut self, type_name: &str, source: &Source) {
        match source {
            Source::Type(ask) => drop(ask(&mut self.generator)),
            Source::Custom(kind) => {
                ask::<ObjectMeta>(&mut self.generator);
                let schema = custom::published(kind.document(), self.dialect);
                self.custom.insert(type_name.to_owned(), schema);
            }
        }
    }

    /// Adds what requests of any group version are made of.
    pub(super) fn add_common(&mut self, group: &str, version: &str) {
        ask::<APIResourceList>(&mut self.generator);
        ask::<DeleteOptions>(&mut self.generator);
        ask::<Patch>(&mut self.generator);
        ask::<Status>(&mut self.generator);
        ask::<WatchEvent<RawExtension>>(&mut self.generator);
        let here = |kind: &str| (group.to_owned(), version.to_owned(), kind.to_owned());
        let core = |kind: &str| (String::new(), "v1".to_owned(), kind.to_owned());
        for (type_name, gvk) in [
            (DELETE_OPTIONS, here("DeleteOptions")),
            (WATCH_EVENT, here("WatchEvent")),
            (DELETE_OPTIONS, core("DeleteOptions")),
            (WATCH_EVENT, core("WatchEvent")),
            (STATUS, core("Status")),
            (RESOURCE_LIST, core("APIResourceList")),
        ] {
            self.is_kind(type_name, gvk);
        }
    }

    /// Adds the types of a row at one version.
    pub(super) fn add_row(&mut self, row: &Resource, version: &Version) {
        self.add(&version.type_name, &version.source);
        let gvk = |kind: &str| (row.group.clone(), version.name.clone(), kind.to_owned());
        self.is_kind(&version.type_name, gvk(&row.kind));
        if row.is_stored() || row.computed {
            ask::<ListMeta>(&mut self.generator);
            let name = list_type(&version.type_name, row);
            self.is_kind(&name, gvk(&row.list_kind));
            let mut schema = self.list(row, &version.type_name);
            if let Some(kind) = self.custom.get_mut(&version.type_name).filter(|_| !row.fields.is_empty()) {
                let fields = row.fields.iter().map(|field| json!({"fieldPath": field}));
                schema[SELECTABLE] = fields.collect();
                kind[SELECTABLE] = schema[SELECTABLE].clone();
            }
            self.own.insert(name, schema);
        }
        let actions = row.actions.iter().filter_map(|(_, action)| Extra::of(*action));
        for extra in actions.chain(row.scale.is_some().then_some(&SCALE)) {
            (extra.add)(&mut self.generator);
            self.is_kind(extra.type_name, extra.gvk());
        }
    }

    fn is_kind(&mut self, type_name: &str, gvk: Gvk) {
        self.kinds.entry(type_name.to_owned()).or_default().insert(gvk);
    }

    fn list(&self, row: &Resource, type_name: &str) -> Value {
        let more =
            "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
        let metadata = format!("Standard list metadata. {more}#types-kinds");
        json!({
            "description": format!("{} is a list of {}", row.list_kind, row.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": HEAD["apiVersion"],
                "items": {
                    "description": format!("List of {}. {more}", row.plural),
                    "type": "array",
                    "items": self.dialect.reference(type_name),
                },
                "kind": HEAD["kind"],
                "metadata": self.dialect.described(LIST_META, metadata.into()),
            },
        })
    }

    /// The schemas as they come from their sources.
    pub(super) fn into_sources(mut self) -> Map<String, Value> {
        let mut sources = self.generator.take_definitions(false);
        sources.append(&mut self.own);
        sources
    }

    /// The schemas as they are published, one after the other.
    pub(super) fn publish(mut self) -> impl Iterator<Item = (String, Value)> {
        let dialect = self.dialect;
        let kinds = std::mem::take(&mut self.kinds);
        let custom = std::mem::take(&mut self.custom);
        let sources = self.into_sources().into_iter().map(move |(name, schema)| {
            let schema = published(dialect, &name, schema);
            (name, schema)
        });
        sources.chain(custom).map(move |(name, mut schema)| {
            if let Some(of) = kinds.get(&name) {
                schema["x-kubernetes-group-version-kind"] = of.iter().map(gvk).collect();
            }
            (name, schema)
        })
    }
}

/// Types whose values are of several JSON types, or of any; what is published in place of their schemas.
fn several(dialect: Dialect, type_name: &str) -> Option<Value> {
    let schema = match (type_name.rsplit('.').next()?, dialect) {
        ("Quantity", Dialect::V2) => json!({"type": "string"}),
        ("Quantity", Dialect::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        ("IntOrString", Dialect::V2) => json!({"type": "string", "format": "int-or-string"}),
        ("IntOrString", Dialect::V3) => {
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"})
        }
        ("JSON" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray", _) => {
            json!({})
        }
        _ => return None,
    };
    type_name.starts_with("io.k8s.").then_some(schema)
}

/// A schema as it is published.
fn published(dialect: Dialect, type_name: &str, mut schema: Value) -> Value {
    if let Some(mut several) = several(dialect, type_name) {
        several["description"] = schema["description"].take();
        return several;
    }
    if merge::is_atomic(type_name) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return schema };
    for (field, property) in properties {
        extend(type_name, field, property);
        if dialect == Dialect::V3 {
            wrap(property);
        }
    }
    schema
}

/// Says how the value in a field is merged.
fn extend(type_name: &str, field: &str, property: &mut Value) {
    let Some(object) = property.as_object_mut() else { return };
    let list = object.get("type").and_then(Value::as_str) == Some("array");
    let rule = merge::rule(type_name, field);
    // In built-in types, lists of which nothing is said are atomic.
    let rule = rule
        .or_else(|| (list && type_name.starts_with("io.k8s.") && field != "items").then_some(Rule::Atomic));
    for (name, value) in rule.into_iter().flat_map(|rule| rule.extensions(list)) {
        object.insert(name.to_owned(), value);
    }
    if let Some(default) = merge::default(type_name, field) {
        object.insert("default".to_owned(), default.into());
    }
}

/// In OpenAPI 3, nothing may stand beside a reference, so the reference goes into `allOf`.
fn wrap(property: &mut Value) {
    let Some(object) = property.as_object_mut().filter(|object| object.len() > 1) else { return };
    if let Some(reference) = object.remove("$ref") {
        object.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
}
