//! What services and groups of their instances are called.

use super::super::read::Node;

/// The ports there are.
const PORTS: std::ops::RangeInclusive<i64> = 1..=65535;

/// Names services as somebody in a namespace does.
pub(super) struct Hosts<'a> {
    pub(super) namespace: &'a str,
}

impl Hosts<'_> {
    /// A service in full. What has a dot is taken for a full name, as is what can be no service.
    pub(super) fn full(&self, host: &str) -> String {
        if host.contains(['.', ':']) || host == "*" {
            return host.to_owned();
        }
        format!("{host}.{}.svc.cluster.local", self.namespace)
    }

    /// A host whose requests are routed, in full.
    pub(super) fn domain(&self, node: &Node<'_>) -> String {
        self.full(checked(node))
    }

    /// What instances of a service are called: `outbound|PORT|SUBSET|HOST`, where the port and the subset may be empty.
    pub(super) fn cluster(&self, destination: &Node<'_>) -> String {
        let host = checked(&destination.field("host"));
        let port: Option<u32> = destination.field("port").field("number").optional_whole(PORTS);
        let port = port.map(|port| port.to_string()).unwrap_or_default();
        self.outbound(&port, subset(destination), host)
    }

    /// The same for where requests go instead: the same service, unless another is named.
    pub(super) fn fallback(&self, destination: &Node<'_>) -> Option<String> {
        let fallback = destination.field("fallback");
        if !fallback.is_there() {
            return None;
        }
        let host = fallback.field("host");
        let host = if host.is_there() { checked(&host) } else { checked(&destination.field("host")) };
        Some(self.outbound("", subset(&fallback), host))
    }

    fn outbound(&self, port: &str, subset: &str, host: &str) -> String {
        format!("outbound|{port}|{subset}|{}", self.full(host))
    }
}

fn subset<'a>(node: &Node<'a>) -> &'a str {
    plain(&node.field("subset"), "the name of a subset").unwrap_or_default()
}

/// A host that has to be there.
fn checked<'a>(node: &Node<'a>) -> &'a str {
    if node.optional_text().is_none() {
        node.refuse("a host");
    }
    plain(node, "a host").unwrap_or_default()
}

/// A text that can be a part of the name of a cluster.
fn plain<'a>(node: &Node<'a>, expected: &str) -> Option<&'a str> {
    let text = node.optional_text()?;
    if text.contains('|') || text.contains(char::is_whitespace) || text.contains(char::is_control) {
        node.refuse(expected);
    }
    Some(text)
}
