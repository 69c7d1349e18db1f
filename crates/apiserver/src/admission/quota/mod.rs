//! ResourceQuota: bounds on what the objects of a namespace use together, counted as they are written.
//!
//! `status.used` is kept exact without anyone counting later: every write that changes what is used carries
//! the new numbers in its own transaction, and is made again when they have changed meanwhile. A new quota, or
//! one whose bounds have changed, is counted from scratch. While that goes on, other writes may happen that do
//! not know of it yet; so each namespace with quotas has a guard, a key of its own:
//!
//! 1. A quota that is counted from scratch writes the guard, and marks its numbers as provisional.
//! 2. Every other counted write requires the guard to be as it has seen it. Those that have not seen the new
//!    quota can therefore only have happened before it.
//! 3. The first write that sees the mark counts once more, now with all of those, and takes the mark off.
//!
//! Where there are no quotas there is no guard, and a write costs two look-ups. Start at [`ResourceQuota`].

mod measure;
mod scopes;

use std::borrow::Cow;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use windlass_machinery::{
    object::{self, Object, at, child_mut, namespace},
    quantity::Quantity,
};
use windlass_store::{Expect, Revision};

use self::scopes::Scope;
use super::{
    Operation, Plugin, Request, View,
    pods::{Amounts, add, amounts},
};
use crate::{resources::Resource, status::Outcome};

/// The admission plugin.
pub(crate) struct ResourceQuota;

#[async_trait]
impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if request.namespace.is_empty() || !measure::is_counted(request.resource) {
            return Ok(());
        }
        let renewed = renew(request);
        let Some(change) = Change::of(request, renewed) else { return Ok(()) };
        charge(request, &change)
    }
}

/// The guard of a namespace.
struct Guard {
    key: String,
    expect: Expect,
    provisional: bool,
}

const PROVISIONAL: &[u8] = b"provisional";
const COUNTED: &[u8] = b"counted";

impl Guard {
    fn of(view: &View, namespace: &str) -> Self {
        let key = format!("guards/resourcequotas/{namespace}");
        let seen = view.snapshot.get(key.as_bytes());
        let expect = seen.map_or(Expect::Absent, |entry| Expect::At(entry.revision));
        // Without a guard, quotas have come from elsewhere and nobody has counted for them.
        let provisional = seen.is_none_or(|entry| *entry.value != *COUNTED);
        Guard { key, expect, provisional }
    }
}

/// What a write does to the objects of a namespace.
struct Change<'a> {
    old: Option<Cow<'a, Object>>,
    /// It is a quota itself, and was counted from scratch.
    renewed: bool,
}

/// The object as it will be, unless it goes.
fn after<'a>(request: &'a Request<'_>) -> Option<&'a Object> {
    (request.operation != Operation::Delete).then_some(&request.object)
}

impl<'a> Change<'a> {
    /// `None` when nothing changes that could be counted.
    fn of(request: &Request<'a>, renewed: bool) -> Option<Self> {
        let old = match request.operation {
            Operation::Connect => return None,
            Operation::Create => None,
            // What is removed may have been changed by the same request; what was counted is in the store.
            Operation::Delete => {
                let resource = request.resource;
                let stored =
                    request.view.get(&resource.group, &resource.plural, request.namespace, request.name);
                stored.map(|(object, _)| Cow::Owned(object)).or(request.old.map(Cow::Borrowed))
            }
            Operation::Update => {
                let old = request.old?;
                if !renewed && !may_differ(request.resource, old, &request.object) {
                    return None;
                }
                Some(Cow::Borrowed(old))
            }
        };
        Some(Change { old, renewed })
    }
}

fn may_differ(resource: &Resource, old: &Object, new: &Object) -> bool {
    if measure::only_number(resource) {
        return false;
    }
    let is_pod = resource.plural == "pods";
    let same = |field: &str| old.get(field) == new.get(field);
    let same_scopes = same("spec") && (is_pod || same("status"));
    !same_scopes || measure::usage(resource, old) != measure::usage(resource, new)
}

/// One quota: what it bounds, and what it says is used.
struct Quota {
    object: Object,
    hard: Amounts,
    scopes: Vec<Scope>,
}

impl Quota {
    fn new(object: Object) -> Self {
        let hard = amounts(at(&object, &["spec", "hard"]));
        Quota { hard, scopes: scopes::of(&object), object }
    }

    fn name(&self) -> &str {
        object::name(&self.object)
    }

    /// What an object uses of what is bounded here.
    fn share(&self, resource: &Resource, object: Option<&Object>) -> Amounts {
        let bounded = self.hard.keys().any(|name| measure::covers(resource, name));
        let Some(object) = object.filter(|object| bounded && scopes::fit(&self.scopes, resource, object))
        else {
            return Amounts::new();
        };
        let mut used = measure::usage(resource, object);
        used.retain(|name, _| self.hard.contains_key(name));
        used
    }

    /// What all objects of the namespace use, but for one.
    fn count(&self, view: &View, except: Option<(&Resource, &str)>) -> Amounts {
        let namespace = namespace(&self.object);
        let mut used = Amounts::new();
        for resource in view.catalog.all().filter(|resource| measure::is_counted(resource)) {
            let bounded: Vec<&String> =
                self.hard.keys().filter(|name| measure::covers(resource, name)).collect();
            if bounded.is_empty() {
                continue;
            }
            used.extend(bounded.into_iter().map(|name| (name.clone(), Quantity::ZERO)));
            let but = except.filter(|(other, _)| other.prefix == resource.prefix).map(|(_, name)| name);
            if measure::only_number(resource) {
                self.count_keys(view, resource, but, &mut used);
                continue;
            }
            for (object, _) in view.list(&resource.group, &resource.plural, namespace) {
                if but != Some(object::name(&object)) {
                    add(&mut used, &self.share(resource, Some(&object)));
                }
            }
        }
        used
    }

    /// Counts objects that all use the same, without looking at them.
    fn count_keys(&self, view: &View, resource: &Resource, but: Option<&str>, used: &mut Amounts) {
        let namespace = namespace(&self.object);
        let left_out = but.is_some_and(|name| view.has(&resource.group, &resource.plural, namespace, name));
        let number = view.snapshot.count(resource.range(namespace).as_bytes()) - usize::from(left_out);
        for (name, amount) in self.share(resource, Some(&Object::new())) {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            *used.entry(name).or_default() += amount.times(number);
        }
    }

    /// What it says is used; `None` when it does not say it of everything that can be counted.
    fn used(&self, view: &View) -> Option<Amounts> {
        let mut used = amounts(at(&self.object, &["status", "used"]));
        used.retain(|name, _| self.hard.contains_key(name));
        let countable = |name: &str| {
            let mut resources = view.catalog.all();
            resources.any(|resource| measure::is_counted(resource) && measure::covers(resource, name))
        };
        let complete = self.hard.keys().all(|name| used.contains_key(name) || !countable(name));
        complete.then_some(used)
    }

    /// Says what is used. Whether that is news.
    fn write(object: &mut Object, used: &Amounts) -> bool {
        let hard = at(object, &["spec", "hard"]).cloned().unwrap_or_else(|| json!({}));
        let status = child_mut(object, "status");
        let known = status.get("used").is_some_and(|known| amounts(Some(known)) == *used);
        if known && status.get("hard") == Some(&hard) {
            return false;
        }
        let used: Map<String, Value> =
            used.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect();
        status.insert("hard".to_owned(), hard);
        status.insert("used".to_owned(), used.into());
        true
    }
}

fn is_quota(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "resourcequotas"
}

/// Counts from scratch for a quota that is new or bounds something else than before. Whether it is one.
fn renew(request: &mut Request<'_>) -> bool {
    if !is_quota(request.resource) || request.part.is_some() || request.operation == Operation::Delete {
        return false;
    }
    let differs = |field: &str| {
        let old = request.old.and_then(|old| at(old, &["spec", field]));
        old != at(&request.object, &["spec", field])
    };
    if request.old.is_some() && !["hard", "scopes", "scopeSelector"].into_iter().any(differs) {
        return false;
    }
    let mut own = request.object.clone();
    object::metadata_mut(&mut own).insert("namespace".to_owned(), request.namespace.into());
    let quota = Quota::new(own);
    let mut used = quota.count(request.view, Some((request.resource, quota.name())));
    add(&mut used, &quota.share(request.resource, Some(&quota.object)));
    Quota::write(&mut request.object, &used);
    true
}

/// Charges all other quotas of the namespace, and keeps the guard.
fn charge(request: &mut Request<'_>, change: &Change<'_>) -> Outcome<()> {
    let view = request.view;
    let guard = Guard::of(view, request.namespace);
    let mut quotas = view.list("", "resourcequotas", request.namespace);
    if is_quota(request.resource) {
        let own = [request.name, object::name(&request.object)];
        quotas.retain(|(quota, _)| !own.contains(&object::name(quota)));
    }
    let quotas: Vec<(Quota, Revision)> =
        quotas.into_iter().map(|(quota, revision)| (Quota::new(quota), revision)).collect();
    if is_bounded(request) {
        specified(request, &quotas)?;
    }
    let is_empty = quotas.is_empty();
    for (quota, revision) in quotas {
        charge_one(request, change, quota, revision, guard.provisional)?;
    }
    let Guard { key, expect, provisional } = guard;
    if change.renewed {
        request.effects.put_raw(key, PROVISIONAL.to_vec(), expect);
    } else if is_empty && expect != Expect::Absent {
        request.effects.delete_raw(key, expect);
    } else if provisional && !is_empty {
        request.effects.put_raw(key, COUNTED.to_vec(), expect);
    } else {
        request.effects.require(key, expect);
    }
    Ok(())
}

/// Whether this is refused when it uses too much. What nodes and controllers report is only counted.
fn is_bounded(request: &Request<'_>) -> bool {
    request.operation != Operation::Delete && matches!(request.part, None | Some("resize"))
}

/// Refuses pods that do not say how much they need of what is bounded.
fn specified(request: &Request<'_>, quotas: &[(Quota, Revision)]) -> Outcome<()> {
    let Some(new) = after(request) else { return Ok(()) };
    if request.operation == Operation::Update && request.part != Some("resize") {
        return Ok(());
    }
    for (quota, _) in quotas.iter().filter(|(quota, _)| scopes::fit(&quota.scopes, request.resource, new)) {
        if let Some(missing) = measure::unspecified(request.resource, new, &quota.hard) {
            return Err(request.refuse(format!("failed quota: {}: {missing}", quota.name())));
        }
    }
    Ok(())
}

fn charge_one(
    request: &mut Request<'_>,
    change: &Change<'_>,
    mut quota: Quota,
    revision: Revision,
    from_scratch: bool,
) -> Outcome<()> {
    let known = if from_scratch { None } else { quota.used(request.view) };
    let before = known.unwrap_or_else(|| quota.count(request.view, None));
    let less = quota.share(request.resource, change.old.as_deref());
    let more = quota.share(request.resource, after(request));
    let mut used = before.clone();
    let mut asked = Amounts::new();
    for name in less.keys().chain(more.keys()) {
        let amount = |amounts: &Amounts| amounts.get(name).copied().unwrap_or_default();
        let delta = amount(&more) - amount(&less);
        if delta > Quantity::ZERO {
            asked.insert(name.clone(), delta);
        }
        let now = amount(&before) + delta;
        used.insert(name.clone(), if now.is_negative() { Quantity::ZERO } else { now });
    }
    if is_bounded(request) {
        asked.retain(|name, _| used.get(name) > quota.hard.get(name));
        if !asked.is_empty() {
            let why = format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                quota.name(),
                shown(&asked, &asked),
                shown(&asked, &before),
                shown(&asked, &quota.hard),
            );
            return Err(request.refuse(&why));
        }
    }
    if Quota::write(&mut quota.object, &used)
        && let Some(resource) = request.view.catalog.get("", "resourcequotas")
    {
        request.effects.put(resource, &quota.object, Expect::At(revision));
    }
    Ok(())
}

/// `cpu=1,pods=2`: these amounts, by the names of the others.
fn shown(names: &Amounts, amounts: &Amounts) -> String {
    let shown = names.keys().map(|name| {
        let amount = amounts.get(name).copied().unwrap_or_default();
        format!("{name}={amount}")
    });
    Vec::from_iter(shown).join(",")
}

#[cfg(test)]
mod tests;
