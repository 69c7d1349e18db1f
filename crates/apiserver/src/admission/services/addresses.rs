//! The addresses of services: families, ranges, and one `IPAddress` object for each that is taken.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    object::{self, Object},
    stored::Stored,
    time,
};
use windlass_store::Expect;

use super::{Request, View, has_addresses, is_headless, pick};
use crate::status::{Outcome, Status};

const GROUP: &str = "networking.k8s.io";
const PLURAL: &str = "ipaddresses";
const IP: &[&str] = &["spec", "clusterIP"];
const IPS: &[&str] = &["spec", "clusterIPs"];
const FAMILIES: &[&str] = &["spec", "ipFamilies"];
const POLICY: &[&str] = &["spec", "ipFamilyPolicy"];
const SINGLE: &str = "SingleStack";
const REQUIRE_DUAL: &str = "RequireDualStack";

/// Fills in families and addresses.
pub(super) fn assign(request: &mut Request<'_>, configured: &[IpNet]) -> Outcome<()> {
    normalise(&mut request.object, request.old);
    if !has_addresses(&request.object) {
        return Ok(());
    }
    if let Some(old) = request.old.filter(|old| has_addresses(old)) {
        keep(&mut request.object, old);
    }
    match (string(&request.object, IP), strings(&request.object, IPS).is_empty()) {
        ("", false) => {
            let ips = object::at(&request.object, IPS).cloned().unwrap_or_default();
            let mut errors = Errors::new();
            errors.invalid("spec.clusterIPs", &ips, "must be empty when `clusterIP` is not specified");
            return Err(request.invalid(&errors));
        }
        ("", true) | (_, false) => {}
        (ip, true) => {
            let ips = json!([ip]);
            object::set_at(&mut request.object, IPS, Some(ips));
        }
    }
    let nets = nets(request.view, configured);
    let families = choose_families(request, &nets)?;
    let mut ips = strings(&request.object, IPS);
    if !is_headless(&request.object) {
        for wanted in families.iter().skip(ips.len()) {
            let Some(ip) = find_free(request.view, &nets, wanted) else {
                return Err(Status::internal("failed to allocate a serviceIP: range is full"));
            };
            ips.push(ip.to_string());
        }
    }
    if let Some(first) = ips.first() {
        object::set_at(&mut request.object, IP, Some(first.as_str().into()));
    }
    object::set_at(&mut request.object, IPS, Some(ips.into()));
    Ok(())
}

fn string<'a>(service: &'a Object, path: &[&str]) -> &'a str {
    object::str_at(service, path).unwrap_or_default()
}

fn strings(service: &Object, path: &[&str]) -> Vec<String> {
    object::list_at(service, path).iter().filter_map(|value| Some(value.as_str()?.to_owned())).collect()
}

/// Old clients know only the first address. What they change there counts for the list, too.
fn normalise(service: &mut Object, old: Option<&Object>) {
    let (ip, ips) = (string(service, IP).to_owned(), strings(service, IPS));
    let (old_ip, old_ips) = old.map_or(("", vec![]), |old| (string(old, IP), strings(old, IPS)));
    if ip == old_ip {
        return;
    }
    if ips.is_empty() || ips == old_ips {
        let ips = (!ip.is_empty()).then(|| json!([ip]));
        object::set_at(service, IPS, ips);
    }
}

/// Carries over what the client left out.
fn keep(service: &mut Object, old: &Object) {
    let (ip, old_ip) = (string(service, IP), string(old, IP));
    let mut carried = vec![];
    if strings(service, IPS).is_empty() && (ip.is_empty() || ip == old_ip) {
        carried.extend([IP, IPS]);
    }
    if string(service, POLICY).is_empty() {
        carried.push(POLICY);
    }
    if strings(service, FAMILIES).is_empty() {
        carried.push(FAMILIES);
    }
    for path in carried {
        object::set_at(service, path, object::at(old, path).cloned());
    }
    // Going back to one family: the second one goes, if the client leaves it to us.
    if string(service, POLICY) == SINGLE && string(old, POLICY) != SINGLE {
        for path in [IPS, FAMILIES] {
            let mut list = strings(service, path);
            if list.len() > 1 && list == strings(old, path) {
                list.truncate(1);
                object::set_at(service, path, Some(list.into()));
            }
        }
    }
}

fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// The ranges to take from: the configured ones, and those that were added as objects.
fn nets(view: &View, configured: &[IpNet]) -> Vec<IpNet> {
    let mut nets = configured.to_vec();
    for (cidr, _) in view.list(GROUP, "servicecidrs", "") {
        if object::metadata(&cidr).contains_key("deletionTimestamp") {
            continue;
        }
        let texts = strings(&cidr, &["spec", "cidrs"]);
        for net in texts.iter().filter_map(|text| text.parse::<IpNet>().ok()) {
            if !nets.contains(&net) {
                nets.push(net);
            }
        }
    }
    nets
}

/// Settles the families and their policy.
fn choose_families(request: &mut Request<'_>, nets: &[IpNet]) -> Outcome<Vec<String>> {
    let service = &request.object;
    let served: Vec<&str> = nets.iter().map(|net| family(net.addr())).collect();
    let is_served = |name: &str| served.contains(&name);
    let has_selector = object::at(service, &["spec", "selector"])
        .and_then(Value::as_object)
        .is_some_and(|map| !map.is_empty());
    // Whoever makes the endpoints of such a service may make them of any family.
    let free = is_headless(service) && !has_selector;
    let given = string(service, POLICY);
    let policy = match (given, free) {
        ("", true) => REQUIRE_DUAL,
        ("", false) => SINGLE,
        (given, _) => given,
    }
    .to_owned();
    let mut families = strings(service, FAMILIES);
    let ips = strings(service, IPS);
    let of_ips = ips.iter().skip(families.len()).filter_map(|ip| ip.parse().ok()).map(family);
    families.extend(of_ips.map(ToOwned::to_owned));
    if families.is_empty() {
        families.push(served.first().copied().unwrap_or("IPv4").to_owned());
    }
    let settled =
        request.old.is_some_and(|old| string(old, POLICY) == policy && strings(old, FAMILIES) == families);
    if policy != SINGLE && families.len() == 1 && !settled {
        let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
        if free || is_served(other) {
            families.push(other.to_owned());
        }
    }
    let mut errors = Errors::new();
    errors.at("spec", |errors| {
        if policy == SINGLE && (families.len() > 1 || ips.len() > 1) {
            let several = if families.len() > 1 { "ipFamilies" } else { "clusterIPs" };
            let detail =
                format!("must be RequireDualStack or PreferDualStack when multiple {several} are specified");
            errors.invalid_str("ipFamilyPolicy", &policy, detail);
        }
        if policy == REQUIRE_DUAL && !free && !(is_served("IPv4") && is_served("IPv6")) {
            let detail = "this cluster is not configured for dual-stack services";
            errors.invalid_str("ipFamilyPolicy", &policy, detail);
        }
        for (idx, name) in families.iter().enumerate().filter(|(_, name)| !free && !is_served(name)) {
            errors.at_index("ipFamilies", idx, |errors| {
                errors.invalid_str("", name, "not configured on this cluster");
            });
        }
    });
    if !errors.is_empty() {
        return Err(request.invalid(&errors));
    }
    object::set_at(&mut request.object, FAMILIES, Some(families.clone().into()));
    object::set_at(&mut request.object, POLICY, Some(policy.into()));
    Ok(families)
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// The first address that can be given out, and how many there are: neither the network's own nor broadcast.
fn usable(net: &IpNet) -> (u128, u128) {
    let (first, last) = (number(net.network()), number(net.broadcast()));
    let n_all = (last - first).saturating_add(1);
    match net {
        _ if n_all < 4 => (first, n_all),
        IpNet::V4(_) => (first + 1, n_all - 2),
        IpNet::V6(_) => (first + 1, n_all - 1),
    }
}

fn contains(net: &IpNet, ip: IpAddr) -> bool {
    let (first, n_usable) = usable(net);
    net.contains(&ip) && number(ip) >= first && number(ip) - first < n_usable
}

fn find_free(view: &View, nets: &[IpNet], wanted: &str) -> Option<IpAddr> {
    nets.iter().filter(|net| family(net.addr()) == wanted).find_map(|net| {
        let (first, n_usable) = usable(net);
        let at = |idx: u128| match net {
            IpNet::V4(_) => IpAddr::from(((first + idx) as u32).to_be_bytes()),
            IpNet::V6(_) => IpAddr::from((first + idx).to_be_bytes()),
        };
        // The lower part, where people choose addresses by hand: a sixteenth, but 16 to 256.
        let low = if n_usable <= 16 { 0 } else { (n_usable / 16).clamp(16, 256).min(n_usable) };
        pick(n_usable, low, |idx| !view.has(GROUP, PLURAL, "", &at(idx).to_string())).map(at)
    })
}

/// Which addresses a service holds.
fn held(service: &Object) -> Vec<IpAddr> {
    match has_addresses(service) && !is_headless(service) {
        true => strings(service, IPS).iter().filter_map(|ip| ip.parse().ok()).collect(),
        false => vec![],
    }
}

/// Takes the addresses that are new, and gives back those that are no longer held.
pub(super) fn reserve(request: &mut Request<'_>, configured: &[IpNet]) -> Outcome<()> {
    let view = request.view;
    let Some(row) = view.catalog.get(GROUP, PLURAL) else { return Ok(()) };
    let before = request.old.map(held).unwrap_or_default();
    let after = held(&request.object);
    let added: Vec<IpAddr> = after.iter().copied().filter(|ip| !before.contains(ip)).collect();
    let nets = if added.is_empty() { vec![] } else { nets(view, configured) };
    for ip in added {
        if let Err(why) = check(view, &nets, ip) {
            let ips = object::at(&request.object, IPS).cloned().unwrap_or_default();
            let mut errors = Errors::new();
            errors.invalid("spec.clusterIPs", &ips, format!("failed to allocate IP {ip}: {why}"));
            return Err(request.invalid(&errors));
        }
        let address = address(request, &row.stored_as, ip);
        request.effects.put(row, &address, Expect::Absent);
    }
    for ip in before.iter().filter(|ip| !after.contains(ip)) {
        let name = ip.to_string();
        let Some(entry) = view.snapshot.get(row.key("", &name).as_bytes()) else { continue };
        let parent = |field| Stored::new(&entry.value)?.peek(&["spec", "parentRef", field]);
        // Someone may have freed it by hand, and someone else taken it since.
        let ours = parent("name").as_deref() == Some(request.called())
            && parent("namespace").as_deref() == Some(request.namespace);
        if ours {
            request.effects.delete(row, "", &name, Expect::At(entry.revision));
        }
    }
    Ok(())
}

fn check(view: &View, nets: &[IpNet], ip: IpAddr) -> Result<(), String> {
    if !nets.iter().any(|net| contains(net, ip)) {
        let of_family = nets.iter().filter(|net| net.addr().is_ipv4() == ip.is_ipv4());
        let valid: Vec<String> = of_family.map(ToString::to_string).collect();
        return Err(format!(
            "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {}",
            valid.join(", ")
        ));
    }
    match view.has(GROUP, PLURAL, "", &ip.to_string()) {
        true => Err("provided IP is already allocated".to_owned()),
        false => Ok(()),
    }
}

fn address(request: &Request<'_>, api_version: &str, ip: IpAddr) -> Object {
    let parent = json!({
        "group": "",
        "resource": "services",
        "namespace": request.namespace,
        "name": request.called(),
    });
    let address = json!({
        "apiVersion": api_version,
        "kind": "IPAddress",
        "metadata": {
            "name": ip.to_string(),
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": time::rfc3339(request.now),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": family(ip),
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": parent},
    });
    match address {
        Value::Object(address) => address,
        _ => Object::new(),
    }
}

/// An address that a service has goes with the service, or two could have it.
pub(super) fn keep_what_is_held(request: &Request<'_>) -> Outcome<()> {
    let parent = |field: &str| {
        let address = request.old.unwrap_or(&request.object);
        object::str_at(address, &["spec", "parentRef", field]).unwrap_or_default().to_owned()
    };
    if parent("resource") != "services" {
        return Ok(());
    }
    let (namespace, name) = (parent("namespace"), parent("name"));
    let held = request.view.get("", "services", &namespace, &name).is_some_and(|(service, _)| {
        object::list_at(&service, &["spec", "clusterIPs"]).iter().any(|address| address == request.name)
    });
    match held {
        true => Err(request.refuse(format!(
            "the service {namespace}/{name} has this address, and gives it up when it is deleted"
        ))),
        false => Ok(()),
    }
}
