//! Node ports: one reservation for each number, whatever the protocol.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use serde_json::Value;
use windlass_machinery::{
    field::Errors,
    object::{self, Object},
};
use windlass_store::Expect;

use super::{Request, View, has_health_port, has_node_ports, pick};
use crate::status::{Outcome, Status};

const PORTS: &[&str] = &["spec", "ports"];
const HEALTH: &[&str] = &["spec", "healthCheckNodePort"];

/// The key that reserves a port; its value is who holds it.
fn key(port: i64) -> String {
    format!("ranges/servicenodeports/{port}")
}

fn is_taken(view: &View, port: i64) -> bool {
    view.snapshot.get(key(port).as_bytes()).is_some()
}

fn node_port(port: &Value) -> Option<i64> {
    port.get("nodePort").and_then(Value::as_i64).filter(|number| *number != 0)
}

fn number(port: &Value) -> Option<i64> {
    port.get("port").and_then(Value::as_i64)
}

fn protocol(port: &Value) -> &str {
    port.get("protocol").and_then(Value::as_str).unwrap_or("TCP")
}

fn health_port(service: &Object) -> Option<i64> {
    object::int_at(service, HEALTH).filter(|number| *number != 0)
}

fn ports_mut(service: &mut Object) -> impl Iterator<Item = &mut Value> {
    let ports = service.get_mut("spec").and_then(|spec| spec.get_mut("ports"));
    ports.and_then(Value::as_array_mut).into_iter().flatten()
}

fn set(port: &mut Value, number: i64) {
    if let Some(port) = port.as_object_mut() {
        port.insert("nodePort".to_owned(), number.into());
    }
}

/// Whether there are no node ports that were not there before.
pub(super) fn none_new(service: &Object, old: &Object) -> bool {
    let numbers =
        |service| -> BTreeSet<i64> { object::list_at(service, PORTS).iter().filter_map(node_port).collect() };
    numbers(service).is_subset(&numbers(old))
}

/// Takes the node ports out of the object.
pub(super) fn clear(service: &mut Object) {
    for port in ports_mut(service).filter_map(Value::as_object_mut) {
        port.remove("nodePort");
    }
}

/// Fills in node ports.
pub(super) fn assign(request: &mut Request<'_>, range: &RangeInclusive<u16>) -> Outcome<()> {
    if let Some(old) = request.old {
        keep(&mut request.object, old);
    }
    let view = request.view;
    let service = &mut request.object;
    let mut mine = BTreeSet::from_iter(numbers(service).into_iter().map(|(_, number)| number));
    let next = |mine: &mut BTreeSet<i64>| {
        let found = find_free(view, range, mine);
        mine.extend(found);
        found.ok_or("range is full")
    };
    if has_node_ports(service) {
        // A port that is open for several protocols has the same number on the node for all of them.
        let mut shared = BTreeMap::new();
        let mut used = BTreeSet::new();
        for port in object::list_at(service, PORTS) {
            if let (Some(number), Some(node_port)) = (number(port), node_port(port)) {
                shared.entry(number).or_insert(node_port);
                used.insert((protocol(port).to_owned(), node_port));
            }
        }
        for port in ports_mut(service).filter(|port| node_port(port).is_none()) {
            let Some(number) = number(port) else { continue };
            let sibling = shared.get(&number).copied();
            let sibling = sibling.filter(|sibling| !used.contains(&(protocol(port).to_owned(), *sibling)));
            let chosen = match sibling {
                Some(sibling) => sibling,
                None => next(&mut mine)
                    .map_err(|why| Status::internal(format_args!("failed to allocate a nodePort: {why}")))?,
            };
            shared.entry(number).or_insert(chosen);
            used.insert((protocol(port).to_owned(), chosen));
            set(port, chosen);
        }
    }
    if has_health_port(service) && health_port(service).is_none() {
        let chosen = next(&mut mine).map_err(|why| {
            Status::internal(format_args!("failed to allocate a HealthCheck NodePort: {why}"))
        })?;
        object::set_at(service, HEALTH, Some(chosen.into()));
    }
    Ok(())
}

/// Carries over the numbers that the client left out.
fn keep(service: &mut Object, old: &Object) {
    if has_node_ports(old) && has_node_ports(service) {
        let named = object::list_at(service, PORTS).iter();
        let mut used: BTreeSet<(String, i64)> =
            named.filter_map(|port| Some((protocol(port).to_owned(), node_port(port)?))).collect();
        for port in ports_mut(service).filter(|port| node_port(port).is_none()) {
            let olds = object::list_at(old, PORTS);
            let named = |old: &&Value| old.get("name") == port.get("name");
            let same = |old: &&Value| number(old) == number(port) && protocol(old) == protocol(port);
            let twin = olds.iter().find(named).or_else(|| olds.iter().find(same));
            if let Some(kept) = twin.and_then(node_port)
                && used.insert((protocol(port).to_owned(), kept))
            {
                set(port, kept);
            }
        }
    }
    if has_health_port(old) && has_health_port(service) && health_port(service).is_none() {
        object::set_at(service, HEALTH, object::at(old, HEALTH).cloned());
    }
}

fn find_free(view: &View, range: &RangeInclusive<u16>, mine: &BTreeSet<i64>) -> Option<i64> {
    let first = i64::from(*range.start());
    let n_all = range.len() as u128;
    // The lower part, where people choose ports by hand: a thirty-second, but 16 to 128.
    let low = if n_all < 32 { 0 } else { (n_all / 32).clamp(16, 128) };
    let at = |idx: u128| first + idx as i64;
    pick(n_all, low, |idx| !mine.contains(&at(idx)) && !is_taken(view, at(idx))).map(at)
}

/// Which numbers a service holds, and where they stand.
fn numbers(service: &Object) -> Vec<(String, i64)> {
    let ports = object::list_at(service, PORTS).iter().enumerate();
    let ports =
        ports.filter_map(|(idx, port)| Some((format!("spec.ports[{idx}].nodePort"), node_port(port)?)));
    ports.chain(health_port(service).map(|number| (HEALTH.join("."), number))).collect()
}

/// Takes the numbers that are new, and gives back those that are no longer held.
pub(super) fn reserve(request: &mut Request<'_>, range: &RangeInclusive<u16>) -> Outcome<()> {
    let view = request.view;
    let owner = format!("{}/{}", request.namespace, request.called());
    let before: BTreeSet<i64> =
        request.old.map(numbers).unwrap_or_default().into_iter().map(|(_, number)| number).collect();
    let mut after = BTreeSet::new();
    let mut errors = Errors::new();
    for (field, number) in numbers(&request.object) {
        if !after.insert(number) {
            if field == HEALTH.join(".") {
                errors.invalid(&field, &number.into(), "provided port is already allocated");
            }
        } else if before.contains(&number) {
        } else if !u16::try_from(number).is_ok_and(|number| range.contains(&number)) {
            let detail = format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                range.start(),
                range.end()
            );
            errors.invalid(&field, &number.into(), detail);
        } else if is_taken(view, number) {
            errors.invalid(&field, &number.into(), "provided port is already allocated");
        } else {
            request.effects.put_raw(key(number), owner.clone().into_bytes(), Expect::Absent);
        }
    }
    if !errors.is_empty() {
        return Err(request.invalid(&errors));
    }
    for number in before.difference(&after) {
        let entry = view.snapshot.get(key(*number).as_bytes());
        if let Some(entry) = entry.filter(|entry| entry.value == owner.as_bytes()) {
            request.effects.delete_raw(key(*number), Expect::At(entry.revision));
        }
    }
    Ok(())
}
