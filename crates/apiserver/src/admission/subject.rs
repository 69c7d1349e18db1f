//! What webhooks and policies see of a request: who does what to which resource, and the object in the version that
//! they ask for.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use windlass_machinery::object::{self, Object, int_at};

use super::{Operation, Request, View};
use crate::{
    registry::{Propagation, SET_BY_SERVER, convert, keep_metadata, set_path},
    resources::{Resource, Version},
    startup::ITSELF,
    status::Outcome,
    verbs::scale,
    webhook::Webhooks,
};

/// Group, version and plural, as rules name resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) plural: &'a str,
}

impl Place<'_> {
    /// Such as `apps/v1`.
    pub(super) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    fn to_json(self) -> Value {
        json!({"group": self.group, "version": self.version, "resource": self.plural})
    }
}

/// A request, as rules look at it.
pub(super) struct Subject<'a> {
    pub(super) operation: &'static str,
    pub(super) resource: &'a Resource,
    /// The resource in the version of the request.
    pub(super) place: Place<'a>,
    /// The subresource, or nothing.
    pub(super) sub: &'a str,
    pub(super) name: &'a str,
    /// The namespace; that of a namespace is itself.
    pub(super) namespace: &'a str,
    /// The type of the object, where it is not that of the resource: what a subresource takes.
    own_kind: Option<(String, String)>,
}

/// The group of those who are never asked about themselves.
const CONFIGURATION: &str = "admissionregistration.k8s.io";

/// Kinds that are served in two groups.
const TWINS: &[(Place<'static>, Place<'static>)] = &[(
    Place { group: "", version: "v1", plural: "events" },
    Place { group: "events.k8s.io", version: "v1", plural: "events" },
)];

impl<'a> Subject<'a> {
    /// The request, unless nobody is asked about it: it is about the configuration of admission itself, it is the server's
    /// own, which must start and tidy up whatever people have configured, or it follows from another request that was
    /// asked about.
    pub(super) fn of(request: &Request<'a>) -> Option<Self> {
        let resource = request.resource;
        if resource.group == CONFIGURATION || request.user.name == ITSELF {
            return None;
        }
        let is_own = match request.operation {
            Operation::Delete => request.deletion.is_some(),
            Operation::Update => request.part != Some("binding"),
            Operation::Create | Operation::Connect => true,
        };
        if !is_own {
            return None;
        }
        let sub = request.part.unwrap_or(request.through);
        let acts = matches!(request.operation, Operation::Create | Operation::Connect) && !sub.is_empty();
        let own_kind = match (acts, sub) {
            (true, _) => {
                let text =
                    |field: &str| object::str_at(&request.object, &[field]).unwrap_or_default().to_owned();
                Some((text("apiVersion"), text("kind")))
            }
            (false, "scale") => Some(("autoscaling/v1".to_owned(), "Scale".to_owned())),
            _ => None,
        };
        let is_namespace = resource.group.is_empty() && resource.plural == "namespaces";
        Some(Subject {
            operation: request.operation.name(),
            resource,
            place: Place {
                group: &resource.group,
                version: request.api_version.rsplit('/').next().unwrap_or_default(),
                plural: &resource.plural,
            },
            sub,
            name: request.name,
            namespace: if is_namespace { request.name } else { request.namespace },
            own_kind,
        })
    }

    /// Whether the resource is that of namespaces.
    pub(super) fn is_namespace(&self) -> bool {
        self.resource.group.is_empty() && self.resource.plural == "namespaces"
    }

    /// Other places at which the same objects are served.
    pub(super) fn equivalents(&self, view: &'a View) -> impl Iterator<Item = Place<'a>> + '_ {
        let own = view.catalog.versions(self.place.group, self.place.plural);
        let own = own.map(|version| Place { version: &version.name, ..self.place });
        let twins = TWINS.iter().flat_map(|(one, other)| [(one, other), (other, one)]);
        let twins = twins.filter(|(one, _)| (one.group, one.plural) == (self.place.group, self.place.plural));
        own.chain(twins.map(|(_, other)| *other)).filter(|place| *place != self.place)
    }

    /// The kind of the object at a place.
    pub(super) fn kind(&self, place: Place<'_>) -> (Cow<'_, str>, Cow<'_, str>, &str) {
        match &self.own_kind {
            Some((api_version, kind)) => {
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                (group.into(), version.into(), kind)
            }
            None => (place.group.to_owned().into(), place.version.to_owned().into(), &self.resource.kind),
        }
    }

    fn kind_json(&self, place: Place<'_>) -> Value {
        let (group, version, kind) = self.kind(place);
        json!({"group": group, "version": version, "kind": kind})
    }

    /// The request as reviews and expressions have it, but for the objects and the uid.
    pub(super) fn to_json(&self, request: &Request<'_>, place: Place<'_>) -> Map<String, Value> {
        let mut user = json!({"username": request.user.name, "groups": request.user.groups});
        if !request.user.uid.is_empty() {
            user["uid"] = request.user.uid.as_str().into();
        }
        let mut all = json!({
            "kind": self.kind_json(place),
            "resource": place.to_json(),
            "requestKind": self.kind_json(self.place),
            "requestResource": self.place.to_json(),
            "name": self.name,
            "operation": self.operation,
            "userInfo": user,
            "dryRun": request.dry_run,
            "options": options(request),
        });
        for (field, value) in
            [("namespace", self.namespace), ("subResource", self.sub), ("requestSubResource", self.sub)]
        {
            if !value.is_empty() {
                all[field] = value.into();
            }
        }
        match all {
            Value::Object(all) => all,
            _ => Map::new(),
        }
    }

    /// The object and the old one in the version of a place; null where there is none. A custom kind may have to ask a
    /// webhook for it.
    pub(super) async fn form(
        &self,
        request: &Request<'a>,
        place: Place<'_>,
        webhooks: &Webhooks,
    ) -> Outcome<Form> {
        let object = match request.operation {
            Operation::Delete => Value::Null,
            _ => self.shown(request, &request.object, place, webhooks).await?,
        };
        let old = match request.old {
            Some(old) => self.shown(request, old, place, webhooks).await?,
            None => Value::Null,
        };
        Ok(Form { object, old })
    }

    async fn shown(
        &self,
        request: &Request<'a>,
        object: &Object,
        place: Place<'_>,
        webhooks: &Webhooks,
    ) -> Outcome<Value> {
        let shown = match (&self.own_kind, &self.resource.scale) {
            (Some(_), Some(row)) if self.sub == "scale" => scale::show(object, row),
            (Some(_), _) => object.clone(),
            (None, _) => {
                let row = self.row(request.view, place);
                converted(row, object.clone(), &place.api_version(), webhooks).await?
            }
        };
        Ok(Value::Object(shown))
    }

    /// The row that serves a place.
    fn row(&self, view: &'a View, place: Place<'_>) -> &'a Resource {
        match place == self.place {
            true => self.resource,
            false => {
                view.catalog.at(place.group, place.version, place.plural).map_or(self.resource, |row| row)
            }
        }
    }

    /// The schema of the object at a place; none for what subresources take.
    pub(super) fn schema(&self, view: &'a View, place: Place<'_>) -> Option<&'a Version> {
        self.own_kind.is_none().then(|| self.row(view, place).version(place.version))?
    }

    /// Puts a changed object, in the version of a place, back into the request: checked and defaulted. Fails with words
    /// when it is no object of its kind any more.
    pub(super) async fn put_back(
        &self,
        request: &mut Request<'a>,
        place: Place<'_>,
        mut new: Object,
        webhooks: &Webhooks,
    ) -> Result<(), String> {
        if self.own_kind.is_some() {
            match &self.resource.scale {
                Some(row) if self.sub == "scale" => {
                    let replicas = int_at(&new, &["spec", "replicas"]).unwrap_or(0);
                    set_path(&mut request.object, &row.replicas, Some(replicas.into()));
                }
                _ => request.object = new,
            }
            return Ok(());
        }
        let (kind, api_version) = (self.resource.kind.as_str(), place.api_version());
        for (field, own) in [("kind", kind), ("apiVersion", &api_version)] {
            if object::str_at(&new, &[field]) != Some(own) {
                return Err(format!("{field} was changed, which makes another kind of object of it"));
            }
        }
        if let Some(version) = self.schema(request.view, place) {
            let report = version.inspect(&mut new);
            if let Some(fault) = report.faults.first() {
                return Err(format!("the changed object is no {kind}: {fault}"));
            }
        }
        for field in ["name", "namespace"] {
            let old = object::metadata(&request.object).get(field);
            if object::metadata(&new).get(field) != old {
                return Err(format!("metadata.{field} was changed"));
            }
        }
        // Custom kinds are turned by the version they are turned into, built-in kinds by the one that knows the other.
        let row =
            if self.resource.custom().is_some() { self.resource } else { self.row(request.view, place) };
        let handled = &self.resource.handled_as;
        new = converted(row, new, handled, webhooks).await.map_err(|status| status.message)?;
        keep_metadata(&mut new, &request.object, &SET_BY_SERVER);
        keep_metadata(&mut new, &request.object, &["managedFields"]);
        if request.part.is_none() || self.resource.custom().is_some() {
            self.resource.rules.default(&mut new).map_err(|status| status.message)?;
        }
        if new != request.object {
            request.outside.changed = true;
            request.object = new;
        }
        Ok(())
    }
}

/// An object in the version of this `apiVersion`, which the row serves.
pub(super) async fn converted(
    row: &Resource,
    mut object: Object,
    api_version: &str,
    webhooks: &Webhooks,
) -> Outcome<Object> {
    if object::str_at(&object, &["apiVersion"]) == Some(api_version) {
        return Ok(object);
    }
    match row.custom() {
        Some(kind) => kind.read(object, webhooks).await,
        None => {
            convert(row, &mut object, api_version);
            Ok(object)
        }
    }
}

/// An object and the one it replaces, in one version.
pub(super) struct Form {
    pub(super) object: Value,
    pub(super) old: Value,
}

/// The options of the operation.
fn options(request: &Request<'_>) -> Value {
    let kind = match request.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return request.object.clone().into(),
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if request.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    let Some(deletion) = request.deletion else {
        if !request.manager.is_empty() {
            options["fieldManager"] = request.manager.into();
        }
        return options;
    };
    if let Some(grace) = deletion.grace {
        options["gracePeriodSeconds"] = grace.into();
    }
    if let Some(propagation) = deletion.propagation {
        options["propagationPolicy"] = match propagation {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        }
        .into();
    }
    for (field, value) in [("uid", &deletion.uid), ("resourceVersion", &deletion.revision)] {
        if let Some(value) = value {
            options["preconditions"][field] = value.as_str().into();
        }
    }
    options
}
