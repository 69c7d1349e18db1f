//! What becomes of rules: `tests/golden` has those that can be sent, `tests/refused` those that cannot. With
//! `UPDATE_GOLDEN=1` what comes out is written down instead of compared.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use kube::api::DynamicObject;
use windlass_opensergo::{
    kinds::{KINDS, Kind, Reference},
    text,
};

fn read(text: &str) -> (DynamicObject, &'static Kind) {
    let object: DynamicObject = serde_saphyr::from_str(text).expect("an object");
    let types = object.types.as_ref().expect("it says of which kind it is");
    let kind = Kind::find(&format!("{}/{}", types.api_version, types.kind)).expect("one of ours");
    (object, kind)
}

/// What comes out, and what is said beside it.
fn outcome(object: &DynamicObject, kind: &Kind) -> (bool, String) {
    let warnings = (kind.warnings)(object).iter().fold(String::new(), |all, one| format!("{all}# {one}\n"));
    match (kind.translate)(object) {
        Ok(message) => (true, format!("{}{warnings}", text::text(&message).expect("it can be shown"))),
        Err(error) => (false, error.0.iter().fold(String::new(), |all, one| format!("{all}{one}\n"))),
    }
}

/// Compares all that is in a folder; returns the kinds.
fn compare(folder: &str, is_sent: bool) -> BTreeSet<&'static str> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let mut seen = BTreeSet::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "yaml")) {
        let (object, kind) = read(&fs::read_to_string(file).expect("text"));
        seen.insert(kind.kind);
        let (was_sent, found) = outcome(&object, kind);
        assert_eq!(was_sent, is_sent, "{}: {found}", file.display());
        let golden = file.with_extension("txt");
        if env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&golden, &found).expect("written");
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(found, expected, "{}; UPDATE_GOLDEN=1 writes it anew", file.display());
    }
    seen
}

#[test]
fn rules_become_messages() {
    let all: BTreeSet<_> = KINDS.iter().map(|kind| kind.kind).collect();
    assert_eq!(compare("golden", true), all, "each kind has a case");
}

#[test]
fn what_cannot_be_sent_is_refused_with_its_path() {
    let all: BTreeSet<_> = KINDS.iter().map(|kind| kind.kind).collect();
    assert_eq!(compare("refused", false), all, "each kind has a case");
}

#[test]
fn only_rules_name_others() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let (rule, kind) = read(&fs::read_to_string(folder.join("rule-full.yaml")).expect("text"));
    let named: Vec<_> =
        (kind.references)(&rule).into_iter().map(|Reference { kind, name }| (kind, name)).collect();
    let expected = [
        ("RateLimitStrategy", "orders-rate"),
        ("ThrottlingStrategy", "orders-pace"),
        ("ConcurrencyLimitStrategy", "orders-room"),
        ("CircuitBreakerStrategy", "orders-fuse"),
    ];
    assert_eq!(named, expected.map(|(kind, name)| (kind.to_owned(), name.to_owned())));
    let (strategy, kind) = read(&fs::read_to_string(folder.join("rate-limit.yaml")).expect("text"));
    assert_eq!((kind.references)(&strategy), []);
}

#[test]
fn messages_are_shown_as_json_too() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let (object, kind) = read(&fs::read_to_string(folder.join("rate-limit.yaml")).expect("text"));
    let message = (kind.translate)(&object).expect("it is right");
    assert_eq!(
        text::json(&message).expect("it can be shown"),
        serde_json::json!({
            "@type": "type.googleapis.com/io.opensergo.proto.fault_tolerance.v1.RateLimitStrategy",
            "name": "orders-rate",
            "metricType": "TYPE_REQUEST_AMOUNT",
            "limitMode": "MODE_LOCAL",
            "threshold": "10",
            "statDuration": 1,
            "statDurationTimeUnit": "SECOND",
        })
    );
}
