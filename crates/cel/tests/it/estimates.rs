//! What rules are estimated to cost at most: the numbers of Kubernetes 1.37, which decide what it accepts.

use serde_json::{Value, json};
use windlass_cel::{Env, Type};

use crate::support::compiled;

fn schema() -> Value {
    let text = |most: u64| json!({"type": "string", "maxLength": most});
    let integer = json!({"type": "integer"});
    let list = |most: u64, items: &Value| json!({"type": "array", "maxItems": most, "items": items});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    object(json!({
        "name": text(63), "n": integer, "f": {"type": "number"}, "b": {"type": "boolean"},
        "list": list(10, &text(20)), "nums": list(7, &integer),
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": text(9)},
        "objs": list(4, &object(json!({"k": text(8), "v": integer, "l": list(3, &integer)}))),
        "ios": {"x-kubernetes-int-or-string": true},
        "t": {"type": "string", "format": "date-time"}, "d": {"type": "string", "format": "duration"},
        "e": {"type": "string", "enum": ["aa", "b"]},
        "unb": {"type": "string"}, "unbl": {"type": "array", "items": {"type": "string"}},
        "deep": object(json!({"x": object(json!({"y": text(5)}))})),
    }))
}

#[test]
fn estimates_are_those_of_kubernetes() {
    let env = Env::new().variable("self", Type::from_schema(&schema()));
    let mut wrong = vec![];
    for (rule, expected) in ESTIMATES {
        let found = compiled(&env, rule).most_cost();
        if found != *expected {
            wrong.push(format!("{rule}: {found}, expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const ESTIMATES: &[(&str, u64)] = &[
    ("self.n > 1", 3),
    ("self.n >= 1 && self.n < 10", 6),
    ("self.name.startsWith('he')", 3),
    ("self.name.endsWith('lo') || self.b", 5),
    ("self.name.contains('ell')", 28),
    ("self.name.matches('^[a-z]+$')", 54),
    ("self.name == 'hello'", 3),
    ("self.name != self.e", 5),
    ("self.name + self.e == 'helloaa'", 31),
    ("self.name.size() < 10", 4),
    ("size(self.name) < 10", 4),
    ("self.list.size() == 3", 4),
    ("self.list.all(x, x.size() < 5)", 63),
    ("self.list.all(x, x != '')", 43),
    ("self.list.exists(x, x == 'bb')", 63),
    ("self.list.exists_one(x, x == 'bb')", 44),
    ("self.list.map(x, x + 'y').size() == 3", 235),
    ("self.list.filter(x, x.startsWith('a')).size() == 1", 165),
    ("self.list.isSorted()", 92),
    ("self.list == ['a', 'bb', 'ccc']", 13),
    ("'bb' in self.list", 12),
    ("self.name in ['hello', 'x']", 14),
    ("self.nums.sum() == 6", 10),
    ("self.nums.max() == 3 && self.nums.min() == 1", 20),
    ("self.nums.all(x, self.nums.exists_one(y, x == y))", 248),
    ("self.nums.all(x, self.nums.all(y, x <= 3 && y <= 3))", 388),
    ("self.nums.indexOf(2) == 2", 10),
    ("self.m.all(k, self.m[k].startsWith('v'))", 43),
    ("self.m.exists(k, k == 'k1')", 28),
    ("'k1' in self.m", 3),
    ("self.m.k1 == 'v1'", 4),
    ("self.m['k2'] == 'v2'", 4),
    ("self.m.size() == 2", 4),
    ("self.m.all(k, v, k != v)", 28),
    ("self.m.transformList(k, v, v).size() == 2", 80),
    ("self.m.transformMap(k, v, v + 'x').size() == 2", 75),
    ("self.objs.all(o, o.v > 0)", 27),
    ("self.objs.exists(o, has(o.l) && o.l.exists(i, i == 2))", 95),
    ("self.objs[0].k == 'a'", 5),
    ("has(self.name) ? self.name.size() > 0 : false", 5),
    ("has(self.deep.x.y) && self.deep.x.y == 'z'", 8),
    ("!has(self.unb) || self.unb.size() < 100", 6),
    ("self.unb.startsWith('x')", 3),
    ("self.unb == 'xyz'", 3),
    ("self.unb.contains('y')", 314575),
    ("self.unb.matches('x.*')", 314575),
    ("self.unb.size() > 0", 4),
    ("self.unbl.all(x, x.size() < 5)", 6291453),
    ("self.unbl.all(x, x == 'p' || x == 'q')", 7340028),
    ("self.unbl.exists(x, x.startsWith('p'))", 6291453),
    ("self.unbl.size() < 5", 4),
    ("self.unbl.all(x, self.unbl.all(y, x != y || x == y))", 691759719727602078),
    ("self.t < timestamp('2025-01-01T00:00:00Z')", 4),
    ("self.t.getFullYear() == 2024", 4),
    ("self.d < duration('2h')", 4),
    ("self.d.getMinutes() == 60", 4),
    ("self.e in ['aa', 'b']", 14),
    ("self.e == 'aa'", 3),
    ("self.f > 1.0 && self.f < self.n", 8),
    ("double(self.n) > self.f", 6),
    ("string(self.n) == '3'", 4),
    ("int(self.f) == 1", 4),
    ("self.name.split('l').size() == 3", 55),
    ("self.name.replace('l', 'LL').size() == 7", 55),
    ("self.name.substring(1, 3) == 'el'", 29),
    ("self.name.find('[a-e]') == 'e'", 55),
    ("self.name.findAll('l').size() == 2", 30),
    ("self.name.lowerAscii() == self.name", 56),
    ("self.name.indexOf('l') == 2", 29),
    ("self.name.charAt(0) == 'h'", 4),
    ("self.name.trim() == self.name", 56),
    ("isURL(self.unb) == false", 4),
    ("url('https://a/' + self.name).getHost() == 'a'", 58),
    ("isQuantity(self.name) == false", 29),
    ("isIP(self.name) == false", 29),
    ("cidr('10.0.0.0/8').containsIP('10.0.0.1')", 6),
    ("ip('10.0.0.1').family() == 4", 3),
    ("isSemver(self.name) == false", 29),
    ("semver('1.2.3').isLessThan(semver('2.0.0'))", 3),
    ("format.dns1123Label().validate(self.name).hasValue() == false", 837),
    ("!format.named('uuid').value().validate(self.name).hasValue() || true", 838),
    ("self.?unb.orValue('') == 'xyz'", 4),
    ("self.?m.?zz.orValue('none') == 'none'", 5),
    ("self.list[?5].orValue('none') == 'none'", 5),
    ("sets.contains(self.list, ['a'])", 23),
    ("sets.intersects(self.list, ['zz']) == false", 24),
    ("'%s-%d'.format([self.name, self.n]) == 'hello-3'", 16),
    ("self == self", 2),
    ("self.objs == self.objs", 5),
    ("self.list + ['z'] == ['a', 'bb', 'ccc', 'z']", 24),
    ("(self.list + self.list).size() == 6", 7),
    ("[self.n, 1].sum() == 4", 15),
    ("{'a': self.n}.a == 3", 33),
    ("[1, 2, 3].all(x, x <= self.n)", 32),
    ("[self.name, self.e].all(x, x.size() > 1)", 27),
    ("self.n > 1 ? self.list.all(x, x != 'q') : self.unbl.all(x, x != 'q')", 5242881),
    ("self.nums.map(x, x * 2).filter(x, x > 2).sum() == 10", 235),
    ("self.list.map(x, x + x).all(y, y.size() > 1)", 374),
    ("self.m.nope == 'a'", 4),
    ("self.objs[9].k == 'a'", 5),
    ("self.nums[0] / 0 == 1", 5),
    ("self.ios > 5", 3),
    ("self.list.first().value() == 'a'", 5),
    ("self.list.last().orValue('') == 'ccc'", 5),
    ("strings.quote(self.name) == '\"hello\"'", 29),
    ("dyn(self.name) == dyn(1) || true", 5),
    ("self.list.all(i, x, x.size() == i + 1)", 83),
    ("self.list.exists(i, x, i == 0 && x == 'a')", 83),
    ("self.list.transformList(i, x, i).sum() == 3", 154),
    ("self.name.matches(self.e) == false", 31),
    ("self.b == true", 2),
    ("!self.b || self.n == 3", 5),
    ("-self.n < 0", 4),
    ("self.n % 2 == 1", 4),
    ("type(self.ios) == string ? self.ios.endsWith('%') : self.ios < 100", 7),
    ("type(self.ios) == int || self.ios.matches('^[0-9]+%$')", 943725),
];
