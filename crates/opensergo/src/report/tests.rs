//! What is written, given what is seen.

use super::*;
use crate::{
    plane::{Heard, Settings},
    rules::Rules,
};

const NAME: &str = "RateLimitStrategy";

fn limits() -> KindId {
    KindId::all().find(|id| id.kind().kind == NAME).expect("a kind")
}

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).expect("a time")
}

/// What is held of an object.
fn held(app: Option<&str>, threshold: Value, status: &Value) -> Held {
    let labels = app.map(|app| json!({"app": app}));
    let object = json!({
        "metadata": {
            "name": "a", "namespace": "default", "generation": 3, "resourceVersion": "7", "labels": labels,
        },
        "spec": {
            "metricType": "RequestAmount", "limitMode": "Local", "threshold": threshold, "statDurationSeconds": 1,
        },
        "status": status,
    });
    let mut rules = Rules::default();
    rules.apply(limits(), Arc::new(serde_json::from_value(object).expect("an object")));
    rules.get(limits(), &Key::new("default", "a")).expect("it is there").clone()
}

fn seen(identity: &str, subscribers: i32, delivered: i32) -> Seen<'_> {
    Seen {
        identity,
        alive: None,
        delivery: Delivery { subscribers, delivered, version: 5, ..Delivery::default() },
        dangling: vec![],
        warnings: vec![],
        names_others: false,
    }
}

/// The conditions that are written: type, status, reason and message.
fn conditions(due: &Due) -> Vec<[String; 4]> {
    let status: RuleStatus = serde_json::from_value(due.patch["status"].clone()).expect("a status");
    let conditions = status.conditions.into_iter();
    conditions.map(|one| [one.type_, one.status, one.reason, one.message]).collect()
}

/// Whose entries are written.
fn names(due: &Due) -> Vec<String> {
    let entries = due.patch["status"]["replicas"].as_array().expect("entries");
    entries.iter().filter_map(|entry| Some(entry["name"].as_str()?.to_owned())).collect()
}

fn entry_of(name: &str, subscribers: i32, delivered: i32) -> Value {
    json!({"name": name, "subscribers": subscribers, "delivered": delivered, "version": 5})
}

#[test]
fn what_is_there_already_is_not_written() {
    let mut status = Value::Null;
    for round in 0..3 {
        let held = held(Some("shop"), json!(1), &status);
        match due(&held, &seen("one", 2, 1), now() + jiff::SignedDuration::from_secs(round)) {
            Some(due) => {
                assert_eq!(round, 0, "it was written already");
                status = due.patch["status"].clone();
            }
            None => assert_ne!(round, 0, "there is nothing yet"),
        }
    }
}

#[test]
fn conditions_say_what_is_so() {
    let check = |held: &Held, seen: &Seen<'_>, expected: &[[&str; 4]]| {
        let due = due(held, seen, now()).expect("something is to be written");
        let found = conditions(&due);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, [kind, status, reason, message]) in found.iter().zip(expected) {
            assert_eq!([&found[0], &found[1], &found[2]], [kind, status, reason], "{found:?}");
            assert!(found[3].contains(message), "{found:?}");
        }
    };
    let nobody = ["RejectedBy", "False", "Nobody", ""];
    let good = held(Some("shop"), json!(1), &Value::Null);
    check(
        &good,
        &seen("one", 0, 0),
        &[["Accepted", "True", "Translated", ""], ["Delivered", "Unknown", "NoSubscribers", "0/0"], nobody],
    );
    let mut rejected = seen("one", 2, 1);
    rejected.delivery.rejected_by = vec!["till: code 4007".to_owned()];
    (rejected.warnings, rejected.names_others) = (vec!["a: has no effect".to_owned()], true);
    check(
        &good,
        &rejected,
        &[
            ["Accepted", "True", "Warnings", "a: has no effect"],
            ["ResolvedRefs", "True", "Resolved", ""],
            ["Delivered", "False", "Pending", "1/2"],
            ["RejectedBy", "True", "Rejected", "till: code 4007"],
        ],
    );
    let mut dangling = seen("one", 2, 2);
    (dangling.dangling, dangling.names_others) = (vec!["RateLimitStrategy b".to_owned()], true);
    dangling.delivery.is_too_large = true;
    check(
        &good,
        &dangling,
        &[
            ["Accepted", "True", "Translated", ""],
            ["ResolvedRefs", "False", "DanglingReference", "RateLimitStrategy b"],
            ["Delivered", "False", "TooLarge", "what was told last stays"],
            nobody,
        ],
    );
    check(
        &held(None, json!(1), &Value::Null),
        &seen("one", 0, 0),
        &[
            ["Accepted", "False", "NoApp", "metadata.labels.app"],
            ["Delivered", "Unknown", "NoSubscribers", "0/0"],
            nobody,
        ],
    );
    check(
        &held(Some("shop"), json!("many"), &Value::Null),
        &seen("one", 1, 1),
        &[
            ["Accepted", "False", "Untranslatable", "spec.threshold"],
            ["Delivered", "False", "Untranslatable", "see Accepted"],
            nobody,
        ],
    );
    check(
        &held(Some("shop"), json!("many"), &accepted_as("True", "Translated")),
        &seen("one", 1, 1),
        &[
            ["Accepted", "False", "LastGoodUnknown", "spec.threshold"],
            ["Delivered", "False", "Untranslatable", "see Accepted"],
            nobody,
        ],
    );
}

/// A status in which somebody has said what became of a rule.
fn accepted_as(status: &str, reason: &str) -> Value {
    json!({"conditions": [{
        "type": "Accepted", "status": status, "reason": reason, "message": "", "lastTransitionTime": now(),
    }]})
}

#[test]
fn whoever_comes_later_knows_that_something_was_lost() {
    let lost = |status: &Value| held(Some("shop"), json!("many"), status).is_forgotten();
    assert!(lost(&accepted_as("True", "Translated")));
    assert!(lost(&accepted_as("True", "Warnings")));
    assert!(!lost(&accepted_as("False", "Untranslatable")), "it never was right, or is written down");
    assert!(!lost(&Value::Null), "it is new");
    let first = held(Some("shop"), json!("many"), &accepted_as("True", "Translated"));
    let written =
        due(&first, &seen("one", 0, 0), now()).expect("something is to be said").patch["status"].clone();
    assert!(lost(&written), "and it still is for the next");
    assert!(!held(Some("shop"), json!(1), &written).is_forgotten(), "it is mended");
}

#[test]
fn however_much_is_wrong_a_status_stays_small() {
    let mut much = seen("one", 0, 0);
    much.names_others = true;
    much.dangling = (0..10_000).map(|idx| format!("RateLimitStrategy {idx}-{}", "x".repeat(1_000))).collect();
    much.warnings = vec!["ü".repeat(100_000)];
    let due = due(&held(Some("shop"), json!(1), &Value::Null), &much, now()).expect("new");
    let found = conditions(&due);
    let (accepted, dangling) = (&found[0], &found[1]);
    assert!(accepted[3].ends_with("ü…") && accepted[3].chars().count() == MOST_TEXT + 1, "{accepted:?}");
    assert!(dangling[3].contains("RateLimitStrategy 9-x") && !dangling[3].contains("RateLimitStrategy 10-x"));
    assert!(dangling[3].ends_with("and 9990 more"), "{dangling:?}");
    assert!(due.patch.to_string().len() < 10_000, "{} bytes", due.patch.to_string().len());
}

#[test]
fn what_all_say_adds_up() {
    let status = json!({"replicas": [entry_of("two", 3, 3), entry_of("one", 9, 9)]});
    let held = held(Some("shop"), json!(1), &status);
    let due = due(&held, &seen("one", 2, 2), now()).expect("the sum is another");
    assert_eq!(conditions(&due)[1][3], "5/5", "what it said itself before does not count");
    assert_eq!(names(&due), ["two", "one"], "as long as nobody knows, all are alive");
}

#[test]
fn the_dead_do_not_count_and_are_removed() {
    let status = json!({"replicas": [entry_of("two", 3, 3), entry_of("three", 1, 1)]});
    let held = held(Some("shop"), json!(1), &status);
    let alive: HashSet<String> = ["one", "three"].map(str::to_owned).into();
    let due = due(&held, &Seen { alive: Some(&alive), ..seen("one", 2, 2) }, now()).expect("one is dead");
    assert_eq!(conditions(&due)[1][3], "3/3");
    assert_eq!(due.patch["metadata"]["resourceVersion"], "7", "unless somebody else has written meanwhile");
    assert_eq!(names(&due), ["three", "one"]);
}

/// The others would take it away, and it would come back, without end.
#[test]
fn whoever_the_others_cannot_see_does_not_count_itself() {
    let held = held(Some("shop"), json!(1), &json!({"replicas": [entry_of("two", 3, 3)]}));
    let count = |alive: &[&str]| {
        let alive: HashSet<String> = alive.iter().map(|&name| name.to_owned()).collect();
        let due = due(&held, &Seen { alive: Some(&alive), ..seen("one", 2, 2) }, now()).expect("new");
        (conditions(&due)[1][3].clone(), names(&due).join(" "))
    };
    assert_eq!(count(&["one", "two"]), ("5/5".to_owned(), "two one".to_owned()));
    assert_eq!(count(&["two"]), ("3/3".to_owned(), "two".to_owned()));
}

#[test]
fn only_what_somebody_has_changed_is_news() {
    let first = due(&held(Some("shop"), json!(1), &Value::Null), &seen("one", 0, 0), now()).expect("new");
    assert!(first.is_news);
    let second = held(Some("shop"), json!(1), &first.patch["status"]);
    assert!(!due(&second, &seen("one", 1, 0), now()).expect("somebody has come").is_news);
}

#[test]
fn times_are_those_of_changes() {
    let first = due(&held(Some("shop"), json!(1), &Value::Null), &seen("one", 1, 0), now()).expect("new");
    let later = now() + jiff::SignedDuration::from_hours(1);
    let second = due(&held(Some("shop"), json!(1), &first.patch["status"]), &seen("one", 1, 1), later)
        .expect("changed");
    let time = |due: &Due, kind: &str| {
        let conditions = due.patch["status"]["conditions"].as_array().expect("conditions");
        let found = conditions.iter().find(|one| one["type"] == kind).expect("one of them");
        found["lastTransitionTime"].as_str().expect("a time").parse::<Timestamp>().expect("a time")
    };
    assert_eq!((time(&second, "Accepted"), time(&second, "Delivered")), (now(), later));
    let updated = second.patch["status"]["replicas"][0]["updated"].as_str().expect("a time");
    assert_eq!(updated.parse::<Timestamp>().expect("a time"), later);
}

#[test]
fn people_are_told_of_a_fault_once() {
    let wrong = |status: &Value| held(Some("shop"), json!("many"), status);
    let first = due(&wrong(&Value::Null), &seen("one", 0, 0), now()).expect("new");
    assert!(
        first.complaint.as_ref().is_some_and(|why| why.contains("spec.threshold")),
        "{:?}",
        first.complaint
    );
    let second = due(&wrong(&first.patch["status"]), &seen("one", 1, 0), now()).expect("somebody has come");
    assert_eq!(second.complaint, None);
}

#[test]
fn as_which_version_something_was_told_is_no_reason_to_write() {
    let first = due(&held(Some("shop"), json!(1), &Value::Null), &seen("one", 1, 1), now()).expect("new");
    let mut again = seen("one", 1, 1);
    again.delivery.version += 1;
    assert!(due(&held(Some("shop"), json!(1), &first.patch["status"]), &again, now()).is_none());
}

#[test]
fn what_others_say_stays_and_what_is_no_longer_so_goes() {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "So", "message": "", "lastTransitionTime": now()});
    let status = json!({"conditions": [condition("Theirs"), condition("ResolvedRefs")], "told": "CgA="});
    let due = due(&held(Some("shop"), json!(1), &status), &seen("one", 0, 0), now()).expect("one is to go");
    let kinds: Vec<String> = conditions(&due).into_iter().map(|[kind, ..]| kind).collect();
    assert_eq!(kinds, ["Accepted", "Delivered", "RejectedBy", "Theirs"], "it names nobody any more");
    assert_eq!(due.patch["status"].get("told"), Some(&Value::Null), "it is right again");
}

#[test]
fn what_was_told_last_is_written_down_for_whoever_comes_later() {
    let mut rules = Rules::default();
    let good = held(Some("shop"), json!(1), &Value::Null);
    rules.apply(limits(), Arc::clone(&good.object));
    let wrong = held(Some("shop"), json!("many"), &Value::Null);
    rules.apply(limits(), Arc::clone(&wrong.object));
    let known = rules.get(limits(), &Key::new("default", "a")).expect("it is there");
    let due = due(known, &seen("one", 0, 0), now()).expect("a fault");
    // Another process has never seen it when it was right.
    let elsewhere = held(Some("shop"), json!("many"), &due.patch["status"]);
    assert!(elsewhere.fault.is_some());
    assert_eq!((elsewhere.is_told(), elsewhere.kept()), (true, known.kept()));
    assert!(!wrong.is_told(), "nobody knows what it was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reports_shows_and_changes_rules_at_once_stands_in_nobodys_way() {
    let never = |_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
    };
    let client = Client::new(tower::service_fn(never), "default");
    let plane = Plane::new(Settings::default(), crate::metrics::Metrics::default());
    let informers = Informers::new(client.clone());
    let events = Events::start(client, &windlass_runtime::metrics::Metrics::default());
    let reporter = Arc::new(Reporter::new(Arc::clone(&plane), &informers, &events));
    let source = crate::cluster::Cluster::start(&informers);
    let stream = plane.connect(None, None).expect("there is room");
    let topic = Topic { app: crate::topic::App::new("default", "shop"), kind: limits() };
    plane.subscribe(&stream, &topic, "");
    const ROUNDS: i64 = 20_000;
    let changes = {
        let plane = Arc::clone(&plane);
        tokio::task::spawn_blocking(move || {
            for round in 0..ROUNDS {
                let object = Arc::clone(&held(Some("shop"), json!(round % 7), &Value::Null).object);
                plane.heard(limits(), vec![Heard::Is(object)], Some(round));
            }
        })
    };
    let reports = tokio::task::spawn_blocking(move || {
        for _ in 0..ROUNDS {
            let _ = reporter.due(&(limits(), Key::new("default", "a")), None, &mut HashMap::new());
        }
    });
    let shows = tokio::task::spawn_blocking(move || {
        for _ in 0..ROUNDS {
            crate::view::view(&plane, &*source, &crate::view::Wanted::default());
        }
    });
    let all = futures_util::future::join3(changes, reports, shows);
    let (changes, reports, shows) =
        timeout(Duration::from_secs(60), all).await.expect("they wait for each other");
    changes.and(reports).and(shows).expect("nobody panics");
}
