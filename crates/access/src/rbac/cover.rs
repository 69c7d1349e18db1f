//! Whether rights that somebody has take in those that they want to hand on.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use super::{Rule, rule::path_covers};

/// Most pieces that rules are taken apart into. A role of people is a few hundred; the product of three long lists
/// would take longer than a request may.
const MOST_PIECES: usize = 20_000;

/// Most texts in the rules that somebody holds, and most of them that are looked at. The roles that there are from the
/// beginning have a thousand; whoever gives themselves roles without end shall not keep a core busy for others.
const MOST_HELD: usize = 500_000;
const MOST_STEPS: usize = 2_000_000;

/// What stands for everything.
const ALL: &str = "*";

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
            return write!(f, "the rules, or those that are held, name too many combinations to be compared");
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
    match all_missing(held, wanted) {
        Ok(pieces) if pieces.is_empty() => None,
        Ok(pieces) => Some(Missing::Rules(put_together(pieces))),
        Err(TooMany) => Some(Missing::TooMany),
    }
}

/// It would take too long.
struct TooMany;

fn all_missing(held: &[Rule], wanted: &[Rule]) -> Result<Vec<Rule>, TooMany> {
    let mut held = Held::new(held)?;
    let mut pieces = vec![];
    for rule in wanted.iter().filter(|rule| n_pieces(rule) > 0) {
        if !held.covers(rule)? {
            if pieces.len().saturating_add(n_pieces(rule)) > MOST_PIECES {
                return Err(TooMany);
            }
            pieces.extend(take_apart(rule));
        }
    }
    let mut missing = vec![];
    for piece in pieces {
        if !held.covers(&piece)? {
            missing.push(piece);
        }
    }
    Ok(missing)
}

/// Rules by a text that they have in a list.
type By<'a> = HashMap<&'a str, Vec<usize>>;

/// Rules that somebody holds, so that only those are looked at which may take in what is wanted.
struct Held<'a> {
    rules: Vec<Own<'a>>,
    by_verb: By<'a>,
    by_group: By<'a>,
    by_resource: By<'a>,
    by_name: By<'a>,
    /// Those that are about objects of any name.
    of_any_name: Vec<usize>,
    with_paths: Vec<usize>,
    /// How much may still be looked at.
    n_left: usize,
}

impl<'a> Held<'a> {
    fn new(rules: &'a [Rule]) -> Result<Self, TooMany> {
        let n_texts = |rule: &Rule| {
            let lists = [&rule.verbs, &rule.groups, &rule.resources, &rule.names, &rule.paths];
            lists.map(Vec::len).iter().sum::<usize>()
        };
        if rules.iter().map(n_texts).sum::<usize>() > MOST_HELD {
            return Err(TooMany);
        }
        let (mut by_verb, mut by_group, mut by_resource, mut by_name) =
            (By::new(), By::new(), By::new(), By::new());
        let own = rules.iter().enumerate().map(|(idx, rule)| Own {
            verbs: filed(idx, &rule.verbs, &mut by_verb),
            groups: filed(idx, &rule.groups, &mut by_group),
            resources: filed(idx, &rule.resources, &mut by_resource),
            names: filed(idx, &rule.names, &mut by_name),
            paths: &rule.paths,
        });
        let own: Vec<Own<'_>> = own.collect();
        let those = |is: fn(&Rule) -> bool| -> Vec<usize> {
            rules.iter().enumerate().filter(|(_, rule)| is(rule)).map(|(idx, _)| idx).collect()
        };
        let (of_any_name, with_paths) =
            (those(|rule| rule.names.is_empty()), those(|rule| !rule.paths.is_empty()));
        Ok(Held {
            rules: own,
            by_verb,
            by_group,
            by_resource,
            by_name,
            of_any_name,
            with_paths,
            n_left: MOST_STEPS,
        })
    }

    /// Whether one of them takes in all of another.
    fn covers(&mut self, wanted: &Rule) -> Result<bool, TooMany> {
        let mut n_left = self.n_left;
        let candidates = self.candidates(wanted).into_iter().flatten();
        let found =
            candidates.map(|idx| self.rules[*idx].covers(wanted, &mut n_left)).find(|one| *one != Ok(false));
        self.n_left = n_left;
        found.unwrap_or(Ok(false)).map_err(|()| TooMany)
    }

    /// Those that have one of the things that are wanted: the one that fewest have.
    fn candidates(&self, wanted: &Rule) -> Vec<&[usize]> {
        let of = |by, first: Option<&String>| first.map(|first: &String| lists(by, &[ALL, first]));
        let resource = wanted.resources.first().map(|resource| match of_any(resource) {
            Some(of_any) => lists(&self.by_resource, &[ALL, resource, &of_any]),
            None => lists(&self.by_resource, &[ALL, resource]),
        });
        let name = wanted.names.first().map(|name| {
            let mut lists = lists(&self.by_name, &[name]);
            lists.push(&self.of_any_name);
            lists
        });
        let path = wanted.paths.first().map(|_| vec![&self.with_paths[..]]);
        let (verb, group) =
            (of(&self.by_verb, wanted.verbs.first()), of(&self.by_group, wanted.groups.first()));
        let choices = [verb, group, resource, name, path].into_iter().flatten();
        choices.min_by_key(|lists| lists.iter().map(|list| list.len()).sum::<usize>()).unwrap_or_default()
    }
}

/// Files a rule under all texts of a list, and gives them in order.
fn filed<'a>(idx: usize, list: &'a [String], by: &mut By<'a>) -> Vec<&'a str> {
    let mut sorted: Vec<&str> = list.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.iter().for_each(|text| by.entry(text).or_default().push(idx));
    sorted
}

/// The rules that have any of these.
fn lists<'b>(by: &'b By<'_>, texts: &[&str]) -> Vec<&'b [usize]> {
    texts.iter().filter_map(|text| by.get(*text)).map(Vec::as_slice).collect()
}

/// One of the rules that somebody holds, with its lists in order.
struct Own<'a> {
    verbs: Vec<&'a str>,
    groups: Vec<&'a str>,
    resources: Vec<&'a str>,
    names: Vec<&'a str>,
    paths: &'a [String],
}

impl Own<'_> {
    /// Whether it takes in another as a whole; an error if nothing more may be looked at.
    fn covers(&self, wanted: &Rule, n_left: &mut usize) -> Result<bool, ()> {
        let mut looked = |n: usize| {
            *n_left = n_left.saturating_sub(n);
            *n_left > 0
        };
        let has = |own: &[&str], one: &str| own.binary_search(&one).is_ok();
        let mut takes_all = |own: &[&str], wanted: &[String]| {
            has(own, ALL) || wanted.iter().all(|one| looked(1) && has(own, one))
        };
        let is_covered = takes_all(&self.verbs, &wanted.verbs)
            && takes_all(&self.groups, &wanted.groups)
            && wanted.resources.iter().all(|one| {
                let has_any = || of_any(one).is_some_and(|of_any| has(&self.resources, &of_any));
                looked(1) && (has(&self.resources, ALL) || has(&self.resources, one) || has_any())
            })
            && match (self.names.is_empty(), wanted.names.is_empty()) {
                (true, _) => true,
                (false, true) => false,
                (false, false) => wanted.names.iter().all(|one| looked(1) && has(&self.names, one)),
            }
            && wanted
                .paths
                .iter()
                .all(|path| looked(self.paths.len()) && self.paths.iter().any(|own| path_covers(own, path)));
        if looked(1) { Ok(is_covered) } else { Err(()) }
    }
}

/// What stands for the same part of any resource: `*/scale` for `deployments/scale`.
fn of_any(resource: &str) -> Option<String> {
    resource.split_once('/').map(|(_, sub)| format!("{ALL}/{sub}"))
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
