//! Graphs that make no sense are refused by name, and those that do can be drawn.

use super::*;
use crate::phase::{Builder, GraphError};

fn errors(builder: Builder<()>) -> Vec<GraphError> {
    builder.build().expect_err("it makes no sense").0
}

fn name(text: &str) -> String {
    text.to_owned()
}

fn good() -> Builder<()> {
    Machine::builder("m")
        .initial("A")
        .phase(Phase::new("A").runs(work()).then("B").or("F"))
        .succeeds("B")
        .fails("F")
}

#[test]
fn graphs_that_make_no_sense_name_the_phase() {
    assert!(good().build().is_ok());
    let lost = good().phase(Phase::new("C").runs(work()).then("B").or("F"));
    assert_eq!(errors(lost), [GraphError::Unreachable(name("C"))]);
    assert_eq!(errors(good().succeeds("D")), [GraphError::Unreachable(name("D"))]);
    assert_eq!(errors(good().fails("A")), [GraphError::Twice(name("A"))]);
    assert_eq!(errors(good().initial("X")), [GraphError::UnknownInitial(name("X"))]);
    assert_eq!(errors(good().initial("")), [GraphError::NoInitial]);

    let with =
        |phase: Phase<()>| errors(Machine::builder("m").initial("A").phase(phase).succeeds("B").fails("F"));
    assert_eq!(with(Phase::new("A").then("B").or("F")), [GraphError::NoHandler(name("A"))]);
    assert_eq!(
        with(Phase::new("A").runs(work()).may_jump("B").then("X").or("F")),
        [GraphError::UnknownTarget { from: name("A"), to: name("X") }]
    );
    assert_eq!(
        with(Phase::new("A").runs(work()).or("F")),
        [GraphError::DeadEnd(name("A")), GraphError::Unreachable(name("B"))]
    );
    assert_eq!(
        with(Phase::new("A").runs(work()).then("B").may_jump("F")),
        [GraphError::NoErrorTransition(name("A"))]
    );
    assert_eq!(
        with(Phase::new("A").runs(work()).then("B").may_jump("A").or("F")),
        [GraphError::Itself(name("A"))]
    );
    let twins = Step::parallel([("a", work()), ("a", work())]);
    assert_eq!(
        with(Phase::new("A").runs(Step::serial([("s", twins)])).then("B").or("F")),
        [GraphError::SameStep { phase: name("A"), step: name("a") }]
    );
    let bad = Machine::builder("m").initial("a b").phase(Phase::new("a b").runs(work()).then("B").or("F"));
    assert_eq!(errors(bad.succeeds("B").fails("F")), [GraphError::BadName(name("a b"))]);
}

#[test]
fn a_circle_that_never_ends_is_refused() {
    let circle = Machine::builder("m")
        .initial("A")
        .phase(Phase::new("A").runs(work()).then("B").or("F"))
        .phase(Phase::new("B").runs(work()).then("A").or("F"))
        .fails("F");
    assert_eq!(errors(circle), [GraphError::NoEnd(name("A")), GraphError::NoEnd(name("B"))]);
    let texts = GraphError::NoEnd(name("A")).to_string();
    assert!(texts.contains("\"A\""), "{texts}");
}

#[test]
fn graphs_can_be_drawn() {
    let machine =
        good().deletes("windlass.dev/m", Phase::new("Deleting").runs(work())).build().expect("a machine");
    let mermaid = "stateDiagram-v2
    [*] --> A
    A --> B
    A --> F: error
    B --> [*]
    F --> [*]
    [*] --> Deleting: deleted
    Deleting --> [*]
";
    assert_eq!(machine.mermaid(), mermaid);
    let dot = "digraph \"m\" {
    rankdir=LR;
    node [shape=box];
    start [shape=point];
    start -> A;
    B [peripheries=2, color=green];
    F [peripheries=2, color=red];
    A -> B;
    A -> F [label=error, color=red];
    start -> Deleting [label=deleted, style=dashed];
}
";
    assert_eq!(machine.dot(), dot);
}
