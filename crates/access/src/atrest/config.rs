//! The configuration: which resources are sealed, with which keys.
//!
//! Its form is Kubernetes' `EncryptionConfiguration`; what is wrong with one is told with the path of the field.

use std::{collections::BTreeSet, fmt};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use super::keys::{Kind, Random, SealingKey};

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";

/// Which resources are sealed, with what.
#[derive(Debug, Default)]
pub struct Configuration {
    pub(super) rules: Vec<Rule>,
}

/// Some resources and how they are sealed. The first rule that names a resource is the one that holds.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) resources: Vec<Pattern>,
    /// The first seals; all of them open.
    pub(super) providers: Vec<Provider>,
}

/// Resources that are meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pattern {
    /// `*.*`
    Everything,
    /// `*.apps`, or `*.` for the core group.
    Group(String),
    /// `deployments.apps`, or `secrets` in the core group.
    Resource { plural: String, group: String },
}

impl Pattern {
    pub(super) fn holds(&self, group: &str, plural: &str) -> bool {
        match self {
            Pattern::Everything => true,
            Pattern::Group(own) => own == group,
            Pattern::Resource { plural: own, group: of } => own == plural && of == group,
        }
    }
}

/// How values are sealed.
#[derive(Debug)]
pub(super) enum Provider {
    /// Not at all.
    Identity,
    /// With the first of these keys.
    Keys(Vec<SealingKey>),
}

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field, such as `resources[0].providers[1].aescbc.keys[0].secret`.
    pub path: String,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => f.write_str(&self.why),
            false => write!(f, "{}: {}", self.path, self.why),
        }
    }
}

impl Configuration {
    /// Reads a configuration, or tells all that is wrong with it.
    pub fn parse(document: &Value) -> Result<Self, Vec<Fault>> {
        let mut reader = Reader::default();
        let rules = reader.document(document);
        match reader.faults.is_empty() {
            true => Ok(Configuration { rules }),
            false => Err(reader.faults),
        }
    }

    /// A configuration, in YAML, that seals Secrets with a new key.
    pub fn fresh(random: &Random) -> String {
        let name: String = random.bytes::<4>().iter().map(|byte| format!("{byte:02x}")).collect();
        let secret = BASE64_STANDARD.encode(random.bytes::<32>());
        format!(
            "# The key that Secrets are encrypted with on disk. Without it they cannot be read: back it up, apart
# from the data. To change it, put a new key before this one and restart; once that has sealed everything anew
# (metric windlass_store_to_reseal is 0), this one can go.
apiVersion: {API_VERSION}
kind: {KIND}
resources:
- resources: [secrets]
  providers:
  - xchacha20poly1305:
      keys:
      - name: key-{name}
        secret: {secret}
  - identity: {{}}
"
        )
    }
}

/// Walks the document and notes what is wrong.
#[derive(Default)]
struct Reader {
    faults: Vec<Fault>,
}

impl Reader {
    fn fault(&mut self, path: &str, why: impl Into<String>) {
        self.faults.push(Fault { path: path.to_owned(), why: why.into() });
    }

    /// The fields of an object, if it has no others.
    fn object<'a>(&mut self, path: &str, value: &'a Value, known: &[&str]) -> Option<&'a Map<String, Value>> {
        let Some(object) = value.as_object() else {
            self.fault(path, "expected an object");
            return None;
        };
        for field in object.keys().filter(|field| !known.contains(&field.as_str())) {
            self.fault(&joined(path, field), format!("unknown field, expected one of {}", known.join(", ")));
        }
        Some(object)
    }

    /// The items of a list that must not be empty.
    fn list<'a>(
        &mut self,
        path: &str,
        object: &'a Map<String, Value>,
        field: &str,
        what: &str,
    ) -> &'a [Value] {
        let path = joined(path, field);
        match object.get(field) {
            Some(Value::Array(items)) if !items.is_empty() => return items,
            Some(Value::Array(_) | Value::Null) | None => {
                self.fault(&path, format!("Required value: at least one {what} is required"));
            }
            Some(_) => self.fault(&path, "expected a list"),
        }
        &[]
    }

    fn text<'a>(&mut self, path: &str, object: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
        match object.get(field).map(|value| value.as_str()) {
            Some(Some(text)) if !text.is_empty() => Some(text),
            Some(None) => {
                self.fault(&joined(path, field), "expected text");
                None
            }
            _ => {
                self.fault(&joined(path, field), "Required value");
                None
            }
        }
    }

    fn document(&mut self, document: &Value) -> Vec<Rule> {
        let Some(root) = self.object("", document, &["apiVersion", "kind", "resources"]) else {
            return vec![];
        };
        for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            if self.text("", root, field).is_some_and(|found| found != expected) {
                self.fault(field, format!("expected {expected}"));
            }
        }
        let items = self.list("", root, "resources", "resource");
        items
            .iter()
            .enumerate()
            .filter_map(|(at, item)| self.rule(&format!("resources[{at}]"), item))
            .collect()
    }

    fn rule(&mut self, path: &str, value: &Value) -> Option<Rule> {
        let object = self.object(path, value, &["resources", "providers"])?;
        let mut resources: Vec<Pattern> = vec![];
        for (at, item) in self.list(path, object, "resources", "resource").iter().enumerate() {
            let path = format!("{path}.resources[{at}]");
            match item.as_str().map_or(Err("expected text"), pattern) {
                Ok(found) if resources.contains(&found) => {
                    self.fault(&path, "the same resource cannot be specified multiple times");
                }
                Ok(found) => resources.push(found),
                Err(why) => self.fault(&path, why),
            }
        }
        if let Some(masked) = masked(&resources) {
            self.fault(
                &format!("{path}.resources"),
                format!("{masked} is in this list twice, once by a wildcard"),
            );
        }
        let mut providers = vec![];
        let mut names = BTreeSet::new();
        for (at, item) in self.list(path, object, "providers", "provider").iter().enumerate() {
            providers.extend(self.provider(&format!("{path}.providers[{at}]"), item, &mut names));
        }
        Some(Rule { resources, providers })
    }

    fn provider(
        &mut self,
        path: &str,
        value: &Value,
        names: &mut BTreeSet<(&'static str, String)>,
    ) -> Option<Provider> {
        let kinds = Kind::ALL.map(Kind::name);
        let known: Vec<&str> = ["identity", "kms"].into_iter().chain(kinds).collect();
        let object = self.object(path, value, &known)?;
        let given: Vec<&String> = object.keys().filter(|field| known.contains(&field.as_str())).collect();
        match given.as_slice() {
            [] => {
                self.fault(path, format!("Required value: a provider, one of {}", known.join(", ")));
                None
            }
            [_, _, ..] => {
                self.fault(
                    path,
                    "more than one provider specified in a single element, should split into different list elements",
                );
                None
            }
            [name] if *name == "identity" => {
                let path = joined(path, name);
                if !object[*name].is_null() {
                    self.object(&path, &object[*name], &[])?;
                }
                Some(Provider::Identity)
            }
            [name] if *name == "kms" => {
                self.fault(
                    &joined(path, name),
                    "key management services are not supported, expected keys in this file: aescbc, aesgcm, \
                     secretbox or xchacha20poly1305",
                );
                None
            }
            [name] => {
                let kind = Kind::ALL.into_iter().find(|kind| kind.name() == *name)?;
                let path = joined(path, name);
                let settings = self.object(&path, &object[*name], &["keys"])?;
                let mut keys = vec![];
                for (at, item) in self.list(&path, settings, "keys", "key").iter().enumerate() {
                    keys.extend(self.key(&format!("{path}.keys[{at}]"), item, kind, names));
                }
                Some(Provider::Keys(keys))
            }
        }
    }

    fn key(
        &mut self,
        path: &str,
        value: &Value,
        kind: Kind,
        names: &mut BTreeSet<(&'static str, String)>,
    ) -> Option<SealingKey> {
        let object = self.object(path, value, &["name", "secret"])?;
        let name = self.text(path, object, "name");
        let secret = self.text(path, object, "secret");
        let (name, secret) = (name?, secret?);
        if !names.insert((kind.name(), name.to_owned())) {
            self.fault(&joined(path, "name"), format!("there is another {} key of this name", kind.name()));
        }
        // What is wrong with a secret is told without it.
        let path = joined(path, "secret");
        let Ok(secret) = BASE64_STANDARD.decode(secret) else {
            self.fault(&path, "secrets must be base64 encoded");
            return None;
        };
        let key = kind.key(name, &secret);
        if key.is_none() {
            let (found, sizes) = (secret.len(), kind.sizes());
            self.fault(
                &path,
                format!("secret is not of the expected length, got {found}, expected one of {sizes:?}"),
            );
        }
        key
    }
}

fn joined(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

fn pattern(text: &str) -> Result<Pattern, &'static str> {
    if text.is_empty() {
        return Err("Required value: the name of a resource");
    }
    if text.chars().any(|letter| letter.is_uppercase()) {
        return Err("resource name should not contain capital letters");
    }
    let (plural, group) = text.split_once('.').unwrap_or((text, ""));
    match (plural, group) {
        ("*", "*") => Ok(Pattern::Everything),
        ("*", "") if text == "*" => {
            Err("use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources")
        }
        (_, "*") => Err("encrypting the same resource across groups is not supported"),
        (_, "events.k8s.io") => {
            Err("events of events.k8s.io are stored as those of the core group, expected 'events'")
        }
        ("*", group) => Ok(Pattern::Group(group.to_owned())),
        ("", _) => Err("expected the name of a resource, such as secrets or widgets.example.com"),
        (plural, group) => Ok(Pattern::Resource { plural: plural.to_owned(), group: group.to_owned() }),
    }
}

/// What is named by a wildcard of the same list as well.
fn masked(patterns: &[Pattern]) -> Option<String> {
    if patterns.contains(&Pattern::Everything) && patterns.len() > 1 {
        return Some("everything".into());
    }
    patterns.iter().find_map(|pattern| match pattern {
        Pattern::Resource { plural, group } if patterns.contains(&Pattern::Group(group.clone())) => {
            Some(if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") })
        }
        _ => None,
    })
}
