//! The bytes are Kubernetes', values stay where they belong, and faults are named.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{Configuration, OpenError, Opened, Random, Sealing, Stored};

const VALUE: &[u8] = br#"{"kind":"Secret"}"#;
const KEY: &[u8] = b"secrets/default/a";

fn secret(first: u8, len: u8) -> String {
    BASE64_STANDARD.encode((0..len).map(|at| first.wrapping_add(at)).collect::<Vec<_>>())
}

fn provider(kind: &str, keys: &[(&str, String)]) -> Value {
    let keys: Vec<_> = keys.iter().map(|(name, secret)| json!({"name": name, "secret": secret})).collect();
    json!({ kind: { "keys": keys } })
}

fn document(resources: &[&str], providers: &[Value]) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": resources, "providers": providers}],
    })
}

fn sealing(resources: &[&str], providers: &[Value]) -> Sealing {
    let configuration = Configuration::parse(&document(resources, providers)).expect("a good configuration");
    let stored = |prefix: &str, group: &str, plural: &str| Stored {
        prefix: prefix.into(),
        group: group.into(),
        plural: plural.into(),
    };
    let builtin = [
        stored("secrets/", "", "secrets"),
        stored("configmaps/", "", "configmaps"),
        stored("services/specs/", "", "services"),
        stored("deployments/", "apps", "deployments"),
    ];
    Sealing::new(configuration, &builtin, "/registry/")
}

fn opens(sealing: &Sealing, key: &[u8], stored: &[u8]) -> Opened {
    sealing.open(key, stored).unwrap_or_else(|error| panic!("{error}"))
}

/// Made with Go's crypto libraries in the way of kube-apiserver: keys of 32 bytes counting from zero.
const FROM_KUBERNETES: [(&str, &str); 3] = [
    (
        "aesgcm",
        "azhzOmVuYzphZXNnY206djE6a2V5MToHBwcHBwcHBwcHBwd0SM01AWv1zuTOduPyNIC53CmgC1gK08QsW/tHNnOb3QA=",
    ),
    (
        "aescbc",
        "azhzOmVuYzphZXNjYmM6djE6a2V5MToJCQkJCQkJCQkJCQkJCQkJCWniMaTJJdt2szxbeKCG79Le9XyjwQvFQxAy0reRuW8=",
    ),
    (
        "secretbox",
        "azhzOmVuYzpzZWNyZXRib3g6djE6a2V5MToFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQX3uS4/uztnQZL9BandbjESh8wyxQVKwwgXEO1grNGNUdQ=",
    ),
];

#[test]
fn what_kube_apiserver_has_written_is_read() {
    for (kind, text) in FROM_KUBERNETES {
        let sealing = sealing(&["secrets"], &[provider(kind, &[("key1", secret(0, 32))])]);
        let stored = BASE64_STANDARD.decode(text).expect("base64");
        let opened = opens(&sealing, KEY, &stored);
        assert_eq!((opened.value.as_deref(), opened.is_current), (Some(VALUE), true), "{kind}");
    }
}

#[test]
fn every_provider_opens_what_it_has_sealed_and_seals_nothing_the_same_twice() {
    for (kind, sizes) in [
        ("aescbc", &[16, 24, 32][..]),
        ("aesgcm", &[16, 24, 32]),
        ("secretbox", &[32]),
        ("xchacha20poly1305", &[32]),
    ] {
        for size in sizes {
            let sealing = sealing(&["secrets"], &[provider(kind, &[("k", secret(3, *size))])]);
            for value in [&b""[..], VALUE, &[7; 5000]] {
                let sealed = sealing.seal(KEY, value).expect("it is to be sealed");
                assert!(sealed.starts_with(format!("k8s:enc:{kind}:v1:k:").as_bytes()));
                assert_ne!(Some(&sealed), sealing.seal(KEY, value).as_ref(), "{kind}");
                let opened = opens(&sealing, KEY, &sealed);
                assert_eq!(opened, Opened { value: Some(value.to_vec()), is_current: true }, "{kind} {size}");
            }
        }
    }
}

#[test]
fn a_value_does_not_open_elsewhere_or_changed() {
    for kind in ["aesgcm", "xchacha20poly1305", "secretbox"] {
        let sealing = sealing(&["secrets"], &[provider(kind, &[("k", secret(3, 32))])]);
        let sealed = sealing.seal(KEY, VALUE).expect("it is to be sealed");
        if kind != "secretbox" {
            let moved = sealing.open(b"secrets/default/b", &sealed);
            assert!(matches!(moved, Err(OpenError::WrongKey(_))), "{kind}: {moved:?}");
        }
        for at in format!("k8s:enc:{kind}:v1:k:").len()..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(sealing.open(KEY, &changed).is_err(), "{kind}, byte {at}");
            assert!(sealing.open(KEY, &sealed[..at]).is_err(), "{kind}, cut at {at}");
        }
    }
}

#[test]
fn all_keys_open_and_only_what_the_first_has_sealed_is_current() {
    let old = sealing(&["secrets"], &[provider("aesgcm", &[("old", secret(1, 32))])]);
    let sealed = old.seal(KEY, VALUE).expect("it is to be sealed");
    let both = provider("aesgcm", &[("new", secret(2, 32)), ("old", secret(1, 32))]);
    let new = sealing(&["secrets"], &[both, json!({"identity": {}})]);
    assert_eq!(opens(&new, KEY, &sealed), Opened { value: Some(VALUE.to_vec()), is_current: false });
    assert_eq!(opens(&new, KEY, VALUE), Opened { value: None, is_current: false });
    let sealed = new.seal(KEY, VALUE).expect("it is to be sealed");
    assert!(opens(&new, KEY, &sealed).is_current);
    assert_eq!(
        old.open(KEY, &sealed).expect_err("it lacks the key").to_string(),
        "it is encrypted with a key that is not configured: aesgcm, key \"new\""
    );
    assert_eq!(old.open(KEY, VALUE), Err(OpenError::Plain));
    // The way back: decrypt everything.
    let plain =
        sealing(&["secrets"], &[json!({"identity": {}}), provider("aesgcm", &[("new", secret(2, 32))])]);
    assert_eq!(plain.seal(KEY, VALUE), None);
    assert!(!opens(&plain, KEY, &sealed).is_current);
    assert!(opens(&plain, KEY, VALUE).is_current);
}

#[test]
fn resources_are_chosen_by_name_group_and_wildcard() {
    let keys = [
        "secrets/default/a",
        "configmaps/default/a",
        "services/specs/default/a",
        "deployments/default/a",
        "example.com/widgets/default/a",
        "example.com/gadgets/default/a",
        "windlass/state",
        "plain",
    ];
    for (pattern, sealed) in [
        ("secrets", &[0][..]),
        ("services", &[2]),
        ("deployments.apps", &[3]),
        ("widgets.example.com", &[4]),
        ("*.example.com", &[4, 5]),
        ("*.", &[0, 1, 2]),
        ("*.*", &[0, 1, 2, 3, 4, 5]),
    ] {
        let sealing = sealing(&[pattern], &[provider("secretbox", &[("k", secret(0, 32))])]);
        for (at, key) in keys.iter().enumerate() {
            let is_sealed = sealing.seal(key.as_bytes(), VALUE).is_some();
            assert_eq!(is_sealed, sealed.contains(&at), "{pattern}: {key}");
        }
    }
}

#[test]
fn what_is_sealed_is_never_taken_for_a_value() {
    let sealed = sealing(&["secrets"], &[provider("aescbc", &[("k", secret(0, 32))])]).seal(KEY, VALUE);
    let sealed = sealed.expect("it is to be sealed");
    for other in [
        Sealing::new(Configuration::default(), &[], "/registry/"),
        sealing(&["configmaps"], &[json!({"identity": {}})]),
        sealing(&["secrets"], &[json!({"identity": {}})]),
        sealing(&["secrets"], &[provider("aescbc", &[("k", secret(9, 32))])]),
    ] {
        let refused = other.open(KEY, &sealed);
        assert!(refused.is_err(), "{refused:?}");
        assert!(refused.expect_err("just looked").to_string().contains("aescbc, key \"k\""));
    }
}

#[test]
fn a_fresh_configuration_seals_secrets_and_is_never_the_same() {
    let random = Random::default();
    let text = Configuration::fresh(&random);
    assert_ne!(text, Configuration::fresh(&random));
    assert!(text.contains("resources: [secrets]") && text.contains("- identity: {}"), "{text}");
}

#[test]
fn faults_are_told_with_their_paths_and_without_secrets() {
    let good = || provider("aescbc", &[("k", secret(0, 32))]);
    for (document, expected) in [
        (json!([]), "expected an object"),
        (json!({"kind": "Secret"}), "apiVersion: Required value"),
        (
            json!({"apiVersion": "v1", "kind": "EncryptionConfiguration", "resources": []}),
            "apiVersion: expected apiserver.config.k8s.io/v1",
        ),
        (
            document(&[], &[good()]),
            "resources[0].resources: Required value: at least one resource is required",
        ),
        (
            document(&["secrets"], &[]),
            "resources[0].providers: Required value: at least one provider is required",
        ),
        (document(&["*"], &[good()]), "resources[0].resources[0]: use '*.' to encrypt all"),
        (
            document(&["secrets.*"], &[good()]),
            "resources[0].resources[0]: encrypting the same resource across groups",
        ),
        (
            document(&["Secrets"], &[good()]),
            "resources[0].resources[0]: resource name should not contain capital",
        ),
        (document(&["secrets", "secrets"], &[good()]), "resources[0].resources[1]: the same resource cannot"),
        (document(&["secrets", "*."], &[good()]), "resources[0].resources: secrets is in this list twice"),
        (
            document(&["secrets"], &[json!({"aescbc": {"keys": []}})]),
            "resources[0].providers[0].aescbc.keys: Required value: at least one key is required",
        ),
        (
            document(&["secrets"], &[json!({}), good()]),
            "resources[0].providers[0]: Required value: a provider, one of identity, kms, aescbc",
        ),
        (
            document(&["secrets"], &[json!({"identity": {}, "kms": {}})]),
            "resources[0].providers[0]: more than one provider specified",
        ),
        (
            document(&["secrets"], &[good(), json!({"kms": {"name": "a"}})]),
            "resources[0].providers[1].kms: key management services are not supported",
        ),
        (
            document(&["secrets"], &[json!({"rot13": {}})]),
            "resources[0].providers[0].rot13: unknown field, expected one of identity, kms",
        ),
        (
            document(&["secrets"], &[provider("secretbox", &[("k", secret(0, 16))])]),
            "resources[0].providers[0].secretbox.keys[0].secret: secret is not of the expected length, got 16, expected one of [32]",
        ),
        (
            document(&["secrets"], &[provider("aesgcm", &[("", secret(0, 16))])]),
            "resources[0].providers[0].aesgcm.keys[0].name: Required value",
        ),
        (
            document(&["secrets"], &[provider("aesgcm", &[("k", "hush?!".into())])]),
            "resources[0].providers[0].aesgcm.keys[0].secret: secrets must be base64 encoded",
        ),
        (
            document(&["secrets"], &[provider("aesgcm", &[("k", secret(0, 16)), ("k", secret(1, 16))])]),
            "resources[0].providers[0].aesgcm.keys[1].name: there is another aesgcm key of this name",
        ),
    ] {
        let faults = Configuration::parse(&document).expect_err(expected);
        let told = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(told.contains(expected), "{told}");
        assert!(!told.contains("hush"), "{told}");
    }
}

#[test]
fn keys_are_never_printed() {
    let hush = BASE64_STANDARD.encode([b'h'; 32]);
    let printed = format!("{:?}", sealing(&["secrets"], &[provider("aescbc", &[("k", hush.clone())])]));
    assert!(printed.contains("aescbc"), "{printed}");
    assert!(!printed.contains(&hush) && !printed.contains("104, 104"), "{printed}");
}
