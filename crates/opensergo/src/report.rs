//! Writes into the status of every rule what has become of it, and tells people of those that make no sense.
//!
//! Every process writes how its own subscribers are, under its own name, and what follows from what all of them have
//! written: whoever writes last has seen the most, and whoever sees something else writes again. Entries of processes that
//! are no longer there are removed: see [`Members`].

mod allowance;
mod members;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use windlass_runtime::{Events, Informers, Key, Recorder, events::EventType};

use self::allowance::Allowance;
pub use self::members::Members;
use crate::{
    cluster::resource,
    kinds::{ReplicaStatus, RuleStatus},
    plane::Plane,
    rules::{ACCEPTED, Held, LAST_GOOD_UNKNOWN, Rules},
    topic::{KindId, Topic},
};

/// How often something is written. Answers of many clients become one.
const PERIOD: Duration = Duration::from_secs(1);

/// How many are written at once, and in a period: rules that change all the time are reported on now and then.
const AT_ONCE: usize = 4;
const MOST_WRITTEN: usize = 100;

/// How long the API server may take for one.
const PATIENCE: Duration = Duration::from_secs(30);

/// After how many objects others have their turn.
const PAUSE_EVERY: usize = 256;

/// What it calls itself to the API server.
const COMPONENT: &str = "windlass-opensergo";

/// How many of those who reject a rule are named, and of those that a rule names and are not there.
const MOST_NAMED: usize = 10;

/// The most letters of what is said in a condition, and of a name in it.
const MOST_TEXT: usize = 2000;
const MOST_NAME: usize = 100;

/// How the subscribers of a topic are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// How many there are.
    pub subscribers: i32,
    /// How many have accepted what there is.
    pub delivered: i32,
    /// The newest version that any has been sent.
    pub version: i64,
    /// Some of those that have not, and why.
    pub rejected_by: Vec<String>,
    /// Whether it is more than can be told, by what all processes know.
    pub is_too_large: bool,
}

/// Writes reports.
pub struct Reporter {
    plane: Arc<Plane>,
    client: Client,
    recorder: Recorder,
    members: Members,
    /// The kinds that may not be written, which has been said.
    refused: Mutex<HashSet<KindId>>,
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

impl Reporter {
    /// Reports for a plane.
    pub fn new(plane: Arc<Plane>, informers: &Informers, events: &Events) -> Self {
        let client = informers.client().clone();
        let members = Members::new(informers, &plane.settings.identity);
        plane.is_reported();
        Reporter { plane, client, recorder: events.recorder(COMPONENT), members, refused: Mutex::default() }
    }

    /// Who else reports.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Writes until it is dropped.
    pub async fn run(self) {
        let members = self.members.clone();
        tokio::select! {
            () = members.stay() => {}
            () = self.report() => {}
        }
    }

    async fn report(&self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut again: HashMap<(KindId, Key), Instant> = HashMap::new();
        let mut allowance = Allowance::default();
        loop {
            let now = ticks.tick().await;
            allowance.forget(now);
            let alive = self.members.is_known().then(|| self.members.alive());
            let mut deliveries = HashMap::new();
            let mut due = vec![];
            for (idx, id) in self.to_look_at(&mut again, now).into_iter().enumerate() {
                if due.len() == MOST_WRITTEN {
                    again.insert(id, now);
                } else if let Some(one) = self.due(&id, alive.as_ref(), &mut deliveries) {
                    match if one.is_news { Ok(()) } else { allowance.take(&id, now) } {
                        Ok(()) => due.push((one, id)),
                        Err(later) => drop(again.insert(id, later)),
                    }
                }
                if idx % PAUSE_EVERY == PAUSE_EVERY - 1 {
                    tokio::task::yield_now().await;
                }
            }
            let written = stream::iter(due)
                .map(|(due, id)| async move {
                    let is_written = self.write(&id, due).await;
                    (!is_written).then_some((id, now))
                })
                .buffer_unordered(AT_ONCE);
            again.extend(written.filter_map(async |failed| failed).collect::<Vec<_>>().await);
        }
    }

    /// The objects that something may be said of, each once: those that somebody has changed before those whose
    /// subscribers have.
    fn to_look_at(&self, again: &mut HashMap<(KindId, Key), Instant>, now: Instant) -> Vec<(KindId, Key)> {
        let (topics, changed) = self.plane.take_unreported();
        let late: Vec<_> = again.extract_if(|_, at| *at <= now).map(|(id, _)| id).collect();
        let rules = self.plane.rules();
        let of_topic = |topic: &Topic| {
            let keys = rules.of_topic(topic).map(|(key, _)| (topic.kind, key.clone()));
            keys.collect::<Vec<_>>()
        };
        let of_topics = topics.iter().flat_map(of_topic);
        let everything = self.members.take_changed().then(|| all_of(&rules)).into_iter().flatten();
        let mut known = HashSet::new();
        let all = changed.into_iter().chain(late).chain(of_topics).chain(everything);
        all.filter(|id| known.insert(id.clone())).collect()
    }

    /// What is to be written, if anything.
    fn due(
        &self,
        (kind, key): &(KindId, Key),
        alive: Option<&HashSet<String>>,
        deliveries: &mut HashMap<Topic, Delivery>,
    ) -> Option<Due> {
        let kind = *kind;
        // Streams are looked at while nobody is kept from the rules: whoever holds both waits for whoever wants both.
        let app = self.plane.rules().get(kind, key)?.app.clone();
        let delivery = app.map(|app| {
            let topic = Topic { app, kind };
            deliveries.entry(topic.clone()).or_insert_with(|| delivery(&self.plane, &topic)).clone()
        });
        let rules = self.plane.rules();
        let held = rules.get(kind, key)?;
        let dangling = rules.dangling(kind, key);
        let seen = Seen {
            identity: &self.plane.settings.identity,
            alive,
            delivery: delivery.unwrap_or_default(),
            dangling: dangling.iter().map(|one| format!("{} {}", one.kind, one.name)).collect(),
            warnings: (kind.kind().warnings)(&held.object),
            names_others: !rules.references(kind, key).is_empty(),
        };
        due(held, &seen, Timestamp::now())
    }

    /// Writes it; whether that went well, or need not be tried again.
    async fn write(&self, (kind, key): &(KindId, Key), due: Due) -> bool {
        let kind = *kind;
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), key.namespace(), &resource(kind));
        // All processes write as one, so that what the last has written is what there is; whoever has seen less than that
        // is refused, hears of it, and looks again.
        let manager = PatchParams { field_manager: Some(COMPONENT.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(&due.patch);
        let Ok(written) = timeout(PATIENCE, api.patch_status(key.name(), &manager, &patch)).await else {
            tracing::warn!(%key, ?kind, "the API server has not answered; a status is written again");
            return false;
        };
        match written {
            Ok(_) => {
                if let Some(why) = due.complaint {
                    let about = reference(kind, &due.object);
                    self.recorder.record(about, EventType::Warning, "Untranslatable", why);
                }
                true
            }
            // It is gone, or is another by now.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                tracing::debug!(%key, ?kind, why = status.message, "a status is not written");
                true
            }
            // Nobody lets us, now or in a moment: to be told of every rule would help nobody.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 413 | 422) => {
                if self.refused.lock().insert(kind) {
                    let why = status.message;
                    tracing::warn!(%key, ?kind, why, "what becomes of rules of this kind is not written into them");
                }
                true
            }
            Err(error) => {
                tracing::warn!(%key, ?kind, %error, "a status could not be written and is tried again");
                false
            }
        }
    }
}

/// All objects there are.
fn all_of(rules: &Rules) -> Vec<(KindId, Key)> {
    KindId::all().flat_map(|kind| rules.keys(kind).into_iter().map(move |key| (kind, key))).collect()
}

fn reference(kind: KindId, object: &DynamicObject) -> ObjectReference {
    let row = kind.kind();
    ObjectReference {
        api_version: Some(format!("{}/{}", row.group, row.version)),
        kind: Some(row.kind.to_owned()),
        name: Some(object.name_any()),
        namespace: object.namespace(),
        uid: object.uid(),
        resource_version: object.resource_version(),
        ..ObjectReference::default()
    }
}

/// How the subscribers of a topic are.
fn delivery(plane: &Plane, topic: &Topic) -> Delivery {
    let (hash, is_too_large) = {
        let rules = plane.rules();
        (rules.content(topic).hash, rules.is_too_large(topic))
    };
    let mut delivery = Delivery { is_too_large, ..Delivery::default() };
    for stream in plane.listeners(topic) {
        let state = stream.state.lock();
        let Some(told) = state.topics().get(topic) else { continue };
        delivery.subscribers += 1;
        delivery.delivered += i32::from(told.is_in_sync(hash));
        delivery.version = delivery.version.max(told.sent.as_ref().map_or(0, |sent| sent.version));
        if let Some(error) = told.error.as_ref().filter(|_| delivery.rejected_by.len() < MOST_NAMED) {
            let identifier = stream.identifier.lock();
            let name = match (identifier.as_str(), stream.peer) {
                ("", Some(peer)) => peer.to_string(),
                (identifier, _) => identifier.to_owned(),
            };
            delivery.rejected_by.push(format!("{name}: {error}"));
        }
    }
    delivery
}

/// What a process sees of a rule.
struct Seen<'a> {
    identity: &'a str,
    /// Who is there, if that is known.
    alive: Option<&'a HashSet<String>>,
    delivery: Delivery,
    dangling: Vec<String>,
    warnings: Vec<String>,
    names_others: bool,
}

/// What is to be written.
struct Due {
    object: Arc<DynamicObject>,
    patch: Value,
    /// What is told in an event.
    complaint: Option<String>,
    /// Whether somebody has changed the object since something was said of it.
    is_news: bool,
}

/// What is to be written into the status of an object; nothing if that is there already.
fn due(held: &Held, seen: &Seen<'_>, now: Timestamp) -> Option<Due> {
    let before: RuleStatus = held
        .object
        .data
        .get("status")
        .and_then(|status| serde_json::from_value(status.clone()).ok())
        .unwrap_or_default();
    let is_dead = |entry: &ReplicaStatus| {
        entry.name != seen.identity && seen.alive.is_some_and(|alive| !alive.contains(&entry.name))
    };
    let own_before = before.replicas.iter().find(|entry| entry.name == seen.identity);
    let others: Vec<&ReplicaStatus> =
        before.replicas.iter().filter(|entry| entry.name != seen.identity && !is_dead(entry)).collect();
    // Whoever the others cannot see would be taken away by them, and come back, without end.
    let is_seen = seen.alive.is_none_or(|alive| alive.contains(seen.identity));
    let own = (seen.delivery.subscribers > 0 && is_seen).then(|| entry(seen, own_before, now));
    let all: Vec<&ReplicaStatus> = others.iter().copied().chain(own.as_ref()).collect();
    let generation = held.object.metadata.generation;
    let wanted = [
        Some(accepted(held, &seen.warnings)),
        seen.names_others.then(|| resolved(&seen.dangling)),
        Some(delivered(held, &all, seen.delivery.is_too_large)),
        Some(rejected(&all)),
    ];
    let conditions: Vec<Condition> = wanted
        .into_iter()
        .flatten()
        .map(|(kind, (status, reason, message))| {
            let known = before.conditions.iter().find(|condition| condition.type_ == kind);
            let since =
                known.filter(|known| known.status == status).map(|known| known.last_transition_time.clone());
            Condition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message: shortened(message, MOST_TEXT),
                observed_generation: generation,
                last_transition_time: since.unwrap_or(Time(now)),
            }
        })
        .collect();
    // What others say of a rule in conditions of their own stays.
    let of_others = before.conditions.iter().filter(|one| !OWN_CONDITIONS.contains(&one.type_.as_str()));
    let conditions: Vec<Condition> = conditions.into_iter().chain(of_others.cloned()).collect();
    let told = held.kept();
    let replicas: Vec<ReplicaStatus> = others.into_iter().cloned().chain(own).collect();
    let is_same = before.observed_generation == generation
        && before.told == told
        && sorted(&before.conditions, |one| &one.type_) == sorted(&conditions, |one| &one.type_)
        && are_alike(&before.replicas, &replicas);
    if is_same {
        return None;
    }
    let accepted =
        |all: &[Condition]| all.iter().find(|one| one.type_ == ACCEPTED).map(|one| one.message.clone());
    let is_told_of = accepted(&before.conditions) == accepted(&conditions);
    let complaint = held.fault.clone().filter(|_| !is_told_of).map(|fault| shortened(fault, MOST_TEXT));
    let patch = json!({
        "metadata": {"uid": held.object.metadata.uid, "resourceVersion": held.object.metadata.resource_version},
        "status": {
            "observedGeneration": generation,
            "conditions": conditions,
            "replicas": replicas,
            // A field that is null is taken away.
            "told": told,
        },
    });
    let is_news = before.observed_generation != generation;
    Some(Due { object: Arc::clone(&held.object), patch, complaint, is_news })
}

/// The same in the order of their names.
fn sorted<'a, T, N: Ord + ?Sized + 'a>(all: &'a [T], name: impl Fn(&'a T) -> &'a N) -> Vec<&'a T> {
    let mut all: Vec<&T> = all.iter().collect();
    all.sort_by(|one, other| name(one).cmp(name(other)));
    all
}

/// Whether two lists say the same. As which version something was told is no reason to write.
fn are_alike(before: &[ReplicaStatus], after: &[ReplicaStatus]) -> bool {
    let plain = |all: &[ReplicaStatus]| {
        let mut all: Vec<ReplicaStatus> =
            all.iter().map(|entry| ReplicaStatus { version: 0, updated: None, ..entry.clone() }).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    };
    plain(before) == plain(after)
}

/// What this process says of its own subscribers; the time is when it last said something else.
fn entry(seen: &Seen<'_>, before: Option<&ReplicaStatus>, now: Timestamp) -> ReplicaStatus {
    let Delivery { subscribers, delivered, version, rejected_by, .. } = seen.delivery.clone();
    let updated = before.and_then(|before| before.updated.clone());
    let entry = ReplicaStatus {
        name: seen.identity.to_owned(),
        subscribers,
        delivered,
        version,
        rejected_by,
        updated,
    };
    match before == Some(&entry) && entry.updated.is_some() {
        true => entry,
        false => ReplicaStatus { updated: Some(Time(now)), ..entry },
    }
}

/// The beginning of a text, if it is too long.
fn shortened(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The conditions that are written here.
const OWN_CONDITIONS: [&str; 4] = [ACCEPTED, "ResolvedRefs", "Delivered", "RejectedBy"];

/// A condition: its type, and its status, reason and message.
type Wanted = (&'static str, (&'static str, &'static str, String));

fn accepted(held: &Held, warnings: &[String]) -> Wanted {
    let what = match (&held.fault, &held.app) {
        (Some(fault), _) if held.is_forgotten() => {
            let fault = shortened(fault.clone(), MOST_TEXT / 2);
            let text = "what it said before is too large to be kept, or was changed while nobody looked: until this is \
                mended, clients that come anew are told of no rule of this kind and app";
            ("False", LAST_GOOD_UNKNOWN, format!("{fault}; {text}"))
        }
        (Some(fault), _) => ("False", "Untranslatable", fault.clone()),
        (None, None) => {
            ("False", "NoApp", "metadata.labels.app: without it, nobody is told of this".to_owned())
        }
        (None, Some(_)) if warnings.is_empty() => {
            ("True", "Translated", "subscribers are told of it".to_owned())
        }
        (None, Some(_)) => ("True", "Warnings", warnings.join("; ")),
    };
    (ACCEPTED, what)
}

fn resolved(dangling: &[String]) -> Wanted {
    let what = match dangling {
        [] => ("True", "Resolved", "everything that it names is there".to_owned()),
        dangling => {
            let named = dangling.iter().take(MOST_NAMED).map(|name| shortened(name.clone(), MOST_NAME));
            let named = named.collect::<Vec<_>>().join(", ");
            let more = match dangling.len().saturating_sub(MOST_NAMED) {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            ("False", "DanglingReference", format!("not among the rules of its app: {named}{more}"))
        }
    };
    ("ResolvedRefs", what)
}

fn delivered(held: &Held, all: &[&ReplicaStatus], is_too_large: bool) -> Wanted {
    let (n, m) = all.iter().fold((0, 0), |(n, m), entry| (n + entry.delivered, m + entry.subscribers));
    let what = match (n, m) {
        _ if held.fault.is_some() => {
            ("False", "Untranslatable", "what it says cannot be told; see Accepted".to_owned())
        }
        _ if is_too_large => {
            let text = "the rules of its app are more than fit into a message; what was told last stays";
            ("False", "TooLarge", text.to_owned())
        }
        (_, 0) => ("Unknown", "NoSubscribers", "0/0".to_owned()),
        (n, m) if n == m => ("True", "Delivered", format!("{n}/{m}")),
        (n, m) => ("False", "Pending", format!("{n}/{m}")),
    };
    ("Delivered", what)
}

fn rejected(all: &[&ReplicaStatus]) -> Wanted {
    let names: Vec<&str> =
        all.iter().flat_map(|entry| &entry.rejected_by).map(String::as_str).take(MOST_NAMED).collect();
    let what = match names.is_empty() {
        true => ("False", "Nobody", String::new()),
        false => ("True", "Rejected", names.join("; ")),
    };
    ("RejectedBy", what)
}
