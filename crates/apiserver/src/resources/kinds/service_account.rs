//! Service accounts: who programs in pods are.

use windlass_machinery::{field::Errors, names, object::Object};

use super::{
    checks::named,
    fields::{each, maps_mut},
};
use crate::resources::Strategy;

pub(crate) const STRATEGY: Strategy = Strategy {
    prepare_create: only_names,
    prepare_update: |account, _, _| only_names(account),
    validate,
    returns_deleted: true,
    ..Strategy::PLAIN
};

/// Secrets are referred to by name alone.
fn only_names(account: &mut Object) {
    for secret in maps_mut(account, "secrets") {
        secret.retain(|field, _| field == "name");
    }
}

fn validate(account: &Object, errors: &mut Errors) {
    for field in ["secrets", "imagePullSecrets"] {
        each(account, field, errors, |secret, errors| named(secret, "name", names::subdomain, errors));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::*, *};

    #[test]
    fn secrets_are_referred_to_by_name() {
        assert_eq!(
            created(&STRATEGY, json!({"secrets": [{"name": "a", "namespace": "b", "uid": "c"}]})),
            json!({"secrets": [{"name": "a"}]})
        );
        check(
            &STRATEGY,
            &[(json!({"imagePullSecrets": [{"name": "A"}]}), &["Invalid imagePullSecrets[0].name"])],
        );
    }
}
