//! Questions to the authorizer: `authorizer.group('apps').resource('deployments').check('create').allowed()`.

use windlass_machinery::names;

use super::{Outcome, Row, Tools, mismatch};
use crate::{
    authorizer::{Check, Decision, PathCheck, ResourceCheck},
    cost::{Cost, Grows},
    error::EvalError,
    value::{Asked, Extension, Value},
};

const ONE: Cost = Cost::One;
const NO: Grows = Grows::Unknown;
/// So dear that one expression can ask twice.
const CHECK: Cost = Cost::Fixed(350_000);

pub(super) const ROWS: &[Row] = &[
    ("authorizer::path(string)->pathcheck", path, ONE, NO),
    ("authorizer::group(string)->groupcheck", group, ONE, NO),
    ("authorizer::serviceAccount(string,string)->authorizer", service_account, ONE, NO),
    ("groupcheck::resource(string)->resourcecheck", resource, ONE, NO),
    ("resourcecheck::subresource(string)->resourcecheck", subresource, ONE, NO),
    ("resourcecheck::namespace(string)->resourcecheck", namespace, ONE, NO),
    ("resourcecheck::name(string)->resourcecheck", name, ONE, NO),
    ("resourcecheck::fieldSelector(string)->resourcecheck", field_selector, Cost::Selector, NO),
    ("resourcecheck::labelSelector(string)->resourcecheck", label_selector, Cost::Selector, NO),
    ("pathcheck::check(string)->decision", check, CHECK, NO),
    ("resourcecheck::check(string)->decision", check, CHECK, NO),
    ("decision::allowed()->bool", allowed, ONE, NO),
    ("decision::reason()->string", reason, ONE, NO),
    ("decision::errored()->bool", errored, ONE, NO),
    ("decision::error()->string", error, ONE, NO),
];

fn receiver<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v Extension<'a>, EvalError> {
    match args.first() {
        Some(Value::Extension(extension)) => Ok(extension),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn asked<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v Asked<'a>, EvalError> {
    match receiver(args)? {
        Extension::Authorizer(asked) => Ok(asked),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn text(args: &[Value<'_>], at: usize) -> Result<String, EvalError> {
    args.get(at).and_then(Value::as_str).map(str::to_owned).ok_or_else(EvalError::no_such_overload)
}

fn path<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let path = text(args, 1)?;
    if path.trim().is_empty() {
        return Err(EvalError::failed("path must not be empty"));
    }
    Ok(Value::extension(Extension::PathCheck(asked(args)?.clone(), PathCheck { path })))
}

fn group<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::extension(Extension::GroupCheck(asked(args)?.clone(), text(args, 1)?)))
}

fn service_account<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let (namespace, name) = (text(args, 1)?, text(args, 2)?);
    if let Some(fault) = names::subdomain(&name, false) {
        return Err(EvalError::failed(format!("Invalid service account name: {fault}")));
    }
    if let Some(fault) = names::label(&namespace, false) {
        return Err(EvalError::failed(format!("Invalid service account namespace: {fault}")));
    }
    let asked = Asked { service_account: Some((namespace, name)), ..asked(args)?.clone() };
    Ok(Value::extension(Extension::Authorizer(asked)))
}

fn resource<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let Extension::GroupCheck(asked, group) = receiver(args)? else { return mismatch() };
    let resource = text(args, 1)?;
    if resource.trim().is_empty() {
        return Err(EvalError::failed("resource must not be empty"));
    }
    let check = ResourceCheck { group: group.clone(), resource, ..ResourceCheck::default() };
    Ok(Value::extension(Extension::ResourceCheck(asked.clone(), Box::new(check))))
}

/// The same check with one more thing said.
fn with<'a>(args: &[Value<'a>], set: impl Fn(&mut ResourceCheck, String)) -> Outcome<'a> {
    let Extension::ResourceCheck(asked, check) = receiver(args)? else { return mismatch() };
    let mut check = check.clone();
    set(&mut check, text(args, 1)?);
    Ok(Value::extension(Extension::ResourceCheck(asked.clone(), check)))
}

fn subresource<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    with(args, |check, text| check.subresource = text)
}

fn namespace<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    with(args, |check, text| check.namespace = text)
}

fn name<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    with(args, |check, text| check.name = text)
}

fn field_selector<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    with(args, |check, text| check.field_selector = Some(text))
}

fn label_selector<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    with(args, |check, text| check.label_selector = Some(text))
}

fn check<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let verb = text(args, 1)?;
    let (asked, check) = match receiver(args)? {
        Extension::PathCheck(asked, path) => (asked, Check::Path(path)),
        Extension::ResourceCheck(asked, resource) => (asked, Check::Resource(resource)),
        _ => return mismatch(),
    };
    let account = asked.service_account.as_ref().map(|(namespace, name)| (&**namespace, &**name));
    let decision = asked.authorizer.check(account, &verb, check);
    Ok(Value::extension(Extension::Decision(decision)))
}

fn decision<'v>(args: &'v [Value<'_>]) -> Result<&'v Decision, EvalError> {
    match receiver(args)? {
        Extension::Decision(decision) => Ok(decision),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn allowed<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(decision(args)?.allowed))
}

fn reason<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(&*decision(args)?.reason))
}

fn errored<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(decision(args)?.error.is_some()))
}

fn error<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(decision(args)?.error.as_deref().unwrap_or_default()))
}
