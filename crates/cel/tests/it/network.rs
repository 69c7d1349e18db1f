//! URLs, addresses, named formats.

use crate::support::table;

#[test]
fn urls_have_parts() {
    table(&[
        ("isURL('https://user:pass@example.com:80/path?query=val#fragment')", "true"),
        ("isURL('/absolute-path')", "true"),
        ("isURL('https://a:b:c/')", "false"),
        ("isURL('../relative-path')", "false"),
        ("isURL('')", "false"),
        ("isURL('https://example.com/%zz')", "false"),
        ("isURL('https://[::1')", "false"),
        ("isURL('https://exa mple.com/')", "false"),
        ("isURL('mailto:a@b')", "true"),
        ("isURL('https://example.com:80a/')", "false"),
        ("url('/path').getScheme()", "\"\""),
        ("url('HTTPS://example.com/').getScheme()", "\"https\""),
        ("url('https://example.com:80/').getHost()", "\"example.com:80\""),
        ("url('https://example.com/').getHost()", "\"example.com\""),
        ("url('https://user@example.com/').getHost()", "\"example.com\""),
        ("url('https://[::1]:80/').getHost()", "\"[::1]:80\""),
        ("url('https://[::1]/').getHost()", "\"[::1]\""),
        ("url('/path').getHost()", "\"\""),
        ("url('https://example.com:80/').getHostname()", "\"example.com\""),
        ("url('https://127.0.0.1:80/').getHostname()", "\"127.0.0.1\""),
        ("url('https://[::1]:80/').getHostname()", "\"::1\""),
        ("url('https://example.com:80/').getPort()", "\"80\""),
        ("url('https://example.com/').getPort()", "\"\""),
        ("url('https://example.com/path').getEscapedPath()", "\"/path\""),
        ("url('https://example.com/path with spaces/').getEscapedPath()", "\"/path%20with%20spaces/\""),
        ("url('https://example.com').getEscapedPath()", "\"\""),
        (
            "url('https://example.com/path?k1=a&k2=b&k2=c').getQuery()",
            "{\"k1\": [\"a\"], \"k2\": [\"b\", \"c\"]}",
        ),
        (
            "url('https://example.com/path?key with spaces=value%20x').getQuery()",
            "{\"key with spaces\": [\"value x\"]}",
        ),
        ("url('https://example.com/path?').getQuery()", "{}"),
        ("url('https://example.com/path').getQuery()", "{}"),
        (
            "url('../x')",
            "!URL parse error during conversion from string: parse \"../x\": invalid URI for request",
        ),
        ("url('https://a/b') == url('https://a/b')", "true"),
    ]);
}

#[test]
fn addresses_are_of_a_family() {
    table(&[
        ("ip('127.0.0.1')", "127.0.0.1"),
        ("string(ip('2001:DB8::ABCD'))", "\"2001:db8::abcd\""),
        ("isIP('127.0.0.1')", "true"),
        ("isIP('::1')", "true"),
        ("isIP('127.0.0.256')", "false"),
        ("isIP(':::1')", "false"),
        ("isIP('127.0.0.01')", "false"),
        ("isIP('::ffff:1.2.3.4')", "false"),
        ("isIP('fe80::1%eth0')", "false"),
        ("ip('fe80::1%eth0')", "!IP address \"fe80::1%eth0\" with zone value is not allowed"),
        ("ip('::ffff:1.2.3.4')", "!IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed"),
        ("ip.isCanonical('127.0.0.1')", "true"),
        ("ip.isCanonical('2001:db8::abcd')", "true"),
        ("ip.isCanonical('2001:DB8::ABCD')", "false"),
        ("ip.isCanonical('2001:db8::0:0:0:abcd')", "false"),
        ("ip('127.0.0.1').family()", "4"),
        ("ip('::1').family()", "6"),
        ("ip('0.0.0.0').isUnspecified()", "true"),
        ("ip('::1').isUnspecified()", "false"),
        ("ip('127.0.0.1').isLoopback()", "true"),
        ("ip('2001:db8::abcd').isLoopback()", "false"),
        ("ip('224.0.0.1').isLinkLocalMulticast()", "true"),
        ("ip('224.0.1.1').isLinkLocalMulticast()", "false"),
        ("ip('ff02::1').isLinkLocalMulticast()", "true"),
        ("ip('169.254.169.254').isLinkLocalUnicast()", "true"),
        ("ip('fe80::1').isLinkLocalUnicast()", "true"),
        ("ip('fd80::1').isLinkLocalUnicast()", "false"),
        ("ip('192.168.0.1').isGlobalUnicast()", "true"),
        ("ip('255.255.255.255').isGlobalUnicast()", "false"),
        ("ip('ff00::1').isGlobalUnicast()", "false"),
        ("ip('10.0.0.1') == ip('10.0.0.1')", "true"),
    ]);
}

#[test]
fn ranges_contain_addresses() {
    table(&[
        ("cidr('192.168.0.0/16')", "192.168.0.0/16"),
        ("isCIDR('192.168.0.0/16')", "true"),
        ("isCIDR('::1/128')", "true"),
        ("isCIDR('192.168.0.0/33')", "false"),
        ("isCIDR('::1/129')", "false"),
        ("isCIDR('192.168.0.0/016')", "false"),
        ("isCIDR('192.168.0.0')", "false"),
        ("isCIDR('::ffff:1.2.3.4/24')", "false"),
        ("cidr('192.168.0.0/24').containsIP(ip('192.168.0.1'))", "true"),
        ("cidr('192.168.0.0/24').containsIP(ip('192.168.1.1'))", "false"),
        ("cidr('192.168.0.0/24').containsIP('192.168.0.1')", "true"),
        ("cidr('192.168.0.0/24').containsIP('::1')", "false"),
        ("cidr('192.168.0.0/16').containsCIDR(cidr('192.168.10.0/24'))", "true"),
        ("cidr('192.168.1.0/24').containsCIDR(cidr('192.168.2.0/24'))", "false"),
        ("cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24')", "true"),
        ("cidr('192.168.10.0/24').containsCIDR('192.168.0.0/16')", "false"),
        ("cidr('192.168.0.1/24').ip()", "192.168.0.1"),
        ("cidr('::1/128').ip().family()", "6"),
        ("cidr('192.168.0.1/24').masked()", "192.168.0.0/24"),
        ("cidr('192.168.0.0/24') == cidr('192.168.0.0/24').masked()", "true"),
        ("cidr('192.168.0.1/24') == cidr('192.168.0.1/24').masked()", "false"),
        ("cidr('192.168.0.0/16').prefixLength()", "16"),
        ("string(cidr('10.0.0.0/8'))", "\"10.0.0.0/8\""),
        (
            "cidr('10.0.0.0/8').containsIP('x')",
            "!IP Address \"x\" parse error during conversion from string: invalid IP address syntax",
        ),
    ]);
}

#[test]
fn formats_say_what_is_wrong() {
    table(&[
        ("format.dns1123Label().validate('my-label')", "none"),
        ("format.dns1123Label().validate('My.Label').hasValue()", "true"),
        ("format.dns1123Subdomain().validate('apiextensions.k8s.io')", "none"),
        ("format.dns1035Label().validate('1a').hasValue()", "true"),
        ("format.qualifiedName().validate('example.com/name')", "none"),
        ("format.qualifiedName().validate('a/b/c').hasValue()", "true"),
        ("format.dns1123LabelPrefix().validate('my-label-')", "none"),
        ("format.dns1123SubdomainPrefix().validate('my.sub-')", "none"),
        ("format.dns1035LabelPrefix().validate('my-')", "none"),
        ("format.labelValue().validate('a_b')", "none"),
        ("format.uri().validate('http://example.com')", "none"),
        ("format.uri().validate('../x')", "some([\"parse \\\"../x\\\": invalid URI for request\"])"),
        ("format.uuid().validate('123e4567-e89b-12d3-a456-426614174000')", "none"),
        ("format.uuid().validate('123')", "some([\"does not match the UUID format\"])"),
        ("format.byte().validate('aGVsbG8=')", "none"),
        ("format.byte().validate('?')", "some([\"invalid base64\"])"),
        ("format.date().validate('2021-01-01')", "none"),
        ("format.date().validate('2021-02-30')", "some([\"invalid date\"])"),
        ("format.datetime().validate('2021-01-01T00:00:00Z')", "none"),
        ("format.datetime().validate('x')", "some([\"invalid datetime\"])"),
        ("format.named('uuid').hasValue()", "true"),
        ("format.named('nope')", "none"),
        (
            "format.named('uuid').value().validate('x').value().join(', ')",
            "\"does not match the UUID format\"",
        ),
        ("format.uuid() == format.named('uuid').value()", "true"),
    ]);
}
