//! Functions on texts: the standard ones, the extensions, regular expressions, formatting, encoding.

use crate::support::table;

#[test]
fn texts_are_searched() {
    table(&[
        ("'hello'.contains('ell')", "true"),
        ("'hello'.contains('')", "true"),
        ("'hello'.contains('x')", "false"),
        ("'hello'.startsWith('he')", "true"),
        ("'hello'.startsWith('lo')", "false"),
        ("'hello'.endsWith('lo')", "true"),
        ("'hello'.endsWith('he')", "false"),
        ("d.text.contains('ell')", "true"),
        ("d.int.contains('ell')", "!no such overload"),
        ("size('hello')", "5"),
        ("'héllo'.size()", "5"),
        ("size(b'h\\xc3\\xa9')", "3"),
        ("'hello'.charAt(4)", "\"o\""),
        ("'hello'.charAt(5)", "\"\""),
        ("'héllo'.charAt(1)", "\"é\""),
        ("'hello'.charAt(6)", "!index out of range: 6"),
        ("'hello'.charAt(-1)", "!index out of range: -1"),
        ("'hello mellow'.indexOf('')", "0"),
        ("'hello mellow'.indexOf('ello')", "1"),
        ("'hello mellow'.indexOf('jello')", "-1"),
        ("'hello mellow'.indexOf('', 2)", "2"),
        ("'hello mellow'.indexOf('ello', 2)", "7"),
        ("'hello mellow'.indexOf('ello', 20)", "-1"),
        ("'hello mellow'.indexOf('ello', -1)", "!index out of range: -1"),
        ("'ééa'.indexOf('a')", "2"),
        ("'hello mellow'.lastIndexOf('')", "12"),
        ("'hello mellow'.lastIndexOf('ello')", "7"),
        ("'hello mellow'.lastIndexOf('jello')", "-1"),
        ("'hello mellow'.lastIndexOf('ello', 6)", "1"),
        ("'hello mellow'.lastIndexOf('ello', 7)", "7"),
        ("'hello mellow'.lastIndexOf('ello', -1)", "!index out of range: -1"),
        ("'aéa'.lastIndexOf('a')", "2"),
        ("'aéa'.lastIndexOf('é', 1)", "1"),
    ]);
}

#[test]
fn texts_are_cut_and_joined() {
    table(&[
        ("'tacocat'.substring(4)", "\"cat\""),
        ("'tacocat'.substring(0, 4)", "\"taco\""),
        ("'tacocat'.substring(7)", "\"\""),
        ("'ééa'.substring(1, 2)", "\"é\""),
        ("'tacocat'.substring(-1)", "!index out of range: -1"),
        ("'tacocat'.substring(40)", "!index out of range: 40"),
        ("'tacocat'.substring(0, 40)", "!index out of range: 40"),
        ("'tacocat'.substring(2, 1)", "!invalid substring range. start: 2, end: 1"),
        ("'hello hello'.replace('he', 'we')", "\"wello wello\""),
        ("'hello hello'.replace('he', 'we', 1)", "\"wello hello\""),
        ("'hello hello'.replace('he', 'we', 0)", "\"hello hello\""),
        ("'hello hello'.replace('he', 'we', -1)", "\"wello wello\""),
        ("'ab'.replace('', '-')", "\"-a-b-\""),
        ("'hello hello hello'.split(' ')", "[\"hello\", \"hello\", \"hello\"]"),
        ("'hello hello hello'.split(' ', 0)", "[]"),
        ("'hello hello hello'.split(' ', 1)", "[\"hello hello hello\"]"),
        ("'hello hello hello'.split(' ', 2)", "[\"hello\", \"hello hello\"]"),
        ("'hello hello hello'.split(' ', -1)", "[\"hello\", \"hello\", \"hello\"]"),
        ("'a,b,'.split(',')", "[\"a\", \"b\", \"\"]"),
        ("'aéb'.split('')", "[\"a\", \"é\", \"b\"]"),
        ("''.split(',')", "[\"\"]"),
        ("'  \\ttrim\\n    '.trim()", "\"trim\""),
        ("'TacoCÆt'.lowerAscii()", "\"tacocÆt\""),
        ("'TacoCæt'.upperAscii()", "\"TACOCæT\""),
        ("'gums'.reverse()", "\"smug\""),
        ("'aé'.reverse()", "\"éa\""),
        ("['hello', 'mellow'].join()", "\"hellomellow\""),
        ("['hello', 'mellow'].join(' ')", "\"hello mellow\""),
        ("[].join('/')", "\"\""),
        ("s.tags.join('-')", "\"a-b-a\""),
        ("d.mixed.join(',')", "!no such overload"),
        ("strings.quote('a \"b\"')", "\"\\\"a \\\\\\\"b\\\\\\\"\\\"\""),
        ("strings.quote('x\\n\\t\\\\')", "\"\\\"x\\\\n\\\\t\\\\\\\\\\\"\""),
    ]);
}

#[test]
fn regular_expressions_find_what_they_match() {
    table(&[
        ("'abc123'.matches('[0-9]+')", "true"),
        ("'abc123'.matches('^[0-9]+$')", "false"),
        ("matches('abc', 'b')", "true"),
        (r"'١'.matches('^\\d$')", "false"),
        (r"'a-b'.matches(r'^[a-z]([-a-z0-9]*[a-z0-9])?$')", "true"),
        ("'abc'.matches(d.text)", "false"),
        ("'say hello'.matches(d.text)", "true"),
        ("'abc'.matches('(' + d.text)", "!error parsing regexp: unclosed group: `(hello`"),
        ("'abc 123'.find('[0-9]+')", "\"123\""),
        ("'abc'.find('[0-9]+')", "\"\""),
        ("'123 abc 456'.findAll('[0-9]+')", "[\"123\", \"456\"]"),
        ("'123 abc 456'.findAll('[0-9]+', 1)", "[\"123\"]"),
        ("'123 abc 456'.findAll('[0-9]+', 0)", "[]"),
        ("'123 abc 456'.findAll('[0-9]+', -1)", "[\"123\", \"456\"]"),
        ("'abc'.findAll('x')", "[]"),
        ("'a1b2'.findAll('[' + 'a-z]')", "[\"a\", \"b\"]"),
        ("'hello hello'.find(d.text)", "\"hello\""),
        ("'hello hello'.findAll(d.text).size()", "2"),
    ]);
}

#[test]
fn texts_are_formatted() {
    table(&[
        ("'hello %s'.format(['world'])", "\"hello world\""),
        ("'%d %d'.format([1, 2])", "\"1 2\""),
        ("'%d'.format([5u])", "\"5\""),
        ("'%s'.format([1])", "\"1\""),
        ("'%s'.format([1.5])", "\"1.5\""),
        ("'%s'.format([1000000.0])", "\"1e+06\""),
        ("'%s'.format([true])", "\"true\""),
        ("'%s'.format([null])", "\"null\""),
        ("'%s'.format([[1, 2]])", "\"[1, 2]\""),
        ("'%s'.format([['a', 'b']])", "\"[\\\"a\\\", \\\"b\\\"]\""),
        ("'%s'.format([{'b': 2, 'a': 1}])", "\"{\\\"a\\\":1, \\\"b\\\":2}\""),
        ("'%s'.format([timestamp(0)])", "\"1970-01-01T00:00:00Z\""),
        ("'%s'.format([duration('90s')])", "\"90s\""),
        ("'%s'.format([type(1)])", "\"int\""),
        ("'%s'.format([b'abc'])", "\"abc\""),
        ("'%f'.format([1.5])", "\"1.500000\""),
        ("'%.2f'.format([1.255])", "\"1.25\""),
        ("'%.0f'.format([2.0])", "\"2\""),
        ("'%e'.format([1052.032911275])", "\"1.052033e+03\""),
        ("'%.3e'.format([0.00012345])", "\"1.234e-04\""),
        ("'%b'.format([5])", "\"101\""),
        ("'%b'.format([true])", "\"1\""),
        ("'%o'.format([8])", "\"10\""),
        ("'%x'.format([255])", "\"ff\""),
        ("'%X'.format([255u])", "\"FF\""),
        ("'%x'.format(['hi'])", "\"6869\""),
        ("'%x'.format([b'hi'])", "\"6869\""),
        ("'%x'.format([-16])", "\"-10\""),
        ("'100%%'.format([])", "\"100%\""),
        ("'%s and %s'.format(d.list.slice(0, 1))", "!index 1 out of range"),
        (
            "'%d'.format([d.text])",
            "!error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("(d.text + '%z').format([1])", "!unrecognized formatting clause \"z\""),
        ("(d.text + '%').format([1])", "!unexpected end of string"),
        ("'%s-%d'.format(['a', 1])", "\"a-1\""),
        ("'%s'.format([?d.?int])", "\"3\""),
        ("'name is %s'.format([s.name])", "\"name is web\""),
    ]);
}

#[test]
fn bytes_are_encoded() {
    table(&[
        ("base64.encode(b'hello')", "\"aGVsbG8=\""),
        ("base64.decode('aGVsbG8=')", "b\"hello\""),
        ("base64.decode('aGVsbG8')", "b\"hello\""),
        ("base64.decode('?')", "!illegal base64 data"),
        ("bytes('é').size()", "2"),
        ("string(b'\\xff')", "!invalid UTF-8 in bytes, cannot convert to string"),
    ]);
}
