//! Expressions and data that mean harm: everything is bounded, nothing panics.

use serde_json::{Value, json};
use windlass_cel::{Budget, EXPRESSION_LIMIT, Env, Type, Variables};

use crate::support::{data, env, refused};

/// Runs an expression over a list of a thousand numbers that must run out of budget, and says what it spent.
fn exhausts(source: &str) -> u64 {
    let list: Value = (0..1000).collect();
    let long = json!("a".repeat(100_000));
    let env = Env::new().variable("l", Type::list(Type::Int)).variable("t", Type::String);
    let program = env.compile(source).unwrap_or_else(|errors| panic!("{source}: {}", errors[0]));
    let mut budget = Budget::default();
    let outcome = program.eval(&Variables::new().json("l", &list).json("t", &long), &mut budget);
    match outcome {
        Err(error) if error.is_budget() => budget.spent(),
        other => panic!("{source} ended as {other:?} after {}", budget.spent()),
    }
}

#[test]
fn the_budget_stops_everything_that_multiplies() {
    for source in [
        "l.all(x, l.all(y, l.all(z, x + y + z >= 0)))",
        "l.map(x, l.map(y, x * y)).size() > 0",
        "l.filter(x, l.exists(y, y < 0)).size() == 0",
        "l.all(x, l.exists_one(y, y == -1) || true)",
        "l.transformMap(i, v, l.transformMap(j, w, w)).size() > 0",
        "l.transformMapEntry(i, v, {v: l.transformList(j, w, j)}).size() > 0",
        "l.map(x, l.sortBy(y, -y)).size() > 0",
        // Texts and lists that double.
        "cel.bind(a, t + t, cel.bind(b, a + a, cel.bind(c, b + b, cel.bind(d, c + c, cel.bind(e, d + d, cel.bind(f, e + e, cel.bind(g, f + f, g + g))))))).size() > 0",
        "cel.bind(a, l + l, cel.bind(b, a + a, cel.bind(c, b + b, cel.bind(d, c + c, cel.bind(e, d + d, cel.bind(f, e + e, cel.bind(g, f + f, cel.bind(h, g + g, cel.bind(i, h + h, i + i))))))))).size() > 0",
        "l.map(x, t.replace('', t)).size() > 0",
        "t.replace('a', t).size() > 0",
        "l.map(x, t.split('')).size() > 0",
        "l.map(x, [t, t, t].join(t)).size() > 0",
        "l.map(x, '%s%s%s%s'.format([t, t, t, t])).size() > 0",
        "l.map(x, t.reverse()).size() > 0",
        "l.all(x, t.contains(t + 'b') || true)",
        "l.all(x, strings.quote(t) != '')",
        "l.all(x, l == l.map(y, y))",
        "l.all(x, sets.equivalent(l, l))",
        "l.all(x, (l + l).distinct().size() > 0)",
        "lists.range(2000000).size() > 0",
        "lists.range(9223372036854775807).size() > 0",
        // Regular expressions: long texts, and patterns that are made on the way.
        "l.all(x, t.matches('(a+)+b') || true)",
        "l.all(x, t.findAll('a').size() > 0)",
        "l.all(x, ''.matches(string(x) + '(a{50}){20}') || true)",
        "l.all(x, base64.encode(bytes(t)).size() > 0)",
        "l.all(x, timestamp(x).getHours('Europe/Berlin') >= 0 && l.all(y, y >= 0))",
        "l.all(x, format.dns1123Label().validate(t).hasValue())",
        "l.all(x, isURL('https://x/?' + t) && l.all(y, y >= 0))",
    ] {
        let spent = exhausts(source);
        assert!(spent <= EXPRESSION_LIMIT, "{source}: {spent}");
    }
}

#[test]
fn deep_comparisons_are_paid_for() {
    let wide: Value = (0..1000).map(|n| json!({"name": format!("name-{n}"), "value": [n, n, n]})).collect();
    let env = Env::new().variable("a", Type::Dyn).variable("b", Type::Dyn);
    let program = env.compile("lists.range(10000).all(x, a == b)").expect("compiles");
    let other = wide.clone();
    let mut budget = Budget::default();
    let outcome = program.eval(&Variables::new().json("a", &wide).json("b", &other), &mut budget);
    assert!(outcome.is_err_and(|error| error.is_budget()));
    // A comparison of five thousand values is no single step.
    let program = env.compile("a == b").expect("compiles");
    let mut budget = Budget::default();
    assert!(program.eval(&Variables::new().json("a", &wide).json("b", &other), &mut budget).is_ok());
    assert!(budget.spent() > 500, "{}", budget.spent());
}

#[test]
fn expressions_that_are_too_large_or_too_deep_are_refused() {
    let nested =
        |open: &str, close: &str, times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
    let folds = (0..20).fold("true".to_owned(), |body, n| format!("[1].all(x{n}, {body})"));
    let cases = [
        format!("'{}'", "a".repeat(17 * 1024)),
        nested("(", ")", 200),
        nested("[", "]", 200),
        nested("{1:", "}", 200),
        nested("size([", "])", 200),
        nested("(", ")", 4000),
        format!("1{}", " + 1".repeat(300)),
        format!("d{}", ".a".repeat(300)),
        format!("d{}", "[0]".repeat(300)),
        format!("{}1", "true ? 1 : ".repeat(300)),
        format!("[{}1]", "1,".repeat(6000)),
        folds,
        format!("d.matches('{}')", "(a{1000}){1000}"),
        format!("d.matches('{}a{}')", "(".repeat(300), ")".repeat(300)),
    ];
    for source in cases {
        let start = &source[..source.len().min(60)];
        assert!(env().compile(&source).is_err(), "{start}");
    }
    refused(&env(), &[("!".repeat(10_000).as_str(), "1:10001: Syntax error")]);
}

#[test]
fn long_and_deep_expressions_within_the_bounds_work() {
    let (dynamic, typed) = data();
    let run = |source: String| {
        let program = env().compile(&source).unwrap_or_else(|errors| panic!("{}", errors[0]));
        let variables = Variables::new().json("d", &dynamic).json("s", &typed);
        program.eval(&variables, &mut Budget::default()).expect("a value").as_bool()
    };
    assert_eq!(run(vec!["d.int == 3"; 1000].join(" && ")), Some(true));
    assert_eq!(run(vec!["d.int == 4"; 1000].join(" || ")), Some(false));
    assert_eq!(run(format!("1{} > 0", " + 1".repeat(120))), Some(true));
    assert_eq!(run(format!("{}true", "!".repeat(1000))), Some(true));
    assert_eq!(run(format!("{}true{}", "(".repeat(100), ")".repeat(100))), Some(true));
    let folds = (0..12).fold("d.int == 3".to_owned(), |body, n| format!("[1].all(x{n}, {body})"));
    assert_eq!(run(folds), Some(true));
    let lists = format!("{}1{} == {}1{}", "[".repeat(100), "]".repeat(100), "[".repeat(100), "]".repeat(100));
    assert_eq!(run(lists), Some(true));
}

/// The deepest expression of a form that compiles.
fn deepest(form: impl Fn(usize) -> String) -> String {
    let (mut fits, mut fails) = (1, 300);
    while fails - fits > 1 {
        let middle = (fits + fails) / 2;
        if env().compile(&form(middle)).is_ok() { fits = middle } else { fails = middle }
    }
    form(fits)
}

#[test]
fn the_deepest_expressions_fit_a_small_stack() {
    let work = || {
        let (dynamic, typed) = data();
        let forms: [fn(usize) -> String; 8] = [
            |n| format!("{}1{}", "[".repeat(n), "]".repeat(n)),
            |n| format!("{}d.int{}", "[".repeat(n), "]".repeat(n)),
            |n| format!("{}d.int{}", "{'a': ".repeat(n), "}".repeat(n)),
            |n| format!("{}d.int{}", "(1 + ".repeat(n), ")".repeat(n)),
            |n| format!("{}d.int{}", "math.abs(".repeat(n), ")".repeat(n)),
            |n| format!("{}d.int", "d.yes ? 1 : ".repeat(n)),
            |n| format!("{}d.yes{}", "!(d.yes && ".repeat(n), ")".repeat(n)),
            |n| format!("d{}", ".?a".repeat(n)),
        ];
        for form in forms {
            let source = deepest(form);
            let program = env().compile(&source).expect("it compiled before");
            let variables = Variables::new().json("d", &dynamic).json("s", &typed);
            let outcome = program.eval(&variables, &mut Budget::default());
            assert!(outcome.is_ok(), "{}", &source[..40]);
        }
    };
    // Tokio gives its threads two mebibytes, and this is built without optimisation.
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work).expect("a thread");
    thread.join().expect("no overflow");
}

#[test]
fn expressions_that_use_one_another_fit_a_small_stack() {
    let work = || {
        let deep = |inner: &str| format!("{}{inner}{}", "(1 + ".repeat(140), ")".repeat(140));
        let mut env = Env::new().variable("d", Type::Dyn);
        let mut programs = vec![env.compile(&deep("d")).expect("compiles")];
        let names: Vec<String> = (0..10).map(|n| format!("v{n}")).collect();
        for n in 1..10 {
            let fields = names[..n].iter().map(|name| (name.as_str(), Type::Int.into()));
            env = env.variable("variables", Type::structure("variables", fields));
            programs.push(env.compile(&deep(&format!("variables.v{}", n - 1))).expect("compiles"));
        }
        let one = json!(1);
        let mut variables = Variables::new().json("d", &one);
        for (name, program) in names.iter().zip(&programs) {
            variables = variables.defer("variables", name, program);
        }
        let outcomes: Vec<bool> = programs
            .iter()
            .rev()
            .map(|program| program.eval(&variables, &mut Budget::default()).is_ok())
            .collect();
        // The last needs all before it, which is too deep.
        assert!(!outcomes[0], "{outcomes:?}");
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work).expect("a thread");
    thread.join().expect("no overflow");
}

#[test]
fn the_number_and_size_of_patterns_is_bounded() {
    let many = |count: usize| vec!["d.text.matches('^[a-z]+$')"; count].join(" && ");
    assert!(env().compile(&many(100)).is_ok());
    assert!(env().compile(&many(101)).is_err());
    let large = |count: usize| vec!["d.text.matches('([a-z]{100}){40}')"; count].join(" && ");
    assert!(env().compile(&large(2)).is_ok());
    assert!(env().compile(&large(20)).is_err());
    let rules: Vec<Value> = (0..11).map(|_| json!({"rule": many(99).replace("d.text", "self")})).collect();
    let schema = |rules: &[Value]| json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 9, "x-kubernetes-validations": rules}}});
    assert!(windlass_cel::rules::Rules::compile(&schema(&rules[..9])).is_ok());
    let errors = windlass_cel::rules::Rules::compile(&schema(&rules)).expect_err("too many");
    assert!(errors[0].detail.contains("too many or too large regular expressions"), "{}", errors[0]);
}

#[test]
fn data_may_be_deep_and_wide() {
    let mut deep = json!(1);
    for _ in 0..1000 {
        deep = json!([deep]);
    }
    let env = Env::new().variable("d", Type::Dyn);
    for (source, fits) in
        [("d == d", false), ("d[0][0].size() == 1", true), ("'%s'.format([d]) == ''", false)]
    {
        let program = env.compile(source).expect("compiles");
        let outcome = program.eval(&Variables::new().json("d", &deep), &mut Budget::default());
        assert_eq!(outcome.is_ok(), fits, "{source}");
    }
    drop_slowly(deep);
}

/// Takes a deep value apart, because dropping it would recurse.
fn drop_slowly(mut value: Value) {
    while let Value::Array(items) = value {
        value = items.into_iter().next().unwrap_or_default();
    }
}

/// Pieces of which random expressions are put together: some are valid, most are not.
const PIECES: &[&str] = &[
    "d",
    "s",
    "x",
    "y",
    ".",
    "?",
    ".?",
    "[",
    "]",
    "[?",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "?",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "<",
    "<=",
    "==",
    "!=",
    ">",
    "in",
    "has(d.int)",
    "true",
    "false",
    "null",
    "1",
    "1u",
    "1.5",
    "'a'",
    "b'a'",
    "r'\\d'",
    "0x",
    "1e",
    "'",
    "\"",
    "'''",
    "\\",
    "//",
    "\n",
    " ",
    "int",
    "name",
    "list",
    "tags",
    "size(",
    ".all(x, ",
    ".exists(x, ",
    ".map(x, ",
    ".filter(x, ",
    ".transformMap(k, v, ",
    "cel.bind(x, ",
    "optional.of(",
    ".orValue(",
    ".matches('a+')",
    ".split('')",
    ".join(",
    ".format([",
    "timestamp(",
    "duration('1s')",
    "quantity('1')",
    ".add(",
    "ip('::1')",
    "cidr('::/0')",
    "lists.range(",
    "math.greatest(",
    "sets.contains(",
    "Object{",
    "é",
    "😀",
    "__dash__",
    "namespace",
    "__namespace__",
    "9223372036854775807",
    ".size()",
    ".sort()",
    ".flatten()",
    "{'a': 1}",
    "[1, 2]",
    "d.list",
    "d.map",
    "s.labels",
    "s.ports",
    "d.int",
    "s.replicas",
    "x > 0",
    "x",
    "x == 'a'",
    ".optMap(x, ",
];

#[test]
fn no_soup_of_tokens_panics() {
    let (dynamic, typed) = data();
    let env = env();
    let (mut compiled, mut ran) = (0, 0);
    for seed in 0..8_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let count = random.usize(1..14);
        let source: String = (0..count).map(|_| PIECES[random.usize(..PIECES.len())]).collect();
        let outcome = std::panic::catch_unwind(|| {
            let Ok(program) = env.compile(&source) else { return (0, 0) };
            let variables = Variables::new().json("d", &dynamic).json("s", &typed);
            let outcome = program.eval(&variables, &mut Budget::new(10_000, 10_000));
            (1, u32::from(outcome.is_ok()))
        });
        let (one, two) = outcome.unwrap_or_else(|_| panic!("seed {seed}: {source}"));
        compiled += one;
        ran += two;
    }
    // Too few would mean that the soup tests nothing but the parser.
    assert!(compiled > 200 && ran > 120, "{compiled} compiled, {ran} ran");
}

/// Expressions that are well formed but for their types.
fn grow(random: &mut fastrand::Rng, depth: u32) -> String {
    const LEAVES: [&str; 20] = [
        "d.int",
        "d.text",
        "d.list",
        "d.map",
        "d.mixed",
        "s.name",
        "s.tags",
        "s.labels",
        "s.ports",
        "1",
        "'a'",
        "2u",
        "1.5",
        "true",
        "null",
        "x",
        "[1, 2]",
        "{'a': 'b'}",
        "d.nothing",
        "duration('1s')",
    ];
    if depth == 0 || random.u8(..4) == 0 {
        return LEAVES[random.usize(..LEAVES.len())].to_owned();
    }
    let a = grow(random, depth - 1);
    let b = grow(random, depth - 1);
    let operators = ["+", "-", "*", "/", "%", "<", "==", "!=", "&&", "||", "in", ">="];
    match random.u8(..16) {
        0..5 => format!("({a} {} {b})", operators[random.usize(..operators.len())]),
        5 => format!("({a} ? {b} : {})", grow(random, depth - 1)),
        6 => format!("dyn({a}).all(x, {b})"),
        7 => format!("dyn({a}).map(x, {b})"),
        8 => format!("dyn({a}).exists(x, y, {b})"),
        9 => format!("dyn({a})[{b}]"),
        10 => format!("[{a}, dyn({b})]"),
        11 => format!("cel.bind(x, {a}, {b})"),
        12 => format!("dyn({a}).?q.orValue({b})"),
        13 => format!("string(dyn({a})).split(string(dyn({b})))"),
        14 => format!("'%s %d'.format([dyn({a}), dyn({b})])"),
        _ => format!("size(dyn({a})) + {b}"),
    }
}

#[test]
fn no_tree_of_operators_panics() {
    let (dynamic, typed) = data();
    let env = env().variable("x", Type::Dyn).variable("y", Type::Dyn);
    let mut ran = 0;
    for seed in 0..4_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let source = grow(&mut random, 4);
        let outcome = std::panic::catch_unwind(|| {
            let Ok(program) = env.compile(&source) else { return 0 };
            let variables =
                Variables::new().json("d", &dynamic).json("s", &typed).json("x", &dynamic).json("y", &typed);
            let mut budget = Budget::new(10_000, 10_000);
            let outcome = program.eval(&variables, &mut budget);
            assert!(budget.spent() <= 10_000);
            u32::from(outcome.is_ok())
        });
        ran += outcome.unwrap_or_else(|_| panic!("seed {seed}: {source}"));
    }
    assert!(ran > 400, "{ran} ran");
}
