//! Controller revisions: what a daemon set or stateful set once was. They never change.

use windlass_machinery::field::Errors;
use windlass_machinery::object::Object;

use super::fields::{immutable, is_set, non_negative};
use crate::resources::Strategy;

/// The rules of controller revisions.
pub(in crate::resources) const STRATEGY: Strategy = Strategy { validate, validate_update, ..Strategy::PLAIN };

fn validate(object: &Object, errors: &mut Errors) {
    if !is_set(object, "data") {
        errors.required("data", "data is mandatory");
    }
    non_negative(object, &["revision"], errors);
}

fn validate_update(new: &Object, old: &Object, _: Option<&str>, errors: &mut Errors) {
    immutable(new, old, &["data"], errors);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resources::kinds::variants::{check_invalid, check_update};

    #[test]
    fn revisions_have_data_that_stays() {
        let good = json!({"data": {"spec": 1}, "revision": 3});
        check_invalid(
            &STRATEGY,
            good.clone(),
            &[
                ("/data", Value::Null, "data: Required value: data is mandatory"),
                ("/revision", json!(-1), "revision: Invalid value: -1: must be greater than or equal to 0"),
            ],
        );
        check_update(
            &STRATEGY,
            good,
            None,
            &[
                ("/revision", json!(4), ""),
                ("/data/spec", json!(2), "data: Invalid value: {\"spec\":2}: field is immutable"),
            ],
        );
    }
}
