//! Expressions of Go, and what matches them.

use serde_json::{Map, Value, json};

use crate::{
    field::Errors,
    structural::{
        pattern::{Kept, compile},
        source::Source,
        structure::check_patterns,
    },
};

#[test]
fn expressions_match_as_in_go() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("", &["", "anything"], &[]),
        ("b", &["abc"], &["ac"]),
        ("^a$", &["a"], &["a\n", "ba"]),
        (r"^\d+$", &["012"], &["٣", "", "a"]),
        (r"^\w+$", &["aZ_9"], &["ä", "-"]),
        (r"^\s$", &[" ", "\t", "\x0c"], &["\u{a0}", "\x0b"]),
        (r"^[\d\s]+$", &["1 2"], &["a"]),
        (r"^[^\d]$", &["a", "ä"], &["1"]),
        (r"^[\D]$", &["a", "٣"], &["1"]),
        (r"^\S\W$", &["a-"], &["  ", "ab"]),
        (r"\bfoo\b", &["a foo b", "äfoo"], &["afoo"]),
        (r"^a\Bb$", &["ab"], &["a"]),
        (r"^\pL+$", &["aä"], &["1"]),
        (r"^\p{Greek}+$", &["αβ"], &["a"]),
        (r"^\PL$", &["1"], &["a"]),
        (r"^[[:alpha:]]+$", &["ab"], &["1", "ä"]),
        (r"^[[:^alpha:]]+$", &["12"], &["a"]),
        (r"^\x41\x{42}\103\n$", &["ABC\n"], &["ABC"]),
        (r"^\Qa.b*\E$", &["a.b*"], &["axb"]),
        (r"^{}$", &["{}"], &["", "}"]),
        (r"^{a}{,2}$", &["{a}{,2}"], &["aa"]),
        (r"^a{2}b{1,}c{0,1}$", &["aab", "aabbc"], &["ab"]),
        (r"^[]a]+$", &["]a"], &["b"]),
        (r"^[^]a]$", &["b"], &["]", "a"]),
        (r"^[a-]+$", &["a-"], &["b"]),
        (r"^[-a]+$", &["a-"], &["b"]),
        (r"^[a-c-e]+$", &["abc-e"], &["d"]),
        (r"^[[]$", &["["], &["]"]),
        (r"^[a&&b~~c]+$", &["a&b~c"], &["e"]),
        (r"^[+--]+$", &["+,-"], &["a"]),
        (r"^[#-'\-]+$", &["#$%&'-"], &["a"]),
        (r"^(?i)abc$", &["aBC"], &["ab"]),
        (r"^(?s:.)$", &["\n"], &["ab"]),
        (r"^.$", &["ä"], &["\n", "ab"]),
        (r"^(?P<name>a)(?<other>b)(?:c)$", &["abc"], &["ab"]),
        (r"^\<a\>\_\/\@$", &["<a>_/@"], &["a"]),
        (r"\Aa\z", &["a"], &["a\n", "ba"]),
        (r"^(a|b)*?c+?$", &["abcc"], &["ab"]),
        (r"^[\]\[\^\\]+$", &["][^\\"], &["a"]),
    ];
    for (expression, fit, unfit) in cases {
        let pattern = compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        for text in *fit {
            assert!(pattern.is_match(text), "{expression} {text:?}");
        }
        for text in *unfit {
            assert!(!pattern.is_match(text), "{expression} {text:?}");
        }
    }
}

#[test]
fn what_go_does_not_read_is_refused() {
    let deep = format!("{}a{}", "(".repeat(500), ")".repeat(500));
    let long = "a".repeat(100_000);
    for expression in [
        "(",
        "a)",
        "[",
        "[z-a]",
        r"\",
        r"\1",
        r"(a)\1",
        r"\8",
        r"\C",
        r"\y",
        r"\Z",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!a)",
        "(?>a)",
        "(?x)a",
        "(?#a)",
        "*a",
        "a{1001}",
        "a{2,1}",
        r"\x",
        r"\xZ1",
        r"\x{110000}",
        r"\p",
        r"\p{Nope}",
        r"[\b]",
        r"[[:nope:]]",
        r"\ä",
        "(?P<a>b",
        &deep,
        &long,
    ] {
        assert!(compile(expression).is_err(), "{expression}");
    }
}

#[test]
fn large_expressions_are_refused_and_small_ones_search_in_linear_time() {
    for expression in [r"((((a{1000}){1000}){1000}){1000})", r"(\pL{500}){500}", r"(.{1000}){1000}"] {
        assert!(compile(expression).is_err(), "{expression}");
    }
    // With backtracking, this would take longer than anyone waits.
    let pattern = compile("^(a+)+$").expect("an expression");
    let text = format!("{}b", "a".repeat(100_000));
    assert!(!pattern.is_match(&text));
    assert!(pattern.cost(&text) >= 100_000);
}

#[test]
fn no_text_makes_compiling_fail() {
    const PARTS: &[&str] = &[
        "\\",
        "[",
        "]",
        "(",
        ")",
        "?",
        "P<",
        ">",
        "{",
        "}",
        "1",
        ",",
        "-",
        "^",
        "$",
        "a",
        "ä",
        "*",
        "+",
        "|",
        ":",
        "Q",
        "E",
        "x",
        "p",
        "d",
        "b",
        "&&",
        "[:alpha:]",
        " ",
        "i",
    ];
    for seed in 0..2_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let n_parts = random.usize(..10);
        let text: String = (0..n_parts).map(|_| PARTS[random.usize(..PARTS.len())]).collect();
        if let Ok(pattern) = compile(&text) {
            pattern.is_match("aä[]1-");
        }
    }
}

#[test]
fn a_schema_cannot_have_patterns_without_end() {
    let told = |pattern: fn(usize) -> String, most: usize| {
        let properties: Map<String, Value> =
            (0..50).map(|n| (format!("p{n}"), json!({"type": "string", "pattern": pattern(n)}))).collect();
        let schema = json!({"type": "object", "properties": properties});
        let mut errors = Errors::new();
        check_patterns(Source::of(&schema), most, &mut errors);
        errors.list().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(told(|n| format!("^a{n}$"), 1 << 20), [""; 0]);
    // The same one is counted once.
    assert_eq!(told(|_| "^a$".to_owned(), 5_000), [""; 0]);
    assert_eq!(
        told(|n| format!("^a{n}$"), 5_000),
        [": Forbidden: the patterns of the schema are too large together when they are compiled"]
    );
    assert_eq!(told(|n| format!("({n}"), 1 << 20).len(), 10);
}

#[test]
fn patterns_that_were_used_last_are_kept() {
    let mut kept = Kept::default();
    let patterns: Vec<String> = (0..10).map(|n| format!("^b{n}$")).collect();
    let most = 5 * compile(&patterns[0]).expect("an expression").size();
    for text in &patterns {
        kept.put(text, &compile(text).expect("an expression"), most);
        assert!(kept.get(&patterns[0]).is_some(), "{text}");
    }
    let known: Vec<bool> = patterns.iter().map(|text| kept.get(text).is_some()).collect();
    assert_eq!(known.iter().filter(|known| **known).count(), 4, "{known:?}");
    assert!(known[9] && known[0] && !known[1], "{known:?}");
}
