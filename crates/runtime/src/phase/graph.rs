//! The graph of phases: whether it makes sense, and how it looks.

use std::{
    collections::{BTreeSet, HashSet},
    fmt::{self, Write as _},
};

use super::{
    definition::{Machine, Phase},
    step::Step,
};

/// What is wrong with a graph of phases.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// It begins nowhere.
    #[error("no initial phase is named")]
    NoInitial,
    /// It begins in a phase that does not exist.
    #[error("the initial phase {0:?} does not exist")]
    UnknownInitial(String),
    /// A name that cannot be a reason of a condition.
    #[error("{0:?} is no name for a phase: letters and digits, beginning with a letter")]
    BadName(String),
    /// Two of the same name.
    #[error("there are two phases {0:?}")]
    Twice(String),
    /// No way leads to it.
    #[error("phase {0:?} cannot be reached from the initial phase")]
    Unreachable(String),
    /// It has nothing to run.
    #[error("phase {0:?} has no handler")]
    NoHandler(String),
    /// Nothing follows.
    #[error("phase {0:?} is a dead end: it is not terminal, and nothing follows it")]
    DeadEnd(String),
    /// Nothing follows when it fails.
    #[error("phase {0:?} has no transition for errors")]
    NoErrorTransition(String),
    /// It goes round for ever.
    #[error("no terminal phase can be reached from phase {0:?} without an error")]
    NoEnd(String),
    /// It leads to a phase that does not exist.
    #[error("phase {from:?} leads to {to:?}, which does not exist")]
    UnknownTarget {
        /// The phase.
        from: String,
        /// What does not exist.
        to: String,
    },
    /// It leads to itself.
    #[error("phase {0:?} leads to itself")]
    Itself(String),
    /// Two steps side by side have one name.
    #[error("phase {phase:?} has two steps {step:?} side by side")]
    SameStep {
        /// The phase.
        phase: String,
        /// The name.
        step: String,
    },
}

/// Everything that is wrong with a graph of phases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphErrors(pub Vec<GraphError>);

impl fmt::Display for GraphErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join("; "))
    }
}

impl std::error::Error for GraphErrors {}

/// What a graph is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphFormat {
    /// Mermaid, which many pages draw by themselves.
    Mermaid,
    /// Graphviz.
    Dot,
}

/// Why a phase leads to another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Normal,
    Error,
    Jump,
}

impl<K> Phase<K> {
    fn ways(&self) -> impl Iterator<Item = (Way, &str)> {
        let then = self.then.iter().map(|to| (Way::Normal, to.as_str()));
        let or = self.or.iter().map(|to| (Way::Error, to.as_str()));
        then.chain(or).chain(self.jumps.iter().map(|to| (Way::Jump, to.as_str())))
    }
}

impl<K> Machine<K> {
    pub(super) fn check(&self) -> Result<(), GraphErrors> {
        let mut errors = vec![];
        self.check_names(&mut errors);
        for phase in &self.phases {
            self.check_phase(phase, &mut errors);
        }
        if let Some(deletion) = &self.deletion {
            check_steps(&deletion.phase, &mut errors);
        }
        self.check_reach(&mut errors);
        if errors.is_empty() { Ok(()) } else { Err(GraphErrors(errors)) }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.phases.iter().map(|phase| &*phase.name).chain(self.ends.iter().map(|end| &*end.name))
    }

    fn exists(&self, name: &str) -> bool {
        self.names().any(|own| own == name)
    }

    fn check_names(&self, errors: &mut Vec<GraphError>) {
        let mut seen = HashSet::new();
        let deletion = self.deletion.iter().map(|deletion| &*deletion.phase.name);
        for name in self.names().chain(deletion) {
            let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.chars().all(|c| c.is_ascii_alphanumeric());
            if !is_name {
                errors.push(GraphError::BadName(name.to_owned()));
            }
            if !seen.insert(name) {
                errors.push(GraphError::Twice(name.to_owned()));
            }
        }
        if self.initial.is_empty() {
            errors.push(GraphError::NoInitial);
        } else if !self.exists(&self.initial) {
            errors.push(GraphError::UnknownInitial(self.initial.clone()));
        }
    }

    fn check_phase(&self, phase: &Phase<K>, errors: &mut Vec<GraphError>) {
        let name = || phase.name.clone();
        check_steps(phase, errors);
        if phase.then.is_none() && phase.jumps.is_empty() {
            errors.push(GraphError::DeadEnd(name()));
        }
        if phase.or.is_none() {
            errors.push(GraphError::NoErrorTransition(name()));
        }
        for (_, to) in phase.ways() {
            if to == phase.name {
                errors.push(GraphError::Itself(name()));
            } else if !self.exists(to) {
                errors.push(GraphError::UnknownTarget { from: name(), to: to.to_owned() });
            }
        }
    }

    fn check_reach(&self, errors: &mut Vec<GraphError>) {
        if self.exists(&self.initial) {
            let reached = self.reached(&self.initial, |_| true);
            let lost = self.names().filter(|name| !reached.contains(name));
            errors.extend(lost.map(|name| GraphError::Unreachable(name.to_owned())));
        }
        for phase in self.phases.iter().filter(|phase| phase.ways().any(|(way, _)| way != Way::Error)) {
            let reached = self.reached(&phase.name, |way| way != Way::Error);
            if !reached.iter().any(|name| self.is_end(name).is_some()) {
                errors.push(GraphError::NoEnd(phase.name.clone()));
            }
        }
    }

    fn reached<'a>(&'a self, from: &'a str, takes: impl Fn(Way) -> bool) -> BTreeSet<&'a str> {
        let (mut reached, mut left) = (BTreeSet::from([from]), vec![from]);
        while let Some(name) = left.pop() {
            let phase = self.phases.iter().find(|phase| phase.name == name);
            let ways = phase.into_iter().flat_map(|phase| phase.ways());
            for (_, to) in ways.filter(|(way, _)| takes(*way)) {
                if reached.insert(to) {
                    left.push(to);
                }
            }
        }
        reached
    }

    /// The graph, for whatever draws it.
    pub fn graph(&self, format: GraphFormat) -> String {
        match format {
            GraphFormat::Mermaid => self.mermaid(),
            GraphFormat::Dot => self.dot(),
        }
    }

    /// The graph as Mermaid draws it.
    pub fn mermaid(&self) -> String {
        let mut text = format!("stateDiagram-v2\n    [*] --> {}\n", self.initial);
        for phase in &self.phases {
            for (way, to) in phase.ways() {
                let label = match way {
                    Way::Normal => "",
                    Way::Error => ": error",
                    Way::Jump => ": jump",
                };
                let _ = writeln!(text, "    {} --> {to}{label}", phase.name);
            }
        }
        for end in &self.ends {
            let _ = writeln!(text, "    {} --> [*]", end.name);
        }
        if let Some(deletion) = &self.deletion {
            let name = &deletion.phase.name;
            let _ = writeln!(text, "    [*] --> {name}: deleted\n    {name} --> [*]");
        }
        text
    }

    /// The graph as Graphviz draws it.
    pub fn dot(&self) -> String {
        let name = self.name.replace(['\\', '"'], "_");
        let mut text = format!("digraph \"{name}\" {{\n    rankdir=LR;\n    node [shape=box];\n");
        let _ = writeln!(text, "    start [shape=point];\n    start -> {};", self.initial);
        for end in &self.ends {
            let color = if end.is_failure { "red" } else { "green" };
            let _ = writeln!(text, "    {} [peripheries=2, color={color}];", end.name);
        }
        for phase in &self.phases {
            for (way, to) in phase.ways() {
                let style = match way {
                    Way::Normal => "",
                    Way::Error => " [label=error, color=red]",
                    Way::Jump => " [label=jump, style=dashed]",
                };
                let _ = writeln!(text, "    {} -> {to}{style};", phase.name);
            }
        }
        if let Some(deletion) = &self.deletion {
            let _ = writeln!(text, "    start -> {} [label=deleted, style=dashed];", deletion.phase.name);
        }
        text.push_str("}\n");
        text
    }
}

fn check_steps<K>(phase: &Phase<K>, errors: &mut Vec<GraphError>) {
    fn within<K>(phase: &str, step: &Step<K>, errors: &mut Vec<GraphError>) {
        let mut seen = HashSet::new();
        for (name, child) in step.children() {
            if !seen.insert(name) {
                errors.push(GraphError::SameStep { phase: phase.to_owned(), step: name.clone() });
            }
            within(phase, child, errors);
        }
    }
    match &phase.step {
        None => errors.push(GraphError::NoHandler(phase.name.clone())),
        Some(step) => within(&phase.name, step, errors),
    }
}
