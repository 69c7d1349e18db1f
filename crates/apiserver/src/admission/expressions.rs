//! Expressions of webhooks and policies: what they can name, and how they are compiled and run.

use std::sync::Arc;

use serde_json::Value;
use windlass_access::{Attributes, Wanted, rbac::service_account_groups};
use windlass_cel::{
    Asked, Authorizer, Budget, Check, CompileError, Decision, Declared, Env, Extension, ExtensionType,
    Program, ResourceCheck, Type, Value as Cel, Variables,
};
use windlass_machinery::{
    field::Errors,
    object::{Object, list_at, str_at},
};

use super::{
    Request, User,
    subject::{Form, Place, Subject},
};
use crate::access::Rights;

/// What every expression can name.
pub(crate) fn env() -> Env {
    Env::new()
        .variable("object", Type::Dyn)
        .variable("oldObject", Type::Dyn)
        .variable("request", request_type())
        .variable("authorizer", Type::Extension(ExtensionType::Authorizer))
        .variable("authorizer.requestResource", Type::Extension(ExtensionType::ResourceCheck))
}

/// What the expressions of policies can name besides.
pub(crate) fn policy_env(has_params: bool) -> Env {
    let env = env().variable("namespaceObject", Type::Dyn);
    match has_params {
        true => env.variable("params", Type::Dyn),
        false => env,
    }
}

fn request_type() -> Declared {
    let text = || Declared::from(Type::String);
    let names = |name: &str, last: &'static str| {
        Declared::from(Type::structure(name, [("group", text()), ("version", text()), (last, text())]))
    };
    let user = Type::structure(
        "kubernetes.UserInfo",
        [
            ("username", text()),
            ("uid", text()),
            ("groups", Type::list(Type::String).into()),
            ("extra", Type::map(Type::String, Type::list(Type::String)).into()),
        ],
    );
    let kind = || names("kubernetes.GroupVersionKind", "kind");
    let resource = || names("kubernetes.GroupVersionResource", "resource");
    Type::structure(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user.into()),
            ("dryRun", Type::Bool.into()),
            ("options", Type::Dyn.into()),
        ],
    )
    .into()
}

/// What is wrong with an expression, in the words of a field error.
pub(crate) fn told(errors: &[CompileError]) -> String {
    let shown: Vec<String> = errors.iter().take(MOST_TOLD).map(ToString::to_string).collect();
    format!("compilation failed: {}", shown.join("\n"))
}

/// Most faults of one expression that are told.
const MOST_TOLD: usize = 10;

/// An expression and what has become of it.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) source: String,
    program: Result<Program, String>,
}

impl Expression {
    pub(super) fn new(env: &Env, source: &str) -> Self {
        let program = env.compile(source).map_err(|errors| told(&errors));
        Expression { source: source.to_owned(), program }
    }

    pub(super) fn program(&self) -> Option<&Program> {
        self.program.as_ref().ok()
    }

    /// What it comes to.
    pub(super) fn run<'a>(
        &'a self,
        variables: &Variables<'a>,
        budget: &mut Budget,
    ) -> Result<Cel<'a>, String> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        program.eval(variables, budget).map_err(|error| error.to_string())
    }

    /// Whether it holds; the words of a failure name the expression.
    pub(super) fn holds<'a>(
        &'a self,
        variables: &Variables<'a>,
        budget: &mut Budget,
    ) -> Result<bool, String> {
        let outcome = self.run(variables, budget);
        let outcome = outcome.and_then(|value| value.as_bool().ok_or_else(|| "no boolean".to_owned()));
        outcome.map_err(|error| format!("expression '{}' resulted in error: {error}", self.source.trim()))
    }
}

/// The `matchConditions` of a webhook or a policy.
#[derive(Debug)]
pub(super) struct Conditions(Vec<Expression>);

impl Conditions {
    pub(super) fn of(object: &Object, env: &Env) -> Self {
        let conditions = list_at(object, &["matchConditions"]).iter().filter_map(Value::as_object);
        let source = |condition: &Object| str_at(condition, &["expression"]).unwrap_or_default().to_owned();
        Conditions(conditions.map(|condition| Expression::new(env, &source(condition))).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all hold. One that does not hold decides, even where others fail.
    pub(super) fn hold<'a>(&'a self, variables: &Variables<'a>, budget: &mut Budget) -> Result<bool, String> {
        let mut failed = vec![];
        for condition in &self.0 {
            match condition.holds(variables, budget) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => failed.push(error),
            }
        }
        match failed.is_empty() {
            true => Ok(true),
            false => Err(failed.join(", ")),
        }
    }
}

/// Finds faults in an expression that stands in a field.
pub(crate) fn check(env: &Env, object: &Object, field: &str, wanted: &[Type], errors: &mut Errors) {
    let source = str_at(object, &[field]).unwrap_or_default();
    if source.trim().is_empty() {
        return;
    }
    if source.len() > MOST_SOURCE {
        return errors.too_long(field, MOST_SOURCE);
    }
    match env.compile(source) {
        Err(faults) => errors.invalid_str(field, source, told(&faults)),
        Ok(program) if wanted.is_empty() || fits(program.result(), wanted) => {}
        Ok(_) => {
            let names: Vec<String> = wanted.iter().map(ToString::to_string).collect();
            errors.invalid_str(field, source, format!("must evaluate to {}", names.join(" or ")));
        }
    }
}

/// Most bytes of one expression.
const MOST_SOURCE: usize = 64 * 1024;

/// Whether a result may be of a wanted type: what is known only when it runs may be.
fn fits(result: &Type, wanted: &[Type]) -> bool {
    let fits_one = |wanted: &Type| match (result, wanted) {
        (Type::Dyn, _) => true,
        (Type::List(list), Type::List(_)) if list.item.ty == Type::Dyn => true,
        _ => result == wanted,
    };
    wanted.iter().any(fits_one)
}

/// Finds faults in `matchConditions`.
pub(crate) fn check_conditions(env: &Env, object: &Object, errors: &mut Errors) {
    for (index, condition) in list_at(object, &["matchConditions"]).iter().enumerate() {
        let Some(condition) = condition.as_object() else { continue };
        errors.at_index("matchConditions", index, |errors| {
            check(env, condition, "expression", &[Type::Bool], errors);
        });
    }
}

/// Who may do what, for the user of a request and for service accounts.
struct Known<'u> {
    user: &'u User,
    rights: Arc<Rights>,
}

impl Authorizer for Known<'_> {
    fn check(&self, service_account: Option<(&str, &str)>, verb: &str, check: Check<'_>) -> Decision {
        let account = service_account.map(|(namespace, name)| {
            let groups = service_account_groups(namespace);
            User::new(format!("system:serviceaccount:{namespace}:{name}"), groups).authenticated()
        });
        let wanted = match check {
            Check::Path(path) => Wanted::Path(&path.path),
            Check::Resource(on) => Wanted::Resource {
                group: &on.group,
                version: "*",
                resource: &on.resource,
                subresource: &on.subresource,
                namespace: &on.namespace,
                name: &on.name,
            },
        };
        let user = account.as_ref().unwrap_or(self.user);
        let grant = self.rights.grant(user, &Attributes { verb, wanted });
        let reason = grant.as_ref().map(ToString::to_string).unwrap_or_default();
        Decision { allowed: grant.is_some(), reason, error: None }
    }
}

/// What the variables of one request stand for.
pub(super) struct Inputs<'a> {
    form: &'a Form,
    request: Value,
    known: Known<'a>,
    own: ResourceCheck,
}

impl<'a> Inputs<'a> {
    pub(super) fn new(
        subject: &Subject<'_>,
        request: &Request<'a>,
        place: Place<'_>,
        form: &'a Form,
    ) -> Self {
        let own = ResourceCheck {
            group: subject.place.group.to_owned(),
            resource: subject.place.plural.to_owned(),
            subresource: subject.sub.to_owned(),
            namespace: subject.namespace.to_owned(),
            name: subject.name.to_owned(),
            ..ResourceCheck::default()
        };
        let known = Known { user: request.user, rights: Arc::clone(request.rights) };
        Inputs { form, request: Value::Object(subject.to_json(request, place)), known, own }
    }

    /// The variables, for as many programs as there are.
    pub(super) fn variables(&self) -> Variables<'_> {
        let asked = Asked { authorizer: &self.known, service_account: None };
        let own = Extension::ResourceCheck(asked, Box::new(self.own.clone()));
        Variables::new()
            .json("object", &self.form.object)
            .json("oldObject", &self.form.old)
            .json("request", &self.request)
            .authorizer("authorizer", &self.known)
            .value("authorizer.requestResource", Cel::Extension(Arc::new(own)))
    }
}
