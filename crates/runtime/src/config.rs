//! What a hub is told: which reconcilers run, and how.
//!
//! The names are those that operators know from other hubs. Whoever reads the file, as YAML or JSON, hands over a
//! [`HubConfig`]; fields that nobody knows are errors, so that a slip of the pen is not silence.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{Key, election::Durations};

/// What a hub is told.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct HubConfig {
    /// Where metrics are served: `HOST:PORT`, or `:PORT` for every address; nowhere without, or with `0`.
    #[serde(with = "address", skip_serializing_if = "Option::is_none")]
    pub metrics_bind_address: Option<SocketAddr>,
    /// Where health is served.
    #[serde(with = "address", skip_serializing_if = "Option::is_none")]
    pub health_probe_bind_address: Option<SocketAddr>,
    /// Whether one of several hubs acts.
    pub leader_election: LeaderElectionConfig,
    /// What differs from the defaults, by the name of a reconciler.
    pub reconcilers: BTreeMap<String, ReconcilerConfig>,
}

/// How one of several hubs is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct LeaderElectionConfig {
    /// Whether one is chosen at all.
    pub enabled: bool,
    /// Where the lease is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// See [`Durations::lease`].
    #[serde(with = "duration")]
    pub lease_duration: Duration,
    /// See [`Durations::renew_deadline`].
    #[serde(with = "duration")]
    pub renew_deadline: Duration,
    /// See [`Durations::retry`].
    #[serde(with = "duration")]
    pub retry_period: Duration,
}

impl Default for LeaderElectionConfig {
    fn default() -> Self {
        let Durations { lease, renew_deadline, retry } = Durations::default();
        LeaderElectionConfig {
            enabled: false,
            namespace: "kube-system".to_owned(),
            name: "windlass-hub".to_owned(),
            lease_duration: lease,
            renew_deadline,
            retry_period: retry,
        }
    }
}

impl LeaderElectionConfig {
    /// How long things take.
    pub fn durations(&self) -> Durations {
        Durations {
            lease: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry: self.retry_period,
        }
    }
}

/// How one reconciler runs.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ReconcilerConfig {
    /// Whether it runs at all.
    pub enabled: bool,
    /// How many objects are looked after at once, from 1 to 1024; as the reconciler says without.
    #[serde(with = "workers", skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// How long one reconcile may take; as the reconciler says without.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The namespaces whose objects are seen. With neither these nor keys, all are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Objects that are seen besides, as `NAMESPACE/NAME` or `NAME`.
    #[serde(with = "keys", skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Key>,
    /// What only the reconciler itself understands.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub settings: serde_json::Value,
}

impl Default for ReconcilerConfig {
    fn default() -> Self {
        ReconcilerConfig {
            enabled: true,
            workers: None,
            timeout: None,
            namespaces: vec![],
            keys: vec![],
            settings: serde_json::Value::Null,
        }
    }
}

impl ReconcilerConfig {
    /// Whether objects of this key are seen.
    pub fn sees(&self, key: &Key) -> bool {
        let sees_all = self.namespaces.is_empty() && self.keys.is_empty();
        sees_all
            || self.namespaces.iter().any(|namespace| namespace == key.namespace())
            || self.keys.contains(key)
    }
}

/// Durations as people write them: `15s`, `1m30s`, `500ms`.
mod duration {
    use std::time::Duration;

    use jiff::SignedDuration;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = text.parse::<SignedDuration>().ok().and_then(|parsed| Duration::try_from(parsed).ok());
        parsed.filter(|parsed| !parsed.is_zero()).ok_or_else(|| {
            D::Error::custom(format!("expected a duration such as 15s or 1m30s, found {text:?}"))
        })
    }

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format!("{duration:?}"))
    }
}

/// How many workers there are: some, and not so many that they are in each other's way.
mod workers {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    const MOST: usize = 1024;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
        match Option::<usize>::deserialize(deserializer)? {
            Some(found) if !(1..=MOST).contains(&found) => {
                Err(D::Error::custom(format!("workers: expected a number from 1 to {MOST}, found {found}")))
            }
            workers => Ok(workers),
        }
    }

    pub(super) fn serialize<S: Serializer>(
        workers: &Option<usize>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        workers.serialize(serializer)
    }
}

mod optional_duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    struct Wrapped(#[serde(with = "super::duration")] Duration);

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Wrapped>::deserialize(deserializer)?.map(|Wrapped(duration)| duration))
    }

    pub(super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::duration::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }
}

mod keys {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::Key;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Key>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }

    pub(super) fn serialize<S: Serializer>(keys: &[Key], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(keys.iter().map(ToString::to_string))
    }
}

/// Addresses as other hubs have them: `:8080` is every address, `0` is none.
mod address {
    use super::{Ipv4Addr, SocketAddr};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SocketAddr>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        if text.is_empty() || text == "0" {
            return Ok(None);
        }
        let port = text.strip_prefix(':').and_then(|port| port.parse().ok());
        let everywhere = port.map(|port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
        let localhost = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
        let localhost = localhost.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let parsed = everywhere.or(localhost).or_else(|| text.parse().ok()).map(Some);
        parsed.ok_or_else(|| D::Error::custom(format!("expected ADDRESS:PORT, :PORT or 0, found {text:?}")))
    }

    pub(super) fn serialize<S: Serializer>(
        address: &Option<SocketAddr>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match address {
            Some(address) => serializer.collect_str(address),
            None => serializer.serialize_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hub_is_told_what_differs() {
        let config: HubConfig = serde_json::from_value(json!({
            "metrics-bind-address": ":18001",
            "health-probe-bind-address": "localhost:18002",
            "leader-election": {"enabled": true, "lease-duration": "1m30s", "retry-period": "500ms"},
            "reconcilers": {
                "foo": {"workers": 4, "timeout": "30s", "namespaces": ["a"], "keys": ["b/x", "y"]},
                "bar": {"enabled": false, "settings": {"any": ["thing"]}},
            },
        }))
        .expect("it is right");
        assert_eq!(config.metrics_bind_address, Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 18001))));
        assert_eq!(config.health_probe_bind_address, Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 18002))));
        let election = &config.leader_election;
        assert_eq!((election.enabled, &*election.namespace), (true, "kube-system"));
        assert_eq!(
            election.durations(),
            Durations {
                lease: Duration::from_secs(90),
                renew_deadline: Duration::from_secs(10),
                retry: Duration::from_millis(500),
            }
        );
        let foo = &config.reconcilers["foo"];
        assert_eq!((foo.enabled, foo.workers, foo.timeout), (true, Some(4), Some(Duration::from_secs(30))));
        let seen = ["a/1", "b/x", "b/z", "y", "z"].map(|key| foo.sees(&key.parse().expect("a key")));
        assert_eq!(seen, [true, true, false, true, false]);
        assert_eq!(config.reconcilers["bar"].settings, json!({"any": ["thing"]}));
        let again = serde_json::to_value(&config).and_then(serde_json::from_value::<HubConfig>);
        assert_eq!(again.expect("it can be written down"), config);
        let nothing: HubConfig =
            serde_json::from_value(json!({"metrics-bind-address": "0"})).expect("it is right");
        assert_eq!(nothing, HubConfig::default());
        assert!(ReconcilerConfig::default().sees(&Key::new("any", "thing")));
    }

    #[test]
    fn slips_of_the_pen_are_errors() {
        for (wrong, why) in [
            (json!({"reconcilers": {"foo": {"worker": 4}}}), "unknown field `worker`"),
            (json!({"leader_election": {}}), "unknown field `leader_election`"),
            (json!({"metrics-bind-address": "here"}), "expected ADDRESS:PORT"),
            (json!({"reconcilers": {"foo": {"timeout": "soon"}}}), "expected a duration"),
            (json!({"reconcilers": {"foo": {"timeout": "-5s"}}}), "expected a duration"),
            (json!({"reconcilers": {"foo": {"timeout": "0s"}}}), "expected a duration"),
            (json!({"reconcilers": {"foo": {"workers": 0}}}), "from 1 to 1024, found 0"),
            (json!({"reconcilers": {"foo": {"workers": 100_000_000}}}), "from 1 to 1024"),
            (json!({"reconcilers": {"foo": {"keys": ["a/b/c"]}}}), "expected NAMESPACE/NAME"),
        ] {
            let error = serde_json::from_value::<HubConfig>(wrong.clone()).expect_err("it is wrong");
            assert!(error.to_string().contains(why), "{wrong}: {error}");
        }
    }
}
