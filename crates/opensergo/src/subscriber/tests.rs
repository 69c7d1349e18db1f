//! Whatever happens in whatever order.

use fastrand::Rng;

use super::*;
use crate::topic::App;

fn topic(app: &str, kind: &str) -> Topic {
    let kind = KindId::all().find(|id| id.kind().kind == kind).expect("a kind");
    Topic { app: App::new("default", app), kind }
}

fn limits() -> Topic {
    topic("shop", "RateLimitStrategy")
}

fn content(hash: u64) -> Arc<Content> {
    looked_up(0, hash)
}

fn looked_up(number: u64, hash: u64) -> Arc<Content> {
    Arc::new(Content { number, data: vec![0; 8].into(), hash, n_rules: 1, withheld: None })
}

const SECOND: Duration = Duration::from_secs(1);

/// One that wants to know of topics, and has been told that their content is 0.
fn told(topics: &[Topic], now: Instant) -> Subscriber {
    let mut subscriber = Subscriber::new(1, Patience::default());
    for topic in topics {
        assert!(subscriber.subscribe(topic, "", now));
        assert!(subscriber.greet(topic, Some(&content(0)), now));
    }
    while let Some(push) = send(&mut subscriber, 1, now) {
        subscriber.answered(&push.response_id, Verdict::Accepted, now);
    }
    subscriber
}

fn send(subscriber: &mut Subscriber, version: i64, now: Instant) -> Option<Push> {
    let push = subscriber.next(now)?;
    subscriber.sent(&push, version, now);
    Some(push)
}

#[test]
fn nothing_is_told_before_everything_has_been_looked_at() {
    let (now, topic) = (Instant::now(), limits());
    let mut subscriber = Subscriber::new(1, Patience::default());
    assert!(!subscriber.offer(&topic, &content(1), now), "it has not asked");
    assert!(!subscriber.greet(&topic, Some(&content(1)), now), "it has not asked");
    assert!(subscriber.subscribe(&topic, "", now));
    assert!(!subscriber.subscribe(&topic, "", now), "it waits already");
    assert!(!subscriber.offer(&topic, &content(1), now), "that may be less than what there is");
    assert!(!subscriber.is_ready(now));
    assert!(subscriber.greet(&topic, Some(&content(2)), now));
    assert_eq!(send(&mut subscriber, 1, now).map(|push| push.content.hash), Some(2));
}

#[test]
fn what_was_looked_up_earlier_comes_too_late() {
    let (now, topic) = (Instant::now(), limits());
    let mut subscriber = told(std::slice::from_ref(&topic), now);
    assert!(subscriber.offer(&topic, &looked_up(3, 3), now));
    assert!(!subscriber.offer(&topic, &looked_up(2, 2), now), "somebody was slow to offer it");
    let push = send(&mut subscriber, 1, now).expect("a push");
    assert_eq!(push.content.hash, 3);
    assert!(!subscriber.offer(&topic, &looked_up(2, 2), now));
    subscriber.answered(&push.response_id, Verdict::Accepted, now);
    assert!(!subscriber.is_ready(now));
    assert!(subscriber.offer(&topic, &looked_up(4, 2), now), "it is so again");
}

#[test]
fn one_push_is_under_way_and_the_newest_is_next() {
    let (now, topic) = (Instant::now(), limits());
    let mut subscriber = told(std::slice::from_ref(&topic), now);
    assert!(!subscriber.offer(&topic, &content(0), now), "it knows");
    assert!(subscriber.offer(&topic, &content(1), now));
    let first = send(&mut subscriber, 2, now).expect("a push");
    assert!(subscriber.offer(&topic, &content(2), now));
    assert!(subscriber.offer(&topic, &content(3), now));
    assert!(!subscriber.is_ready(now) && subscriber.next(now).is_none());
    subscriber.answered(&first.response_id, Verdict::Accepted, now);
    assert_eq!(send(&mut subscriber, 3, now).map(|push| push.content.hash), Some(3));
    // It changes back while the answer is waited for: there is nothing to tell then.
    assert!(subscriber.offer(&topic, &content(4), now));
    assert!(!subscriber.offer(&topic, &content(3), now));
    subscriber.answered("", Verdict::Accepted, now);
    assert!(!subscriber.is_ready(now));
}

#[test]
fn names_of_requests_are_used_once() {
    let (now, topic) = (Instant::now(), limits());
    let mut subscriber = Subscriber::new(255, Patience::default());
    subscriber.subscribe(&topic, "17", now);
    subscriber.greet(&topic, Some(&content(0)), now);
    let push = send(&mut subscriber, 1, now).expect("a push");
    assert_eq!(push.response_id, "17");
    subscriber.answered("17", Verdict::Accepted, now);
    subscriber.offer(&topic, &content(1), now);
    assert_eq!(send(&mut subscriber, 1, now).map(|push| push.response_id), Some("ff-2".to_owned()));
}

#[test]
fn answers_that_name_nothing_are_answers_to_the_first() {
    let (now, topics) = (Instant::now(), [topic("a", "RateLimitStrategy"), topic("b", "RateLimitStrategy")]);
    let mut subscriber = told(&topics, now);
    assert!(subscriber.answered("", Verdict::Accepted, now).is_none(), "nothing was asked");
    for topic in &topics {
        subscriber.offer(topic, &content(1), now);
        send(&mut subscriber, 2, now).expect("a push");
    }
    assert!(subscriber.answered("never-sent", Verdict::Accepted, now).is_none());
    for topic in &topics {
        let answered = subscriber.answered("", Verdict::Rejected("no".to_owned()), now + SECOND);
        assert_eq!(answered, Some(Answered { topic: topic.clone(), took: SECOND }));
        assert_eq!(subscriber.topics()[topic].error.as_deref(), Some("no"));
    }
}

#[test]
fn what_a_client_says_is_not_kept_in_full() {
    let (now, topic) = (Instant::now(), limits());
    let mut subscriber = told(std::slice::from_ref(&topic), now);
    for (said, kept) in [("é".repeat(1_000), 512), ("a\nb\u{7}c".to_owned(), 3)] {
        subscriber.offer(&topic, &content(said.len() as u64), now);
        let push = send(&mut subscriber, 2, now).expect("a push");
        subscriber.answered(&push.response_id, Verdict::Rejected(said), now);
        let error = subscriber.topics()[&topic].error.clone().expect("a reason");
        assert_eq!(error.len(), kept, "{error}");
    }
}

#[test]
fn what_was_rejected_is_told_again_once_it_has_changed() {
    let (now, topic) = (Instant::now(), limits());
    let mut subscriber = told(std::slice::from_ref(&topic), now);
    subscriber.offer(&topic, &content(1), now);
    let push = send(&mut subscriber, 2, now).expect("a push");
    subscriber.answered(&push.response_id, Verdict::Rejected("no".to_owned()), now);
    assert!(!subscriber.offer(&topic, &content(1), now));
    let state = &subscriber.topics()[&topic];
    assert_eq!(state.accepted.as_ref().map(|told| told.hash), Some(0), "what it had before is in force");
    assert!(!state.is_in_sync(0) && !state.is_in_sync(1));
    assert!(subscriber.offer(&topic, &content(2), now));
}

#[test]
fn whoever_knows_more_is_told_again_and_less_and_less_often() {
    let (mut now, topic) = (Instant::now(), limits());
    let mut subscriber = told(std::slice::from_ref(&topic), now);
    subscriber.offer(&topic, &content(1), now);
    for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
        let push = send(&mut subscriber, 2, now).expect("a push");
        subscriber.answered(&push.response_id, Verdict::Outdated, now);
        let wait = SECOND * wait;
        assert_eq!(subscriber.deadline(now), Some(now + wait));
        assert_eq!(subscriber.again(now + wait - Duration::from_millis(1)), []);
        now += wait;
        assert_eq!(subscriber.again(now), std::slice::from_ref(&topic));
        assert!(subscriber.greet(&topic, Some(&content(1)), now));
    }
    let push = send(&mut subscriber, 2, now).expect("a push");
    subscriber.answered(&push.response_id, Verdict::Accepted, now);
    assert_eq!(subscriber.deadline(now), None);
}

/// However often it asks meanwhile: otherwise it would be told again for each time that it asked, for ever.
#[test]
fn whoever_knows_more_is_told_again_once() {
    let (mut now, topic) = (Instant::now(), limits());
    let mut subscriber = told(std::slice::from_ref(&topic), now);
    for _ in 0..50 {
        assert!(subscriber.subscribe(&topic, "", now));
        subscriber.greet(&topic, Some(&content(1)), now);
        let push = send(&mut subscriber, 2, now).expect("a push");
        assert_eq!(subscriber.again.len(), 0, "it is told right now");
        subscriber.answered(&push.response_id, Verdict::Outdated, now);
        now += Duration::from_millis(10);
    }
    assert_eq!(subscriber.again.len(), 1);
    assert!(subscriber.unsubscribe(&topic));
    assert_eq!(subscriber.deadline(now), None);
}

#[test]
fn an_answer_that_does_not_come_is_not_waited_for() {
    let (now, topic) = (Instant::now(), limits());
    let mut subscriber = told(std::slice::from_ref(&topic), now);
    let mut pushes = vec![];
    let mut offer = |subscriber: &mut Subscriber, hash: u64, at: Instant| {
        subscriber.offer(&topic, &content(hash), at);
        pushes.push(send(subscriber, hash as i64, at).expect("a push").response_id);
    };
    offer(&mut subscriber, 1, now);
    let late = now + Patience::default().answer;
    assert_eq!(subscriber.deadline(now), Some(late));
    assert_eq!(subscriber.give_up(late - SECOND), []);
    assert_eq!(subscriber.give_up(late), std::slice::from_ref(&topic));
    assert_eq!(subscriber.topics()[&topic].error.as_deref(), Some("it did not answer"));
    offer(&mut subscriber, 2, late);
    // The first answer comes after all, and says nothing of the second push.
    subscriber.answered(&pushes[0], Verdict::Accepted, late);
    assert!(subscriber.topics()[&topic].is_under_way && !subscriber.topics()[&topic].is_in_sync(2));
    subscriber.answered(&pushes[1], Verdict::Accepted, late);
    assert!(subscriber.topics()[&topic].is_in_sync(2));
}

#[test]
fn only_the_answer_to_the_last_push_counts() {
    let (now, topic) = (Instant::now(), limits());
    let mut subscriber = told(std::slice::from_ref(&topic), now);
    subscriber.offer(&topic, &content(1), now);
    let first = send(&mut subscriber, 2, now).expect("a push");
    let late = now + Patience::default().answer;
    subscriber.give_up(late);
    subscriber.offer(&topic, &content(2), late);
    let second = send(&mut subscriber, 3, late).expect("a push");
    subscriber.answered(&second.response_id, Verdict::Accepted, late);
    subscriber.answered(&first.response_id, Verdict::Rejected("no".to_owned()), late);
    assert!(subscriber.topics()[&topic].is_in_sync(2), "it was about what there was before");
    // Whoever subscribes anew has been told nothing.
    subscriber.offer(&topic, &content(3), late);
    let third = send(&mut subscriber, 4, late).expect("a push");
    assert!(subscriber.unsubscribe(&topic) && !subscriber.unsubscribe(&topic));
    assert!(subscriber.subscribe(&topic, "", late));
    subscriber.answered(&third.response_id, Verdict::Rejected("no".to_owned()), late);
    assert_eq!(subscriber.topics()[&topic].error, None);
}

#[test]
fn a_topic_does_not_wait_for_an_answer_that_was_forgotten() {
    let (now, first) = (Instant::now(), limits());
    let mut subscriber = told(std::slice::from_ref(&first), now);
    subscriber.offer(&first, &content(1), now);
    send(&mut subscriber, 2, now).expect("a push");
    // Many others are told of, and none is answered.
    for idx in 0..2 * MOST_UNANSWERED {
        let other = topic(&format!("app-{idx}"), "RateLimitStrategy");
        subscriber.subscribe(&other, "", now);
        subscriber.greet(&other, Some(&content(1)), now);
        send(&mut subscriber, 2, now).expect("a push");
        subscriber.unsubscribe(&other);
    }
    assert!(subscriber.asked.len() <= MOST_UNANSWERED, "of few topics not many answers are waited for");
    subscriber.give_up(now + Patience::default().answer);
    assert!(subscriber.offer(&first, &content(2), now));
    assert_eq!(subscriber.next(now).map(|push| push.topic), Some(first));
}

#[test]
fn rules_wait_for_what_they_name_but_not_for_ever() {
    let now = Instant::now();
    let topics = [topic("shop", "FaultToleranceRule"), limits(), topic("other", "FaultToleranceRule")];
    let mut subscriber = told(&topics, now);
    let [rules, limits, others] = &topics;
    let next = |subscriber: &mut Subscriber, now| send(subscriber, 1, now).map(|push| push.topic);
    subscriber.offer(rules, &content(1), now);
    subscriber.offer(limits, &content(1), now);
    assert_eq!(next(&mut subscriber, now), Some(limits.clone()));
    assert_eq!(next(&mut subscriber, now), Some(rules.clone()), "sent is enough");
    subscriber.answered("", Verdict::Accepted, now);
    subscriber.answered("", Verdict::Accepted, now);
    // The strategies are under way and have changed again: the rules of this app wait, and no others.
    subscriber.offer(limits, &content(2), now);
    assert_eq!(next(&mut subscriber, now), Some(limits.clone()));
    subscriber.offer(limits, &content(3), now);
    subscriber.offer(rules, &content(3), now);
    subscriber.offer(others, &content(3), now);
    assert_eq!(next(&mut subscriber, now), Some(others.clone()));
    assert!(!subscriber.is_ready(now));
    let late = now + Patience::default().order;
    assert_eq!(subscriber.deadline(now), Some(late));
    assert!(subscriber.is_ready(late));
    assert!(
        subscriber.deadline(late).is_none_or(|deadline| deadline > late),
        "nothing is looked at in a loop"
    );
    assert_eq!(next(&mut subscriber, late), Some(rules.clone()));
}

#[test]
fn rules_wait_for_strategies_that_have_not_been_looked_at() {
    let now = Instant::now();
    let (rules, limits) = (topic("shop", "FaultToleranceRule"), limits());
    let mut subscriber = Subscriber::new(1, Patience::default());
    for topic in [&rules, &limits] {
        subscriber.subscribe(topic, "", now);
    }
    subscriber.greet(&rules, Some(&content(1)), now);
    assert!(!subscriber.is_ready(now));
    subscriber.greet(&limits, Some(&content(1)), now);
    assert_eq!(subscriber.next(now).map(|push| push.topic), Some(limits));
    assert_eq!(subscriber.next(now).map(|push| push.topic), Some(rules));
}

/// What a client is known to have done, and should be told.
struct Model {
    subscriber: Subscriber,
    now: Instant,
    /// What there is of each topic.
    is: HashMap<Topic, u64>,
    /// What was sent last of each topic, and whether it was greeted since.
    sent: HashMap<Topic, (u64, bool)>,
    /// What has not been answered: the topic and the name.
    unanswered: VecDeque<(Topic, String)>,
    /// Topics that wait for their first content.
    waiting: BTreeSet<Topic>,
}

impl Model {
    fn step(&mut self, rng: &mut Rng, topics: &[Topic]) {
        let topic = &topics[rng.usize(..topics.len())];
        match rng.u8(..12) {
            0 => {
                if self.subscriber.subscribe(topic, "", self.now) {
                    self.waiting.insert(topic.clone());
                }
            }
            1 => {
                self.subscriber.unsubscribe(topic);
                self.sent.remove(topic);
                self.waiting.remove(topic);
            }
            2..=4 => self.change(rng.u64(..4), topic),
            5 | 6 => self.greet(),
            7..=9 => drop(self.send(topics)),
            10 => self.answer(rng),
            _ => self.pass(Duration::from_millis(rng.u64(..6_000))),
        }
    }

    fn change(&mut self, hash: u64, topic: &Topic) {
        self.is.insert(topic.clone(), hash);
        self.subscriber.offer(topic, &content(hash), self.now);
    }

    /// Whoever waits is told of what there is.
    fn greet(&mut self) {
        for topic in mem::take(&mut self.waiting) {
            self.subscriber.greet(&topic, Some(&content(self.is[&topic])), self.now);
            if let Some((_, is_greeted)) = self.sent.get_mut(&topic) {
                *is_greeted = true;
            }
        }
    }

    /// Everything that can be sent is what there is, and not what was sent last unless somebody has asked for it.
    fn send(&mut self, topics: &[Topic]) -> bool {
        let is_ready = self.subscriber.is_ready(self.now);
        let under_way: Vec<_> = topics.iter().filter(|topic| self.is_under_way(topic)).cloned().collect();
        let Some(push) = send(&mut self.subscriber, 1, self.now) else {
            assert!(!is_ready);
            return false;
        };
        assert!(!under_way.contains(&push.topic), "two are under way");
        assert_eq!(push.content.hash, self.is[&push.topic], "it is no longer so");
        if let Some((hash, is_greeted)) = self.sent.get(&push.topic) {
            assert!(*is_greeted || *hash != push.content.hash, "it was told that already");
        }
        self.sent.insert(push.topic.clone(), (push.content.hash, false));
        self.unanswered.push_back((push.topic, push.response_id));
        true
    }

    fn is_under_way(&self, topic: &Topic) -> bool {
        self.subscriber.topics().get(topic).is_some_and(|one| one.is_under_way)
    }

    /// Answers something; sometimes without a name, and then the first.
    fn answer(&mut self, rng: &mut Rng) {
        let idx = if rng.bool() { 0 } else { rng.usize(..self.unanswered.len().max(1)) };
        let Some((topic, name)) = self.unanswered.remove(idx) else { return };
        let verdict = match rng.u8(..4) {
            0 => Verdict::Rejected("no".to_owned()),
            1 => Verdict::Outdated,
            _ => Verdict::Accepted,
        };
        let name = if idx == 0 && rng.bool() { "" } else { &name };
        let answered = self.subscriber.answered(name, verdict, self.now);
        assert!(answered.is_none_or(|answered| answered.topic == topic), "it was about another topic");
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.subscriber.give_up(self.now);
        self.waiting.extend(self.subscriber.again(self.now));
    }

    /// When nothing more happens, everybody knows what there is.
    fn settle(&mut self, topics: &[Topic]) {
        for _ in 0..100 {
            self.greet();
            while self.send(topics) {
                while let Some((_, name)) = self.unanswered.pop_front() {
                    self.subscriber.answered(&name, Verdict::Accepted, self.now);
                }
            }
            self.pass(SECOND);
        }
        for (topic, state) in self.subscriber.topics() {
            let hash = self.is[topic];
            assert_eq!(state.sent.as_ref().map(|told| told.hash), Some(hash), "{topic:?}: {state:?}");
            let is_refused = matches!(state.error.as_deref(), Some("no" | "it did not answer"));
            assert!(is_refused || state.is_in_sync(hash), "{topic:?}: {state:?}");
        }
        assert_eq!(self.subscriber.deadline(self.now), None);
        assert!(!self.send(topics));
    }
}

#[test]
fn in_whatever_order_things_happen_the_newest_is_told_once() {
    let mut topics = vec![];
    for app in ["one", "two"] {
        for kind in ["RateLimitStrategy", "CircuitBreakerStrategy", "FaultToleranceRule"] {
            topics.push(topic(app, kind));
        }
    }
    for seed in 0..400 {
        let mut rng = Rng::with_seed(seed);
        let mut model = Model {
            subscriber: Subscriber::new(seed, Patience::default()),
            now: Instant::now(),
            is: topics.iter().map(|topic| (topic.clone(), 0)).collect(),
            sent: HashMap::new(),
            unanswered: VecDeque::new(),
            waiting: BTreeSet::new(),
        };
        for _ in 0..300 {
            model.step(&mut rng, &topics);
        }
        model.settle(&topics);
    }
}
