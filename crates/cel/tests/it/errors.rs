//! Expressions that do not compile, and what is said about them.

use windlass_cel::{Env, Type};

use crate::support::{env, refused};

#[test]
fn wrong_types_are_told_with_their_place() {
    refused(
        &env(),
        &[
            ("x == 1", "1:1: undeclared reference to 'x' (in container '')"),
            ("d.int == y", "1:10: undeclared reference to 'y' (in container '')"),
            ("s.name == y.z", "1:11: undeclared reference to 'y' (in container '')"),
            ("foo(1)", "1:4: undeclared reference to 'foo' (in container '')"),
            ("s.name.foo()", "1:11: undeclared reference to 'foo' (in container '')"),
            (
                "authorizer.group('')",
                "1:1: undeclared reference to 'authorizer' (in container ''): authorization",
            ),
            ("s.foo", "1:2: undefined field 'foo'"),
            ("s.ports[0].nope", "1:11: undefined field 'nope'"),
            ("s.while", "1:2: undefined field 'while'"),
            ("has(s.nope)", "1:4: undefined field 'nope'"),
            ("s.embedded.spec", "1:11: undefined field 'spec'"),
            ("s.embedded.metadata.labels", "1:20: undefined field 'labels'"),
            ("s.name.first", "1:7: type 'string' does not support field selection"),
            ("s.replicas + s.name", "1:12: found no matching overload for '_+_' applied to '(int, string)'"),
            ("1 + 1.0", "1:3: found no matching overload for '_+_' applied to '(int, double)'"),
            ("1 == 1.0", "1:3: found no matching overload for '_==_' applied to '(int, double)'"),
            ("s.name == 1", "1:8: found no matching overload for '_==_' applied to '(string, int)'"),
            ("s.name == null", "1:8: found no matching overload for '_==_' applied to '(string, null)'"),
            ("s.name > 1", "1:8: found no matching overload for '_>_' applied to '(string, int)'"),
            (
                "s.tags < s.tags",
                "1:8: found no matching overload for '_<_' applied to '(list(string), list(string))'",
            ),
            ("!s.name", "1:1: found no matching overload for '!_' applied to '(string)'"),
            ("-s.name", "1:1: found no matching overload for '-_' applied to '(string)'"),
            ("-1u", "1:1: found no matching overload for '-_' applied to '(uint)'"),
            ("s.name && true", "1:2: expected type 'bool' but found 'string'"),
            ("true || 1", "1:9: expected type 'bool' but found 'int'"),
            ("s.name ? 1 : 2", "1:8: found no matching overload for '_?_:_' applied to '(string, int, int)'"),
            (
                "true ? 1 : 'a'",
                "1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'",
            ),
            ("1 in s.tags", "1:3: found no matching overload for '@in' applied to '(int, list(string))'"),
            ("s.tags['a']", "1:7: found no matching overload for '_[_]' applied to '(list(string), string)'"),
            (
                "s.labels[1]",
                "1:9: found no matching overload for '_[_]' applied to '(map(string, string), int)'",
            ),
            ("s['name']", "1:2: found no matching overload for '_[_]' applied to '(object, string)'"),
            (
                "s.name.startsWith(1)",
                "1:18: found no matching overload for 'startsWith' applied to 'string.(int)'",
            ),
            (
                "s.name.startsWith()",
                "1:18: found no matching overload for 'startsWith' applied to 'string.()'",
            ),
            (
                "startsWith(s.name, 'a')",
                "1:11: found no matching overload for 'startsWith' applied to '(string, string)'",
            ),
            ("size(1)", "1:5: found no matching overload for 'size' applied to '(int)'"),
            (
                "s.ports == s.tags",
                "1:9: found no matching overload for '_==_' applied to '(list(object.ports.@items), list(string))'",
            ),
            ("s.tags.sum()", "1:11: found no matching overload for 'sum' applied to 'list(string).()'"),
            (
                "math.greatest('a')",
                "1:14: found no matching overload for 'math.greatest' applied to '(string)'",
            ),
            ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
            ("{'a': 1, 'b': 'c'}", "1:15: expected type 'int' but found 'string'"),
            ("{'a': 1, 2: 3}", "1:10: expected type 'string' but found 'int'"),
            ("{1.5: 'a'}", "1:2: unsupported key type: double"),
            ("[?1]", "1:3: expected type 'optional_type(dyn)' but found 'int'"),
            ("s.replicas.all(x, true)", "1:2: expression of type 'int' cannot be range of a comprehension"),
            ("s.all(x, true)", "1:1: expression of type 'object' cannot be range of a comprehension"),
            ("s.tags.all(x, x)", "1:15: expected type 'bool' but found 'string'"),
            ("s.tags.filter(x, 1)", "1:18: expected type 'bool' but found 'int'"),
            ("s.tags.map(x, y)", "1:15: undeclared reference to 'y'"),
            (
                "s.tags.all(x, x.size() > 'a')",
                "1:24: found no matching overload for '_>_' applied to '(int, string)'",
            ),
            ("s.labels.transformMapEntry(k, v, v)", "1:34: expected type 'map(dyn, dyn)' but found 'string'"),
            ("s.labels.sortBy(k, k)", "1:2: expected type 'list(dyn)' but found 'map(string, string)'"),
            (
                "optional.of(1).orValue('a')",
                "1:23: found no matching overload for 'orValue' applied to 'optional_type(int).(string)'",
            ),
            ("s.name.optMap(x, x)", "1:2: expected type 'optional_type(dyn)' but found 'string'"),
            ("Object{spec: 1}", "1:7: undeclared reference to 'Object'"),
            ("jsonpatch.escapeKey('a')", "1:20: undeclared reference to 'jsonpatch.escapeKey'"),
            ("duration('abc')", "1:10: invalid duration argument"),
            ("timestamp('abc')", "1:11: invalid timestamp argument"),
            ("s.name.matches('(')", "1:16: invalid matches argument"),
            ("true\n&& s.nope", "2:5: undefined field 'nope'"),
            ("'é' + s.nope", "1:8: undefined field 'nope'"),
        ],
    );
}

#[test]
fn wrong_syntax_is_told_with_its_place() {
    refused(
        &env(),
        &[
            ("", "1:1: Syntax error: mismatched input '<EOF>'"),
            ("1 +", "1:4: Syntax error: mismatched input '<EOF>'"),
            ("(1", "1:3: Syntax error: mismatched input '<EOF>' expecting ')'"),
            ("1 2", "1:3: Syntax error: mismatched input '2'"),
            ("[1, 2", "1:6: Syntax error: mismatched input '<EOF>' expecting ']'"),
            ("{'a' 1}", "1:6: Syntax error: mismatched input '1' expecting ':'"),
            ("a.", "1:3: Syntax error: mismatched input '<EOF>' expecting IDENTIFIER"),
            ("a.true", "1:3: Syntax error: mismatched input 'true' expecting IDENTIFIER"),
            ("f(1,)", "1:5: Syntax error: mismatched input ')'"),
            ("a ? b", "1:6: Syntax error: mismatched input '<EOF>' expecting ':'"),
            ("'abc", "1:1: Syntax error: unterminated string literal"),
            ("'a\nb'", "1:1: Syntax error: unterminated string literal"),
            (r"'\q'", "1:1: unable to unescape string"),
            (r"'\ud800'", "1:1: invalid unicode code point"),
            (r"b'\u0041'", "1:1: \\u is not allowed in bytes"),
            ("9223372036854775808", "1:1: invalid int literal"),
            ("-9223372036854775809", "1:1: invalid int literal"),
            ("18446744073709551616u", "1:1: invalid uint literal"),
            ("1e999", "1:1: invalid double literal"),
            ("0x", "1:1: invalid int literal"),
            ("a # b", "1:3: Syntax error: token recognition error at: '#'"),
            ("a = b", "1:3: Syntax error: token recognition error at: '='"),
            ("a & b", "1:3: Syntax error: token recognition error at: '&'"),
            ("namespace", "1:1: reserved identifier: namespace"),
            ("for", "1:1: reserved identifier: for"),
            ("in", "1:1: reserved identifier: in"),
            ("has(1)", "1:5: invalid argument to has() macro"),
            ("has(d)", "1:5: invalid argument to has() macro"),
            ("has()", "1:4: invalid argument to has() macro"),
            ("[1].all(1, true)", "1:9: argument must be a simple name"),
            ("[1].all(x, x, true)", "1:12: duplicate variable name: x"),
            ("cel.bind(1, 2, 3)", "1:10: argument must be a simple name"),
            ("1 {}", "1:3: Syntax error: mismatched input '{'"),
        ],
    );
}

#[test]
fn every_fault_is_told_once() {
    let errors = env().compile("s.nope == 1 && s.nada > 'a' && zzz").expect_err("three faults");
    let messages: Vec<&str> = errors.iter().map(|error| &*error.message).collect();
    assert_eq!(
        messages,
        [
            "undefined field 'nope'",
            "undefined field 'nada'",
            "undeclared reference to 'zzz' (in container '')"
        ]
    );
}

#[test]
fn a_fault_is_shown_in_its_line() {
    let errors = env().compile("true &&\n  s.nope").expect_err("no such field");
    assert_eq!(errors[0].to_string(), "ERROR: <input>:2:4: undefined field 'nope'\n |   s.nope\n | ...^");
}

#[test]
fn the_result_must_be_of_the_type_asked_for() {
    let env = Env::new();
    assert!(env.compile_to("1 < 2", &[Type::Bool]).is_ok());
    let errors = env.compile_to("1", &[Type::Bool]).expect_err("an int");
    assert_eq!(errors[0].message, "must evaluate to bool");
    let errors = env.compile_to("1", &[Type::Bool, Type::String]).expect_err("an int");
    assert_eq!(errors[0].message, "must evaluate to one of bool, string");
    // What is dynamic is not known to be what is asked for.
    assert!(env.clone().variable("d", Type::Dyn).compile_to("d.x", &[Type::Bool]).is_err());
    for (source, ty) in [
        ("[]", "list(dyn)"),
        ("[1]", "list(int)"),
        ("{'a': [1.0]}", "map(string, list(double))"),
        ("[].map(x, x)", "list(dyn)"),
        ("['a'].map(x, x.size())", "list(int)"),
        ("{'a': 1}.transformMap(k, v, k)", "map(string, string)"),
        ("[1].filter(x, true)", "list(int)"),
        ("true ? [] : [1]", "list(int)"),
        ("true ? 1 : dyn('a')", "dyn"),
        ("optional.of('a')", "optional_type(string)"),
        ("optional.none()", "optional_type(dyn)"),
        ("type(1)", "type(int)"),
        ("timestamp(0) - timestamp(0)", "duration"),
        ("'a'.split('')", "list(string)"),
        ("[[1]].flatten()", "list(int)"),
        ("ip('::1')", "net.IP"),
        ("[1, dyn('a')]", "list(dyn)"),
        ("cel.bind(x, [], x + ['a'])", "list(string)"),
        ("url('/a').getQuery()", "map(string, list(string))"),
    ] {
        let program = env.compile(source).unwrap_or_else(|errors| panic!("{source}: {}", errors[0]));
        assert_eq!(program.result().to_string(), ty, "{source}");
    }
}
