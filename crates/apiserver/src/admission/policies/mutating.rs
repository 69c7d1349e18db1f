//! Policies that change.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_cel::Budget;
use windlass_machinery::{object::Object, patch::json_patch};

use super::{
    MOST, Run,
    definition::{Binding, Mutating, Mutation},
    is_bound,
    merge::merge,
    namespace_object, params, rest,
};
use crate::{
    admission::{
        Operation, Plugin, Request,
        kept::{Item, Kept},
        subject::{Form, Place, Subject},
    },
    status::{Outcome, Status},
    webhook::Webhooks,
};

pub(crate) struct MutatingPolicies {
    /// Objects of custom kinds may have to be converted by a webhook.
    webhooks: Arc<Webhooks>,
    policies: Kept<Mutating>,
    bindings: Kept<Binding>,
}

impl MutatingPolicies {
    pub(crate) fn new(webhooks: &Arc<Webhooks>) -> Self {
        MutatingPolicies {
            webhooks: Arc::clone(webhooks),
            policies: Kept::new("mutatingadmissionpolicies/", Mutating::of),
            bindings: Kept::new("mutatingadmissionpolicybindings/", Binding::of),
        }
    }
}

#[async_trait]
impl Plugin for MutatingPolicies {
    fn name(&self) -> &'static str {
        "MutatingAdmissionPolicy"
    }

    fn looks_again(&self) -> bool {
        true
    }

    fn is_outside(&self) -> bool {
        true
    }

    async fn mutate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if self.bindings.is_empty(request.view) || request.operation == Operation::Delete {
            return Ok(());
        }
        let Some(subject) = Subject::of(request) else { return Ok(()) };
        let (policies, bindings) = (self.policies.all(request.view), self.bindings.all(request.view));
        let is_again = request.outside.is_again;
        request.outside.policies.begin(&request.object);
        let mut spent = request.outside.budget.spent();
        let (mut n_runs, mut namespace) = (0, None);
        for policy in policies.iter() {
            let common = &policy.value.common;
            let Some(place) = common.matching.find(&subject, request) else { continue };
            let own = bindings.iter().filter(|binding| binding.value.policy == policy.name);
            for binding in own {
                let id = format!("{}/{}", policy.name, binding.name);
                if is_again && !(policy.value.reinvoked && request.outside.policies.is_due(&id)) {
                    continue;
                }
                if !is_bound(binding, &subject, request) {
                    continue;
                }
                let all = match params::find(request.view, common, &binding.value, &subject, &self.webhooks)
                    .await
                {
                    Ok(all) => all,
                    Err(_) if common.ignored => continue,
                    Err(why) => {
                        let why = format!("failed to configure binding: {why}");
                        return Err(refusal(&subject, policy, binding, &why));
                    }
                };
                let namespace = &*namespace.get_or_insert_with(|| namespace_object(&subject, request));
                let before = request.object.clone();
                for params in &all {
                    n_runs += 1;
                    if n_runs > MOST {
                        let why =
                            format!("more than {MOST} policies and params are in force for one request");
                        return Err(Status::internal(why));
                    }
                    let made = self.change(&policy.value, &subject, place, namespace, params, request).await;
                    match made {
                        Ok(()) => {}
                        Err(why) if common.ignored => {
                            tracing::warn!(policy = policy.name, why, "a policy failed and is ignored");
                        }
                        Err(why) => return Err(refusal(&subject, policy, binding, &why)),
                    }
                    let budget = request.outside.budget.clone();
                    rest(&mut spent, &budget).await;
                }
                let changed = request.object != before;
                if changed {
                    request.outside.again = true;
                }
                request.outside.policies.note(&id, changed, &request.object, policy.value.reinvoked);
            }
        }
        Ok(())
    }
}

fn refusal(
    subject: &Subject<'_>,
    policy: &Item<Mutating>,
    binding: &Item<Binding>,
    why: &str,
) -> Box<Status> {
    let (policy, binding) = (&policy.name, &binding.name);
    let why = format!("MutatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {why}");
    Status::denied(subject.resource, subject.name, "", &why)
}

impl MutatingPolicies {
    /// Runs a policy once. Nothing is changed when any part of it fails.
    async fn change<'a>(
        &self,
        policy: &Mutating,
        subject: &Subject<'a>,
        place: Place<'_>,
        namespace: &Value,
        params: &Value,
        request: &mut Request<'a>,
    ) -> Result<(), String> {
        let form = subject.form(request, place, &self.webhooks).await.map_err(|status| status.message)?;
        let mut budget = request.outside.budget.clone();
        let outcome = made(policy, subject, place, form, namespace, params, request, &mut budget);
        request.outside.budget = budget;
        match outcome? {
            Some(new) => subject.put_back(request, place, new, &self.webhooks).await,
            None => Ok(()),
        }
    }
}

/// What a policy makes of the object; `None` when it is not about it.
#[allow(clippy::too_many_arguments)]
fn made<'a>(
    policy: &Mutating,
    subject: &Subject<'a>,
    place: Place<'_>,
    mut form: Form,
    namespace: &Value,
    params: &Value,
    request: &Request<'a>,
    budget: &mut Budget,
) -> Result<Option<Object>, String> {
    for (index, mutation) in policy.mutations.iter().enumerate() {
        let run = Run { subject, place, form: &form, namespace, params };
        let inputs = run.inputs(request);
        let variables = run.variables(&inputs, &policy.common);
        if index == 0 && !policy.common.conditions.hold(&variables, budget)? {
            return Ok(None);
        }
        let (Mutation::Apply(expression) | Mutation::Patch(expression)) = mutation;
        let value = expression
            .run(&variables, budget)
            .and_then(|value| value.to_json().map_err(|error| error.to_string()));
        let value = value
            .map_err(|why| format!("expression '{}' resulted in error: {why}", expression.source.trim()))?;
        let Value::Object(object) = &form.object else { return Ok(None) };
        let new = match (mutation, value) {
            (Mutation::Apply(_), Value::Object(config)) => {
                let mut new = object.clone();
                let any = windlass_machinery::schema::Node::Any;
                let version = subject.schema(request.view, place);
                let schema = version.map_or(&any, |version| version.schema());
                // What a policy misspells must not go unnoticed.
                if let Some(fault) = windlass_machinery::apply::faults(&config, schema).first() {
                    return Err(format!("error applying mutation: {fault}"));
                }
                merge(&mut new, config, schema).map_err(|why| format!("error applying mutation: {why}"))?;
                new
            }
            (Mutation::Patch(_), operations @ Value::Array(_)) => {
                json_patch(object, operations.to_string().as_bytes())
                    .map_err(|error| format!("the patch cannot be applied: {}", crate::chain(&error)))?
            }
            (Mutation::Apply(_), _) => return Err("the expression comes to no Object".to_owned()),
            (Mutation::Patch(_), _) => return Err("the expression comes to no list of JSONPatch".to_owned()),
        };
        form.object = Value::Object(new);
    }
    match form.object {
        Value::Object(object) => Ok(Some(object)),
        _ => Ok(None),
    }
}
