//! Fairness: whose turn it is when more is asked for than can be done at once.
//!
//! A request is one of a flow ([`Schema::flow`]), and a flow belongs to a priority level. A [`Dispatcher`] has a number of
//! seats and shares them out between the levels; a level shares its seats between its flows. Nobody waits while there are
//! seats to be had, nobody keeps what belongs to another for longer than a request takes, and a flow that asks for ten
//! times as much as the others waits ten times as long, and they do not. There is no clock here: time is passed in, so
//! the same requests at the same times always get the same turns.
//!
//! Start at [`Classifier::classify`] and [`Dispatcher::arrive`].

mod dispatcher;
mod hand;
mod level;
mod schema;
mod spec;

#[cfg(test)]
mod tests;

pub use self::{
    dispatcher::{Begun, Dispatcher, LevelId, Refusal, Ticket},
    level::Shape,
    schema::{Classifier, Schema},
    spec::{
        Distinguisher, FlowSchemaSpec, LevelKind, LevelReference, LevelSpec, LimitKind, LimitResponse,
        Limited, NonResourceRule, Queuing, ResourceRule, Rule, Subject, SubjectKind, SubjectName,
    },
};
