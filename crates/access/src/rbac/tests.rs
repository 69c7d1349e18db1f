//! What roles allow, what they take in, and that the index says the same as going through everything.

use serde_json::{Value, json};
use windlass_machinery::object::{self, Object};

use super::{bootstrap::Repair, *};
use crate::{Attributes, User, Wanted};

fn object(value: Value) -> Object {
    serde_json::from_value(value).expect("an object")
}

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
    let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    Rule {
        verbs: texts(verbs),
        groups: texts(groups),
        resources: texts(resources),
        names: texts(names),
        paths: vec![],
    }
}

fn paths(verbs: &[&str], paths: &[&str]) -> Rule {
    let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    Rule { verbs: texts(verbs), paths: texts(paths), ..Rule::default() }
}

/// `verb group/resource/subresource namespace name`, with `-` for what is empty.
fn on(text: &str) -> Attributes<'_> {
    let word = |index: usize| text.split(' ').nth(index).filter(|word| *word != "-").unwrap_or_default();
    let mut path = word(1).splitn(3, '/');
    let mut part = || path.next().filter(|part| *part != "-").unwrap_or_default();
    Attributes {
        verb: word(0),
        wanted: Wanted::Resource {
            group: part(),
            version: "v1",
            resource: part(),
            subresource: part(),
            namespace: word(2),
            name: word(3),
        },
    }
}

fn path<'a>(verb: &'a str, path: &'a str) -> Attributes<'a> {
    Attributes { verb, wanted: Wanted::Path(path) }
}

#[test]
fn a_rule_allows_what_it_names_and_nothing_else() {
    let cases: &[(Rule, &str, bool)] = &[
        (rule(&["get"], &[""], &["pods"], &[]), "get -/pods n p", true),
        (rule(&["get"], &[""], &["pods"], &[]), "list -/pods n", false),
        (rule(&["get"], &[""], &["pods"], &[]), "get apps/pods n p", false),
        (rule(&["get"], &[""], &["pods"], &[]), "get -/pods/log n p", false),
        (rule(&["get"], &[""], &["pods/log"], &[]), "get -/pods/log n p", true),
        (rule(&["get"], &[""], &["pods/log"], &[]), "get -/pods n p", false),
        (rule(&["*"], &["*"], &["*"], &[]), "escalate x/y/z n p", true),
        (rule(&["update"], &["apps"], &["*/scale"], &[]), "update apps/deployments/scale n d", true),
        (rule(&["update"], &["apps"], &["*/scale"], &[]), "update apps/deployments/status n d", false),
        (rule(&["update"], &["apps"], &["*/scale"], &[]), "update apps/deployments n d", false),
        (rule(&["update"], &["apps"], &["*/"], &[]), "update apps/deployments n d", false),
        (rule(&["get"], &[""], &["pods"], &["a", "b"]), "get -/pods n b", true),
        (rule(&["get"], &[""], &["pods"], &["a", "b"]), "get -/pods n c", false),
        // Who may only do something to some objects cannot do it to all of them, nor to those that have no name yet.
        (rule(&["list", "create"], &[""], &["pods"], &["a"]), "list -/pods n", false),
        (rule(&["list", "create"], &[""], &["pods"], &["a"]), "create -/pods n", false),
        (rule(&[], &[""], &["pods"], &[]), "get -/pods n p", false),
        (paths(&["get"], &["*"]), "get -/pods n p", false),
    ];
    for (rule, asked, allowed) in cases {
        assert_eq!(rule.allows(&on(asked)), *allowed, "{rule:?} {asked}");
    }
    let cases: &[(&[&str], &str, &str, bool)] = &[
        (&["/healthz"], "get", "/healthz", true),
        (&["/healthz"], "get", "/healthz/ping", false),
        (&["/healthz"], "post", "/healthz", false),
        (&["/healthz/*"], "get", "/healthz/ping", true),
        (&["/healthz/*"], "get", "/healthz", false),
        (&["/api*"], "get", "/apis", true),
        (&["*"], "get", "/anything", true),
        (&["/a/*/c"], "get", "/a/b/c", false),
    ];
    for (own, verb, asked, allowed) in cases {
        assert_eq!(paths(&["get"], own).allows(&path(verb, asked)), *allowed, "{own:?} {verb} {asked}");
    }
    assert!(!rule(&["*"], &["*"], &["*"], &[]).allows(&path("get", "/metrics")));
}

fn role(namespace: &str, name: &str, rules: Vec<Rule>) -> Role {
    Role { namespace: namespace.to_owned(), name: name.to_owned(), rules }
}

fn binding(value: Value) -> Binding {
    Binding::from_object(&object(value))
}

#[test]
fn a_grant_says_who_has_what_from_where() {
    let mut index = Index::default();
    index.put_role(role("", "reader", vec![rule(&["get"], &[""], &["pods"], &[])]));
    index.put_role(role("n", "writer", vec![rule(&["update"], &[""], &["pods"], &[])]));
    index.put_binding(binding(json!({
        "metadata": {"name": "all"}, "roleRef": {"kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "Group", "name": "staff"}],
    })));
    index.put_binding(binding(json!({
        "metadata": {"name": "some", "namespace": "n"}, "roleRef": {"kind": "Role", "name": "writer"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot"}, {"kind": "User", "name": "ann"}],
    })));
    let why = |user: User, asked: &str| index.authorize(&user, &on(asked)).map(|grant| grant.to_string());
    let ann = || User::new("ann", vec!["staff".to_owned()]);
    let robot = || User::new("system:serviceaccount:n:robot", vec![]);
    assert_eq!(
        why(ann(), "get -/pods other p").as_deref(),
        Some("RBAC: allowed by ClusterRoleBinding \"all\" of ClusterRole \"reader\" to Group \"staff\"")
    );
    assert_eq!(
        why(ann(), "update -/pods n p").as_deref(),
        Some("RBAC: allowed by RoleBinding \"some/n\" of Role \"writer\" to User \"ann\"")
    );
    assert_eq!(
        why(robot(), "update -/pods n p").as_deref(),
        Some("RBAC: allowed by RoleBinding \"some/n\" of Role \"writer\" to ServiceAccount \"robot/n\"")
    );
    assert_eq!(why(ann(), "update -/pods other p"), None);
    assert_eq!(why(ann(), "update -/pods - p"), None);
    assert_eq!(why(User::new("staff", vec![]), "get -/pods n p"), None);
    assert_eq!(why(User::new("x", vec!["ann".to_owned()]), "update -/pods n p"), None);
    let master = User::new("x", vec!["system:masters".to_owned()]);
    assert_eq!(why(master, "update -/secrets n p").as_deref(), Some(""));
}

#[test]
fn what_is_taken_back_no_longer_holds() {
    let mut index = Index::default();
    let ann = User::new("ann", vec![]);
    let reads = on("get -/pods n p");
    let given = |to: &str| {
        binding(json!({
            "metadata": {"name": "b", "namespace": "n"}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": to}],
        }))
    };
    index.put_binding(given("ann"));
    assert!(index.authorize(&ann, &reads).is_none(), "the role is not there yet");
    index.put_role(role("n", "r", vec![rule(&["get"], &[""], &["pods"], &[])]));
    let before = index.clone();
    assert!(index.authorize(&ann, &reads).is_some());
    index.put_binding(given("bob"));
    assert!(index.authorize(&ann, &reads).is_none());
    index.put_binding(given("ann"));
    index.remove_role("n", "r");
    assert!(index.authorize(&ann, &reads).is_none());
    index.put_role(role("n", "r", vec![rule(&["get"], &[""], &["pods"], &[])]));
    index.remove_binding("n", "b");
    index.remove_binding("n", "b");
    assert!(index.authorize(&ann, &reads).is_none());
    assert!(before.authorize(&ann, &reads).is_some(), "a copy is not changed");
}

#[test]
fn a_role_of_another_namespace_or_scope_is_not_meant() {
    let mut index = Index::default();
    let all = || vec![rule(&["*"], &["*"], &["*"], &[])];
    index.put_role(role("", "same", vec![]));
    index.put_role(role("a", "same", all()));
    index.put_role(role("b", "same", vec![]));
    for (namespace, kind) in [("", "ClusterRole"), ("b", "Role"), ("b", "ClusterRole")] {
        index.put_binding(binding(json!({
            "metadata": {"name": kind, "namespace": namespace}, "roleRef": {"kind": kind, "name": "same"},
            "subjects": [{"kind": "User", "name": "ann"}],
        })));
    }
    let ann = User::new("ann", vec![]);
    for asked in ["get -/pods a p", "get -/pods b p", "get -/pods - p"] {
        assert!(index.authorize(&ann, &on(asked)).is_none(), "{asked}");
    }
}

#[test]
fn held_rights_take_in_wanted_ones_as_kubernetes_has_it() {
    let pods = |verbs: &[&str]| rule(verbs, &[""], &["pods"], &[]);
    let cases: &[(&[Rule], &[Rule], bool)] = &[
        (&[pods(&["get"])], &[pods(&["get"])], true),
        (&[pods(&["get"])], &[pods(&["list"])], false),
        (&[pods(&["get"]), pods(&["list"])], &[pods(&["get", "list"])], true),
        (&[pods(&["*"])], &[pods(&["get", "list"])], true),
        (&[pods(&["get", "list"])], &[pods(&["*"])], false),
        (
            &[rule(&["get"], &["*"], &["*"], &[])],
            &[rule(&["get"], &["apps"], &["a/b", "*/c", "*"], &[])],
            true,
        ),
        (
            &[rule(&["get"], &["apps"], &["*/scale"], &[])],
            &[rule(&["get"], &["apps"], &["x/scale"], &[])],
            true,
        ),
        (
            &[rule(&["get"], &["apps"], &["x/scale"], &[])],
            &[rule(&["get"], &["apps"], &["*/scale"], &[])],
            false,
        ),
        (&[rule(&["get"], &["apps"], &["x"], &[])], &[rule(&["get"], &["apps"], &["x/scale"], &[])], false),
        // All names take in some; some do not take in all; several rules take in theirs together.
        (&[pods(&["get"])], &[rule(&["get"], &[""], &["pods"], &["a"])], true),
        (&[rule(&["get"], &[""], &["pods"], &["a"])], &[pods(&["get"])], false),
        (
            &[rule(&["get"], &[""], &["pods"], &["a"]), rule(&["get"], &[""], &["pods"], &["b"])],
            &[rule(&["get"], &[""], &["pods"], &["a", "b"])],
            true,
        ),
        (&[paths(&["get"], &["/a/*"])], &[paths(&["get"], &["/a/b", "/a/*", "/a/b/*"])], true),
        (&[paths(&["get"], &["/a/b"])], &[paths(&["get"], &["/a/*"])], false),
        (&[Rule::all_resources()], &[paths(&["get"], &["/a"])], false),
        (&[Rule::all_paths()], &[pods(&["get"])], false),
        (&[Rule::all_resources(), Rule::all_paths()], &[Rule::all_resources(), Rule::all_paths()], true),
        (&[], &[], true),
    ];
    for (held, wanted, covered) in cases {
        assert_eq!(missing(held, wanted).is_none(), *covered, "{held:?} {wanted:?}");
    }
    let told =
        missing(&[pods(&["get"])], &[rule(&["get", "list", "watch"], &[""], &["pods", "secrets"], &[])]);
    assert_eq!(
        told.expect("something is missing").to_string(),
        "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"watch\"]}\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\" \"watch\"]}"
    );
}

#[test]
fn rules_that_would_take_forever_are_not_taken_apart() {
    let many: Vec<String> = (0..3_000).map(|n| n.to_string()).collect();
    let huge = Rule {
        verbs: many.clone(),
        groups: many.clone(),
        resources: many.clone(),
        names: many,
        paths: vec![],
    };
    let huge = [huge];
    assert_eq!(missing(&[rule(&["get"], &[""], &["pods"], &[])], &huge), Some(Missing::TooMany));
    assert_eq!(missing(&[Rule::all_resources()], &huge), None);
}

/// However many rules somebody gives themselves, the next is held against few of them.
#[test]
fn many_narrow_rules_are_held_against_each_other_one_by_one() {
    let named = |range: std::ops::Range<usize>| -> Vec<Rule> {
        range.map(|n| rule(&["get"], &[""], &["pods"], &[&format!("n{n}")])).collect()
    };
    let held = named(0..40_000);
    assert_eq!(missing(&held, &held[10_000..30_000]), None);
    assert_eq!(missing(&held, &named(39_999..40_001)), Some(Missing::Rules(named(40_000..40_001))));
    let names: Vec<String> = (0..19_900).map(|n| format!("n{n}")).collect();
    let of_many = |resource: &str| Rule { names: names.clone(), ..rule(&["get"], &[""], &[resource], &[]) };
    assert_eq!(missing(&held, &[of_many("pods")]), None);
    let Some(Missing::Rules(rules)) = missing(&held, &[of_many("pods/zzz")]) else { panic!("none is held") };
    assert_eq!(rules.len(), 19_900);
    assert_eq!(missing(&[of_many("pods")], &[of_many("pods")]), None);
}

/// Whatever is done about it, some rules can only be held against most others: then it is not done at all.
#[test]
fn what_cannot_be_told_apart_is_refused() {
    let texts = |prefix: &str| -> Vec<String> { (0..27).map(|n| format!("{prefix}{n}")).collect() };
    let wanted = Rule { verbs: texts("v"), groups: texts("g"), resources: texts("r"), ..Rule::default() };
    // Each has all of it but for the verbs, the groups or the resources.
    let almost = |n: usize| match n % 3 {
        0 => Rule { verbs: texts("x"), ..wanted.clone() },
        1 => Rule { groups: texts("x"), ..wanted.clone() },
        _ => Rule { resources: texts("x"), ..wanted.clone() },
    };
    let held: Vec<Rule> = (0..6_000).map(almost).collect();
    assert_eq!(missing(&held, std::slice::from_ref(&wanted)), Some(Missing::TooMany));
    assert!(matches!(missing(&held[..3], std::slice::from_ref(&wanted)), Some(Missing::Rules(_))));
    let without_end: Vec<Rule> = (0..10_000).map(almost).collect();
    assert_eq!(missing(&without_end, &[almost(0)]), Some(Missing::TooMany));
}

const VERBS: [&str; 3] = ["get", "list", "update"];
const GROUPS: [&str; 2] = ["", "apps"];
const RESOURCES: [&str; 4] = ["pods", "pods/log", "deployments", "deployments/log"];
const NAMES: [&str; 2] = ["a", "b"];

fn some(from: &[&str], wild: &[&str], random: &mut fastrand::Rng) -> Vec<String> {
    let all: Vec<&&str> = from.iter().chain(wild).collect();
    (0..random.usize(1..3)).map(|_| all[random.usize(..all.len())].to_string()).collect()
}

fn some_rule(wild: bool, random: &mut fastrand::Rng) -> Rule {
    let stars: (&[&str], &[&str]) = if wild { (&["*"], &["*", "*/log"]) } else { (&[], &[]) };
    Rule {
        verbs: some(&VERBS, stars.0, random),
        groups: some(&GROUPS, stars.0, random),
        resources: some(&RESOURCES, stars.1, random),
        names: if random.bool() { vec![] } else { some(&NAMES, &[], random) },
        paths: vec![],
    }
}

/// Everything that can be asked in the small world of these tests.
fn all_questions() -> Vec<String> {
    let mut all = vec![];
    for verb in VERBS {
        for group in GROUPS {
            for resource in RESOURCES {
                for name in ["-", "a", "b", "c"] {
                    let group = if group.is_empty() { "-" } else { group };
                    all.push(format!("{verb} {group}/{resource} n {name}"));
                }
            }
        }
    }
    all
}

#[test]
fn nothing_is_handed_on_that_is_not_held() {
    let mut random = fastrand::Rng::with_seed(7);
    let questions = all_questions();
    let (mut covered, mut refused) = (0, 0);
    for round in 0..6_000 {
        let wild = round % 2 == 0;
        let held: Vec<Rule> = (0..random.usize(1..5)).map(|_| some_rule(wild, &mut random)).collect();
        let wanted: Vec<Rule> = (0..random.usize(1..3)).map(|_| some_rule(wild, &mut random)).collect();
        let may = |rules: &[Rule], asked: &str| rules.iter().any(|rule| rule.allows(&on(asked)));
        let gains = questions.iter().any(|asked| may(&wanted, asked) && !may(&held, asked));
        match missing(&held, &wanted) {
            None => {
                covered += 1;
                assert!(!gains, "{held:?} {wanted:?}");
            }
            // Without wildcards everything can be asked, so what is refused can be shown.
            Some(_) if !wild => {
                refused += 1;
                assert!(gains, "{held:?} {wanted:?}");
            }
            Some(_) => {}
        }
    }
    assert!(covered > 100 && refused > 100, "{covered} {refused}");
}

#[test]
fn the_index_says_what_going_through_everything_says() {
    let mut random = fastrand::Rng::with_seed(11);
    let questions = all_questions();
    for _ in 0..60 {
        let mut index = Index::default();
        let (mut roles, mut bindings) = (vec![], vec![]);
        for n in 0..6 {
            let namespace = ["", "n", "m"][random.usize(..3)];
            let rules = vec![some_rule(true, &mut random)];
            let made = role(namespace, &format!("r{}", n / 2), rules);
            roles.retain(|other: &Role| (&other.namespace, &other.name) != (&made.namespace, &made.name));
            roles.push(made.clone());
            index.put_role(made);
        }
        for _ in 0..12 {
            let namespace = ["", "n", "m"][random.usize(..3)];
            let kind = if namespace.is_empty() || random.bool() { "ClusterRole" } else { "Role" };
            let subject = ["User", "Group", "ServiceAccount"][random.usize(..3)];
            let name = if random.bool() { "x" } else { "y" };
            let made = binding(json!({
                "metadata": {"name": format!("b{}", random.usize(..6)), "namespace": namespace},
                "roleRef": {"kind": kind, "name": format!("r{}", random.usize(..4))},
                "subjects": [{"kind": subject, "name": name, "namespace": "n"}],
            }));
            bindings
                .retain(|other: &Binding| (&other.namespace, &other.name) != (&made.namespace, &made.name));
            index.put_binding(made.clone());
            match random.usize(..4) {
                0 => index.remove_binding(&made.namespace, &made.name),
                _ => bindings.push(made),
            }
        }
        for user in [User::new("x", vec!["y".to_owned()]), User::new("system:serviceaccount:n:x", vec![])] {
            for asked in &questions {
                let attributes = on(asked);
                let slow = bindings.iter().any(|binding| {
                    let applies = binding.subjects.iter().any(|subject| match subject.kind {
                        SubjectKind::Group => user.is_in(&subject.known_as),
                        _ => *subject.known_as == *user.name,
                    });
                    let place = if binding.role.is_cluster { "" } else { binding.namespace.as_str() };
                    let role =
                        roles.iter().find(|role| role.namespace == place && role.name == binding.role.name);
                    applies
                        && (binding.namespace.is_empty() || binding.namespace == "n")
                        && role.is_some_and(|role| role.rules.iter().any(|rule| rule.allows(&attributes)))
                });
                assert_eq!(index.authorize(&user, &attributes).is_some(), slow, "{asked}");
                let listed = index.rules_for(&user, "n");
                assert_eq!(listed.iter().any(|rule| rule.allows(&attributes)), slow, "{asked}");
            }
        }
    }
}

#[test]
fn ten_thousand_bindings_of_others_do_not_matter() {
    let mut index = Index::default();
    index.put_role(role("", "r", vec![rule(&["get"], &[""], &["pods"], &[])]));
    for n in 0..10_000 {
        index.put_binding(binding(json!({
            "metadata": {"name": "b", "namespace": format!("n{n}")}, "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "name": format!("u{}", n % 5_000)}, {"kind": "Group", "name": "everyone"}],
        })));
    }
    let user = User::new("u7", vec!["everyone".to_owned()]);
    let begun = std::time::Instant::now();
    for _ in 0..1_000 {
        assert!(index.authorize(&user, &on("get -/pods n7 p")).is_some());
        assert!(index.authorize(&user, &on("get -/pods nowhere p")).is_none());
    }
    // Going through all of them would take minutes.
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn service_accounts_are_known_by_their_names() {
    assert_eq!(service_account_of("system:serviceaccount:n:a"), Some(("n", "a")));
    for other in [
        "system:serviceaccount:n",
        "system:serviceaccount::a",
        "system:serviceaccount:n:",
        "n:a",
        "system:serviceaccount:n:a:b",
    ] {
        assert_eq!(service_account_of(other), None, "{other}");
    }
}

#[test]
fn a_role_made_of_others_has_their_rules_once() {
    let part = |name: &str, label: &str, verbs: Value| {
        object(json!({
            "metadata": {"name": name, "labels": {"part": label}},
            "rules": [{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}],
        }))
    };
    let whole = object(json!({
        "metadata": {"name": "whole", "labels": {"part": "x"}},
        "aggregationRule": {"clusterRoleSelectors": [
            {"matchLabels": {"part": "x"}}, {"matchExpressions": [{"key": "part", "operator": "In", "values": ["x", "y"]}]},
            {"matchExpressions": [{"key": "part", "operator": "Nonsense"}]},
        ]},
        "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    }));
    let all = [
        part("a", "x", json!(["get"])),
        part("b", "y", json!(["list"])),
        part("c", "x", json!(["get"])),
        part("d", "z", json!(["delete"])),
        whole.clone(),
    ];
    let rules = aggregate(&whole, &all).expect("it is made of others");
    let verbs: Vec<&Value> = rules.iter().map(|rule| &rule["verbs"][0]).collect();
    assert_eq!(verbs, ["get", "list"]);
    assert_eq!(aggregate(&all[0], &all), None);
}

fn built_in(name: &str) -> Object {
    let found = bootstrap::all().into_iter().find(|one| object::name(&one.object) == name);
    found.expect("every server has it").object
}

#[test]
fn the_table_is_whole() {
    let all = bootstrap::all();
    let mut seen = std::collections::HashSet::new();
    for one in &all {
        assert!(
            seen.insert((one.plural, one.namespace, object::name(&one.object).to_owned())),
            "{one:?} is there twice"
        );
        assert_eq!(bootstrap::repair(&one.object, &one.object), Repair::Nothing);
        for rule in object::list_at(&one.object, &["rules"]) {
            let rule = Rule::from_json(rule);
            assert!(!rule.verbs.is_empty() && rule.groups.is_empty() == rule.is_about_paths(), "{rule:?}");
            assert!(rule.resources.is_empty() == rule.is_about_paths(), "{rule:?}");
        }
        if let Some(role) = object::str_at(&one.object, &["roleRef", "name"]) {
            let there = all.iter().any(|other| {
                other.plural.ends_with("roles")
                    && other.namespace == one.namespace
                    && object::name(&other.object) == role
            });
            assert!(there, "{role} is bound but not there");
        }
    }
}

#[test]
fn what_is_missing_of_a_built_in_role_is_added_and_what_was_added_stays() {
    let wanted = built_in("system:kube-dns");
    let mut present = wanted.clone();
    let own = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]});
    present.insert("rules".to_owned(), json!([own]));
    object::set_at(&mut present, &["metadata", "labels"], None);
    let Repair::Update(repaired) = bootstrap::repair(&present, &wanted) else { panic!("it is repaired") };
    let rules: Vec<Rule> = object::list_at(&repaired, &["rules"]).iter().map(Rule::from_json).collect();
    let all: Vec<Rule> = object::list_at(&wanted, &["rules"]).iter().map(Rule::from_json).collect();
    assert_eq!(missing(&rules, &all), None);
    assert!(object::list_at(&repaired, &["rules"]).contains(&own));
    assert_eq!(
        object::str_at(&repaired, &["metadata", "labels", "kubernetes.io/bootstrapping"]),
        Some("rbac-defaults")
    );
    assert_eq!(bootstrap::repair(&repaired, &wanted), Repair::Nothing);
    let kept = "rbac.authorization.kubernetes.io/autoupdate";
    object::set_at(&mut present, &["metadata", "annotations", kept], Some("false".into()));
    assert_eq!(bootstrap::repair(&present, &wanted), Repair::Nothing);
}

#[test]
fn subjects_are_added_back_and_another_role_is_replaced() {
    let all = bootstrap::all();
    let wanted = all.iter().find(|one| one.plural == "clusterrolebindings").expect("there are some");
    let mut present = wanted.object.clone();
    let guest = json!({"kind": "User", "name": "guest"});
    present.insert("subjects".to_owned(), json!([guest]));
    let Repair::Update(repaired) = bootstrap::repair(&present, &wanted.object) else {
        panic!("it is repaired")
    };
    let subjects = object::list_at(&repaired, &["subjects"]);
    assert_eq!((subjects.len(), &subjects[0], &subjects[1]["name"]), (2, &guest, &json!("system:masters")));
    present.insert("roleRef".to_owned(), json!({"kind": "ClusterRole", "name": "view"}));
    assert_eq!(bootstrap::repair(&present, &wanted.object), Repair::Replace);
}
