//! The paths of the documents: every route of every row, with what it takes and gives.

use serde_json::{Map, Value, json};

use super::schemas::{self, Dialect, Extra, Gvk};
use crate::resources::{Action, Resource, Version};

/// A parameter in the query: its name, its type and what it does.
type Parameter = (&'static str, &'static str, &'static str);

const PRETTY: Parameter = ("pretty", "string", "If true, the answer is indented.");

const WRITE: &[Parameter] = &[
    ("dryRun", "string", "All: everything is done but the commit."),
    (
        "fieldManager",
        "string",
        "Who makes the change, for the record in managedFields. At most 128 characters.",
    ),
    (
        "fieldValidation",
        "string",
        "What is done about unknown and duplicate fields: Ignore, Warn (the default) or Strict.",
    ),
];

const FORCE: &[Parameter] = &[(
    "force",
    "boolean",
    "Whether an apply takes fields over from other managers. Only for apply patches.",
)];

const DELETE: &[Parameter] = &[
    ("dryRun", "string", "All: everything is done but the commit."),
    ("gracePeriodSeconds", "integer", "How long the object may take to end. Zero means at once."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Whether an object that cannot be read is deleted without its rules.",
    ),
    ("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    ("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
];

const LIST: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean", "Whether a watch may send bookmarks."),
    ("continue", "string", "The token of the previous page."),
    ("fieldSelector", "string", "Only objects with these values in their fields."),
    ("labelSelector", "string", "Only objects with these labels."),
    ("limit", "integer", "Most objects in one answer; the rest comes with the continue token."),
    ("resourceVersion", "string", "The revision to read at, or to watch from."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "Whether a watch begins with the objects there are."),
    ("timeoutSeconds", "integer", "How long the answer may take."),
    ("watch", "boolean", "Whether to be told of changes instead of getting a list."),
];

const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Custom kinds do not say how their lists are merged.
const CUSTOM_PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// One operation on one path.
struct Operation<'a> {
    method: &'static str,
    id: String,
    description: String,
    action: &'static str,
    gvk: Option<Gvk>,
    query: &'a [&'a [Parameter]],
    /// The type of the body, and the forms it may have.
    takes: Option<(&'a str, &'a [&'a str])>,
    gives: Option<&'a str>,
    codes: &'static [&'static str],
}

const ANY: &[&str] = &["*/*"];
const READ: &[&str] = &["200"];
const UPDATED: &[&str] = &["200", "201"];
const CREATED: &[&str] = &["200", "201", "202"];
const DELETED: &[&str] = &["200", "202"];

/// Where a group version is: `api/v1` or `apis/apps/v1`.
pub(super) fn root(group: &str, version: &str) -> String {
    match group.is_empty() {
        true => format!("api/{version}"),
        false => format!("apis/{group}/{version}"),
    }
}

/// The paths of one group version, with the items under them.
pub(super) struct Paths {
    dialect: Dialect,
    root: String,
    /// `AppsV1`, for operation ids.
    camel: String,
    /// `apps_v1`.
    tag: String,
}

impl Paths {
    /// Of one group version.
    pub(super) fn new(dialect: Dialect, group: &str, version: &str) -> Self {
        let name = if group.is_empty() { "core" } else { group.trim_end_matches(".k8s.io") };
        let camel: String = name.split(['.', '-']).map(capital).collect();
        let mut tag = camel.clone();
        if let Some(first) = tag.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        let root = format!("/{}", root(group, version));
        Paths { dialect, root, camel: camel + &capital(version), tag: format!("{tag}_{version}") }
    }

    /// The path of the group version itself.
    pub(super) fn group(&self) -> (String, Value) {
        let operation = Operation {
            method: "get",
            id: format!("get{}APIResources", self.camel),
            description: "get available resources".to_owned(),
            action: "",
            gvk: None,
            query: &[],
            takes: None,
            gives: Some(schemas::RESOURCE_LIST),
            codes: READ,
        };
        (format!("{}/", self.root), self.item(&[], &[operation]))
    }

    /// The paths of a row at one version.
    pub(super) fn row(&self, row: &Resource, version: &Version) -> Vec<(String, Value)> {
        let scope = if row.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{}{scope}/{}", self.root, row.plural);
        let outer: &[&str] = if row.namespaced { &["namespace"] } else { &[] };
        let inner: &[&str] = if row.namespaced { &["namespace", "name"] } else { &["name"] };
        let noun = Noun::new(row, version);
        let list_type = schemas::list_type(&version.type_name, row);
        if row.computed {
            let list = self.list(&noun, &list_type, self.id("list", &noun, ""));
            let mut get = self.change(&noun, "");
            get.retain(|operation| operation.method == "get");
            let one = format!("{collection}/{{name}}");
            return vec![(collection, self.item(outer, &[list])), (one, self.item(inner, &get))];
        }
        if !row.is_stored() {
            return vec![(collection, self.item(outer, &[self.create(&noun)]))];
        }
        let mut paths = vec![];
        if row.namespaced {
            let all = self.list(&noun, &list_type, format!("list{}{}ForAllNamespaces", self.camel, row.kind));
            paths.push((format!("{}/{}", self.root, row.plural), self.item(&[], &[all])));
        }
        let list = self.list(&noun, &list_type, self.id("list", &noun, ""));
        let mut operations = vec![list, self.create(&noun)];
        if row.deletes_collections {
            operations.push(self.delete_all(&noun));
        }
        paths.push((collection.clone(), self.item(outer, &operations)));
        let one = format!("{collection}/{{name}}");
        let mut operations = self.change(&noun, "");
        operations.push(self.delete(&noun));
        paths.push((one.clone(), self.item(inner, &operations)));
        for part in &row.parts {
            paths.push((format!("{one}/{}", part.name), self.item(inner, &self.change(&noun, part.name))));
        }
        if row.scale.is_some() {
            let noun = noun.with(&schemas::SCALE);
            paths.push((format!("{one}/scale"), self.item(inner, &self.change(&noun, "scale"))));
        }
        for (name, action) in &row.actions {
            paths.push((format!("{one}/{name}"), self.item(inner, &self.act(&noun, name, *action))));
        }
        paths
    }

    fn id(&self, verb: &str, noun: &Noun<'_>, part: &str) -> String {
        format!("{verb}{}{}{}{}", self.camel, noun.scope(), noun.row.kind, capital(part))
    }

    fn list<'a>(&self, noun: &Noun<'_>, list_type: &'a str, id: String) -> Operation<'a> {
        Operation {
            method: "get",
            id,
            description: format!("list or watch objects of kind {}", noun.row.kind),
            action: "list",
            gvk: Some(noun.gvk.clone()),
            query: &[LIST],
            takes: None,
            gives: Some(list_type),
            codes: READ,
        }
    }

    fn create<'a>(&self, noun: &Noun<'a>) -> Operation<'a> {
        Operation {
            method: "post",
            id: self.id("create", noun, ""),
            description: format!("create an object of kind {}", noun.row.kind),
            action: "post",
            gvk: Some(noun.gvk.clone()),
            query: &[WRITE],
            takes: Some((noun.type_name, ANY)),
            gives: Some(noun.type_name),
            codes: CREATED,
        }
    }

    fn delete_all<'a>(&self, noun: &Noun<'a>) -> Operation<'a> {
        Operation {
            method: "delete",
            id: format!("delete{}Collection{}{}", self.camel, noun.scope(), noun.row.kind),
            description: format!("delete several objects of kind {}", noun.row.kind),
            action: "deletecollection",
            gvk: Some(noun.gvk.clone()),
            query: &[DELETE, LIST],
            takes: Some((schemas::DELETE_OPTIONS, ANY)),
            gives: Some(schemas::STATUS),
            codes: READ,
        }
    }

    fn delete<'a>(&self, noun: &Noun<'a>) -> Operation<'a> {
        Operation {
            method: "delete",
            id: self.id("delete", noun, ""),
            description: format!("delete an object of kind {}", noun.row.kind),
            action: "delete",
            gvk: Some(noun.gvk.clone()),
            query: &[DELETE],
            takes: Some((schemas::DELETE_OPTIONS, ANY)),
            gives: Some(schemas::STATUS),
            codes: DELETED,
        }
    }

    /// Reading and writing an object, or a part of it.
    fn change<'a>(&self, noun: &Noun<'a>, part: &str) -> Vec<Operation<'a>> {
        let what = if part.is_empty() { String::new() } else { format!("{part} of ") };
        let operation = |method, verb: &str, action| Operation {
            method,
            id: self.id(verb, noun, part),
            description: format!("{verb} {what}an object of kind {}", noun.row.kind),
            action,
            gvk: Some(noun.gvk.clone()),
            query: &[],
            takes: None,
            gives: Some(noun.type_name),
            codes: READ,
        };
        vec![
            operation("get", "read", "get"),
            Operation {
                query: &[WRITE],
                takes: Some((noun.type_name, ANY)),
                codes: UPDATED,
                ..operation("put", "replace", "put")
            },
            Operation {
                query: &[WRITE, FORCE],
                takes: Some((
                    schemas::PATCH,
                    if noun.row.custom().is_some() { CUSTOM_PATCHES } else { PATCHES },
                )),
                codes: UPDATED,
                ..operation("patch", "patch", "patch")
            },
        ]
    }

    fn act<'a>(&self, noun: &Noun<'a>, name: &str, action: Action) -> Vec<Operation<'a>> {
        let Some(extra) = Extra::of(action) else { return self.connect(noun, name) };
        let create = self.create(&noun.with(extra));
        vec![Operation {
            id: self.id("create", noun, name),
            description: format!("create {name} of an object of kind {}", noun.row.kind),
            ..create
        }]
    }

    fn connect<'a>(&self, noun: &Noun<'a>, name: &str) -> Vec<Operation<'a>> {
        let operation = |method: &'static str| Operation {
            method,
            id: format!(
                "connect{}{}{}{}{}",
                self.camel,
                capital(method),
                noun.scope(),
                noun.row.kind,
                capital(name)
            ),
            description: format!("connect {} requests to {name} of {}", method.to_uppercase(), noun.row.kind),
            action: "connect",
            gvk: Some(noun.gvk.clone()),
            query: &[],
            takes: None,
            gives: None,
            codes: READ,
        };
        match name {
            "log" => {
                vec![Operation { id: self.id("read", noun, name), action: "get", ..operation("get") }]
            }
            _ => vec![operation("get"), operation("post")],
        }
    }

    /// What stands under one path.
    fn item(&self, path: &[&str], operations: &[Operation<'_>]) -> Value {
        let mut item = Map::new();
        let mut parameters = vec![];
        for name in path {
            let description = match *name {
                "namespace" => "The namespace that the object is in.",
                _ => "The name of the object.",
            };
            parameters.push(self.parameter((name, "string", description), "path"));
        }
        if operations.iter().any(|operation| operation.gvk.is_some()) {
            parameters.push(self.parameter(PRETTY, "query"));
        }
        if !parameters.is_empty() {
            item.insert("parameters".to_owned(), Value::Array(parameters));
        }
        for operation in operations {
            item.insert(operation.method.to_owned(), self.operation(operation));
        }
        Value::Object(item)
    }

    fn parameter(&self, (name, kind, description): (&str, &str, &str), place: &str) -> Value {
        let mut parameter = json!({"name": name, "in": place, "description": description});
        match self.dialect {
            Dialect::V2 => {
                parameter["type"] = kind.into();
                parameter["uniqueItems"] = true.into();
            }
            Dialect::V3 => parameter["schema"] = json!({"type": kind, "uniqueItems": true}),
        }
        if place == "path" {
            parameter["required"] = true.into();
        }
        parameter
    }

    fn operation(&self, operation: &Operation<'_>) -> Value {
        let query = operation.query.iter().flat_map(|parameters| parameters.iter());
        let mut parameters: Vec<Value> = query.map(|parameter| self.parameter(*parameter, "query")).collect();
        let mut value = json!({
            "description": operation.description,
            "operationId": operation.id,
            "tags": [self.tag],
            "responses": self.responses(operation),
        });
        if let Some((type_name, forms)) = operation.takes {
            self.body(&mut value, &mut parameters, type_name, forms, operation.method == "delete");
        }
        if self.dialect == Dialect::V2 {
            value["schemes"] = json!(["https"]);
            value["produces"] = json!(produces(operation));
            value["consumes"] = json!(operation.takes.map_or(ANY, |(_, forms)| forms));
        }
        if !parameters.is_empty() {
            value["parameters"] = Value::Array(parameters);
        }
        if !operation.action.is_empty() {
            value["x-kubernetes-action"] = operation.action.into();
        }
        if let Some(gvk) = &operation.gvk {
            value["x-kubernetes-group-version-kind"] = schemas::gvk(gvk);
        }
        value
    }

    fn body(
        &self,
        value: &mut Value,
        parameters: &mut Vec<Value>,
        name: &str,
        forms: &[&str],
        optional: bool,
    ) {
        let schema = self.dialect.reference(name);
        match self.dialect {
            Dialect::V2 => {
                parameters
                    .push(json!({"name": "body", "in": "body", "required": !optional, "schema": schema}));
            }
            Dialect::V3 => {
                let content: Map<String, Value> =
                    forms.iter().map(|form| ((*form).to_owned(), json!({"schema": schema}))).collect();
                value["requestBody"] = json!({"content": content, "required": !optional});
            }
        }
    }

    fn responses(&self, operation: &Operation<'_>) -> Value {
        let schema = match operation.gives {
            Some(type_name) => self.dialect.reference(type_name),
            None => json!({"type": "string"}),
        };
        let mut responses = Map::new();
        for code in operation.codes {
            let description = match *code {
                "201" => "Created",
                "202" => "Accepted",
                _ => "OK",
            };
            let mut response = json!({"description": description});
            match self.dialect {
                Dialect::V2 => response["schema"] = schema.clone(),
                Dialect::V3 => {
                    let content = produces(operation)
                        .iter()
                        .map(|form| ((*form).to_owned(), json!({"schema": schema})));
                    response["content"] = Value::Object(content.collect());
                }
            }
            responses.insert((*code).to_owned(), response);
        }
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        Value::Object(responses)
    }
}

/// The forms of the answer.
fn produces(operation: &Operation<'_>) -> &'static [&'static str] {
    match (operation.action, operation.gives) {
        ("list", _) => &["application/json", "application/json;stream=watch"],
        (_, None) => &["*/*"],
        _ => &["application/json"],
    }
}

/// What an operation is about.
struct Noun<'a> {
    row: &'a Resource,
    type_name: &'a str,
    gvk: Gvk,
}

impl<'a> Noun<'a> {
    fn new(row: &'a Resource, version: &'a Version) -> Self {
        let gvk = (row.group.clone(), version.name.clone(), row.kind.clone());
        Noun { row, type_name: &version.type_name, gvk }
    }

    fn with(&self, extra: &'static Extra) -> Noun<'a> {
        Noun { row: self.row, type_name: extra.type_name, gvk: extra.gvk() }
    }

    fn scope(&self) -> &'static str {
        if self.row.namespaced { "Namespaced" } else { "" }
    }
}

/// With a capital at the beginning.
fn capital(word: &str) -> String {
    let mut word = word.to_owned();
    if let Some(first) = word.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    word
}
