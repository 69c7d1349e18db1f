//! Addresses of services and the ranges they are taken from.

use std::net::IpAddr;

use serde_json::Value;
use windlass_machinery::{field::Errors, names, object::Object};

use super::{
    checks::{cidrs, immutable, must_be_named, named, no_status},
    fields::{IMMUTABLE, is_set, list, map, texts, within},
};
use crate::resources::Strategy;

pub(crate) const IP_ADDRESS: Strategy = Strategy {
    validate: validate_address,
    validate_update: |new, old, _, errors| immutable(new, old, &["spec.parentRef"], errors),
    name: canonical,
    ..Strategy::PLAIN
};

pub(crate) const SERVICE_CIDR: Strategy = Strategy {
    prepare_create: no_status,
    validate: validate_ranges,
    validate_update: validate_ranges_update,
    ..Strategy::PLAIN
};

/// The name is the address itself, in its one canonical form.
fn canonical(name: &str, _generate: bool) -> Option<String> {
    match name.parse::<IpAddr>() {
        Err(_) => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()),
        Ok(address) if address.to_string() != name => {
            Some(format!("must be in canonical form (\"{address}\")"))
        }
        Ok(_) => None,
    }
}

fn validate_address(address: &Object, errors: &mut Errors) {
    within(address, "spec", errors, |spec, errors| {
        let Some(parent) = map(spec, "parentRef") else { return errors.required("parentRef", "") };
        errors.at("parentRef", |errors| {
            named(parent, "group", names::subdomain, errors);
            must_be_named(parent, "resource", names::path_segment, errors);
            must_be_named(parent, "name", names::path_segment, errors);
            named(parent, "namespace", names::path_segment, errors);
        });
    });
}

fn validate_ranges(range: &Object, errors: &mut Errors) {
    within(range, "spec", errors, |spec, errors| {
        if list(spec, "cidrs").is_empty() {
            return errors.required("cidrs", "at least one CIDR required");
        }
        cidrs(spec, "cidrs", errors);
        for (index, text) in texts(spec, "cidrs") {
            if let Ok(range) = text.parse::<ipnet::IpNet>()
                && range.trunc().to_string() != text
            {
                let detail = format!("must be in canonical form (\"{}\")", range.trunc());
                errors.at_index("cidrs", index, |errors| errors.invalid_str("", text, detail));
            }
        }
    });
}

/// A second family may be added; nothing else changes.
fn validate_ranges_update(new: &Object, old: &Object, part: Option<&str>, errors: &mut Errors) {
    if part.is_some() || !is_set(old, "spec") {
        return;
    }
    let ranges =
        |object: &Object| map(object, "spec").map(|spec| list(spec, "cidrs").to_vec()).unwrap_or_default();
    let (new, old) = (ranges(new), ranges(old));
    let added = old.len() == 1 && new.len() == 2 && new.first() == old.first();
    if new != old && !added {
        errors.invalid("spec.cidrs", &Value::Array(new), IMMUTABLE);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::*, *};

    #[test]
    fn addresses_are_named_by_themselves() {
        for (name, good) in [("10.0.0.1", true), ("2001:db8::1", true), ("2001:DB8::1", false), ("a", false)]
        {
            assert_eq!((IP_ADDRESS.name)(name, false).is_none(), good, "{name}");
        }
        check(
            &IP_ADDRESS,
            &[
                (
                    json!({"spec": {"parentRef": {"resource": "services", "name": "a", "namespace": "b"}}}),
                    &[],
                ),
                (json!({}), &["Required spec.parentRef"]),
                (json!({"spec": {"parentRef": {"resource": "services"}}}), &["Required spec.parentRef.name"]),
            ],
        );
    }

    #[test]
    fn ranges_are_canonical_and_one_of_each_family() {
        let with = |ranges: &[&str]| json!({"spec": {"cidrs": ranges}});
        check(
            &SERVICE_CIDR,
            &[
                (with(&["10.0.0.0/16", "2001:db8::/64"]), &[]),
                (with(&[]), &["Required spec.cidrs"]),
                (with(&["10.0.0.1/16"]), &["Invalid spec.cidrs[0]"]),
                (with(&["10.0.0.0/16", "11.0.0.0/16"]), &["Invalid spec.cidrs"]),
            ],
        );
        let one = with(&["10.0.0.0/16"]);
        let both = with(&["10.0.0.0/16", "2001:db8::/64"]);
        assert_eq!(change_faults(&SERVICE_CIDR, one.clone(), both.clone(), None), [""; 0]);
        assert_eq!(change_faults(&SERVICE_CIDR, both, one, None), ["Invalid spec.cidrs"]);
    }
}
