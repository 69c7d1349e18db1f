//! What each format takes.

use serde_json::json;

use super::{compile_spec, faults, spec};
use crate::structural::{Format, Kind};

#[test]
fn formats_tell_what_fits() {
    let long = format!("{}.com", "a".repeat(64));
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "bsonobjectid",
            &["507f1f77bcf86cd799439011"],
            &["", "507f1f77bcf86cd79943901", "507f1f77bcf86cd79943901z"],
        ),
        (
            "uri",
            &["https://a.b/c?d=e", "/path", "mailto:x@y", "http://[::1]:80/", "http://user@host"],
            &["", "a b", "foo", "http://a b/", "http://a:b", "/%zz", "http://[::1", ":x", "/a\nb"],
        ),
        (
            "email",
            &["a@b", "a.b+c@d.e", "Bob <bob@example.com>", "\"a b\"@c.d", "ä@b.c", "a@[127.0.0.1]"],
            &["", "a", "@b", "a@", "a@b@c d", "a b@c", "a..b@c", "<a@b", "a@b>"],
        ),
        (
            "hostname",
            &["a", "localhost", "a.b.com", "1.2.com", "x-y", "b-a.example.com", "straße.example"],
            &["", "-a", "a_b", "a..b", "my-host-name", "a.b", ".a", "a.", &long],
        ),
        ("ipv4", &["1.2.3.4", "01.2.3.4"], &["", "1.2.3", "256.1.1.1", "::1", "1.2.3.4/8", "1.2.3.+4"]),
        ("ipv6", &["::1", "fe80::1", "::ffff:1.2.3.4"], &["", "1.2.3.4", "::g", "fe80::1%eth0"]),
        (
            "cidr",
            &["10.0.0.0/8", "::/0", "1.2.3.4/32"],
            &["", "10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8"],
        ),
        (
            "mac",
            &["01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab", "01:23:45:67:89:ab:cd:ef"],
            &["", "01:23", "01:23:45:67:89:zz", "0123456789ab", "01:23-45:67:89:ab"],
        ),
        (
            "uuid",
            &["3d813cbb-47fb-32ba-91df-831e1593ac29", "3D813CBB47FB32BA91DF831E1593AC29"],
            &[
                "",
                "3d813cbb",
                "3d813cbb-47fb-32ba-91df-831e1593ac2g",
                "3d813cbb--47fb-32ba-91df-831e1593ac29",
                "3d813cbb-47fb-32ba-91df-831e1593ac299",
            ],
        ),
        ("uuid3", &["bcd02e22-68f0-3046-a512-327cca9def8f"], &["025b0d74-00a2-4048-bf57-227c5111bb34"]),
        (
            "uuid4",
            &["025b0d74-00a2-4048-bf57-227c5111bb34"],
            &["bcd02e22-68f0-3046-a512-327cca9def8f", "025b0d74-00a2-4048-7f57-227c5111bb34"],
        ),
        ("uuid5", &["886313e1-3b8a-5372-9b90-0c9aee199e5d"], &["025b0d74-00a2-4048-bf57-227c5111bb34"]),
        ("isbn", &["0321751043", "978-0321751041"], &["", "0321751044", "978-0321751042"]),
        ("isbn10", &["0321751043", "0-8044-2957-X"], &["978-0321751041", "032175104X", "03217510433"]),
        ("isbn13", &["978-0321751041"], &["0321751043"]),
        ("creditcard", &["4111-1111-1111-1111", "378282246310005"], &["", "4111-1111-1111-1112", "1234"]),
        ("ssn", &["111-11-1111", "111 11 1111"], &["", "111111111", "111-11-111a", "111-1-11111"]),
        ("hexcolor", &["#FFF", "a1b2c3"], &["", "#FFFF", "#GGG"]),
        (
            "rgbcolor",
            &["rgb(0,1,255)", "rgb( 1, 2 ,3 )"],
            &["", "rgb(0,1)", "rgb(0,1,256)", "rgb(01,1,2)", "0,1,2"],
        ),
        ("byte", &["YQ==", "YWI=", "YWJj"], &["", "YQ", "Y===", "YQ=a", "YW_j"]),
        ("password", &["", "anything"], &[]),
        ("date", &["2014-12-15"], &["", "2014-13-15", "2014-2-3", "20141215", "2014-12-15T00:00:00Z"]),
        (
            "date-time",
            &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20z", "2014-12-15T19:30:20+01:00"],
            &[
                "",
                "2014-12-15",
                "2014-12-15T25:30:20Z",
                "2014-12-15T19:60:20Z",
                "2014-12-15T19:30:20",
                "2014-02-30T19:30:20Z",
            ],
        ),
        ("datetime", &["2014-12-15T19:30:20.000Z"], &["soon"]),
        (
            "duration",
            &["0", "1h30m", "-1.5s", "22 ns", "3 days", "1w", "2 hours 5 min"],
            &["", "1", "h", "1x", "1.5 days", "1..5s", "s1"],
        ),
        ("quantity", &["10Gi", "1.5", "100m"], &["", "x", "1Xi"]),
        ("k8s-short-name", &["a", "a-1"], &["", "A", "a.b", "-a"]),
        ("k8s-long-name", &["a", "a.b-1.c"], &["", "A", "a..b", "a_b"]),
    ];
    for (name, fit, unfit) in cases {
        let format = Format::of(Kind::String, name).unwrap_or_else(|| panic!("{name}"));
        for text in *fit {
            assert!(format.fits(text), "{name}: {text:?}");
        }
        for text in *unfit {
            assert!(!format.fits(text), "{name}: {text:?}");
        }
    }
}

#[test]
fn formats_mean_something_only_where_they_belong() {
    assert_eq!(Format::of(Kind::Integer, "int32"), Some(Format::Int32));
    assert_eq!(Format::of(Kind::Number, "double"), Some(Format::Double));
    for (kind, name) in [
        (Kind::String, "int32"),
        (Kind::Integer, "uuid"),
        (Kind::Number, "int64"),
        (Kind::String, "colour"),
        (Kind::Object, "date"),
        (Kind::String, ""),
    ] {
        assert_eq!(Format::of(kind, name), None, "{kind:?} {name}");
    }
    assert_eq!(Format::of(Kind::String, "date-time").map(Format::name), Some("date-time"));
}

#[test]
fn values_are_held_against_their_format() {
    let schema = compile_spec(&json!({"type": "object", "properties": {
        "at": {"type": "string", "format": "date-time"},
        "odd": {"type": "string", "format": "colour"},
        "n": {"type": "integer", "format": "int32"},
    }}));
    assert_eq!(
        faults(&schema, &spec(json!({"at": "soon", "odd": "blue", "n": 3_000_000_000_u64})), None),
        [r#"spec.at: Invalid value: "soon": spec.at in body must be of type date-time: "soon""#],
    );
    assert_eq!(faults(&schema, &spec(json!({"at": "2014-12-15T19:30:20Z"})), None), [""; 0]);
}
