//! Creating and changing objects: the one funnel every write goes through.
//!
//! Prepare, admit, default, validate, commit. An attempt works on a consistent view and commits with the
//! revisions it has seen; when someone else was faster, the next attempt starts over.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use windlass_machinery::{
    field::Errors,
    managed, metadata,
    object::{self, Object, metadata_mut, str_at},
    stored, time,
};
use windlass_store::{CommitError, Expect, Mismatch, Revision, Txn};

use super::{
    Registry,
    delete::DeleteOptions,
    parts::{counts_as_change, restrict, unowned},
    render::{convert, to_handled},
    served::Served,
};
use crate::{
    admission::{Effects, Operation, Outside, Request, User, View},
    audit::Notes,
    http::Target,
    resources::{Generation, Part, Resource},
    status::{Outcome, Status},
};

/// How often a write is tried anew when others write to the same objects.
pub(super) const ATTEMPTS: usize = 100;

/// Gives way to those who were faster: not at all at first, then longer and longer, and never in step with them.
pub(super) async fn give_way(attempt: usize) {
    if attempt > 1 {
        let most = 1_000_u64 << attempt.min(6);
        tokio::time::sleep(std::time::Duration::from_micros(fastrand::u64(..most))).await;
    }
}

/// How many generated names are tried.
const GENERATED: usize = 8;

/// Who writes, and how.
#[derive(Debug)]
pub(crate) struct Author<'a> {
    pub(crate) user: &'a User,
    /// The name under which the written fields are recorded.
    pub(crate) manager: &'a str,
    /// The `apiVersion` of the request.
    pub(crate) api_version: &'a str,
    /// The subresource it came through, where that is no part of the object.
    pub(crate) through: &'static str,
    /// Whether this is an apply: then the object says who owns what of it.
    pub(crate) applies: bool,
    /// Commit nothing.
    pub(crate) dry_run: bool,
    /// Where to say something for the audit log.
    pub(crate) notes: Option<&'a Notes>,
    /// Advice for the client.
    pub(crate) warnings: Vec<String>,
}

/// What was written: the stored form and its revision.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) value: Bytes,
    pub(crate) revision: u64,
    pub(crate) created: bool,
    /// The object is gone: this is what it was.
    pub(crate) removed: bool,
}

/// How one attempt ended.
pub(super) enum Attempt {
    Done(Written),
    /// Someone else wrote first.
    Again,
}

impl Registry {
    /// Creates an object.
    pub(crate) async fn create(
        &self,
        resource: &Resource,
        namespace: &str,
        object: Object,
        author: &mut Author<'_>,
    ) -> Outcome<Written> {
        let generates = object::name(&object).is_empty();
        let mut taken = 0;
        for attempt in 0..ATTEMPTS {
            give_way(attempt).await;
            let mut object = object.clone();
            if generates {
                generate_name(&mut object);
            }
            match self.try_create(resource, namespace, object, author).await {
                Ok(Attempt::Done(written)) => return self.versions.show_written(resource, written).await,
                Ok(Attempt::Again) => {}
                Err(status) if generates && status.reason == "AlreadyExists" && taken + 1 < GENERATED => {
                    taken += 1
                }
                Err(status) => return Err(status),
            }
        }
        Err(busy())
    }

    async fn try_create(
        &self,
        resource: &Resource,
        namespace: &str,
        mut object: Object,
        author: &mut Author<'_>,
    ) -> Outcome<Attempt> {
        let view = self.view().await?;
        let mut effects = Effects::default();
        if !enter(resource, &view, Operation::Create, &mut effects).await? {
            return Ok(Attempt::Again);
        }
        let now = Timestamp::now();
        let given_revision = begin(resource, namespace, &mut object, now);
        let name = object::name(&object).to_owned();
        resource.rules.default(&mut object)?;
        resource.canonicalize(&mut object);
        // Before admission: what it and the server itself set belongs to nobody.
        let served = Served { resource, catalog: &view.catalog };
        track(&served, None, &mut object, None, author, now, false);
        let mut request = Request {
            operation: Operation::Create,
            resource,
            part: None,
            namespace,
            name: &name,
            user: author.user,
            dry_run: author.dry_run,
            object,
            old: None,
            now,
            view: &view,
            rights: &self.rights,
            effects,
            warnings: vec![],
            api_version: author.api_version,
            through: author.through,
            manager: author.manager,
            deletion: None,
            notes: author.notes,
            outside: Outside::default(),
        };
        self.mutate(&mut request).await?;
        if request.outside.changed && drops_status(resource) {
            request.object.remove("status");
        }
        resource.rules.default_again(&mut request.object, request.outside.changed)?;
        (resource.strategy.prepare_create)(&mut request.object);
        resource.canonicalize_stored(&mut request.object);
        validate(resource, &request.object, None, None)?;
        self.validate(&mut request).await?;
        resource.rules.warn(&request.object, None, &mut request.warnings);
        let Request { object, effects, warnings, .. } = request;
        let value = Bytes::from(stored::encode(&self.versions.to_stored(resource, object).await?));
        author.warnings = warnings;
        let key = resource.key(namespace, &name);
        if author.dry_run {
            if view.snapshot.get(key.as_bytes()).is_some() {
                return Err(Status::already_exists(resource, &name));
            }
            let revision = given_revision;
            return Ok(Attempt::Done(Written { value, revision, created: true, removed: false }));
        }
        // Kubernetes finds this out last, in its storage, and has no reason for it.
        if given_revision > 0 {
            return Err(Status::failure("resourceVersion should not be set on objects to be created"));
        }
        match self.commit(key.clone(), Some(value.clone()), Expect::Absent, effects).await? {
            Ok(revision) => {
                Ok(Attempt::Done(Written { value, revision: revision.get(), created: true, removed: false }))
            }
            Err(mismatches) if mismatches.iter().any(|one| *one.key == *key.as_bytes()) => {
                Err(Status::already_exists(resource, &name))
            }
            Err(_) => Ok(Attempt::Again),
        }
    }

    /// Changes an object, or a part of it. `change` is given the object as it is, in the version of the
    /// request, and gives it as it shall be; it may be called several times.
    pub(crate) async fn update(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        part: Option<&Part>,
        change: &(dyn Fn(&Object) -> Outcome<Object> + Send + Sync),
        author: &mut Author<'_>,
    ) -> Outcome<Written> {
        for attempt in 0..ATTEMPTS {
            give_way(attempt).await;
            match self.try_update(resource, namespace, name, part, change, author).await? {
                Attempt::Done(written) => return self.versions.show_written(resource, written).await,
                Attempt::Again => {}
            }
        }
        Err(busy())
    }

    async fn try_update(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        part: Option<&Part>,
        change: &(dyn Fn(&Object) -> Outcome<Object> + Send + Sync),
        author: &mut Author<'_>,
    ) -> Outcome<Attempt> {
        let view = self.view().await?;
        let mut effects = Effects::default();
        if !enter(resource, &view, Operation::Update, &mut effects).await? {
            return Ok(Attempt::Again);
        }
        let now = Timestamp::now();
        let key = resource.key(namespace, name);
        let entry = view.snapshot.get(key.as_bytes()).ok_or_else(|| Status::not_found(resource, name))?;
        let old = self.versions.load(resource, entry).await?;
        let mut new = match author.api_version == resource.handled_as {
            true => change(&old)?,
            false => {
                let mut shown = old.clone();
                convert(resource, &mut shown, author.api_version);
                let mut new = change(&shown)?;
                to_handled(resource, &mut new, author.api_version)?;
                new
            }
        };
        check_preconditions(resource, name, &new, &old)?;
        adopt(resource, &mut new, &old);
        let part_name = part.map(|part| part.name);
        new = self.restrict(resource, part, new, &old);
        // The schema of a custom kind holds for its status as well.
        let defaults = part.is_none_or(Part::writes_spec) || resource.custom().is_some();
        if defaults {
            resource.rules.default(&mut new)?;
        }
        resource.canonicalize(&mut new);
        let served = Served { resource, catalog: &view.catalog };
        track(&served, Some(&old), &mut new, part_name, author, now, self.unrestricted);
        let mut request = Request {
            operation: Operation::Update,
            resource,
            part: part_name,
            namespace,
            name,
            user: author.user,
            dry_run: author.dry_run,
            object: new,
            old: Some(&old),
            now,
            view: &view,
            rights: &self.rights,
            effects,
            warnings: vec![],
            api_version: author.api_version,
            through: author.through,
            manager: author.manager,
            deletion: None,
            notes: author.notes,
            outside: Outside::default(),
        };
        self.mutate(&mut request).await?;
        if request.outside.changed {
            request.object = self.restrict(resource, part, request.object, &old);
        }
        if defaults {
            resource.rules.default_again(&mut request.object, request.outside.changed)?;
        }
        (resource.strategy.prepare_update)(&mut request.object, &old, part_name);
        resource.canonicalize_stored(&mut request.object);
        count_generation(resource, &mut request.object, &old);
        validate(resource, &request.object, Some(&old), part_name)?;
        self.validate(&mut request).await?;
        if part.is_none() {
            resource.rules.warn(&request.object, Some(&old), &mut request.warnings);
        }
        let Request { object: new, effects, warnings, .. } = request;
        author.warnings = warnings;
        let is_over = is_finished(resource, &new);
        if is_over && !author.dry_run {
            return self.remove(resource, &view, entry, &old, &new, None, author).await;
        }
        let value = Bytes::from(stored::encode(&self.versions.to_stored(resource, new).await?));
        let unchanged =
            Written { value: value.clone(), revision: entry.revision.get(), created: false, removed: false };
        if author.dry_run || (value == entry.value && effects.writes.is_empty()) {
            return Ok(Attempt::Done(unchanged));
        }
        match self.commit(key, Some(value.clone()), Expect::At(entry.revision), effects).await? {
            Ok(revision) => {
                Ok(Attempt::Done(Written { value, revision: revision.get(), created: false, removed: false }))
            }
            // A revision that the client named is held against the object anew by the next attempt.
            Err(_) => Ok(Attempt::Again),
        }
    }

    /// Leaves of a write only what it may change.
    fn restrict(&self, resource: &Resource, part: Option<&Part>, new: Object, old: &Object) -> Object {
        match part.is_none() && self.unrestricted {
            true => new,
            false => restrict(resource, part, new, old),
        }
    }

    pub(super) async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        for plugin in &self.plugins {
            plugin.mutate(request).await.map_err(|status| warned(status, request))?;
        }
        if !request.outside.again {
            return Ok(());
        }
        request.outside.is_again = true;
        for plugin in self.plugins.iter().filter(|plugin| plugin.looks_again()) {
            plugin.mutate(request).await.map_err(|status| warned(status, request))?;
        }
        Ok(())
    }

    pub(super) async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        for plugin in &self.plugins {
            plugin.validate(request).await.map_err(|status| warned(status, request))?;
        }
        Ok(())
    }

    /// Asks webhooks and policies about what is done to an object through a subresource that is no part of it. `sent`
    /// is what the subresource takes. Gives what they have made of it.
    pub(crate) async fn ask(
        &self,
        target: &Target,
        operation: Operation,
        sent: Object,
        author: &mut Author<'_>,
    ) -> Outcome<Object> {
        let view = self.view().await?;
        let mut request = Request {
            operation,
            resource: &target.resource,
            part: target.sub.as_deref(),
            namespace: &target.namespace,
            name: target.name.as_deref().unwrap_or_default(),
            user: author.user,
            dry_run: author.dry_run,
            object: sent,
            old: None,
            now: Timestamp::now(),
            view: &view,
            rights: &self.rights,
            effects: Effects::default(),
            warnings: vec![],
            api_version: author.api_version,
            through: "",
            manager: author.manager,
            deletion: None,
            notes: author.notes,
            outside: Outside::default(),
        };
        for plugin in self.plugins.iter().filter(|plugin| plugin.is_outside()) {
            plugin.mutate(&mut request).await.map_err(|status| warned(status, &mut request))?;
        }
        for plugin in self.plugins.iter().filter(|plugin| plugin.is_outside()) {
            plugin.validate(&mut request).await.map_err(|status| warned(status, &mut request))?;
        }
        author.warnings = request.warnings;
        Ok(request.object)
    }

    /// One transaction: the object and what goes with it. The inner error names what was not as expected.
    pub(crate) async fn commit(
        &self,
        key: String,
        value: Option<Bytes>,
        expect: Expect,
        effects: Effects,
    ) -> Outcome<Result<Revision, Vec<Mismatch>>> {
        let size = value.as_ref().map_or(0, Bytes::len);
        let mut txn = match value {
            Some(value) => Txn::new().put(key, value, expect),
            None => Txn::new().delete(key, expect),
        };
        for effect in effects.writes {
            txn = match effect.value {
                Some(value) => txn.put(effect.key, value, effect.expect),
                None => txn.delete(effect.key, effect.expect),
            };
        }
        for (key, expect) in effects.requires {
            txn = txn.require(key, expect);
        }
        match self.store.commit(txn).await {
            Ok(revision) => Ok(Ok(revision)),
            Err(CommitError::Refused(mismatches)) => Ok(Err(mismatches)),
            Err(error) => Err(commit_failed(&error, size)),
        }
    }
}

/// A refusal, with the advice that came before it.
fn warned(mut status: Box<Status>, request: &mut Request<'_>) -> Box<Status> {
    status.warnings.append(&mut request.warnings);
    status
}

/// Lets a write to a custom kind in, on condition that its definition is as it was. False when the definition has
/// changed and it is to be tried anew.
pub(super) async fn enter(
    resource: &Resource,
    view: &View,
    operation: Operation,
    effects: &mut Effects,
) -> Outcome<bool> {
    match resource.custom() {
        None => Ok(true),
        Some(kind) => kind.definition().enter(resource, view, operation, effects).await,
    }
}

/// What a client is told when a commit fails.
fn commit_failed(error: &CommitError, size: usize) -> Box<Status> {
    match error {
        CommitError::TooLarge { .. } => {
            let most = windlass_store::MAX_TXN_BYTES;
            Status::too_large(format!(
                "the object is too large to be stored: {size} bytes, the limit is {most}"
            ))
        }
        CommitError::Unknown { .. } => {
            Status::timeout(format!("it is not known whether the write happened: {error}"), 1)
        }
        CommitError::BadKey { .. } | CommitError::DuplicateKey { .. } | CommitError::TooManyOps { .. } => {
            Status::internal(error)
        }
        other => Status::unavailable(other.to_string()),
    }
}

fn busy() -> Box<Status> {
    Status::too_many_requests("too many writers change the same objects, try again", 1)
}

/// Whether a new object begins without the status that was sent with it.
fn drops_status(resource: &Resource) -> bool {
    !resource.strategy.status_on_create && resource.part("status").is_some()
}

/// Sets what the server alone sets on a new object. Gives the revision that the client sent along, or 0.
fn begin(resource: &Resource, namespace: &str, object: &mut Object, now: Timestamp) -> u64 {
    if drops_status(resource) {
        object.remove("status");
    }
    let metadata = metadata_mut(object);
    let given = metadata.get("resourceVersion").and_then(Value::as_str).and_then(|given| given.parse().ok());
    for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), time::rfc3339(now).into());
    match resource.namespaced {
        true => drop(metadata.insert("namespace".to_owned(), namespace.into())),
        false => drop(metadata.remove("namespace")),
    }
    match resource.strategy.generation {
        Generation::Counted { first: first @ 1.., .. } => {
            metadata.insert("generation".to_owned(), first.into());
        }
        Generation::Counted { .. } => drop(metadata.remove("generation")),
        // Kinds that count nothing keep what the client says, unless it is the zero that stands for nothing.
        Generation::Absent if metadata.get("generation").is_some_and(|given| *given == 0) => {
            metadata.remove("generation");
        }
        Generation::Absent => {}
    }
    metadata::drop_empty(metadata);
    given.unwrap_or(0)
}

/// Longest beginning of a generated name, so that five letters fit behind it.
const MOST_GENERATED: usize = 58;

/// Letters of generated names: no vowels, so that no words come out, and no look-alikes.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

fn generate_name(object: &mut Object) {
    let metadata = metadata_mut(object);
    let Some(base) = metadata.get("generateName").and_then(Value::as_str).filter(|base| !base.is_empty())
    else {
        return;
    };
    let mut cut = base.len().min(MOST_GENERATED);
    while !base.is_char_boundary(cut) {
        cut -= 1;
    }
    let ending: String = (0..5).map(|_| char::from(LETTERS[fastrand::usize(..LETTERS.len())])).collect();
    let name = format!("{}{ending}", &base[..cut]);
    metadata.insert("name".to_owned(), name.into());
}

/// Refused when the client named a revision or a uid that is not the object's.
fn check_preconditions(resource: &Resource, name: &str, new: &Object, old: &Object) -> Outcome<()> {
    let uid = object::uid(new);
    if !uid.is_empty() && uid != object::uid(old) {
        let actual = object::uid(old);
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}");
        return Err(Status::conflict(resource, name, &why));
    }
    match str_at(new, &["metadata", "resourceVersion"]) {
        None | Some("") | Some("0") => Ok(()),
        wanted if wanted == str_at(old, &["metadata", "resourceVersion"]) => Ok(()),
        Some(wanted) if wanted.parse::<u64>().is_err() => {
            let mut errors = Errors::new();
            errors.at("metadata", |errors| {
                errors.invalid_str("resourceVersion", wanted, "must be a whole number as the server gave it");
            });
            Err(Status::invalid(&resource.group, &resource.kind, name, &errors))
        }
        Some(_) => Err(Status::stale(resource, name)),
    }
}

/// What the server alone sets in the metadata of an object that is there.
pub(crate) const SET_BY_SERVER: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
];

/// Of these, what a client may leave out or repeat, but whose change is refused rather than undone.
const REFUSED_WHEN_CHANGED: [&str; 2] = ["deletionTimestamp", "deletionGracePeriodSeconds"];

/// Takes fields of the metadata as they were, also if they were not there.
pub(crate) fn keep_metadata(new: &mut Object, old: &Object, fields: &[&str]) {
    let old = object::metadata(old);
    let new = metadata_mut(new);
    for field in fields {
        match old.get(*field) {
            Some(value) => drop(new.insert((*field).to_owned(), value.clone())),
            None => drop(new.remove(*field)),
        }
    }
    metadata::drop_empty(new);
}

/// Carries over what a client can never change.
fn adopt(resource: &Resource, new: &mut Object, old: &Object) {
    let sent = REFUSED_WHEN_CHANGED
        .map(|field| (field, object::metadata(new).get(field).filter(|value| !value.is_null()).cloned()));
    keep_metadata(new, old, &SET_BY_SERVER);
    let new = metadata_mut(new);
    for (field, value) in sent {
        // Validation compares it with what was there.
        value.map(|value| new.insert(field.to_owned(), value));
    }
    new.remove("selfLink");
    if !resource.namespaced {
        new.remove("namespace");
    }
    if new.get("namespace").and_then(Value::as_str).unwrap_or_default().is_empty()
        && let Some(namespace) = object::metadata(old).get("namespace")
    {
        new.insert("namespace".to_owned(), namespace.clone());
    }
}

fn count_generation(resource: &Resource, new: &mut Object, old: &Object) {
    let Generation::Counted { first, metadata } = resource.strategy.generation else { return };
    let before = object::int_at(old, &["metadata", "generation"]).unwrap_or(0);
    let is_changed = |field: &&str| object::metadata(new).get(*field) != object::metadata(old).get(*field);
    if before < first || counts_as_change(resource, new, old) || metadata.iter().any(is_changed) {
        metadata_mut(new).insert("generation".to_owned(), (before + 1).into());
    }
}

fn validate(resource: &Resource, new: &Object, old: Option<&Object>, part: Option<&str>) -> Outcome<()> {
    let mut errors = Errors::new();
    let strategy = &resource.strategy;
    metadata::validate_metadata(object::metadata(new), resource.namespaced, strategy.name, &mut errors);
    if let Some(old) = old {
        metadata::validate_metadata_update(object::metadata(new), object::metadata(old), &mut errors);
    }
    if qualifies_finalizers(resource) {
        metadata::validate_finalizers_qualified(object::metadata(new), &mut errors);
    }
    resource.rules.validate(new, old, part, &mut errors);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid(&resource.group, &resource.kind, object::name(new), &errors)),
    }
}

/// Whether finalizers have to name a domain. Custom kinds, and the built-in ones that came from elsewhere than the
/// core of Kubernetes, only advise it.
fn qualifies_finalizers(resource: &Resource) -> bool {
    let is_lenient = matches!(
        resource.group.as_str(),
        "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "coordination.k8s.io"
            | "events.k8s.io"
    );
    let is_event = resource.group.is_empty() && resource.plural == "events";
    resource.custom().is_none() && !is_lenient && !is_event
}

fn track(
    served: &Served<'_>,
    old: Option<&Object>,
    new: &mut Object,
    part: Option<&str>,
    author: &Author<'_>,
    now: Timestamp,
    unrestricted: bool,
) {
    let time = time::rfc3339(now);
    let subresource = part.unwrap_or(author.through);
    let unowned = match unrestricted {
        true => None,
        false => unowned(served.resource, part),
    };
    let operation = if author.applies { managed::Operation::Apply } else { managed::Operation::Update };
    let write = managed::Write {
        manager: author.manager,
        operation,
        api_version: author.api_version,
        subresource,
        time: &time,
        unowned: unowned.as_ref(),
    };
    match (author.applies, old) {
        (false, _) => managed::track(old, new, served, &write),
        (true, Some(old)) => managed::keep_times(old, new, &write),
        (true, None) => {}
    }
}

/// Whether a deleted object has nothing left to wait for.
pub(super) fn is_finished(resource: &Resource, object: &Object) -> bool {
    let metadata = object::metadata(object);
    metadata.contains_key("deletionTimestamp")
        && metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) == 0
        && metadata.get("finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty)
        && !(resource.strategy.holds)(object)
}

impl Registry {
    /// Removes an object for good, with what goes with it: `old` is what it is in the store, and `last` what it
    /// was in the end. There are options where the deletion itself was asked for.
    #[allow(clippy::too_many_arguments)]
    pub(super) async fn remove(
        &self,
        resource: &Resource,
        view: &View,
        entry: &windlass_store::Entry,
        old: &Object,
        last: &Object,
        options: Option<&DeleteOptions>,
        author: &mut Author<'_>,
    ) -> Outcome<Attempt> {
        let mut request = Request {
            operation: Operation::Delete,
            resource,
            part: None,
            namespace: object::namespace(last),
            name: object::name(last),
            user: author.user,
            dry_run: author.dry_run,
            object: Object::new(),
            old: Some(old),
            now: Timestamp::now(),
            view,
            rights: &self.rights,
            effects: Effects::default(),
            warnings: vec![],
            api_version: author.api_version,
            through: author.through,
            manager: author.manager,
            deletion: options,
            notes: author.notes,
            outside: Outside::default(),
        };
        self.mutate(&mut request).await?;
        self.validate(&mut request).await?;
        let value = Bytes::from(stored::encode(last));
        author.warnings.append(&mut request.warnings);
        if author.dry_run {
            let revision = entry.revision.get();
            return Ok(Attempt::Done(Written { value, revision, created: false, removed: true }));
        }
        let key = String::from_utf8_lossy(&entry.key).into_owned();
        match self.commit(key, None, Expect::At(entry.revision), request.effects).await? {
            Ok(revision) => {
                Ok(Attempt::Done(Written { value, revision: revision.get(), created: false, removed: true }))
            }
            Err(_) => Ok(Attempt::Again),
        }
    }
}
