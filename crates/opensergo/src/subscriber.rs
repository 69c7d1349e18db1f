//! What one stream wants to be told of, has been told, and has answered. Pure: the time comes in, messages go out.
//!
//! Of every topic one push is under way at most. What changes meanwhile waits, and only the newest of it: whoever answers
//! slowly is told less often, and nobody is told what is no longer so.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    rules::Content,
    topic::{KindId, Topic},
};

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A push that is not answered after this long is taken for one that never will be.
    pub answer: Duration,
    /// Rules wait this long for what they name.
    pub order: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { answer: Duration::from_secs(10), order: Duration::from_secs(5) }
    }
}

/// How long to wait before a client that knows more is told again: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How many pushes that nobody answers are remembered.
const MOST_UNANSWERED: usize = 1024;

/// How much of what a client says is kept.
const MOST_TEXT: usize = 512;

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in force.
    Accepted,
    /// It is not, and why.
    Rejected(String),
    /// The client knows a newer version.
    Outdated,
}

/// What is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// Of what.
    pub topic: Topic,
    /// What.
    pub content: Arc<Content>,
    /// What the answer will name.
    pub response_id: String,
    /// Since when it waits.
    pub since: Instant,
}

/// A push that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Of what.
    pub topic: Topic,
    /// How long it took.
    pub took: Duration,
}

/// What a client has been told of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// As which version.
    pub version: i64,
    /// What.
    pub hash: u64,
    /// When.
    pub at: Instant,
}

/// What is to be told.
#[derive(Debug)]
struct Next {
    content: Arc<Content>,
    /// Since when there is something to be told.
    since: Instant,
    /// The client has asked, so it is told even what it knows.
    is_asked_for: bool,
}

/// One topic of a stream.
#[derive(Debug)]
pub struct Subscription {
    /// What it was told last.
    pub sent: Option<Told>,
    /// What it has accepted last.
    pub accepted: Option<Told>,
    /// Why it did not accept what it was told last.
    pub error: Option<String>,
    /// Whether an answer is expected.
    pub is_under_way: bool,
    /// The number of the last push, whose answer is the only one that counts.
    last_push: u64,
    /// Since when the first content is waited for.
    waiting_since: Option<Instant>,
    /// What is to be told next.
    next: Option<Next>,
    /// The number of the newest content that it was to be told: two may offer at once.
    newest: u64,
    /// What the next push is to be called.
    request_id: Option<String>,
    /// How long to wait before it is told again what it took for outdated, and when that will be.
    again: Duration,
    again_at: Option<Instant>,
}

impl Subscription {
    fn new(now: Instant) -> Self {
        Subscription {
            sent: None,
            accepted: None,
            error: None,
            is_under_way: false,
            last_push: 0,
            waiting_since: Some(now),
            next: None,
            newest: 0,
            request_id: None,
            again: AGAIN.0,
            again_at: None,
        }
    }

    /// Whether it has accepted what it was told last, and there is nothing newer.
    pub fn is_in_sync(&self, hash: u64) -> bool {
        self.accepted.as_ref().is_some_and(|told| told.hash == hash) && self.error.is_none()
    }
}

/// A push whose answer is expected, or was.
#[derive(Debug)]
struct Asked {
    topic: Topic,
    number: u64,
    response_id: String,
    at: Instant,
    /// Nobody waits for the answer any longer.
    is_given_up: bool,
}

/// The state of a stream.
#[derive(Debug)]
pub struct Subscriber {
    /// What distinguishes its pushes from those of other streams.
    id: u64,
    patience: Patience,
    topics: HashMap<Topic, Subscription>,
    /// What can be sent, what is named before who names it.
    ready: BTreeSet<(u8, Topic)>,
    asked: VecDeque<Asked>,
    /// When clients that know more are told again.
    again: BTreeSet<(Instant, Topic)>,
    n_pushes: u64,
}

impl Subscriber {
    /// A stream that wants nothing yet.
    pub fn new(id: u64, patience: Patience) -> Self {
        Subscriber {
            id,
            patience,
            topics: HashMap::new(),
            ready: BTreeSet::new(),
            asked: VecDeque::new(),
            again: BTreeSet::new(),
            n_pushes: 0,
        }
    }

    /// Wants to be told of a topic, even if it has been. Returns whether it is new that the first content is waited for.
    pub fn subscribe(&mut self, topic: &Topic, request_id: &str, now: Instant) -> bool {
        let mut is_new = false;
        let subscription = self.topics.entry(topic.clone()).or_insert_with(|| {
            is_new = true;
            Subscription::new(now)
        });
        if !request_id.is_empty() {
            subscription.request_id = Some(request_id.to_owned());
        }
        is_new |= subscription.waiting_since.is_none();
        subscription.waiting_since.get_or_insert(now);
        is_new
    }

    /// Wants to be told no more. Returns whether it wanted to be.
    pub fn unsubscribe(&mut self, topic: &Topic) -> bool {
        self.ready.remove(&ranked(topic));
        self.tell_again(topic, None);
        // Its answers may still come, and must not be taken for those of another.
        self.asked
            .iter_mut()
            .filter(|asked| asked.topic == *topic)
            .for_each(|asked| asked.is_given_up = true);
        self.topics.remove(topic).is_some()
    }

    /// There is something new. What it knows already it is not told again.
    pub fn offer(&mut self, topic: &Topic, content: &Arc<Content>, now: Instant) -> bool {
        let Some(subscription) = self.topics.get_mut(topic) else { return false };
        if subscription.waiting_since.is_some() {
            // Until it has been looked up, this may be less than what there is; and what was to be told is no longer so.
            subscription.next = None;
            self.settle(topic);
            return false;
        }
        if content.number < subscription.newest {
            return false;
        }
        subscription.newest = content.number;
        let before = subscription.next.take();
        let is_asked_for = before.as_ref().is_some_and(|next| next.is_asked_for);
        let is_known = subscription.sent.as_ref().is_some_and(|told| told.hash == content.hash);
        let is_told = is_asked_for || !is_known;
        if is_told {
            let since = before.map_or(now, |next| next.since);
            subscription.next = Some(Next { content: Arc::clone(content), since, is_asked_for });
        }
        self.settle(topic);
        is_told
    }

    /// The content that it waits for, whether or not it knows it; none if that cannot be told, and it need not wait.
    pub fn greet(&mut self, topic: &Topic, content: Option<&Arc<Content>>, now: Instant) -> bool {
        let Some(subscription) = self.topics.get_mut(topic) else { return false };
        subscription.waiting_since = None;
        if let Some(content) = content {
            subscription.newest = subscription.newest.max(content.number);
            subscription.next = Some(Next { content: Arc::clone(content), since: now, is_asked_for: true });
        }
        self.settle(topic);
        true
    }

    /// Whether something can be sent now.
    pub fn is_ready(&self, now: Instant) -> bool {
        self.ready.iter().any(|(_, topic)| !self.is_held(topic, now))
    }

    /// Whether it has been sent everything that it wants to be told of by now.
    pub fn is_told_all(&self) -> bool {
        self.ready.is_empty() && self.topics.values().all(|one| one.waiting_since.is_none())
    }

    /// What can be sent now.
    pub fn next(&mut self, now: Instant) -> Option<Push> {
        let (_, topic) = self.ready.iter().find(|(_, topic)| !self.is_held(topic, now))?.clone();
        self.ready.remove(&ranked(&topic));
        // Whatever it took for outdated, this is newer.
        self.tell_again(&topic, None);
        let subscription = self.topics.get_mut(&topic)?;
        let Next { content, since, .. } = subscription.next.take()?;
        self.n_pushes += 1;
        let response_id =
            subscription.request_id.take().unwrap_or_else(|| format!("{:x}-{}", self.id, self.n_pushes));
        (subscription.is_under_way, subscription.last_push) = (true, self.n_pushes);
        self.asked.push_back(Asked {
            topic: topic.clone(),
            number: self.n_pushes,
            response_id: response_id.clone(),
            at: now,
            is_given_up: false,
        });
        self.forget();
        Some(Push { topic, content, response_id, since })
    }

    /// A push is on its way, as this version.
    pub fn sent(&mut self, push: &Push, version: i64, now: Instant) {
        if let Some(subscription) = self.topics.get_mut(&push.topic) {
            subscription.sent = Some(Told { version, hash: push.content.hash, at: now });
        }
    }

    /// The client has answered the push that it names; without a name, the one that it was sent first.
    pub fn answered(&mut self, request_id: &str, verdict: Verdict, now: Instant) -> Option<Answered> {
        let named =
            self.asked.iter().position(|asked| !request_id.is_empty() && asked.response_id == request_id);
        let position = match named {
            Some(position) => position,
            None if request_id.is_empty() => 0,
            None => return None,
        };
        let asked = self.asked.remove(position)?;
        let took = now.saturating_duration_since(asked.at);
        let answered = Answered { topic: asked.topic.clone(), took };
        let subscription = self.topics.get_mut(&asked.topic)?;
        if asked.number != subscription.last_push {
            // Another push has been sent since, and its answer is what counts.
            return Some(answered);
        }
        subscription.is_under_way = false;
        match verdict {
            Verdict::Accepted => {
                subscription.accepted = subscription.sent.clone();
                (subscription.error, subscription.again) = (None, AGAIN.0);
            }
            Verdict::Rejected(why) => subscription.error = Some(shortened(&why)),
            Verdict::Outdated => {
                subscription.error = Some("it knows a newer version".to_owned());
                let wait = subscription.again;
                subscription.again = wait.saturating_mul(2).min(AGAIN.1);
                self.tell_again(&asked.topic, Some(now + wait));
            }
        }
        self.settle(&asked.topic);
        Some(answered)
    }

    /// Gives up on answers that take too long; returns of which topics.
    pub fn give_up(&mut self, now: Instant) -> Vec<Topic> {
        let late = self.asked.iter_mut().filter(|asked| !asked.is_given_up);
        let late: Vec<Topic> = late
            .take_while(|asked| asked.at + self.patience.answer <= now)
            .map(|asked| {
                asked.is_given_up = true;
                asked.topic.clone()
            })
            .collect();
        late.iter().for_each(|topic| self.not_answered(topic));
        late
    }

    /// The topics that are to be looked up once more, because the client knew more than it was told.
    pub fn again(&mut self, now: Instant) -> Vec<Topic> {
        let mut due = vec![];
        while self.again.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, topic)) = self.again.first().cloned()
        {
            self.tell_again(&topic, None);
            if self.subscribe(&topic, "", now) {
                due.push(topic);
            }
        }
        due
    }

    /// When to look again, although nothing happens.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let answer = self.asked.iter().find(|asked| !asked.is_given_up);
        let answer = answer.map(|asked| asked.at + self.patience.answer);
        let again = self.again.first().map(|(at, _)| *at);
        // What is not held back waits for nothing but the client; and nothing of the lowest rank is.
        let may_be_held = self.ready.iter().rev().take_while(|(rank, _)| *rank > 0);
        let held = may_be_held.filter(|(_, topic)| self.is_held(topic, now));
        let held = held.filter_map(|(_, topic)| self.topics[topic].next.as_ref());
        let held = held.map(|next| next.since + self.patience.order).min();
        [answer, again, held].into_iter().flatten().min()
    }

    /// Its topics, in no order.
    pub fn topics(&self) -> &HashMap<Topic, Subscription> {
        &self.topics
    }

    /// Has a topic looked up once more at a time, and at no other.
    fn tell_again(&mut self, topic: &Topic, at: Option<Instant>) {
        let Some(subscription) = self.topics.get_mut(topic) else { return };
        if let Some(before) = mem::replace(&mut subscription.again_at, at) {
            self.again.remove(&(before, topic.clone()));
        }
        self.again.extend(at.map(|at| (at, topic.clone())));
    }

    /// Keeps no more unanswered pushes than are of use, and those of which nobody waits for the answer least.
    fn forget(&mut self) {
        if self.asked.len() <= MOST_UNANSWERED.max(2 * self.topics.len()) {
            return;
        }
        let useless = self.asked.iter().position(|asked| asked.is_given_up).unwrap_or(0);
        if let Some(asked) = self.asked.remove(useless).filter(|asked| !asked.is_given_up) {
            self.not_answered(&asked.topic);
        }
    }

    fn not_answered(&mut self, topic: &Topic) {
        if let Some(subscription) = self.topics.get_mut(topic) {
            subscription.is_under_way = false;
            subscription.error = Some("it did not answer".to_owned());
        }
        self.settle(topic);
    }

    /// Puts a topic among those that can be sent, or not.
    fn settle(&mut self, topic: &Topic) {
        let can_be_sent = self.topics.get(topic).is_some_and(|one| one.next.is_some() && !one.is_under_way);
        match can_be_sent {
            true => self.ready.insert(ranked(topic)),
            false => self.ready.remove(&ranked(topic)),
        };
    }

    /// Whether what a topic names is to be told first.
    fn is_held(&self, topic: &Topic, now: Instant) -> bool {
        let rank = topic.kind.kind().rank;
        let has_waited = |since: Instant| since + self.patience.order <= now;
        if self.topics[topic].next.as_ref().is_none_or(|next| has_waited(next.since)) {
            return false;
        }
        KindId::all().filter(|kind| kind.kind().rank < rank).any(|kind| {
            let named = self.topics.get(&Topic { app: topic.app.clone(), kind });
            named.is_some_and(|named| {
                let is_awaited = named.waiting_since.is_some_and(|since| !has_waited(since));
                is_awaited || named.next.is_some()
            })
        })
    }
}

fn ranked(topic: &Topic) -> (u8, Topic) {
    (topic.kind.kind().rank, topic.clone())
}

/// What a client says, without more of it than is of use.
fn shortened(text: &str) -> String {
    let end =
        text.char_indices().map(|(at, _)| at).chain([text.len()]).take_while(|at| *at <= MOST_TEXT).last();
    text[..end.unwrap_or(0)].chars().filter(|letter| !letter.is_control()).collect()
}
