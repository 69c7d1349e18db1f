//! Which requests a webhook or a policy is about: rules, and selectors of namespaces and of objects.

use serde_json::Value;
use windlass_machinery::{
    object::{self, Object, list_at, str_at},
    selector::LabelSelector,
    stored::Stored,
};

use super::{
    Operation, Request, View,
    subject::{Place, Subject},
};

/// A `RuleWithOperations`, or one with names.
#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Plural and subresource.
    resources: Vec<(String, String)>,
    /// Only objects in namespaces, or only others.
    namespaced: Option<bool>,
    /// Only objects of these names, if there are any.
    names: Vec<String>,
}

fn texts(object: &Object, field: &str) -> Vec<String> {
    list_at(object, &[field]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

impl Rule {
    fn of(rule: &Object) -> Self {
        let resources = texts(rule, "resources").into_iter().map(|resource| match resource.split_once('/') {
            Some((plural, sub)) => (plural.to_owned(), sub.to_owned()),
            None => (resource, String::new()),
        });
        Rule {
            operations: texts(rule, "operations"),
            groups: texts(rule, "apiGroups"),
            versions: texts(rule, "apiVersions"),
            resources: resources.collect(),
            namespaced: match str_at(rule, &["scope"]) {
                Some("Namespaced") => Some(true),
                Some("Cluster") => Some(false),
                _ => None,
            },
            names: texts(rule, "resourceNames"),
        }
    }

    fn takes(&self, subject: &Subject<'_>, place: Place<'_>) -> bool {
        has(&self.operations, subject.operation)
            && has(&self.groups, place.group)
            && has(&self.versions, place.version)
            && self.resources.iter().any(|(plural, sub)| {
                (plural == "*" || plural == place.plural) && (sub == "*" || sub == subject.sub)
            })
            && self.namespaced.is_none_or(|namespaced| namespaced == subject.resource.namespaced)
            && (self.names.is_empty() || self.names.iter().any(|name| name == subject.name))
    }
}

/// What a webhook, a policy or a binding is about.
#[derive(Debug)]
pub(super) struct Matching {
    /// `None`: everything.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    /// Whether other versions of a resource are meant as well.
    equivalent: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

impl Matching {
    /// Reads a webhook.
    pub(super) fn of_webhook(webhook: &Object) -> Self {
        Matching { rules: Some(rules(webhook, "rules")), ..Self::read(webhook) }
    }

    /// Reads the constraints of a policy.
    pub(super) fn of_constraints(constraints: &Object) -> Self {
        Matching { rules: Some(rules(constraints, "resourceRules")), ..Self::read(constraints) }
    }

    /// Reads the resources of a binding, which need not narrow anything down.
    pub(super) fn of_binding(resources: &Object) -> Self {
        let rules = Some(rules(resources, "resourceRules")).filter(|rules| !rules.is_empty());
        Matching { rules, ..Self::read(resources) }
    }

    fn read(object: &Object) -> Self {
        let selector = |field: &str| match object.get(field) {
            None | Some(Value::Null) => LabelSelector::everything(),
            // What cannot be read was not let in.
            Some(selector) => {
                LabelSelector::from_object(selector).unwrap_or_else(|_| LabelSelector::nothing())
            }
        };
        Matching {
            rules: None,
            excluded: rules(object, "excludeResourceRules"),
            equivalent: str_at(object, &["matchPolicy"]) != Some("Exact"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// The place at which this is about the request; `None` when it is not.
    pub(super) fn find<'a>(&self, subject: &Subject<'a>, request: &Request<'a>) -> Option<Place<'a>> {
        let place = match &self.rules {
            None => subject.place,
            Some(rules) => self.place(rules, subject, request.view)?,
        };
        if !self.excluded.is_empty() && self.place(&self.excluded, subject, request.view).is_some() {
            return None;
        }
        (self.takes_namespace(subject, request) && self.takes_object(request)).then_some(place)
    }

    fn place<'a>(&self, rules: &[Rule], subject: &Subject<'a>, view: &'a View) -> Option<Place<'a>> {
        if rules.iter().any(|rule| rule.takes(subject, subject.place)) {
            return Some(subject.place);
        }
        if !self.equivalent {
            return None;
        }
        subject.equivalents(view).find(|place| rules.iter().any(|rule| rule.takes(subject, *place)))
    }

    fn takes_namespace(&self, subject: &Subject<'_>, request: &Request<'_>) -> bool {
        if self.namespaces.is_empty() {
            return true;
        }
        let changes = matches!(request.operation, Operation::Create | Operation::Update);
        if subject.is_namespace() && subject.sub.is_empty() && changes {
            return self.namespaces.matches_map(labels(&request.object));
        }
        match subject.namespace {
            "" => true,
            namespace => self.namespaces.matches_map(&namespace_labels(request.view, namespace)),
        }
    }

    fn takes_object(&self, request: &Request<'_>) -> bool {
        let takes = |object: &Object| self.objects.matches_map(labels(object));
        self.objects.is_empty() || takes(&request.object) || request.old.is_some_and(takes)
    }
}

fn rules(object: &Object, field: &str) -> Vec<Rule> {
    list_at(object, &[field]).iter().filter_map(Value::as_object).map(Rule::of).collect()
}

fn labels(object: &Object) -> &Object {
    static NONE: std::sync::LazyLock<Object> = std::sync::LazyLock::new(Object::new);
    object::metadata(object).get("labels").and_then(Value::as_object).unwrap_or(&NONE)
}

/// The labels of a namespace; none when it is not there.
fn namespace_labels(view: &View, namespace: &str) -> Object {
    let row = view.catalog.get("", "namespaces");
    let entry = row.and_then(|row| view.snapshot.get(row.key("", namespace).as_bytes()));
    let Some(stored) = entry.and_then(|entry| Stored::new(&entry.value)) else { return Object::new() };
    stored.labels().into_iter().map(|(key, value)| (key.into_owned(), value.into_owned().into())).collect()
}
