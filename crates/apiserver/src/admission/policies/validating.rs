//! Policies that refuse.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_cel::{Budget, Variables};

use super::{
    MOST, Run,
    definition::{Binding, Validating, Validation},
    is_bound, namespace_object, params, rest,
};
use crate::{
    admission::{
        Plugin, Request,
        kept::{Item, Kept, named},
        subject::Subject,
    },
    status::{Outcome, Status},
    webhook::Webhooks,
};

pub(crate) struct ValidatingPolicies {
    /// Objects of custom kinds may have to be converted by a webhook.
    webhooks: Arc<Webhooks>,
    policies: Kept<Validating>,
    bindings: Kept<Binding>,
}

impl ValidatingPolicies {
    pub(crate) fn new(webhooks: &Arc<Webhooks>) -> Self {
        ValidatingPolicies {
            webhooks: Arc::clone(webhooks),
            policies: Kept::new("validatingadmissionpolicies/", Validating::of),
            bindings: Kept::new("validatingadmissionpolicybindings/", Binding::of),
        }
    }
}

/// What a policy holds against a request.
struct Finding {
    message: String,
    reason: String,
    /// Which of the validations it was.
    index: usize,
}

/// Longest message that an expression may make.
const MOST_MESSAGE: usize = 5 * 1024;

#[async_trait]
impl Plugin for ValidatingPolicies {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn is_outside(&self) -> bool {
        true
    }

    async fn validate(&self, request: &mut Request<'_>) -> Outcome<()> {
        if self.bindings.is_empty(request.view) {
            return Ok(());
        }
        let Some(subject) = Subject::of(request) else { return Ok(()) };
        let (policies, bindings) = (self.policies.all(request.view), self.bindings.all(request.view));
        let mut budget = request.outside.budget.clone();
        let (mut warnings, mut refused, mut n_runs, mut spent) = (vec![], None, 0, budget.spent());
        let mut namespace = None;
        let mut failures = vec![];
        for binding in bindings.iter() {
            let Some(policy) = named(&policies, &binding.value.policy) else { continue };
            let common = &policy.value.common;
            let Some(place) = common.matching.find(&subject, request) else { continue };
            if !is_bound(binding, &subject, request) {
                continue;
            }
            let refuse = |finding: &Finding| {
                let why = format!(
                    "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {}",
                    policy.name, binding.name, finding.message
                );
                Status::denied(subject.resource, subject.name, &finding.reason, &why)
            };
            let all = match params::find(request.view, common, &binding.value, &subject, &self.webhooks).await
            {
                Ok(all) => all,
                Err(_) if common.ignored => continue,
                Err(why) => {
                    let message = format!("failed to configure binding: {why}");
                    refused = refused.or(Some(refuse(&Finding { message, reason: String::new(), index: 0 })));
                    continue;
                }
            };
            let form = subject.form(request, place, &self.webhooks).await?;
            let namespace = &*namespace.get_or_insert_with(|| namespace_object(&subject, request));
            for params in &all {
                n_runs += 1;
                if n_runs > MOST {
                    let why = format!("more than {MOST} policies and params are in force for one request");
                    return Err(Status::internal(why));
                }
                let run = Run { subject: &subject, place, form: &form, namespace, params };
                let mut notes = BTreeMap::new();
                let findings = judge(&policy.value, &run, request, &mut budget, &mut notes);
                for (key, text) in notes {
                    request.note(format!("{}/{key}", policy.name), text);
                }
                for finding in &findings {
                    if binding.value.denies && refused.is_none() {
                        refused = Some(refuse(finding));
                    }
                    if binding.value.warns {
                        warnings.push(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                            policy.name, binding.name, finding.message
                        ));
                    }
                    if binding.value.audits {
                        failures.push(failure(policy, binding, finding));
                    }
                }
                rest(&mut spent, &budget).await;
            }
        }
        if !failures.is_empty() {
            request.note(
                "validation.policy.admission.k8s.io/validation_failure",
                Value::Array(failures).to_string(),
            );
        }
        request.outside.budget = budget;
        request.warnings.append(&mut warnings);
        refused.map_or(Ok(()), Err)
    }
}

/// What the audit log is told of a validation that does not hold.
fn failure(policy: &Item<Validating>, binding: &Item<Binding>, finding: &Finding) -> Value {
    let Binding { denies, warns, audits, .. } = &binding.value;
    let actions = [("Deny", denies), ("Warn", warns), ("Audit", audits)];
    let actions: Vec<&str> = actions.into_iter().filter(|(_, is)| **is).map(|(name, _)| name).collect();
    json!({
        "message": finding.message, "policy": policy.name, "binding": binding.name,
        "expressionIndex": finding.index, "validationActions": actions,
    })
}

/// Runs a policy once.
fn judge(
    policy: &Validating,
    run: &Run<'_>,
    request: &Request<'_>,
    budget: &mut Budget,
    notes: &mut BTreeMap<String, String>,
) -> Vec<Finding> {
    let common = &policy.common;
    let inputs = run.inputs(request);
    let variables = run.variables(&inputs, common);
    let failed = |message: String| match common.ignored {
        true => None,
        false => Some(Finding { message, reason: String::new(), index: 0 }),
    };
    match common.conditions.hold(&variables, budget) {
        Ok(true) => {}
        Ok(false) => return vec![],
        Err(why) => return failed(why).into_iter().collect(),
    }
    let mut findings = vec![];
    for (index, validation) in policy.validations.iter().enumerate() {
        match validation.expression.holds(&variables, budget) {
            Ok(true) => {}
            Ok(false) => findings.push(Finding {
                message: message(validation, &variables, budget),
                reason: validation.reason.clone(),
                index,
            }),
            Err(why) => findings.extend(failed(why).map(|finding| Finding { index, ..finding })),
        }
    }
    for (key, expression) in &policy.notes {
        match expression.run(&variables, budget) {
            // Nothing is said by null, and by what is only white.
            Ok(value) => {
                if let Some(text) = value.as_str().map(str::trim).filter(|text| !text.is_empty()) {
                    notes.insert(key.clone(), text.to_owned());
                }
            }
            Err(why) => findings.extend(failed(format!("audit annotation '{key}': {why}"))),
        }
    }
    findings
}

/// What is said when a validation does not hold.
fn message<'a>(validation: &'a Validation, variables: &Variables<'a>, budget: &mut Budget) -> String {
    let made = validation.message_expression.as_ref().and_then(|expression| {
        let value = expression.run(variables, budget).ok()?;
        let text = value.as_str()?.trim().to_owned();
        (!text.is_empty() && !text.contains('\n') && text.len() <= MOST_MESSAGE).then_some(text)
    });
    made.unwrap_or_else(|| validation.message())
}
