//! What expressions cost: when they run, and at most.

use serde_json::{Value, json};
use windlass_cel::{Budget, Env, EvalError, Limit, Type, Variables};

use crate::support::{compiled, data, env};

/// What an expression cost.
fn spent(source: &str) -> u64 {
    let (dynamic, typed) = data();
    let program = compiled(&env(), source);
    let mut budget = Budget::default();
    let variables = Variables::new().json("d", &dynamic).json("s", &typed);
    program.eval(&variables, &mut budget).unwrap_or_else(|error| panic!("{source}: {error}"));
    budget.spent()
}

#[test]
fn steps_cost_what_they_cost_in_kubernetes() {
    for (source, cost) in [
        ("1", 0),
        ("true && false", 0),
        ("s", 1),
        ("s.name", 2),
        ("s.ports[0].port", 4),
        ("has(s.name)", 1),
        ("s.replicas + 1", 3),
        ("s.replicas == 3", 3),
        ("s.enabled && s.enabled", 4),
        ("s.enabled || s.enabled", 2),
        ("s.enabled ? 1 : s.replicas", 2),
        ("!s.enabled", 3),
        ("s.name.startsWith('a')", 3),
        ("s.name.contains('b')", 3),
        ("s.name.matches('^w.*')", 3),
        ("s.name + 'xxxxxxxxxxxxxxxxxx'", 5),
        ("'b' in s.tags", 5),
        ("s.name in s.labels", 5),
        ("[s.replicas]", 12),
        ("{'a': s.replicas}", 32),
        ("s.tags.all(x, x != '')", 2 + 1 + 3 * (3 + 2)),
        ("s.tags.exists(x, x == 'b')", 2 + 1 + 2 * (4 + 2)),
        ("s.tags.exists_one(x, x == 'b')", 2 + 1 + 3 * (1 + 2) + 1),
        ("s.tags.map(x, x)", 2 + 1 + 3 * (12 + 1)),
        ("s.tags.filter(x, true)", 2 + 1 + 3 * 13),
    ] {
        assert_eq!(spent(source), cost, "{source}");
    }
}

#[test]
fn a_budget_stops_one_expression_and_all_of_them() {
    let env = env();
    let (dynamic, typed) = data();
    let program = compiled(&env, "s.tags.all(x, s.tags.all(y, x != 'z' && y != 'z'))");
    let variables = || Variables::new().json("d", &dynamic).json("s", &typed);
    let mut budget = Budget::new(1000, 10_000);
    assert_eq!(program.eval(&variables(), &mut budget).expect("enough").as_bool(), Some(true));
    let cost = budget.spent();
    let mut budget = Budget::new(cost - 1, 10_000);
    let error = program.eval(&variables(), &mut budget).expect_err("one too few");
    assert_eq!(error, EvalError::Budget(Limit::Expression));
    assert_eq!(error.to_string(), "operation cancelled: actual cost limit exceeded");
    let mut budget = Budget::new(cost, 2 * cost + 5);
    for _ in 0..2 {
        assert!(program.eval(&variables(), &mut budget).is_ok());
    }
    let error = program.eval(&variables(), &mut budget).expect_err("all is spent");
    assert_eq!(error, EvalError::Budget(Limit::Object));
    assert_eq!(budget.rest(), 0);
}

#[test]
fn nothing_absorbs_an_empty_budget() {
    let env = env();
    let (dynamic, typed) = data();
    for source in [
        "s.tags.all(x, x.matches('a+')) || true",
        "s.tags.exists(x, x == 'q') ? true : true",
        "cel.bind(v, s.tags.map(x, x + x), v == v || true)",
    ] {
        let program = compiled(&env, source);
        let variables = Variables::new().json("d", &dynamic).json("s", &typed);
        let outcome = program.eval(&variables, &mut Budget::new(4, 4));
        assert!(outcome.is_err_and(|error| error.is_budget()), "{source}");
    }
}

fn estimate(schema: Value, source: &str) -> u64 {
    let env = Env::new().variable("self", Type::from_schema(&schema));
    compiled(&env, source).most_cost()
}

#[test]
fn estimates_follow_the_sizes_of_the_schema() {
    let list = |most: u64| json!({"type": "array", "maxItems": most, "items": {"type": "integer"}});
    assert_eq!(estimate(list(10), "self.all(x, x > 0)"), 1 + 1 + 10 * (3 + 2));
    assert_eq!(estimate(list(10), "self.all(x, self.all(y, x < y))"), 2 + 10 * (3 + 2 + 10 * (3 + 3)));
    let text = |most: u64| json!({"type": "string", "maxLength": most});
    assert_eq!(estimate(text(25), "self.contains('abc')"), 1 + 10);
    assert_eq!(estimate(text(25), "self.matches('^[a-z]+$')"), 1 + 11 * 2);
    assert_eq!(estimate(text(25), "self == 'abc'"), 1 + 1);
    assert_eq!(estimate(text(25), "self + self == self"), 3 + 20 + 10);
    assert_eq!(estimate(json!({"type": "integer"}), "self > 0 && self < 10"), 4);
    assert_eq!(estimate(json!({"type": "integer"}), "self > 0 ? self < 1 : true"), 4);
    let names = json!({"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 5}});
    assert_eq!(estimate(names.clone(), "self.isSorted()"), 1 + 3 * 3);
    assert_eq!(estimate(names.clone(), "self.all(n, n.startsWith(n))"), 2 + 3 * (3 + 4));
    assert_eq!(estimate(names, "'a' in self"), 1 + 3);
    // A text nobody bounds is as long as a request.
    assert!(estimate(json!({"type": "string"}), "self.matches('a')") > 300_000);
}

#[test]
fn what_runs_never_costs_more_than_the_estimate() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"type": "array", "maxItems": 4, "items": {"type": "string", "maxLength": 6}},
            "m": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "string", "maxLength": 4}},
            "n": {"type": "integer"}, "t": {"type": "string", "maxLength": 12},
        },
    });
    let data = json!({"a": ["abcdef", "bcdefg", "c", ""], "m": {"x": "abcd", "y": "", "z": "zz"}, "n": 5, "t": "hello world!"});
    let env = Env::new().variable("self", Type::from_schema(&schema));
    for source in [
        "self.a.all(x, x.size() < 9)",
        "self.a.exists(x, x == 'zzzz')",
        "self.a.exists_one(x, x == 'c')",
        "self.a.map(x, x + x).join(',').contains('abc')",
        "self.a.filter(x, x.startsWith('a')).size() == 1",
        "self.a.map(x, x.upperAscii()).isSorted()",
        "self.m.all(k, self.m[k].size() < 5)",
        "self.m.all(k, v, v != 'abc')",
        "self.m.transformMap(k, v, v + v).size() == 3",
        "self.t.split(' ').all(w, w.matches('^[a-z!]+$'))",
        "self.t.replace('o', '00').size() > 10",
        "self.n > 3 ? self.t.lowerAscii() == self.t : false",
        "self.t.find('[a-z]+') == 'hello'",
        "cel.bind(x, self.a.map(y, y.size()), x.sum() + x.max() > 0)",
        "self.a.all(x, self.a.all(y, x == y || x != y))",
        "sets.contains(self.a, ['c']) && 'c' in self.a",
        "self.?t.orValue('').size() == 12",
        "self.t.substring(2, 4).reverse().trim() == 'll'",
    ] {
        let program = compiled(&env, source);
        let mut budget = Budget::default();
        program
            .eval(&Variables::new().json("self", &data), &mut budget)
            .unwrap_or_else(|error| panic!("{source}: {error}"));
        assert!(
            budget.spent() <= program.most_cost(),
            "{source}: cost {} but was estimated at {}",
            budget.spent(),
            program.most_cost()
        );
    }
}
