//! What is written, given what is seen.

use super::*;
use crate::rules::Rules;

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
    let status: RuleStatus = serde_json::from_value(due.status.clone()).expect("a status");
    let conditions = status.conditions.into_iter();
    conditions.map(|one| [one.type_, one.status, one.reason, one.message]).collect()
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
                status = due.status;
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
    dangling.delivery.oversized = Some(5 << 20);
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
            ["Delivered", "True", "Delivered", "1/1"],
            nobody,
        ],
    );
}

#[test]
fn what_all_say_adds_up() {
    let status = json!({"replicas": [entry_of("two", 3, 3), entry_of("one", 9, 9)]});
    let held = held(Some("shop"), json!(1), &status);
    let due = due(&held, &seen("one", 2, 2), now()).expect("the sum is another");
    assert_eq!(conditions(&due)[1][3], "5/5", "what it said itself before does not count");
    assert_eq!(due.status["replicas"].as_array().map(Vec::len), Some(1), "each writes its own");
    assert!(due.without_the_dead.is_none(), "as long as nobody knows, all are alive");
}

#[test]
fn the_dead_do_not_count_and_are_removed() {
    let status = json!({"replicas": [entry_of("two", 3, 3), entry_of("three", 1, 1)]});
    let held = held(Some("shop"), json!(1), &status);
    let alive: HashSet<String> = ["three".to_owned()].into();
    let due = due(&held, &Seen { alive: Some(&alive), ..seen("one", 2, 2) }, now()).expect("one is dead");
    assert_eq!(conditions(&due)[1][3], "3/3");
    let patch = due.without_the_dead.expect("an entry is to be removed");
    assert_eq!(patch["metadata"]["resourceVersion"], "7", "unless somebody else has written meanwhile");
    let left = patch["status"]["replicas"].as_array().expect("entries");
    assert_eq!(left.iter().map(|entry| &entry["name"]).collect::<Vec<_>>(), ["three"]);
}

#[test]
fn times_are_those_of_changes() {
    let first = due(&held(Some("shop"), json!(1), &Value::Null), &seen("one", 1, 0), now()).expect("new");
    let later = now() + jiff::SignedDuration::from_hours(1);
    let second =
        due(&held(Some("shop"), json!(1), &first.status), &seen("one", 1, 1), later).expect("changed");
    let time = |due: &Due, kind: &str| {
        let conditions = due.status["conditions"].as_array().expect("conditions");
        let found = conditions.iter().find(|one| one["type"] == kind).expect("one of them");
        found["lastTransitionTime"].as_str().expect("a time").parse::<Timestamp>().expect("a time")
    };
    assert_eq!((time(&second, "Accepted"), time(&second, "Delivered")), (now(), later));
    let updated = second.status["replicas"][0]["updated"].as_str().expect("a time");
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
    let second = due(&wrong(&first.status), &seen("one", 1, 0), now()).expect("somebody has come");
    assert_eq!(second.complaint, None);
}
