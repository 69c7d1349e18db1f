//! What many kinds check or fill in: defaults as JSON, fields that stay, addresses, amounts.
//!
//! Small pieces over [`super::fields`], so that a kind's own file is mostly tables.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use serde_json::Value;
use windlass_machinery::{
    field::{Errors, Fault},
    names,
    object::{self, Object},
    quantity::Quantity,
};

use super::fields::{self, IMMUTABLE, each, list, malformed, map, must_be, text};

/// Fills in what is missing, at any depth: absent, null, or an empty string.
pub(super) fn defaults(object: &mut Object, values: Value) {
    let Value::Object(values) = values else { return };
    for (field, value) in values {
        match (object.get_mut(&field), value) {
            (Some(Value::Object(child)), value @ Value::Object(_)) => defaults(child, value),
            (None | Some(Value::Null), value) => {
                object.insert(field, value);
            }
            (Some(Value::String(text)), value) if text.is_empty() => {
                object.insert(field, value);
            }
            _ => {}
        }
    }
}

/// Calls `change` for every map under a path of fields, going through the lists on the way.
pub(super) fn visit(object: &mut Object, path: &[&str], change: &mut dyn FnMut(&mut Object)) {
    let Some((first, rest)) = path.split_first() else { return change(object) };
    match object.get_mut(*first) {
        Some(Value::Object(child)) => visit(child, rest, change),
        Some(Value::Array(list)) => {
            list.iter_mut().filter_map(Value::as_object_mut).for_each(|child| visit(child, rest, change));
        }
        _ => {}
    }
}

/// Fills in what is missing in every map under a path of fields.
pub(super) fn defaults_in(object: &mut Object, path: &[&str], values: Value) {
    visit(object, path, &mut |child| defaults(child, values.clone()));
}

/// Whether two values mean the same: what is empty is as good as absent.
pub(super) fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    fields::same(one.unwrap_or(&Value::Null), other.unwrap_or(&Value::Null))
}

/// What is under a dotted path.
pub(super) fn dotted<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    object::at(object, &path.split('.').collect::<Vec<_>>())
}

/// Finds which of these dotted paths changed.
fn changed<'a>(new: &Object, old: &Object, paths: &[&'a str]) -> Vec<&'a str> {
    paths.iter().filter(|path| !same(dotted(new, path), dotted(old, path))).copied().collect()
}

/// What is under these dotted paths must stay as it is: an invalid value.
pub(super) fn immutable(new: &Object, old: &Object, paths: &[&str], errors: &mut Errors) {
    for path in changed(new, old, paths) {
        errors.invalid(path, dotted(new, path).unwrap_or(&Value::Null), IMMUTABLE);
    }
}

/// What is under these dotted paths must stay as it is: forbidden, in these words.
pub(super) fn frozen(new: &Object, old: &Object, paths: &[&str], detail: &str, errors: &mut Errors) {
    for path in changed(new, old, paths) {
        errors.forbidden(path, detail);
    }
}

/// Keeps what is under these dotted paths as it was.
pub(super) fn keep(new: &mut Object, old: &Object, paths: &[&str]) {
    for path in paths {
        let path: Vec<&str> = path.split('.').collect();
        object::set_at(new, &path, object::at(old, &path).cloned());
    }
}

/// A new object has no status yet.
pub(super) fn no_status(object: &mut Object) {
    object.remove("status");
}

/// The string under `field`, if any, must be a name of this sort.
pub(super) fn named(
    object: &Object,
    field: &str,
    sort: fn(&str, bool) -> Option<String>,
    errors: &mut Errors,
) {
    let value = text(object, field);
    if !value.is_empty() {
        malformed(field, value, sort(value, false), errors);
    }
}

/// The string under `field` must be set, and be a name of this sort.
pub(super) fn must_be_named(
    object: &Object,
    field: &str,
    sort: fn(&str, bool) -> Option<String>,
    errors: &mut Errors,
) {
    match text(object, field).is_empty() {
        true => errors.required(field, ""),
        false => named(object, field, sort, errors),
    }
}

/// The integer under `field`, if any, must be in this range.
pub(super) fn between(object: &Object, field: &str, least: i64, most: i64, errors: &mut Errors) {
    if let Some(number) = object.get(field).and_then(Value::as_i64)
        && !(least..=most).contains(&number)
    {
        errors.invalid(field, &number.into(), format!("must be between {least} and {most}, inclusive"));
    }
}

/// The strings in the list under `field` must each be one of `allowed`, and may not repeat.
pub(super) fn each_one_of(object: &Object, field: &str, allowed: &[&str], errors: &mut Errors) {
    for (index, value) in list(object, field).iter().enumerate() {
        let text = value.as_str().unwrap_or_default();
        if !allowed.contains(&text) {
            errors.at_index(field, index, |errors| errors.not_supported("", text, allowed));
        } else if list(object, field).iter().take(index).any(|earlier| earlier == value) {
            errors.at_index(field, index, |errors| errors.duplicate("", value));
        }
    }
}

/// What the maps in the list under `field` are called by must be unique.
pub(super) fn unique_by(object: &Object, field: &str, key: &str, errors: &mut Errors) {
    let values: Vec<&Value> =
        list(object, field).iter().map(|entry| entry.get(key).unwrap_or(&Value::Null)).collect();
    for (index, value) in values.iter().enumerate() {
        if !value.is_null() && values.iter().take(index).any(|earlier| earlier == value) {
            errors.at_index(field, index, |errors| errors.duplicate(key, value));
        }
    }
}

/// Finds faults in the label selector under `field`, if there is one.
pub(super) fn selector(object: &Object, field: &str, errors: &mut Errors) {
    if let Some(selector) = map(object, field) {
        errors.at(field, |errors| super::selector::validate(selector, errors));
    }
}

/// An amount that may be none but not less.
pub(super) fn amount(value: &Value, field: &str, errors: &mut Errors) -> Option<Quantity> {
    match Quantity::from_value(value) {
        Ok(quantity) if quantity.is_negative() => {
            errors.invalid(field, value, "must be greater than or equal to 0");
            None
        }
        Ok(quantity) => Some(quantity),
        Err(error) => {
            errors.invalid(field, value, error.to_string());
            None
        }
    }
}

/// Amounts by the name of what they are of.
pub(super) fn amounts(object: &Object, field: &str, errors: &mut Errors) {
    for (name, value) in map(object, field).into_iter().flatten() {
        errors.at_key(field, name, |errors| {
            malformed("", name, names::qualified(name), errors);
            amount(value, "", errors);
        });
    }
}

/// What is wrong with a range of addresses such as `10.0.0.0/8`; a good one is given back.
pub(super) fn cidr(field: &str, value: &str, errors: &mut Errors) -> Option<IpNet> {
    malformed(field, value, names::cidr(value), errors);
    value.parse().ok()
}

/// Ranges of one or both families: at most one of each.
pub(super) fn cidrs(object: &Object, field: &str, errors: &mut Errors) {
    let mut families = vec![];
    for (index, value) in list(object, field).iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        let range = errors.at_index(field, index, |errors| cidr("", value, errors));
        families.extend(range.map(|range| range.addr().is_ipv4()));
    }
    if families.len() > 2 || families.first().is_some_and(|first| families.iter().skip(1).any(|f| f == first))
    {
        let value = object.get(field).unwrap_or(&Value::Null);
        errors.invalid(field, value, "may specify no more than one CIDR for each IP family");
    }
}

/// An address that something outside the machine can be reached by.
pub(super) fn reachable(field: &str, value: &str, errors: &mut Errors) -> Option<IpAddr> {
    malformed(field, value, names::ip(value), errors);
    let address: IpAddr = value.parse().ok()?;
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let link_local_multicast = match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => matches!(address.segments(), [0xff02, ..]),
    };
    let faults = [
        (address.is_unspecified(), format!("may not be unspecified ({} or ::)", Ipv4Addr::UNSPECIFIED)),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (
            link_local_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned(),
        ),
    ];
    malformed(field, value, faults.into_iter().filter(|fault| fault.0).map(|fault| fault.1), errors);
    Some(address)
}

/// Taints of nodes: what repels pods.
pub(super) fn taints(object: &Object, field: &str, effects: &[&str], errors: &mut Errors) {
    each(object, field, errors, |taint, errors| {
        let key = text(taint, "key");
        malformed("key", key, names::qualified(key), errors);
        let value = text(taint, "value");
        malformed("value", value, names::label_value(value), errors);
        must_be(taint, "effect", effects, errors);
    });
    let pairs: Vec<_> =
        list(object, field).iter().map(|taint| (taint.get("key"), taint.get("effect"))).collect();
    for (index, pair) in pairs.iter().enumerate() {
        if pairs.iter().take(index).any(|earlier| earlier == pair) {
            let shown = list(object, field).get(index).map(Value::to_string).unwrap_or_default();
            errors.at_index(field, index, |errors| {
                errors.push(Fault::Duplicate, "", shown, "taints must be unique by key and effect pair");
            });
        }
    }
}

/// How many bytes a text in base64 stands for.
pub(super) fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take(2).filter(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_fill_only_what_is_missing() {
        let mut object = json!({"a": {"b": 1, "c": ""}, "d": null}).as_object().unwrap().clone();
        defaults(&mut object, json!({"a": {"b": 2, "c": 3, "e": 4}, "d": 5, "f": {}}));
        assert_eq!(Value::Object(object), json!({"a": {"b": 1, "c": 3, "e": 4}, "d": 5, "f": {}}));
    }

    #[test]
    fn addresses_of_the_machine_itself_are_not_reachable() {
        for (address, faults) in [
            ("10.0.0.1", 0),
            ("127.0.0.1", 1),
            ("169.254.169.254", 1),
            ("fe80::1", 1),
            ("0.0.0.0", 1),
            ("224.0.0.5", 1),
            ("::1", 1),
        ] {
            let mut errors = Errors::new();
            reachable("ip", address, &mut errors);
            assert_eq!(errors.list().len(), faults, "{address}: {:?}", errors.list());
        }
    }

    #[test]
    fn the_length_of_base64_needs_no_decoding() {
        for (text, len) in [("", 0), ("YQ==", 1), ("YWI=", 2), ("YWJj", 3), ("=", 0)] {
            assert_eq!(decoded_len(text), len, "{text}");
        }
    }
}
