//! Type checking: what the expressions of a validating policy get wrong about the kinds it is about.
//!
//! An expression compiles against anything, because an object could be of any kind. So it is compiled once more against
//! each kind that the rules name, and what is found then goes into the status of the policy. Nothing is refused for it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_cel::{Declared, Env, StructField, StructType, Type, escape};
use windlass_machinery::{
    object::{Object, int_at, list_at, set_at, str_at},
    schema::{Format, Node},
};

use super::{
    super::{Operation, Plugin, Request, View, expressions::policy_env},
    definition::declare,
};
use crate::status::Outcome;

/// Looks at policies when they are written.
pub(crate) struct TypeChecking;

/// Most kinds that one policy is held against.
const MOST_KINDS: usize = 10;

#[async_trait]
impl Plugin for TypeChecking {
    fn name(&self) -> &'static str {
        "PolicyTypeChecking"
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        let is_write = matches!(request.operation, Operation::Create | Operation::Update);
        if !is_write || !request.is("admissionregistration.k8s.io", "validatingadmissionpolicies") {
            return Ok(());
        }
        let generation = int_at(&request.object, &["metadata", "generation"]).unwrap_or(1);
        if int_at(&request.object, &["status", "observedGeneration"]) == Some(generation) {
            return Ok(());
        }
        let spec = request.object.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        let warnings = warnings(&spec, request.view);
        let checking = match warnings.is_empty() {
            true => json!({}),
            false => json!({"expressionWarnings": warnings}),
        };
        set_at(&mut request.object, &["status", "observedGeneration"], Some(generation.into()));
        set_at(&mut request.object, &["status", "typeChecking"], Some(checking));
        Ok(())
    }
}

/// A kind, and what its objects are.
struct Kind {
    name: String,
    ty: Declared,
}

fn warnings(spec: &Object, view: &View) -> Vec<Value> {
    let kinds = kinds(spec, view);
    let params = spec.get("paramKind").and_then(Value::as_object).and_then(|kind| {
        let (api_version, kind) = (str_at(kind, &["apiVersion"])?, str_at(kind, &["kind"])?);
        find(view, api_version, kind)
    });
    let scopes: Vec<(&Kind, Env)> =
        kinds.iter().map(|kind| (kind, scope(spec, kind, params.as_ref()))).collect();
    let mut warnings = vec![];
    let mut look = |field: String, source: &str| {
        let mut found = vec![];
        for (kind, env) in &scopes {
            if let Err(errors) = env.compile(source) {
                let shown: Vec<String> = errors.iter().take(3).map(ToString::to_string).collect();
                found.push(format!("{}: {}\n", kind.name, shown.join("\n")));
            }
        }
        if !found.is_empty() {
            warnings.push(json!({"fieldRef": field, "warning": found.join("\n")}));
        }
    };
    for (list, fields) in [
        ("variables", &["expression"][..]),
        ("validations", &["expression", "messageExpression"]),
        ("auditAnnotations", &["valueExpression"]),
    ] {
        for (index, entry) in list_at(spec, &[list]).iter().enumerate() {
            for field in fields {
                let source = entry.get(*field).and_then(Value::as_str).unwrap_or_default();
                if !source.trim().is_empty() {
                    look(format!("spec.{list}[{index}].{field}"), source);
                }
            }
        }
    }
    warnings
}

/// What expressions can name when the object is of a kind.
fn scope(spec: &Object, kind: &Kind, params: Option<&Kind>) -> Env {
    let mut env = policy_env(spec.contains_key("paramKind"))
        .variable("object", kind.ty.clone())
        .variable("oldObject", kind.ty.clone());
    if let Some(params) = params {
        env = env.variable("params", params.ty.clone());
    }
    let mut fields = vec![];
    for variable in list_at(spec, &["variables"]).iter().filter_map(Value::as_object) {
        let source = str_at(variable, &["expression"]).unwrap_or_default();
        let program = declare(env.clone(), &fields).compile(source);
        let ty = program.map_or(Type::Dyn, |program| program.result().clone());
        fields.push((str_at(variable, &["name"]).unwrap_or_default().to_owned(), ty));
    }
    declare(env, &fields)
}

/// The kinds that the rules name without wildcards.
fn kinds(spec: &Object, view: &View) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = vec![];
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        let list = rule.get(field).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).filter(|text| *text != "*").map(str::to_owned).collect()
    };
    for rule in list_at(spec, &["matchConstraints", "resourceRules"]) {
        for group in texts(rule, "apiGroups") {
            for plural in texts(rule, "resources") {
                for version in texts(rule, "apiVersions") {
                    let Some(row) = view.catalog.at(&group, &version, &plural) else { continue };
                    let Some(version) = row.version(&version) else { continue };
                    let name = format!("{}, Kind={}", row.api_version(&version.name), row.kind);
                    if kinds.len() < MOST_KINDS && kinds.iter().all(|kind| kind.name != name) {
                        kinds.push(Kind { name, ty: Reader::default().whole(version.schema()) });
                    }
                }
            }
        }
    }
    kinds
}

fn find(view: &View, api_version: &str, kind: &str) -> Option<Kind> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut rows = view.catalog.group(group)?.rows();
    let row = rows.find(|row| row.kind == kind && row.version(version).is_some())?;
    Some(Kind { name: kind.to_owned(), ty: Reader::default().whole(row.version(version)?.schema()) })
}

/// Makes types of compiled schemas.
#[derive(Default)]
struct Reader {
    /// Types that stand in several places.
    named: HashMap<String, Type>,
    depth: usize,
}

/// Schemas are read this deep; what is below, or within itself, is dynamic.
const MOST_DEPTH: usize = 32;

impl Reader {
    fn whole(&mut self, schema: &Node) -> Declared {
        self.declared(schema, "object")
    }

    fn declared(&mut self, node: &Node, path: &str) -> Declared {
        Declared::from(self.ty(node, path))
    }

    fn ty(&mut self, node: &Node, path: &str) -> Type {
        if self.depth >= MOST_DEPTH {
            return Type::Dyn;
        }
        if let Node::Named(definition) = node {
            if let Some(known) = self.named.get(definition.name()) {
                return known.clone();
            }
            // While it is being read, what refers to it is within itself.
            self.named.insert(definition.name().to_owned(), Type::Dyn);
            let ty = self.read(node.resolve(), definition.name());
            self.named.insert(definition.name().to_owned(), ty.clone());
            return ty;
        }
        self.read(node, path)
    }

    fn read(&mut self, node: &Node, path: &str) -> Type {
        self.depth += 1;
        let ty = match node {
            Node::Bool => Type::Bool,
            Node::Integer { .. } => Type::Int,
            Node::Number => Type::Double,
            Node::String(Format::Bytes) => Type::Bytes,
            Node::String(Format::Time | Format::MicroTime) => Type::Timestamp,
            Node::String(Format::Plain) => Type::String,
            // A quantity may be a number.
            Node::String(Format::Quantity) | Node::IntOrString | Node::Any => Type::Dyn,
            Node::Object(fields) => {
                let mut all = BTreeMap::new();
                for field in fields {
                    let declared = self.declared(&field.node, &format!("{path}.{}", field.name));
                    // Words of the language can be written as they are, or escaped.
                    for name in escape(&field.name).iter().map(String::as_str).chain([&*field.name]) {
                        let field = StructField { json: field.name.clone(), declared: declared.clone() };
                        all.insert(name.into(), field);
                    }
                }
                Type::Struct(Arc::new(StructType { name: path.to_owned(), fields: all }))
            }
            Node::Map(items) => Type::map(Type::String, self.declared(items, path)),
            Node::List(items) => Type::list(self.declared(items, path)),
            Node::Named(_) => self.ty(node, path),
        };
        self.depth -= 1;
        ty
    }
}
