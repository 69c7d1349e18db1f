//! Policies: rules about writes in CEL, which need nobody to be asked.
//!
//! A policy says what it is about and what shall hold or change; a binding says where it is in force and with which
//! parameters. [`definition`] reads both; [`mutating`] and [`validating`] run them, [`params`] finds the parameters, and
//! [`types`] tells authors what their expressions get wrong about the kinds they are about.

mod definition;
mod merge;
mod mutating;
mod params;
mod types;
mod validating;

pub(crate) use self::definition::check_expressions;
pub(super) use self::{mutating::MutatingPolicies, types::TypeChecking, validating::ValidatingPolicies};

use serde_json::Value;
use windlass_cel::{Budget, Variables};

use self::definition::{Binding, Common};
use super::{
    Request,
    expressions::Inputs,
    kept::Item,
    subject::{Form, Place, Subject},
};

/// Most evaluations of policies for one request, counting each parameter.
const MOST: usize = 1024;

/// Costs after which others get a turn.
const A_TURN: u64 = 100_000;

/// One policy in force: with a binding, for a request, with a parameter.
struct Run<'r> {
    subject: &'r Subject<'r>,
    place: Place<'r>,
    form: &'r Form,
    namespace: &'r Value,
    params: &'r Value,
}

impl<'r> Run<'r> {
    fn inputs<'a>(&self, request: &Request<'a>) -> Inputs<'a>
    where
        'r: 'a,
    {
        Inputs::new(self.subject, request, self.place, self.form)
    }

    /// Everything that the expressions of a policy can name.
    fn variables<'a>(&self, inputs: &'a Inputs<'_>, common: &'a Common) -> Variables<'a>
    where
        'r: 'a,
    {
        let mut variables =
            inputs.variables().json("namespaceObject", self.namespace).json("params", self.params);
        for (name, expression) in &common.variables {
            if let Some(program) = expression.program() {
                variables = variables.defer("variables", name, program);
            }
        }
        variables
    }
}

/// Gives the time of others back to them after so much work.
async fn rest(spent: &mut u64, budget: &Budget) {
    if budget.spent() - *spent > A_TURN {
        *spent = budget.spent();
        tokio::task::yield_now().await;
    }
}

/// The namespace that a request is in, or null.
fn namespace_object(subject: &Subject<'_>, request: &Request<'_>) -> Value {
    match subject.resource.namespaced {
        true => {
            let found = request.view.get("", "namespaces", "", subject.namespace);
            found.map_or(Value::Null, |(object, _)| Value::Object(object))
        }
        false => Value::Null,
    }
}

/// Whether a binding is about a request that its policy is about.
fn is_bound<'a>(binding: &Item<Binding>, subject: &Subject<'a>, request: &Request<'a>) -> bool {
    binding.value.matching.as_ref().is_none_or(|matching| matching.find(subject, request).is_some())
}
