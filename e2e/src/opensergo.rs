//! The OpenSergo SDKs: building a driver for each, starting it, and hearing what the SDK tells it.
//!
//! The SDKs are as their projects publish them. What their drivers take and print is said in `e2e/opensergo/go/main.go`.
//! A subscription is named as the drivers' commands name it: `NAMESPACE APP KIND`.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Instant,
};

use serde_json::Value;

use crate::{
    foreign::{GO_HINT, JAVA_HINT, go_program, java_program},
    process::{PATIENCE, Running},
    server::Server,
};

/// Which SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sdk {
    /// The one for Go. It opens another stream by itself, within ten seconds after the last one has ended.
    Go,
    /// The one for Java. Each stream ends ten seconds after it began, and only a new client has another.
    Java,
}

/// Rules as an SDK holds them.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The rules, in the JSON form that protobuf defines.
    pub rules: Value,
    /// The version they came with.
    pub version: i64,
}

/// A process with an SDK that subscribes rules. It is killed when dropped.
#[derive(Debug)]
pub struct Subscriber {
    running: Running,
    sdk: Sdk,
    held: HashMap<String, Held>,
    latest: HashMap<String, i64>,
    troubles: Vec<String>,
    /// Whether its stream has ended and it needs another client.
    ended: bool,
}

impl Server {
    /// Starts a process with an SDK for the control plane of this server. It connects when it is told to.
    #[must_use]
    #[track_caller]
    pub fn subscriber(&self, sdk: Sdk) -> Subscriber {
        self.subscriber_of(sdk, self.opensergo())
    }

    /// The same for a control plane elsewhere.
    #[must_use]
    #[track_caller]
    pub fn subscriber_of(&self, sdk: Sdk, address: &str) -> Subscriber {
        let (host, port) = address.rsplit_once(':').expect("an address has a port");
        let (mut command, hint) = match sdk {
            Sdk::Go => (go(), GO_HINT),
            Sdk::Java => (java_program("opensergo-java", &sources("java")), JAVA_HINT),
        };
        command.args([host, port]).current_dir(self.directory());
        Subscriber {
            running: Running::spawn_listening(&mut command, hint),
            sdk,
            held: HashMap::new(),
            latest: HashMap::new(),
            troubles: vec![],
            ended: false,
        }
    }
}

impl Subscriber {
    /// Connects, and subscribes what it was told to. In Java this makes a new client, which holds nothing.
    #[track_caller]
    pub fn start(&mut self) {
        if self.sdk == Sdk::Java {
            self.held.clear();
            self.ended = false;
        }
        self.running.tell("start");
    }

    /// Subscribes rules, now or when it starts.
    #[track_caller]
    pub fn subscribe(&mut self, subscription: &str) {
        self.running.tell(&format!("subscribe {subscription}"));
    }

    /// Asks for no more of them, which must work.
    #[track_caller]
    pub fn unsubscribe(&mut self, subscription: &str) {
        let done = self.ask("unsubscribe", subscription);
        assert_eq!(done["ok"], true, "{done}");
    }

    /// Answers with an error from now on when it is told of these rules.
    #[track_caller]
    pub fn refuse(&mut self, subscription: &str) {
        self.ask("refuse", subscription);
    }

    /// What the SDK has in its cache, which it fills with whatever it gets, subscribed or not.
    #[track_caller]
    pub fn cached(&mut self, subscription: &str) -> Option<Held> {
        Held::read(&self.ask("cached", subscription))
    }

    /// Waits until the rules are these, with a new client whenever this SDK needs one, and returns their version.
    #[track_caller]
    pub fn is_told(&mut self, subscription: &str, rules: &Value) -> i64 {
        self.is_told_what(subscription, &rules.to_string(), |held| held == rules)
    }

    /// The same for rules that `are` so.
    #[track_caller]
    pub fn is_told_what(&mut self, subscription: &str, wanted: &str, are: impl Fn(&Value) -> bool) -> i64 {
        let wanted = format!("{subscription} as {wanted}");
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(held) = self.held.get(subscription)
                && are(&held.rules)
            {
                return held.version;
            }
            if self.ended {
                self.start();
            }
            self.hear(deadline, &wanted);
        }
    }

    /// Waits until the SDK complains in words with `text`.
    #[track_caller]
    pub fn is_troubled(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.troubles.iter().any(|trouble| trouble.contains(text)) {
            self.hear(deadline, &format!("a complaint with {text:?}"));
        }
    }

    /// What the SDK has complained about so far.
    #[must_use]
    pub fn troubles(&self) -> &[String] {
        &self.troubles
    }

    /// Lets it end, as an application does.
    #[track_caller]
    pub fn close(mut self) {
        self.running.tell("close");
        let status = self.running.end();
        assert!(status.success(), "it ended with {status}");
    }

    /// Gives a command and waits for the answer.
    #[track_caller]
    fn ask(&mut self, command: &str, subscription: &str) -> Value {
        self.running.tell(&format!("{command} {subscription}"));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let event = self.hear(deadline, &format!("{command} {subscription}"));
            if event["event"] == command && named(&event) == subscription {
                return event;
            }
        }
    }

    /// Takes in one thing that happens.
    #[track_caller]
    fn hear(&mut self, deadline: Instant, wanted: &str) -> Value {
        let line = self.running.line_before(deadline, wanted);
        let event: Value = serde_json::from_str(&line).expect("drivers print JSON");
        match event["event"].as_str() {
            Some("data") => self.hold(&event),
            Some("trouble") => self.complain(event["message"].as_str().expect("a complaint has words")),
            _ => {}
        }
        event
    }

    fn complain(&mut self, message: &str) {
        self.ended |= self.sdk == Sdk::Java && message.contains("DEADLINE_EXCEEDED");
        self.troubles.push(message.to_owned());
    }

    /// Keeps what the SDK was told. A version never goes back, whatever happens to the server.
    #[track_caller]
    fn hold(&mut self, event: &Value) {
        let held = Held::read(event).expect("data has rules and a version");
        let latest = self.latest.entry(named(event)).or_insert(held.version);
        assert!(held.version >= *latest, "a version went back from {latest}: {event}");
        *latest = held.version;
        self.held.insert(named(event), held);
    }
}

impl Held {
    fn read(event: &Value) -> Option<Self> {
        Some(Self { rules: event.get("rules")?.clone(), version: event.get("version")?.as_i64()? })
    }
}

/// The subscription that an event is about.
fn named(event: &Value) -> String {
    let word = |field: &str| event[field].as_str().unwrap_or_default();
    [word("namespace"), word("app"), word("kind")].join(" ")
}

fn sources(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("opensergo").join(language)
}

fn go() -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let mut command = Command::new(BUILT.get_or_init(|| go_program("opensergo-go", &sources("go"))));
    // While it has no stream this SDK looks for one without a pause, on all cores that it may use.
    command.env("GOMAXPROCS", "1");
    command
}
