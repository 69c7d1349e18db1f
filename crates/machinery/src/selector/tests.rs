//! Selectors, by tables of what is written and what it means.

use std::borrow::Cow;

use serde_json::json;

use super::*;

fn matches(query: &str, labels: &[(&str, &str)]) -> bool {
    let selector = LabelSelector::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    selector.matches(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
}

#[test]
fn labels_are_selected() {
    let labels = [("app", "web"), ("tier", "5"), ("x.io/y", ""), ("in", "notin")];
    for (query, selected) in [
        ("", true),
        ("app", true),
        ("!app", false),
        ("! old", true),
        ("app=web", true),
        ("app==web", true),
        (" app = web , tier ", true),
        ("app=api", false),
        ("app!=api", true),
        ("app!=web", false),
        ("old!=web", true),
        ("app in (api, web)", true),
        ("app in (api,)", false),
        ("app in(web)", true),
        ("app notin (api)", true),
        ("app notin (web)", false),
        ("old notin (web)", true),
        ("old in (web)", false),
        ("tier>4", true),
        ("tier > 5", false),
        ("tier<6", true),
        ("app>1", false),
        ("old<1", false),
        ("x.io/y", true),
        ("x.io/y=", true),
        ("x.io/y=,app=web", true),
        ("x.io/y in ()", true),
        ("x.io/y in (,a)", true),
        ("x.io/y in (a,,b)", true),
        ("in in (notin)", true),
        ("in=notin", true),
        ("in", true),
        ("app=web,tier=6", false),
        ("\tapp\r\n=\nweb", true),
    ] {
        assert_eq!(matches(query, &labels), selected, "{query}");
    }
}

#[test]
fn what_cannot_be_read_is_explained() {
    for (query, message) in [
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a (b)", "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (b=", "unable to parse requirement: found '=', expected: ',' or ')'"),
        ("a==!b", "unable to parse requirement: found '!', expected: identifier"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ] {
        assert_eq!(
            LabelSelector::parse(query).map_err(|e| e.to_string()),
            Err(message.to_owned()),
            "{query}"
        );
    }
    for (query, begin) in [
        ("a/b/c", "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key must"),
        ("-a=b", "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of"),
        ("a=b/c", "unable to parse requirement: values[0][a]: Invalid value: \"b/c\": a valid label must be"),
        ("é", "unable to parse requirement: <nil>: Invalid value: \"é\": name part must consist of"),
    ] {
        let message = LabelSelector::parse(query).map_err(|e| e.to_string()).expect_err(query);
        assert!(message.starts_with(begin), "{query}: {message}");
    }
}

#[test]
fn selectors_are_written_in_one_way() {
    for (query, text) in [
        ("b=1, a ,c in (z, y,y)", "a,b=1,c in (y,z)"),
        ("!a,b!=1,c==2,d notin (x),e>1,f<2", "!a,b!=1,c==2,d notin (x),e>1,f<2"),
        ("", ""),
        ("a in ()", "a in ()"),
    ] {
        let selector = LabelSelector::parse(query).expect(query);
        assert_eq!(selector.to_string(), text);
        assert_eq!(LabelSelector::parse(text).as_ref(), Ok(&selector));
    }
}

#[test]
fn selectors_in_objects_are_read() {
    let read = |value| LabelSelector::from_object(&value).map(|selector| selector.to_string());
    assert_eq!(
        read(json!({"matchLabels": {"b": "1", "a": ""}, "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x", "x"]}, {"key": "d", "operator": "NotIn", "values": ["z"]},
            {"key": "e", "operator": "Exists"}, {"key": "f", "operator": "DoesNotExist", "values": []}]}))
        .as_deref(),
        Ok("a=,b=1,c in (x,y),d notin (z),e,!f")
    );
    for (value, message) in [
        (
            json!({"matchExpressions": [{"key": "a", "operator": "Gt"}]}),
            "\"Gt\" is not a valid label selector operator",
        ),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
            "values: Invalid value: [\"b\"]: values set must be empty for exists and does not exist",
        ),
    ] {
        assert_eq!(read(value).map_err(|e| e.to_string()), Err(message.to_owned()));
    }
    assert!(read(json!({"matchLabels": {"a b": "1"}})).is_err());
}

#[test]
fn null_selects_nothing_and_the_empty_object_everything() {
    let nothing = LabelSelector::from_object(&json!(null)).expect("readable");
    assert!(nothing.is_nothing() && !nothing.is_empty() && !nothing.matches(|_| Some("x")));
    let everything = LabelSelector::from_object(&json!({})).expect("readable");
    assert!(everything.is_empty() && everything.matches(|_| None));
    let labels = json!({"a": "1"}).as_object().cloned().expect("an object");
    assert!(LabelSelector::from_map(&labels).matches_map(&labels));
    assert!(!LabelSelector::from_map(&labels).matches_map(&Object::new()));
}

#[test]
fn exact_values_can_be_asked_for() {
    let selector = LabelSelector::parse("a=1,b in (2),c in (3,4),d!=5").expect("readable");
    let exact: Vec<_> = ["a", "b", "c", "d", "e"].into_iter().map(|key| selector.exact(key)).collect();
    assert_eq!(exact, [Some("1"), Some("2"), None, None, None]);
}

#[test]
fn selectors_in_objects_are_validated() {
    let selector = json!({"matchLabels": {"a b": "1"}, "matchExpressions": [
        {"key": "a", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["x"]},
        {"key": "", "operator": "x", "values": ["c d"]}]});
    let mut errors = Errors::new();
    errors.at("spec", |errors| {
        errors.at("selector", |errors| {
            validate_label_selector(selector.as_object().expect("an object"), errors);
        });
    });
    let shown: Vec<String> =
        errors.list().iter().map(|error| format!("{} {}", error.field, error.body())).collect();
    let begins = [
        "spec.selector.matchLabels Invalid value: \"a b\": name part",
        "spec.selector.matchExpressions[0].values Required value: must be specified when `operator` is 'In' or 'NotIn'",
        "spec.selector.matchExpressions[1].values Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        "spec.selector.matchExpressions[2].operator Invalid value: \"x\": not a valid selector operator",
        "spec.selector.matchExpressions[2].key Invalid value: \"\": name part must be non-empty",
        "spec.selector.matchExpressions[2].key Invalid value: \"\": name part must consist",
        "spec.selector.matchExpressions[2].values[0] Invalid value: \"c d\": a valid label",
    ];
    assert_eq!(shown.len(), begins.len());
    for (shown, begin) in shown.iter().zip(begins) {
        assert!(shown.starts_with(begin), "{shown}");
    }
}

#[test]
fn fields_are_selected() {
    let get = |field: &str| -> Option<Cow<'static, str>> {
        match field {
            "metadata.name" => Some("a=b,c\\d".into()),
            "status.phase" => Some("Running".into()),
            _ => None,
        }
    };
    for (query, selected) in [
        ("", true),
        (",", true),
        ("status.phase=Running", true),
        ("status.phase==Running", true),
        ("status.phase!=Running", false),
        ("status.phase!=Failed,spec.nodeName=", true),
        (r"metadata.name=a\=b\,c\\d", true),
        (r"metadata.name=a\=b\,c\\d,status.phase=Failed", false),
    ] {
        let selector = FieldSelector::parse(query).expect(query);
        assert_eq!(selector.matches(get), selected, "{query}");
        assert_eq!(FieldSelector::parse(&selector.to_string()).as_ref(), Ok(&selector), "{query}");
    }
    let selector = FieldSelector::parse("b!=2,a=1").expect("readable");
    assert_eq!(selector.to_string(), "a=1,b!=2");
    assert_eq!((selector.exact("a"), selector.exact("b")), (Some("1"), None));
}

#[test]
fn field_selectors_that_cannot_be_read_are_explained() {
    for (query, message) in [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("b=1,a!1", "invalid selector: 'b=1,a!1'; can't understand 'a!1'"),
        (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
        (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ] {
        assert_eq!(
            FieldSelector::parse(query).map_err(|e| e.to_string()),
            Err(message.to_owned()),
            "{query}"
        );
    }
}
