//! Tokens made by openssl, tokens made here, and tokens made to deceive. The keys are for these tests alone.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::*;

const RSA: &[u8] = include_bytes!("vectors/rsa.pem");
const P256: &[u8] = include_bytes!("vectors/p256.pem");
const PUBLIC: [&[u8]; 4] = [
    include_bytes!("vectors/rsa_public.pem"),
    include_bytes!("vectors/p256_public.pem"),
    include_bytes!("vectors/p384_public.pem"),
    include_bytes!("vectors/ed25519_public.pem"),
];

fn public_keys() -> Vec<PublicKey> {
    PUBLIC.iter().flat_map(|pem| PublicKey::from_pem(pem).expect("a key")).collect()
}

/// The tokens that openssl has signed, by algorithm.
fn vectors() -> Vec<(Algorithm, &'static str)> {
    let lines = include_str!("vectors/tokens.txt").lines();
    let pairs = lines.map(|line| line.split_once(' ').expect("an algorithm and a token"));
    pairs.map(|(name, token)| (Algorithm::from_name(name).expect(name), token)).collect()
}

fn claims(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(claims) => claims,
        other => panic!("{other} is no object"),
    }
}

fn verify(token: &str, keys: &[PublicKey]) -> Result<Claims, TokenError> {
    Token::parse(token)?.verify(keys, &Algorithm::ALL)
}

/// A token with any header, signed or not.
fn forged(header: &Value, said: &Value, signature: &[u8]) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{}", encode(header), encode(said), URL_SAFE_NO_PAD.encode(signature))
}

#[test]
fn every_algorithm_verifies_what_openssl_signed_and_nothing_else_does() {
    let (keys, vectors) = (public_keys(), vectors());
    assert_eq!(vectors.len(), Algorithm::ALL.len());
    for (algorithm, token) in vectors {
        let said = verify(token, &keys).unwrap_or_else(|error| panic!("{algorithm:?}: {error}"));
        assert_eq!((said.text("sub"), said.audiences()), ("jane", vec!["windlass"]));
        let others: Vec<_> = Algorithm::ALL.into_iter().filter(|other| *other != algorithm).collect();
        let refused = Token::parse(token).expect("a token").verify(&keys, &others);
        assert_eq!(refused, Err(TokenError::Algorithm), "{algorithm:?} is allowed though it is not listed");
        for position in [token.find('.').expect("a dot") + 3, token.len() - 5] {
            let mut bytes = token.as_bytes().to_vec();
            bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
            let tampered = String::from_utf8(bytes).expect("letters");
            assert!(verify(&tampered, &keys).is_err(), "{algorithm:?} changed at {position} is believed");
        }
    }
}

#[test]
fn keys_come_back_from_the_sets_they_are_published_in() {
    let keys = public_keys();
    let set = json!({"keys": keys.iter().map(PublicKey::to_jwk).collect::<Vec<_>>()}).to_string();
    let read = PublicKey::from_jwks(set.as_bytes()).expect("a set");
    assert_eq!(read.len(), keys.len());
    for (algorithm, token) in vectors() {
        // A published key names the algorithm that it is usually used with.
        let is_usual = keys.iter().any(|key| key.usual_algorithm() == algorithm);
        assert_eq!(verify(token, &read).is_ok(), is_usual, "{algorithm:?}");
    }
}

#[test]
fn keys_without_a_name_get_the_one_that_kubernetes_gives() {
    let known: Vec<_> =
        include_str!("vectors/thumbprints.txt").lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let ids: Vec<_> = public_keys().iter().map(|key| key.id().unwrap_or_default().to_owned()).collect();
    assert_eq!(ids, known);
}

#[test]
fn private_keys_and_certificates_give_their_public_halves() {
    let rsa = &PublicKey::from_pem(PUBLIC[0]).expect("a key")[0];
    let p256 = &PublicKey::from_pem(PUBLIC[1]).expect("a key")[0];
    for (pem, public) in [
        (RSA, rsa),
        (include_bytes!("vectors/rsa_pkcs1.pem").as_slice(), rsa),
        (include_bytes!("vectors/certificate.pem"), rsa),
        (P256, p256),
    ] {
        assert_eq!(&PublicKey::from_pem(pem).expect("a key")[0], public);
    }
}

#[test]
fn keys_that_are_weak_or_of_another_kind_are_refused() {
    let unsupported = |pem: &[u8]| matches!(PublicKey::from_pem(pem), Err(KeyError::Unsupported(_)));
    assert!(unsupported(include_bytes!("vectors/rsa_1024_public.pem")));
    assert!(unsupported(include_bytes!("vectors/p256_sec1.pem")));
    assert_eq!(PublicKey::from_pem(b"nothing of the kind"), Err(KeyError::Empty));
    for jwk in [
        json!({"kty": "oct", "k": "c2VjcmV0"}),
        json!({"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"}),
        json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}),
        json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"}),
        json!({"kty": "OKP", "crv": "Ed25519", "x": "AA", "use": "enc"}),
        json!({"crv": "Ed25519"}),
        json!([]),
    ] {
        assert!(PublicKey::from_jwk(&jwk).is_err(), "{jwk} is taken");
    }
    let huge = json!({"keys": vec![json!({}); 1000]}).to_string();
    assert_eq!(PublicKey::from_jwks(huge.as_bytes()), Err(KeyError::TooLarge));
    assert_eq!(PublicKey::from_jwks(&vec![b' '; 2 << 20]), Err(KeyError::TooLarge));
}

#[test]
fn what_is_signed_here_is_verified_here() {
    let generated = SigningKey::generate_pem().expect("randomness");
    for pem in [RSA, P256, generated.as_bytes()] {
        let key = SigningKey::from_pem(pem).expect("a key");
        let token = key.sign(&claims(json!({"sub": "jane"}))).expect("randomness");
        let said = verify(&token, std::slice::from_ref(key.public())).expect("a good token");
        assert_eq!(said.text("sub"), "jane");
        assert_eq!(Token::parse(&token).expect("a token").key_id(), key.public().id());
        assert!(!format!("{key:?}").contains("BEGIN"));
    }
}

#[test]
fn a_token_is_held_against_the_key_it_names() {
    let first = SigningKey::from_pem(P256).expect("a key");
    let second =
        SigningKey::from_pem(SigningKey::generate_pem().expect("randomness").as_bytes()).expect("a key");
    let token = second.sign(&Map::new()).expect("randomness");
    assert_eq!(verify(&token, &[first.public().clone()]), Err(TokenError::NoKey));
    assert_eq!(verify(&token, &[first.public().clone().nameless()]), Err(TokenError::Signature));
    assert!(verify(&token, &[first.public().clone(), second.public().clone()]).is_ok());
    assert!(verify(&token, &[second.public().clone().nameless()]).is_ok());
    assert_eq!(verify(&token, &[]), Err(TokenError::NoKey));
}

#[test]
fn tokens_that_choose_a_weaker_proof_are_refused() {
    let keys = public_keys();
    let said = json!({"sub": "root"});
    for name in ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "es256", "ES512", "RSA1_5", "dir"] {
        for signature in [b"".as_slice(), b"signature"] {
            let token = forged(&json!({"alg": name}), &said, signature);
            assert_eq!(verify(&token, &keys), Err(TokenError::Algorithm), "{name}");
        }
    }
    for header in [json!({}), json!({"alg": 1}), json!({"alg": ["ES256"]})] {
        assert_eq!(verify(&forged(&header, &said, b"x"), &keys), Err(TokenError::Algorithm), "{header}");
    }
    // The public key used as the secret of a keyed digest.
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, PUBLIC[0]);
    let unsigned = forged(&json!({"alg": "HS256"}), &said, b"");
    let tag = ring::hmac::sign(&secret, unsigned.trim_end_matches('.').as_bytes());
    let confused = unsigned + &URL_SAFE_NO_PAD.encode(tag.as_ref());
    assert_eq!(verify(&confused, &keys), Err(TokenError::Algorithm));
    for header in [json!({"alg": "ES256", "crit": ["exp"]}), json!({"alg": "ES256", "b64": false})] {
        assert_eq!(verify(&forged(&header, &said, b"x"), &keys), Err(TokenError::Critical));
    }
    // All zeros is a signature that careless verifiers take.
    assert_eq!(verify(&forged(&json!({"alg": "ES256"}), &said, &[0; 64]), &keys), Err(TokenError::Signature));
}

#[test]
fn what_is_no_token_is_told_from_a_bad_one() {
    let keys = public_keys();
    for text in
        ["", ".", "..", "...", "a.b", "a.b.c.d", "e30.e30", "e30.e30.!", "bnVsbA.e30.", "e30=.e30.", "opaque"]
    {
        assert_eq!(verify(text, &keys), Err(TokenError::NotAToken), "{text:?}");
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(verify(&format!("e30.{}.", URL_SAFE_NO_PAD.encode(deep)), &keys), Err(TokenError::NotAToken));
    let long = forged(&json!({"alg": "ES256"}), &json!({"a": "x".repeat(MOST_TOKEN)}), b"x");
    assert_eq!(verify(&long, &keys), Err(TokenError::TooLong));
    let long = forged(&json!({"alg": "ES256", "kid": "x".repeat(MOST_HEADER)}), &json!({}), b"x");
    assert_eq!(verify(&long, &keys), Err(TokenError::TooLong));
}

#[test]
fn claims_hold_for_their_issuer_audience_and_time() {
    let now = Timestamp::from_second(1_800_000_000).expect("a time");
    let at = |offset: i64| json!(1_800_000_000 + offset);
    let (issuers, audiences) = (["a".to_owned(), "b".to_owned()], ["x".to_owned(), "y".to_owned()]);
    let check = |said: Value| {
        let expected = Expected {
            issuers: &issuers,
            audiences: &audiences,
            skew: SignedDuration::from_secs(10),
            must_expire: true,
        };
        Claims(claims(said)).check(&expected, now)
    };
    let good = json!({"iss": "b", "aud": ["z", "y"], "exp": at(1), "nbf": at(0), "iat": at(-5)});
    assert_eq!(check(good.clone()), Ok(Some(Timestamp::from_second(1_800_000_001).expect("a time"))));
    let with = |name: &str, value: Value| {
        let mut said = good.clone();
        said[name] = value;
        check(said)
    };
    for (name, value, outcome) in [
        ("aud", json!("x"), None),
        ("exp", at(-9), None),
        ("exp", json!(1_800_000_000.5), None),
        ("exp", json!(1e300), None),
        ("nbf", at(10), None),
        ("iat", at(10), None),
        ("iss", json!("c"), Some(TokenError::Issuer)),
        ("iss", json!(["a"]), Some(TokenError::Issuer)),
        ("aud", json!("z"), Some(TokenError::Audience)),
        ("aud", json!([]), Some(TokenError::Audience)),
        ("aud", json!({"x": true}), Some(TokenError::Audience)),
        ("exp", at(-10), Some(TokenError::Expired)),
        ("exp", json!(-1e300), Some(TokenError::Expired)),
        ("exp", json!("2100"), Some(TokenError::BadTime)),
        ("exp", json!(null), Some(TokenError::BadTime)),
        ("nbf", at(11), Some(TokenError::NotYet)),
        ("iat", at(11), Some(TokenError::NotYet)),
    ] {
        assert_eq!(with(name, value.clone()).err(), outcome, "{name} = {value}");
    }
    assert_eq!(check(json!({"iss": "a", "aud": "x"})), Err(TokenError::NoExpiry));
}

#[test]
fn a_clock_may_not_differ_by_more_than_minutes() {
    let now = Timestamp::from_second(1_800_000_000).expect("a time");
    let said = Claims(claims(json!({"exp": 1_800_000_000 - 301})));
    let outcome = said.check_times(SignedDuration::from_hours(24), true, now);
    assert_eq!(outcome, Err(TokenError::Expired));
}

#[test]
fn a_set_of_keys_remembers_good_tokens_of_its_issuers_alone() {
    let key = SigningKey::from_pem(P256).expect("a key");
    let set = KeySet::new(vec![key.public().clone()]);
    let good = key.sign(&claims(json!({"iss": "a", "sub": "jane"}))).expect("randomness");
    let tampered = format!("{}A", &good[..good.len() - 1]);
    for _ in 0..2 {
        let said = set.verify(&good, |issuer| issuer == "a").expect("ours").expect("signed");
        assert_eq!(said.text("sub"), "jane");
        assert!(set.verify(&good, |issuer| issuer == "b").is_none());
        let refused = set.verify(&tampered, |issuer| issuer == "a").expect("ours");
        assert!(tampered == good || refused == Err(TokenError::Signature));
        assert!(set.verify("opaque", |_| true).is_none());
    }
}
