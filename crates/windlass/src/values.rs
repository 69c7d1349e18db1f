//! Values on the command line: how they are written, and what is expected where they are not.

use std::{fmt, net::IpAddr, ops::RangeInclusive, str::FromStr, time::Duration};

use ipnet::IpNet;
use rustls_pki_types::DnsName;

/// A duration as Go writes it: `1m0s`, `1.5h`, `500ms`. A bare `0` is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoDuration(pub(crate) Duration);

/// Seconds per unit.
const UNITS: [(&str, f64); 7] =
    [("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9)];

impl FromStr for GoDuration {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "0" {
            return Ok(GoDuration(Duration::ZERO));
        }
        parts(text).map(GoDuration).ok_or("expected a duration such as 60s, 1m30s or 500ms")
    }
}

fn parts(text: &str) -> Option<Duration> {
    let is_of_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let (mut rest, mut total) = (text, None);
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|letter| !is_of_number(letter))?);
        let (unit, tail) = tail.split_at(tail.find(is_of_number).unwrap_or(tail.len()));
        let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = Some(total.unwrap_or(Duration::ZERO).checked_add(part)?);
        rest = tail;
    }
    total
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.as_secs();
        let seconds = (whole % 60) as f64 + f64::from(self.0.subsec_nanos()) / 1e9;
        match (whole / 3600, whole / 60 % 60) {
            (0, 0) if whole == 0 && !self.0.is_zero() => write!(f, "{}ms", seconds * 1e3),
            (0, 0) => write!(f, "{seconds}s"),
            (0, minutes) => write!(f, "{minutes}m{seconds}s"),
            (hours, minutes) => write!(f, "{hours}h{minutes}m{seconds}s"),
        }
    }
}

/// Ports from one to another, both included: `30000-32767`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortRange(pub(crate) RangeInclusive<u16>);

impl FromStr for PortRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let range = text.split_once('-').and_then(|(first, last)| {
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (0 < first && first <= last).then_some(first..=last)
        });
        range.map(PortRange).ok_or("expected a range of ports such as 30000-32767")
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.start(), self.0.end())
    }
}

/// A name or an address that a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum San {
    /// A host name; the first label may be `*`.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

impl FromStr for San {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(San::Ip(address));
        }
        match DnsName::try_from(text.strip_prefix("*.").unwrap_or(text)) {
            Ok(_) => Ok(San::Dns(text.to_ascii_lowercase())),
            Err(_) => Err("expected a host name such as api.example.org, or an IP address"),
        }
    }
}

impl fmt::Display for San {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            San::Dns(name) => f.write_str(name),
            San::Ip(address) => address.fmt(f),
        }
    }
}

/// An address, and nothing that would have to be looked up.
pub(crate) fn address(text: &str) -> Result<IpAddr, &'static str> {
    text.parse().map_err(|_| "expected an IP address such as 127.0.0.1")
}

/// A network, written with any of its addresses.
pub(crate) fn network(text: &str) -> Result<IpNet, &'static str> {
    text.trim().parse().map(|net: IpNet| net.trunc()).map_err(|_| "expected a network such as 10.96.0.0/12")
}

/// The address after the network's own.
pub(crate) fn first_address(net: &IpNet) -> IpAddr {
    match net.network() {
        IpAddr::V4(address) => IpAddr::V4((u32::from(address).saturating_add(1)).into()),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address).saturating_add(1)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, millis, written) in [
            ("60s", 60_000, "1m0s"),
            ("1m0s", 60_000, "1m0s"),
            ("1h", 3_600_000, "1h0m0s"),
            ("1.5s", 1_500, "1.5s"),
            ("1h2m3.5s", 3_723_500, "1h2m3.5s"),
            ("500ms", 500, "500ms"),
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
        ] {
            let GoDuration(duration) = text.parse().expect(text);
            assert_eq!(duration.as_millis(), millis, "{text}");
            assert_eq!(GoDuration(duration).to_string(), written);
        }
        for bad in ["", "60", "s", "1 m", "-1s", "1m-1s", "1x", "1..5s", "99999999999999999999h", "1m30"] {
            assert!(bad.parse::<GoDuration>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges_of_ports_have_two_ends_in_order() {
        assert_eq!("30000-32767".parse(), Ok(PortRange(30000..=32767)));
        for bad in ["", "30000", "30000-", "2-1", "0-5", "1-70000", "a-b"] {
            assert!(bad.parse::<PortRange>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_for_certificates_are_hosts_or_addresses() {
        assert_eq!("API.example.org".parse(), Ok(San::Dns("api.example.org".into())));
        assert_eq!("*.example.org".parse(), Ok(San::Dns("*.example.org".into())));
        assert_eq!("::1".parse(), Ok(San::Ip(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]))));
        for bad in ["", "a b", "https://x", "a..b", "*"] {
            assert!(bad.parse::<San>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_first_address_follows_the_networks_own() {
        for (net, first) in
            [("10.96.0.0/12", "10.96.0.1"), ("10.97.3.4/12", "10.96.0.1"), ("fd00::/108", "fd00::1")]
        {
            assert_eq!(first_address(&network(net).expect(net)).to_string(), first);
        }
    }
}
