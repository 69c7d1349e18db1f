//! Which names a definition may have: those that no other definition of its group has. Pure.
//!
//! What was accepted once stays accepted. Who comes later and asks for the same waits until it is free.

use std::collections::HashMap;

use windlass_machinery::{
    definition::{Approval, is_protected},
    object::{Object, metadata_mut},
};

use super::wire::{Condition, Names, Wire};

/// Names that are taken in a group, and by whom.
#[derive(Debug, Default)]
pub(super) struct Register {
    /// Plurals, singulars and short names, which share one space.
    resources: HashMap<String, String>,
    kinds: HashMap<String, String>,
}

fn of_resources(names: &Names) -> impl Iterator<Item = &String> {
    [&names.plural, &names.singular].into_iter().chain(&names.short_names).filter(|name| !name.is_empty())
}

fn of_kinds(names: &Names) -> impl Iterator<Item = &String> {
    [&names.kind, &names.list_kind].into_iter().filter(|name| !name.is_empty())
}

impl Register {
    /// Adds the names that a definition was given.
    pub(super) fn add(&mut self, owner: &str, names: &Names) {
        for name in of_resources(names) {
            self.resources.entry(name.clone()).or_insert_with(|| owner.to_owned());
        }
        for name in of_kinds(names) {
            self.kinds.entry(name.clone()).or_insert_with(|| owner.to_owned());
        }
    }

    /// Frees the names of a definition.
    pub(super) fn remove(&mut self, owner: &str, names: &Names) {
        let free = |space: &mut HashMap<String, String>, name: &String| {
            if space.get(name).is_some_and(|taker| taker == owner) {
                space.remove(name);
            }
        };
        of_resources(names).for_each(|name| free(&mut self.resources, name));
        of_kinds(names).for_each(|name| free(&mut self.kinds, name));
    }
}

/// What a definition is given of what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) names: Names,
    pub(super) accepted: Condition,
    pub(super) established: Condition,
    /// Whether the community has approved of it, for kinds in the groups of the community.
    pub(super) approved: Option<Condition>,
}

/// Decides on the names of a definition beside those that are taken.
pub(super) fn decide(definition: &Wire, register: &Register) -> Decision {
    let (asked, had) = (&definition.spec.names, &definition.status.accepted_names);
    let own = &definition.metadata.name;
    let is_free =
        |space: &HashMap<String, String>, name: &str| space.get(name).is_none_or(|taker| taker == own);
    let mut names = had.clone();
    let settle = |reason: &'static str, space, asked: &String, had: &mut String| match is_free(space, asked) {
        true => {
            had.clone_from(asked);
            None
        }
        false => Some((reason, in_use(asked))),
    };
    let clashes = asked.short_names.iter().filter(|name| !is_free(&register.resources, name));
    let clashes: Vec<String> = clashes.map(|name| in_use(name)).collect();
    if clashes.is_empty() {
        names.short_names.clone_from(&asked.short_names);
    }
    let short = match clashes.as_slice() {
        [] => None,
        [one] => Some(("ShortNamesConflict", one.clone())),
        many => Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
    };
    let conflicts = [
        settle("PluralConflict", &register.resources, &asked.plural, &mut names.plural),
        settle("SingularConflict", &register.resources, &asked.singular, &mut names.singular),
        short,
        settle("KindConflict", &register.kinds, &asked.kind, &mut names.kind),
        settle("ListKindConflict", &register.kinds, &asked.list_kind, &mut names.list_kind),
    ];
    names.categories.clone_from(&asked.categories);
    // Only one can be told; as in Kubernetes, that is the last.
    let accepted = match conflicts.into_iter().flatten().last() {
        None => condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
        Some((reason, message)) => condition("NamesAccepted", false, reason, &message),
    };
    // Who was established once stays so, whatever it asks for later.
    let established = match (definition.condition("Established"), accepted.status == "True") {
        (Some(condition), _) if condition.status == "True" => condition.clone(),
        (_, true) => {
            condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted")
        }
        (_, false) => condition("Established", false, "NotAccepted", "not all names are accepted"),
    };
    Decision { names, accepted, established, approved: approval(definition) }
}

fn approval(definition: &Wire) -> Option<Condition> {
    if !is_protected(&definition.spec.group) {
        return None;
    }
    let annotations = serde_json::to_value(&definition.metadata.annotations).unwrap_or_default();
    let mut annotated = Object::new();
    metadata_mut(&mut annotated).insert("annotations".to_owned(), annotations);
    let (approval, message) = Approval::of(&annotated);
    let reason = match approval {
        Approval::Missing => "MissingAnnotation",
        Approval::Invalid => "InvalidAnnotation",
        Approval::Bypassed => "UnapprovedAnnotation",
        Approval::Approved => "ApprovedAnnotation",
    };
    let is_approved = approval == Approval::Approved;
    Some(condition("KubernetesAPIApprovalPolicyConformant", is_approved, reason, &message))
}

fn in_use(name: &str) -> String {
    format!("{name:?} is already in use")
}

/// A condition.
pub(crate) fn condition(kind: &str, holds: bool, reason: &str, message: &str) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plural: &str, singular: &str, kind: &str, list_kind: &str, short: &[&str]) -> Names {
        Names {
            plural: plural.to_owned(),
            singular: singular.to_owned(),
            kind: kind.to_owned(),
            list_kind: list_kind.to_owned(),
            short_names: short.iter().map(ToString::to_string).collect(),
            categories: vec![],
        }
    }

    fn asking(asked: Names, had: Names) -> Wire {
        let mut wire: Wire = serde_json::from_str(r#"{"metadata": {}, "spec": {}}"#).expect("a definition");
        wire.spec.names = asked;
        wire.status.accepted_names = had;
        wire
    }

    fn taken(names: &Names) -> Register {
        let mut register = Register::default();
        register.add("another.example.com", names);
        register
    }

    #[test]
    fn whoever_is_first_gets_the_name() {
        let asked = || names("foos", "foo", "Foo", "FooList", &["f", "fo"]);
        let cases: [(Names, &str, &str, Names); 7] = [
            (names("bars", "bar", "Bar", "BarList", &["b"]), "NoConflicts", "no conflicts found", asked()),
            (
                names("bars", "foos", "Bar", "BarList", &[]),
                "PluralConflict",
                "\"foos\" is already in use",
                names("", "foo", "Foo", "FooList", &["f", "fo"]),
            ),
            (
                names("foo", "bar", "Bar", "BarList", &[]),
                "SingularConflict",
                "\"foo\" is already in use",
                names("foos", "", "Foo", "FooList", &["f", "fo"]),
            ),
            (
                names("bars", "f", "Bar", "BarList", &[]),
                "ShortNamesConflict",
                "\"f\" is already in use",
                names("foos", "foo", "Foo", "FooList", &[]),
            ),
            (
                names("bars", "bar", "Bar", "BarList", &["f", "fo"]),
                "ShortNamesConflict",
                "[\"f\" is already in use, \"fo\" is already in use]",
                names("foos", "foo", "Foo", "FooList", &[]),
            ),
            (
                names("bars", "bar", "Bar", "Foo", &[]),
                "KindConflict",
                "\"Foo\" is already in use",
                names("foos", "foo", "", "FooList", &["f", "fo"]),
            ),
            (
                names("bars", "bar", "FooList", "BarList", &[]),
                "ListKindConflict",
                "\"FooList\" is already in use",
                names("foos", "foo", "Foo", "", &["f", "fo"]),
            ),
        ];
        for (other, reason, message, given) in cases {
            let decision = decide(&asking(asked(), Names::default()), &taken(&other));
            assert_eq!(
                (decision.accepted.reason.as_str(), decision.accepted.message.as_str()),
                (reason, message)
            );
            assert_eq!(decision.names, given);
            assert_eq!(decision.established.status, decision.accepted.status, "{reason}");
        }
    }

    #[test]
    fn names_are_free_again_when_their_owner_is_gone() {
        let mut register = taken(&names("foos", "foo", "Foo", "FooList", &["f"]));
        register.remove("yet-another.example.com", &names("foos", "foo", "Foo", "FooList", &["f"]));
        let definition = asking(names("foos", "foo", "Foo", "FooList", &["f"]), Names::default());
        assert_eq!(decide(&definition, &register).accepted.status, "False");
        register.remove("another.example.com", &names("foos", "foo", "Foo", "FooList", &["f"]));
        assert_eq!(decide(&definition, &register).accepted.status, "True");
    }

    #[test]
    fn what_was_accepted_stays_and_so_does_the_establishment() {
        let own = names("foos", "foo", "Foo", "FooList", &["f"]);
        let mut definition = asking(names("foos", "foo", "Foo", "FooList", &["b"]), own.clone());
        definition.status.conditions.get_or_insert_default().push(condition(
            "Established",
            true,
            "InitialNamesAccepted",
            "as before",
        ));
        let decision = decide(&definition, &taken(&names("bars", "bar", "Bar", "BarList", &["b"])));
        assert_eq!(decision.names, own);
        assert_eq!(decision.accepted.reason, "ShortNamesConflict");
        assert_eq!(
            (decision.established.status.as_str(), decision.established.message.as_str()),
            ("True", "as before")
        );
    }
}
