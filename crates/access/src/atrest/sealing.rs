//! Sealing and opening values by a configuration, given where they stand in the store.

use std::collections::HashMap;

use super::{
    config::{Configuration, Provider, Rule},
    keys::{Random, SealingKey},
};

/// What everything that is sealed begins with.
const SEALED: &[u8] = b"k8s:enc:";

/// Where the objects of a resource stand in the store.
#[derive(Clone, Debug)]
pub struct Stored {
    /// What their keys begin with, such as `services/specs/`.
    pub prefix: String,
    /// The group of the resource.
    pub group: String,
    /// Its plural name.
    pub plural: String,
}

/// A configuration in force.
#[derive(Debug)]
pub struct Sealing {
    rules: Vec<Rule>,
    /// By the beginning of the keys: the rule that holds, if one does.
    builtin: HashMap<String, Option<usize>>,
    /// What stands before the keys in etcd: a value is bound to the whole of it.
    root: String,
    random: Random,
}

/// A value that was opened.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    /// The value; `None` when it is what is stored.
    pub value: Option<Vec<u8>>,
    /// Whether it is stored as it would be now.
    pub is_current: bool,
}

/// Why a value cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The configuration says nothing about this resource.
    #[error("it is encrypted ({0}), and nothing is configured for resources of this kind")]
    NotConfigured(String),
    /// None of the keys is the one it names.
    #[error("it is encrypted with a key that is not configured: {0}")]
    NoKey(String),
    /// The key does not open it.
    #[error(
        "the configured key does not open it: {0}; it is another key of that name, or the value was changed or moved"
    )]
    WrongKey(String),
    /// It is plain, and the configuration has no `identity` provider.
    #[error("it is not encrypted, and no identity provider is configured that would read it as it is")]
    Plain,
}

impl Sealing {
    /// Puts a configuration in force for a store with these built-in resources. Custom ones stand under their
    /// group and name. `root` is what stands before the keys in etcd.
    pub fn new(configuration: Configuration, builtin: &[Stored], root: &str) -> Self {
        let rules = configuration.rules;
        let builtin = builtin
            .iter()
            .map(|Stored { prefix, group, plural }| (prefix.clone(), rule_of(&rules, group, plural)))
            .collect();
        Sealing { rules, builtin, root: root.to_owned(), random: Random::default() }
    }

    /// What to store of a value; `None` stores it as it is.
    pub fn seal(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let Provider::Keys(keys) = self.rule(key)?.providers.first()? else { return None };
        Some(keys.first()?.seal(&self.random, &self.place(key), value))
    }

    /// The value of which this is stored.
    pub fn open(&self, key: &[u8], stored: &[u8]) -> Result<Opened, OpenError> {
        let rule = self.rule(key);
        if !stored.starts_with(SEALED) {
            let Some(rule) = rule else { return Ok(Opened { value: None, is_current: true }) };
            let at = rule.providers.iter().position(|provider| matches!(provider, Provider::Identity));
            return match at {
                Some(at) => Ok(Opened { value: None, is_current: at == 0 }),
                None => Err(OpenError::Plain),
            };
        }
        let named = named(stored);
        let Some(rule) = rule else { return Err(OpenError::NotConfigured(named)) };
        let place = self.place(key);
        let mut is_known = false;
        for (at, key) in keys(rule) {
            if !stored.starts_with(&key.prefix) {
                continue;
            }
            is_known = true;
            if let Some(value) = key.open(&place, stored) {
                return Ok(Opened { value: Some(value), is_current: at == (0, 0) });
            }
        }
        Err(if is_known { OpenError::WrongKey(named) } else { OpenError::NoKey(named) })
    }

    fn place(&self, key: &[u8]) -> Vec<u8> {
        [self.root.as_bytes(), key].concat()
    }

    fn rule(&self, key: &[u8]) -> Option<&Rule> {
        let key = std::str::from_utf8(key).ok()?;
        let mut slashes = key.match_indices('/').map(|(at, _)| at);
        let first = slashes.next()?;
        if let Some(rule) = self.builtin.get(&key[..=first]) {
            return self.rules.get((*rule)?);
        }
        let second = slashes.next()?;
        if let Some(rule) = self.builtin.get(&key[..=second]) {
            return self.rules.get((*rule)?);
        }
        // Groups of custom kinds have a dot in them, and nothing else that comes first does.
        let group = Some(&key[..first]).filter(|group| group.contains('.'))?;
        self.rules.get(rule_of(&self.rules, group, &key[first + 1..second])?)
    }
}

fn rule_of(rules: &[Rule], group: &str, plural: &str) -> Option<usize> {
    rules.iter().position(|rule| rule.resources.iter().any(|pattern| pattern.holds(group, plural)))
}

/// The keys of a rule, with the places of the provider and of the key in it.
fn keys(rule: &Rule) -> impl Iterator<Item = ((usize, usize), &SealingKey)> {
    rule.providers.iter().enumerate().flat_map(|(at, provider)| {
        let keys = match provider {
            Provider::Identity => &[],
            Provider::Keys(keys) => keys.as_slice(),
        };
        keys.iter().enumerate().map(move |(idx, key)| ((at, idx), key))
    })
}

/// What a sealed value says about its seal: everything up to the name of the key.
fn named(stored: &[u8]) -> String {
    let fields = stored.split(|&byte| byte == b':').skip(2).take(3);
    let words: Vec<_> =
        fields.map(|field| String::from_utf8_lossy(&field[..field.len().min(64)]).into_owned()).collect();
    match words.as_slice() {
        [provider, _, key] => format!("{provider}, key {key:?}"),
        _ => "in a form that is not known".to_owned(),
    }
}
