//! What policies and bindings say, ready to be used.

use serde_json::Value;
use windlass_cel::{Declared, Env, Type};
use windlass_machinery::{
    field::Errors,
    object::{Object, list_at, str_at},
    selector::LabelSelector,
};

use super::super::{
    expressions::{self, Conditions, Expression, policy_env},
    matching::Matching,
};

fn spec(object: &Object) -> Object {
    object.get("spec").and_then(Value::as_object).cloned().unwrap_or_default()
}

fn text(object: &Object, path: &[&str]) -> String {
    str_at(object, path).unwrap_or_default().to_owned()
}

fn maps<'a>(object: &'a Object, field: &str) -> impl Iterator<Item = &'a Object> + use<'a> {
    list_at(object, &[field]).iter().filter_map(Value::as_object)
}

/// What all policies have.
pub(super) struct Common {
    pub(super) matching: Matching,
    /// The kind of the parameters: `apiVersion` and `kind`.
    pub(super) params: Option<(String, String)>,
    /// Whether requests go on when an expression fails.
    pub(super) ignored: bool,
    pub(super) conditions: Conditions,
    pub(super) variables: Vec<(String, Expression)>,
}

impl Common {
    /// Reads a `spec`, and what the expressions in it can name.
    fn of(spec: &Object, env: Env) -> (Self, Env) {
        let params = spec.get("paramKind").and_then(Value::as_object);
        let constraints =
            spec.get("matchConstraints").and_then(Value::as_object).cloned().unwrap_or_default();
        let conditions = Conditions::of(spec, &env);
        let mut fields = vec![];
        let mut variables = vec![];
        for variable in maps(spec, "variables") {
            let name = text(variable, &["name"]);
            let expression =
                Expression::new(&declare(env.clone(), &fields), &text(variable, &["expression"]));
            let ty = expression.program().map_or(Type::Dyn, |program| program.result().clone());
            fields.push((name.clone(), ty));
            variables.push((name, expression));
        }
        let common = Common {
            matching: Matching::of_constraints(&constraints),
            params: params.map(|kind| (text(kind, &["apiVersion"]), text(kind, &["kind"]))),
            ignored: text(spec, &["failurePolicy"]) == "Ignore",
            conditions,
            variables,
        };
        (common, declare(env, &fields))
    }
}

/// What expressions can name after these variables.
pub(super) fn declare(env: Env, fields: &[(String, Type)]) -> Env {
    let fields = fields.iter().map(|(name, ty)| (name.as_str(), Declared::from(ty.clone())));
    env.variable("variables", Type::structure("kubernetes.variables", fields))
}

/// A policy that refuses.
pub(super) struct Validating {
    pub(super) common: Common,
    pub(super) validations: Vec<Validation>,
    /// Keys and values for those who read logs.
    pub(super) notes: Vec<(String, Expression)>,
}

/// What shall hold.
pub(super) struct Validation {
    pub(super) expression: Expression,
    message: String,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: String,
}

impl Validation {
    /// What is said when it does not hold, unless an expression says it better.
    pub(super) fn message(&self) -> String {
        match self.message.trim() {
            "" => format!("failed expression: {}", self.expression.source.trim()),
            message => message.to_owned(),
        }
    }
}

impl Validating {
    pub(super) fn of(policy: &Object) -> Self {
        let spec = spec(policy);
        let (common, env) = Common::of(&spec, policy_env(spec.contains_key("paramKind")));
        let validations = maps(&spec, "validations").map(|validation| Validation {
            expression: Expression::new(&env, &text(validation, &["expression"])),
            message: text(validation, &["message"]),
            message_expression: str_at(validation, &["messageExpression"])
                .filter(|source| !source.trim().is_empty())
                .map(|source| Expression::new(&env, source)),
            reason: text(validation, &["reason"]),
        });
        let validations = validations.collect();
        let notes = maps(&spec, "auditAnnotations")
            .map(|note| (text(note, &["key"]), Expression::new(&env, &text(note, &["valueExpression"]))));
        let notes = notes.collect();
        Validating { common, validations, notes }
    }
}

/// A policy that changes.
pub(super) struct Mutating {
    pub(super) common: Common,
    pub(super) mutations: Vec<Mutation>,
    /// Whether it is run once more when others change the object after it.
    pub(super) reinvoked: bool,
}

/// A change.
pub(super) enum Mutation {
    /// An object that says only what shall be different.
    Apply(Expression),
    /// A list of operations.
    Patch(Expression),
}

impl Mutating {
    pub(super) fn of(policy: &Object) -> Self {
        let spec = spec(policy);
        let env = policy_env(spec.contains_key("paramKind")).with_mutations();
        let (common, env) = Common::of(&spec, env);
        let mutations = maps(&spec, "mutations").map(|mutation| {
            let expression = |field: &str| Expression::new(&env, &text(mutation, &[field, "expression"]));
            match text(mutation, &["patchType"]).as_str() {
                "JSONPatch" => Mutation::Patch(expression("jsonPatch")),
                _ => Mutation::Apply(expression("applyConfiguration")),
            }
        });
        let mutations = mutations.collect();
        Mutating { common, mutations, reinvoked: text(&spec, &["reinvocationPolicy"]) == "IfNeeded" }
    }
}

/// Where a policy is in force.
pub(super) struct Binding {
    pub(super) policy: String,
    /// `None`: wherever the policy is about.
    pub(super) matching: Option<Matching>,
    pub(super) params: Option<ParamRef>,
    pub(super) denies: bool,
    pub(super) warns: bool,
    pub(super) audits: bool,
}

/// Which parameters.
pub(super) struct ParamRef {
    pub(super) name: String,
    /// Empty: that of the request.
    pub(super) namespace: String,
    pub(super) selector: LabelSelector,
    /// Whether a request is refused when there are none.
    pub(super) required: bool,
}

impl Binding {
    pub(super) fn of(binding: &Object) -> Self {
        let spec = spec(binding);
        let acts = |action: &str| list_at(&spec, &["validationActions"]).iter().any(|one| one == action);
        let params = spec.get("paramRef").and_then(Value::as_object).map(|reference| ParamRef {
            name: text(reference, &["name"]),
            namespace: text(reference, &["namespace"]),
            selector: reference
                .get("selector")
                .and_then(|selector| LabelSelector::from_object(selector).ok())
                .unwrap_or_else(LabelSelector::nothing),
            required: text(reference, &["parameterNotFoundAction"]) != "Allow",
        });
        Binding {
            policy: text(&spec, &["policyName"]),
            matching: spec.get("matchResources").and_then(Value::as_object).map(Matching::of_binding),
            params,
            denies: acts("Deny"),
            warns: acts("Warn"),
            audits: acts("Audit"),
        }
    }
}

/// Variables see those before them, so that many of them take long to look at. More are refused elsewhere.
const MOST_VARIABLES: usize = 1000;

/// Finds faults in the expressions of a policy's `spec`.
pub(crate) fn check_expressions(spec: &Object, is_mutating: bool, errors: &mut Errors) {
    if list_at(spec, &["variables"]).len() > MOST_VARIABLES {
        return;
    }
    let mut env = policy_env(spec.contains_key("paramKind"));
    if is_mutating {
        env = env.with_mutations();
    }
    expressions::check_conditions(&env, spec, errors);
    let mut fields = vec![];
    for (index, variable) in list_at(spec, &["variables"]).iter().enumerate() {
        let Some(variable) = variable.as_object() else { continue };
        let scope = declare(env.clone(), &fields);
        errors.at_index("variables", index, |errors| {
            expressions::check(&scope, variable, "expression", &[], errors);
        });
        let program = scope.compile(str_at(variable, &["expression"]).unwrap_or_default());
        let ty = program.map_or(Type::Dyn, |program| program.result().clone());
        fields.push((text(variable, &["name"]), ty));
    }
    let env = declare(env, &fields);
    let mut each = |list: &str, check: &dyn Fn(&Object, &mut Errors)| {
        for (index, entry) in list_at(spec, &[list]).iter().enumerate() {
            let Some(entry) = entry.as_object() else { continue };
            errors.at_index(list, index, |errors| check(entry, errors));
        }
    };
    each("validations", &|validation, errors| {
        expressions::check(&env, validation, "expression", &[Type::Bool], errors);
        expressions::check(&env, validation, "messageExpression", &[Type::String], errors);
    });
    each("auditAnnotations", &|note, errors| {
        expressions::check(&env, note, "valueExpression", &[Type::String, Type::Null], errors);
    });
    each("mutations", &|mutation, errors| {
        let object = || Type::Object("Object".into());
        let patch = || Type::list(Type::Object("JSONPatch".into()));
        for (field, wanted) in [("applyConfiguration", object()), ("jsonPatch", patch())] {
            if let Some(holder) = mutation.get(field).and_then(Value::as_object) {
                errors.at(field, |errors| expressions::check(&env, holder, "expression", &[wanted], errors));
            }
        }
    });
}
