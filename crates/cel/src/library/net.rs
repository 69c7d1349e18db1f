//! IP addresses and ranges of them.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

use super::{Outcome, Row, Tools, convert::unreadable, mismatch};
use crate::{
    cost::{Cost, Grows},
    error::{EvalError, shown},
    value::{Extension, Value},
};

const ONE: Cost = Cost::One;
const NO: Grows = Grows::Unknown;

pub(super) const ROWS: &[Row] = &[
    ("ip(string)->ip", ip, Cost::Tenth(0), NO),
    ("isIP(string)->bool", is_ip, Cost::Tenth(0), NO),
    ("ip.isCanonical(string)->bool", is_canonical, Cost::Fifth(0), NO),
    ("ip::family()->int", family, ONE, NO),
    ("ip::isUnspecified()->bool", is_unspecified, ONE, NO),
    ("ip::isLoopback()->bool", is_loopback, ONE, NO),
    ("ip::isLinkLocalMulticast()->bool", is_link_local_multicast, ONE, NO),
    ("ip::isLinkLocalUnicast()->bool", is_link_local_unicast, ONE, NO),
    ("ip::isGlobalUnicast()->bool", is_global_unicast, ONE, NO),
    ("cidr(string)->cidr", cidr, Cost::Tenth(0), NO),
    ("isCIDR(string)->bool", is_cidr, Cost::Tenth(0), NO),
    ("cidr::ip()->ip", cidr_ip, ONE, NO),
    ("cidr::masked()->cidr", masked, ONE, NO),
    ("cidr::prefixLength()->int", prefix_length, ONE, NO),
    ("cidr::containsIP(ip)->bool", contains_ip, Cost::Net, NO),
    ("cidr::containsIP(string)->bool", contains_ip, Cost::Net, NO),
    ("cidr::containsCIDR(cidr)->bool", contains_cidr, Cost::Net, NO),
    ("cidr::containsCIDR(string)->bool", contains_cidr, Cost::Net, NO),
];

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn parse_ip(text: &str) -> Result<IpAddr, EvalError> {
    if let Some((address, _)) = text.split_once('%')
        && address.parse::<Ipv6Addr>().is_ok()
    {
        let text = shown(text);
        return Err(EvalError::failed(format!("IP address {text:?} with zone value is not allowed")));
    }
    let address: IpAddr = text.parse().map_err(|why| unreadable("IP Address", text, why))?;
    if is_mapped(address) {
        return Err(EvalError::failed(format!("IPv4-mapped IPv6 address {text:?} is not allowed")));
    }
    Ok(address)
}

fn parse_cidr(text: &str) -> Result<IpNet, EvalError> {
    let digits = text.rsplit_once('/').map_or("", |(_, digits)| digits);
    // The reader behind this takes a sign and leading zeros, which Go does not.
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits.len() < 2 || !digits.starts_with('0'));
    let range: Option<IpNet> = text.parse().ok().filter(|_| plain);
    let range = range.ok_or_else(|| {
        let text = shown(text);
        EvalError::failed(format!("network address parse error during conversion from string: {text:?}"))
    })?;
    if is_mapped(range.addr()) {
        return Err(EvalError::failed(format!("IPv4-mapped IPv6 address {text:?} is not allowed")));
    }
    Ok(range)
}

fn address(value: &Value<'_>) -> Result<IpAddr, EvalError> {
    match value {
        Value::String(text) => parse_ip(text),
        Value::Extension(extension) => match extension.as_ref() {
            Extension::Ip(address) => Ok(*address),
            _ => Err(EvalError::no_such_overload()),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

fn range(value: &Value<'_>) -> Result<IpNet, EvalError> {
    match value {
        Value::String(text) => parse_cidr(text),
        Value::Extension(extension) => match extension.as_ref() {
            Extension::Cidr(range) => Ok(*range),
            _ => Err(EvalError::no_such_overload()),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

fn ip<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    Ok(Value::extension(Extension::Ip(parse_ip(text)?)))
}

fn is_ip<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    Ok(Value::Bool(parse_ip(text).is_ok()))
}

fn is_canonical<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    Ok(Value::Bool(parse_ip(text)?.to_string() == **text))
}

fn ask<'a>(args: &[Value<'a>], question: impl Fn(IpAddr) -> bool) -> Outcome<'a> {
    let [value] = args else { return mismatch() };
    Ok(Value::Bool(question(address(value)?)))
}

fn family<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return mismatch() };
    Ok(Value::Int(if address(value)?.is_ipv4() { 4 } else { 6 }))
}

fn is_unspecified<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    ask(args, |address| address.is_unspecified())
}

fn is_loopback<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    ask(args, |address| address.is_loopback())
}

fn link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_link_local_multicast<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    ask(args, link_local_multicast)
}

fn is_link_local_unicast<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    ask(args, link_local_unicast)
}

fn is_global_unicast<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    ask(args, |address| {
        let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
        !broadcast
            && !address.is_unspecified()
            && !address.is_loopback()
            && !address.is_multicast()
            && !link_local_unicast(address)
    })
}

fn cidr<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    Ok(Value::extension(Extension::Cidr(parse_cidr(text)?)))
}

fn is_cidr<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text)] = args else { return mismatch() };
    Ok(Value::Bool(parse_cidr(text).is_ok()))
}

fn cidr_ip<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return mismatch() };
    Ok(Value::extension(Extension::Ip(range(value)?.addr())))
}

fn masked<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return mismatch() };
    Ok(Value::extension(Extension::Cidr(range(value)?.trunc())))
}

fn prefix_length<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return mismatch() };
    Ok(Value::Int(range(value)?.prefix_len().into()))
}

fn contains_ip<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value, other] = args else { return mismatch() };
    Ok(Value::Bool(range(value)?.trunc().contains(&address(other)?)))
}

fn contains_cidr<'a>(_: &mut Tools<'_>, args: &[Value<'a>]) -> Outcome<'a> {
    let [value, other] = args else { return mismatch() };
    let (own, other) = (range(value)?.trunc(), range(other)?);
    Ok(Value::Bool(own.prefix_len() <= other.prefix_len() && own.contains(&other.addr())))
}
