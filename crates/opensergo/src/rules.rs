//! The rules there are, as messages, by app and kind. Pure: it is told of objects, and says whose rules have changed.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use kube::api::DynamicObject;
use prost::Message;
use windlass_runtime::Key;
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    kinds::Reference,
    proto::transport::v1::DataWithVersion,
    text,
    topic::{App, KindId, Topic},
};

/// The label whose value is the name of an object's app.
pub const APP_LABEL: &str = "app";

/// The most bytes that a topic may have: SDKs take messages of 4 MiB, and end the stream at more.
pub const MOST_CONTENT: usize = 4 * 1024 * 1024 - 64 * 1024;

/// The most bytes of an object with what was told of it last: API servers take no more than one and a half times that.
const MOST_KEPT: usize = 1024 * 1024;

/// The condition that says whether an object can be translated.
pub const ACCEPTED: &str = "Accepted";
/// Its reason if nobody knows what the object said when it could.
pub const LAST_GOOD_UNKNOWN: &str = "LastGoodUnknown";

/// Why nobody is told what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// It is more than fits into a message.
    TooLarge,
    /// Something cannot be translated, and what it said when it could is not known: without that, clients would take it
    /// for deleted.
    LastGoodUnknown,
}

/// Everything that is told of a topic, as it goes over the wire.
#[derive(Debug)]
pub struct Content {
    /// Of two, the one with the greater number was looked up later.
    pub number: u64,
    /// The messages, encoded as fields of a [`DataWithVersion`].
    pub data: Bytes,
    /// What tells it from others.
    pub hash: u64,
    /// How many messages there are.
    pub n_rules: usize,
    /// Why it is not told, if it is not.
    pub withheld: Option<Withheld>,
}

impl PartialEq for Content {
    /// Whether the same is told.
    fn eq(&self, other: &Self) -> bool {
        (self.hash, self.n_rules, &self.data) == (other.hash, other.n_rules, &other.data)
    }
}

impl Eq for Content {}

/// What is known of an object.
#[derive(Clone, Debug)]
pub struct Held {
    /// The object as it is.
    pub object: Arc<DynamicObject>,
    /// Whose it is; of objects without that label nobody is told.
    pub app: Option<App>,
    /// Why it could not be translated. Then the last that could is what is told.
    pub fault: Option<String>,
    message: Option<Bytes>,
    references: Vec<Reference>,
    /// It could be translated once, and nobody knows what it said then.
    is_lost: bool,
}

impl Held {
    /// What is told of it while it cannot be translated, as it is written down for those who come later.
    pub fn kept(&self) -> Option<String> {
        self.fault.as_ref()?;
        let told = STANDARD.encode(self.message.as_ref()?);
        let spec = self.object.data.get("spec").map_or(0, |spec| spec.to_string().len());
        (told.len() + spec <= MOST_KEPT).then_some(told)
    }

    /// Whether those who come later do not know what is told of it, or was.
    pub fn is_forgotten(&self) -> bool {
        self.fault.is_some() && (self.is_lost || self.is_told() && self.kept().is_none())
    }

    /// Whether anything is told of it.
    pub fn is_told(&self) -> bool {
        self.message.is_some()
    }
}

/// The rules of one kind.
#[derive(Debug, Default)]
struct OfKind {
    objects: HashMap<Key, Held>,
    /// In the order of their names, so that the same rules are the same bytes everywhere.
    apps: HashMap<App, BTreeSet<Key>>,
}

/// All rules.
#[derive(Debug)]
pub struct Rules {
    kinds: Vec<OfKind>,
    n_contents: AtomicU64,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { kinds: KindId::all().map(|_| OfKind::default()).collect(), n_contents: AtomicU64::new(0) }
    }
}

impl Rules {
    /// Takes up an object as it is now; returns the apps whose rules are others now.
    pub fn apply(&mut self, kind: KindId, object: Arc<DynamicObject>) -> BTreeSet<App> {
        let key = Key::of(&*object);
        let own = &mut self.kinds[kind.idx()];
        let old = own.objects.remove(&key);
        let row = kind.kind();
        let (message, fault) = match (row.translate)(&object) {
            Ok(message) => {
                let data = DataWithVersion { data: vec![message], version: 0 };
                (Some(Bytes::from(data.encode_to_vec())), None)
            }
            // What was told last is known here, or was written down by somebody who knew.
            Err(error) => {
                let known = old.as_ref().and_then(|old| old.message.clone());
                (known.or_else(|| written_down(kind, &object)), Some(error.to_string()))
            }
        };
        let label = object.metadata.labels.as_ref().and_then(|labels| labels.get(APP_LABEL));
        let app = label.filter(|name| !name.is_empty()).map(|name| own.app(key.namespace(), name));
        let references = (row.references)(&object);
        let is_lost = message.is_none() && was_accepted(&object);
        let new = Held { object, app, fault, message, references, is_lost };
        let touched = difference(old.as_ref(), Some(&new));
        own.index(&key, old.as_ref(), Some(&new));
        own.objects.insert(key, new);
        touched
    }

    /// Takes note that an object is gone; returns the apps whose rules are others now.
    pub fn remove(&mut self, kind: KindId, key: &Key) -> BTreeSet<App> {
        let own = &mut self.kinds[kind.idx()];
        let Some(old) = own.objects.remove(key) else { return BTreeSet::new() };
        own.index(key, Some(&old), None);
        difference(Some(&old), None)
    }

    /// The keys of all objects of a kind.
    pub fn keys(&self, kind: KindId) -> Vec<Key> {
        self.kinds[kind.idx()].objects.keys().cloned().collect()
    }

    /// What is known of an object.
    pub fn get(&self, kind: KindId, key: &Key) -> Option<&Held> {
        self.kinds[kind.idx()].objects.get(key)
    }

    /// The objects of a topic, in the order of their names.
    pub fn of_topic(&self, topic: &Topic) -> impl Iterator<Item = (&Key, &Held)> {
        let own = &self.kinds[topic.kind.idx()];
        let keys = own.apps.get(&topic.app).into_iter().flatten();
        keys.filter_map(|key| Some((key, own.objects.get(key)?)))
    }

    /// What is told of a topic.
    pub fn content(&self, topic: &Topic) -> Content {
        let messages: Vec<&Bytes> =
            self.of_topic(topic).filter_map(|(_, held)| held.message.as_ref()).collect();
        let data = messages.iter().fold(
            Vec::with_capacity(messages.iter().map(|message| message.len()).sum()),
            |mut data, message| {
                data.extend_from_slice(message);
                data
            },
        );
        let withheld = match () {
            () if data.len() > MOST_CONTENT => Some(Withheld::TooLarge),
            () if self.of_topic(topic).any(|(_, held)| held.is_lost) => Some(Withheld::LastGoodUnknown),
            () => None,
        };
        // Whoever changes rules has them alone, so numbers are in the order of the changes.
        let number = self.n_contents.fetch_add(1, Ordering::Relaxed) + 1;
        Content { number, hash: xxh3_64(&data), n_rules: messages.len(), data: data.into(), withheld }
    }

    /// Whether a topic is more than can be told, by what stands in its objects: whoever looks finds the same, and no two
    /// processes contradict each other. What is told of a broken object may be known to one of them only.
    pub fn is_too_large(&self, topic: &Topic) -> bool {
        let known = self.of_topic(topic).filter(|(_, held)| !held.is_forgotten());
        let sizes = known.filter_map(|(_, held)| held.message.as_ref()).map(Bytes::len);
        sizes.sum::<usize>() > MOST_CONTENT
    }

    /// What an object names.
    pub fn references(&self, kind: KindId, key: &Key) -> &[Reference] {
        self.get(kind, key).map_or(&[], |held| &held.references)
    }

    /// What an object names that its app does not have.
    pub fn dangling(&self, kind: KindId, key: &Key) -> Vec<Reference> {
        let Some(held) = self.get(kind, key) else { return vec![] };
        let Some(app) = &held.app else { return vec![] };
        let is_there = |reference: &Reference| {
            let kinds = KindId::all().filter(|kind| kind.kind().kind == reference.kind);
            kinds.into_iter().any(|kind| {
                let found = self.get(kind, &Key::new(key.namespace(), &reference.name));
                found.is_some_and(|found| found.app.as_ref() == Some(app) && found.is_told())
            })
        };
        held.references.iter().filter(|reference| !is_there(reference)).cloned().collect()
    }

    /// The objects of an app that name others, whatever kind they are.
    pub fn naming(&self, app: &App) -> Vec<(KindId, Key)> {
        let of = |kind: KindId| {
            let topic = Topic { app: app.clone(), kind };
            let naming = self.of_topic(&topic).filter(|(_, held)| !held.references.is_empty());
            naming.map(|(key, _)| (kind, key.clone())).collect::<Vec<_>>()
        };
        KindId::all().flat_map(of).collect()
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: KindId) -> usize {
        self.kinds[kind.idx()].objects.len()
    }

    /// How many of them make no message.
    pub fn count_untranslatable(&self, kind: KindId) -> usize {
        self.kinds[kind.idx()].objects.values().filter(|held| held.fault.is_some()).count()
    }
}

impl OfKind {
    /// An app, in the words that are there already.
    fn app(&self, namespace: &str, name: &str) -> App {
        let app = App::new(namespace, name);
        self.apps.get_key_value(&app).map_or(app, |(known, _)| known.clone())
    }

    fn index(&mut self, key: &Key, old: Option<&Held>, new: Option<&Held>) {
        let (before, after) = (app_of(old), app_of(new));
        if before == after {
            return;
        }
        if let Some(app) = before
            && let Some(keys) = self.apps.get_mut(app)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.apps.remove(app);
            }
        }
        if let Some(app) = after {
            self.apps.entry(app.clone()).or_default().insert(key.clone());
        }
    }
}

/// What was told of an object when it could last be translated.
fn written_down(kind: KindId, object: &DynamicObject) -> Option<Bytes> {
    let bytes = STANDARD.decode(object.data.get("status")?.get("told")?.as_str()?).ok()?;
    let told = DataWithVersion::decode(&*bytes).ok()?;
    // Whoever may write a status may write anything, and clients reject all rules for the sake of one.
    let [message] = &told.data[..] else { return None };
    let is_ours = message.type_url == (kind.kind().type_url)() && text::json(message).is_ok();
    (is_ours && told.version == 0).then(|| bytes.into())
}

/// Whether an object could be translated when somebody last looked, or could once and what it said then was lost.
fn was_accepted(object: &DynamicObject) -> bool {
    let conditions = object.data.get("status").and_then(|status| status.get("conditions")?.as_array());
    let accepted = conditions.into_iter().flatten().find(|condition| condition["type"] == ACCEPTED);
    accepted
        .is_some_and(|condition| condition["status"] == "True" || condition["reason"] == LAST_GOOD_UNKNOWN)
}

fn app_of(held: Option<&Held>) -> Option<&App> {
    held.and_then(|held| held.app.as_ref())
}

/// The apps that are told something else of an object now.
fn difference(old: Option<&Held>, new: Option<&Held>) -> BTreeSet<App> {
    let told = |held: Option<&Held>| -> Option<(App, Option<Bytes>)> {
        let held = held.filter(|held| held.is_told() || held.is_lost)?;
        Some((held.app.clone()?, held.message.clone()))
    };
    let (before, after) = (told(old), told(new));
    if before == after {
        return BTreeSet::new();
    }
    before.into_iter().chain(after).map(|(app, _)| app).collect()
}
