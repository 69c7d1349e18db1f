//! Whether rights that somebody has take in those that they want to hand on.

use std::{collections::BTreeMap, fmt};

use super::{
    Rule,
    rule::{has_or_all, path_covers},
};

/// Most pieces that rules are taken apart into. A role of people is a few hundred; the product of three long lists
/// would take longer than a request may.
const MOST_PIECES: usize = 20_000;

/// What is wanted and not held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// These rules.
    Rules(Vec<Rule>),
    /// The rules are too many to be held against anything.
    TooMany,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing::Rules(rules) = self else {
            return write!(f, "the rules name more than {MOST_PIECES} combinations");
        };
        for (index, rule) in rules.iter().enumerate() {
            f.write_str(if index > 0 { "\n{" } else { "{" })?;
            let fields = [
                ("APIGroups", &rule.groups),
                ("Resources", &rule.resources),
                ("ResourceNames", &rule.names),
                ("NonResourceURLs", &rule.paths),
                ("Verbs", &rule.verbs),
            ];
            let mut between = "";
            for (field, values) in fields.into_iter().filter(|(_, values)| !values.is_empty()) {
                let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
                write!(f, "{between}{field}:[{}]", quoted.join(" "))?;
                between = ", ";
            }
            f.write_str("}")?;
        }
        Ok(())
    }
}

/// What of `wanted` is not in `held`, rule by rule and piece by piece; nothing when all of it is.
///
/// A piece is one verb on one resource of one group (and of one name), or on one path: several rules together may hold
/// what none of them holds alone. A `*` is held only by a `*`.
pub fn missing(held: &[Rule], wanted: &[Rule]) -> Option<Missing> {
    let mut pieces = vec![];
    for rule in wanted.iter().filter(|rule| !held.iter().any(|own| covers(own, rule))) {
        if pieces.len().saturating_add(n_pieces(rule)) > MOST_PIECES {
            return Some(Missing::TooMany);
        }
        pieces.extend(take_apart(rule));
    }
    pieces.retain(|piece| !held.iter().any(|own| covers(own, piece)));
    (!pieces.is_empty()).then(|| Missing::Rules(put_together(pieces)))
}

/// Whether one rule takes in another as a whole.
fn covers(own: &Rule, wanted: &Rule) -> bool {
    let takes_all = |own: &[String], wanted: &[String]| {
        own.iter().any(|one| one == "*") || wanted.iter().all(|one| has_or_all(own, one))
    };
    takes_all(&own.verbs, &wanted.verbs)
        && takes_all(&own.groups, &wanted.groups)
        && wanted.resources.iter().all(|resource| resource_is_in(&own.resources, resource))
        && match (own.names.is_empty(), wanted.names.is_empty()) {
            (true, _) => true,
            (false, true) => false,
            (false, false) => wanted.names.iter().all(|name| own.names.contains(name)),
        }
        && wanted.paths.iter().all(|path| own.paths.iter().any(|own| path_covers(own, path)))
}

fn resource_is_in(own: &[String], wanted: &str) -> bool {
    let of_any = wanted.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    own.iter().any(|one| one == "*" || one == wanted || Some(one) == of_any.as_ref())
}

fn n_pieces(rule: &Rule) -> usize {
    let on_objects =
        rule.groups.len().saturating_mul(rule.resources.len()).saturating_mul(rule.names.len().max(1));
    rule.verbs.len().saturating_mul(on_objects.saturating_add(rule.paths.len()))
}

fn take_apart(rule: &Rule) -> Vec<Rule> {
    let one = |text: &String| vec![text.clone()];
    let mut pieces = vec![];
    for verb in &rule.verbs {
        for group in &rule.groups {
            for resource in &rule.resources {
                let piece = Rule {
                    verbs: one(verb),
                    groups: one(group),
                    resources: one(resource),
                    ..Rule::default()
                };
                match rule.names.is_empty() {
                    true => pieces.push(piece),
                    false => pieces
                        .extend(rule.names.iter().map(|name| Rule { names: one(name), ..piece.clone() })),
                }
            }
        }
        let paths = rule.paths.iter();
        pieces.extend(paths.map(|path| Rule { verbs: one(verb), paths: one(path), ..Rule::default() }));
    }
    pieces
}

/// Pieces that differ in their verbs alone become one rule.
fn put_together(pieces: Vec<Rule>) -> Vec<Rule> {
    let mut by_object: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    for mut piece in pieces {
        let verbs = std::mem::take(&mut piece.verbs);
        by_object.entry(piece).or_default().extend(verbs);
    }
    let whole = by_object.into_iter().map(|(rule, mut verbs)| {
        verbs.sort();
        verbs.dedup();
        Rule { verbs, ..rule }
    });
    whole.collect()
}
