//! Functions on lists and sets.

use crate::support::table;

#[test]
fn lists_are_weighed_and_searched() {
    table(&[
        ("[1, 2, 3].isSorted()", "true"),
        ("['a', 'b', 'b', 'c'].isSorted()", "true"),
        ("[2.0, 1.0].isSorted()", "false"),
        ("[1].isSorted()", "true"),
        ("[].isSorted()", "true"),
        ("[timestamp(1), timestamp(2)].isSorted()", "true"),
        ("[1, 3].sum()", "4"),
        ("[1u, 3u].sum()", "4u"),
        ("[1.0, 3.0].sum()", "4.0"),
        ("[].sum()", "0"),
        ("[1.0].filter(x, x > 2.0).sum()", "0.0"),
        ("d.list.sum()", "6"),
        ("[9223372036854775807, 1].sum()", "!integer overflow"),
        ("[1, 3].min()", "1"),
        ("[1, 3].max()", "3"),
        ("['b', 'a'].min()", "\"a\""),
        ("['b', 'a'].max()", "\"b\""),
        ("[].min()", "!min called on empty list"),
        ("[].max()", "!max called on empty list"),
        ("([0] + d.list).min()", "0"),
        ("[1, 2, 2, 3].indexOf(2)", "1"),
        ("['a', 'b', 'b', 'c'].lastIndexOf('b')", "2"),
        ("[1.0].indexOf(1.1)", "-1"),
        ("[].indexOf('string')", "-1"),
        ("d.list.indexOf(3)", "2"),
        ("s.tags.lastIndexOf('a')", "2"),
        ("[1, 2, 3].includes(2)", "true"),
        ("[1, 2, 3].includes(4)", "false"),
        ("'model-a'.includes('model-a')", "true"),
        ("size([1, 2])", "2"),
        ("[1, 2].size()", "2"),
        ("{'a': 1}.size()", "1"),
        ("size(d.map)", "2"),
    ]);
}

#[test]
fn lists_are_rearranged() {
    table(&[
        ("[1, 2, 3, 4].slice(1, 3)", "[2, 3]"),
        ("[1, 2, 3, 4].slice(2, 4)", "[3, 4]"),
        ("[1, 2].slice(0, 0)", "[]"),
        ("[1, 2].slice(0, 3)", "!cannot slice(0, 3), list is length 2"),
        ("[1, 2].slice(-1, 1)", "!cannot slice(-1, 1), negative indexes not supported"),
        ("[1, 2].slice(2, 1)", "!cannot slice(2, 1), start index must be less than or equal to end index"),
        ("d.list.slice(0, 2)", "[1,2]"),
        ("[[1, 2], [3]].flatten()", "[1, 2, 3]"),
        ("[dyn([1]), dyn([[2]])].flatten(2)", "[1, 2]"),
        ("[dyn([1]), dyn([[2]])].flatten(1)", "[1, [2]]"),
        ("[dyn([1]), dyn([[2]])].flatten(-1)", "!level must be non-negative"),
        ("[1, 2, 2, 3, 3, 3].distinct()", "[1, 2, 3]"),
        ("['b', 'b', 'c', 'a', 'c'].distinct()", "[\"b\", \"c\", \"a\"]"),
        ("[dyn(1), dyn(1.0), dyn('1')].distinct().size()", "2"),
        ("[3, 2, 1].sort()", "[1, 2, 3]"),
        ("['b', 'c', 'a'].sort()", "[\"a\", \"b\", \"c\"]"),
        ("[].sort()", "[]"),
        ("[dyn(1), dyn('a')].sort()", "!list elements must have the same type"),
        ("dyn([[1], [2]]).sort()", "!list elements must be comparable"),
        ("[{'n': 2}, {'n': 1}].sortBy(x, x.n)", "[{\"n\": 1}, {\"n\": 2}]"),
        ("d.containers.sortBy(c, -size(c)).map(c, c.name)", "[\"a\", \"b\"]"),
        ("['bb', 'a', 'ccc'].sortBy(x, size(x))", "[\"a\", \"bb\", \"ccc\"]"),
        ("lists.range(4)", "[0, 1, 2, 3]"),
        ("lists.range(0)", "[]"),
        ("lists.range(-1)", "!lists.range: size must be non-negative, got -1"),
        ("[1, 2].first()", "some(1)"),
        ("[1, 2].last()", "some(2)"),
        ("[].first()", "none"),
        ("[1, 2, 3].reverse()", "[3, 2, 1]"),
    ]);
}

#[test]
fn lists_are_taken_as_sets() {
    table(&[
        ("sets.contains([], [])", "true"),
        ("sets.contains([], [1])", "false"),
        ("sets.contains([1, 2, 3, 4], [2, 3])", "true"),
        ("sets.contains([dyn(1), dyn(2.0), dyn(3u)], [dyn(1.0), dyn(2u), dyn(3)])", "true"),
        ("sets.equivalent([], [])", "true"),
        ("sets.equivalent([1], [1, 1])", "true"),
        ("sets.equivalent([1, 2, 3], [3, 2, 1])", "true"),
        ("sets.equivalent([1], [1, 2])", "false"),
        ("sets.equivalent([dyn(1)], [dyn(1u), dyn(1.0)])", "true"),
        ("sets.intersects([1], [])", "false"),
        ("sets.intersects([1], [1, 2])", "true"),
        ("sets.intersects([[1], [2, 3]], [[1, 2], [2, 3]])", "true"),
        ("sets.contains(s.tags, ['b'])", "true"),
    ]);
}
