//! The graph without a server, and against a simple model.

use super::*;

fn place(name: &str) -> Place {
    Place { api_version: "v1".into(), kind: "ConfigMap".into(), namespace: "n".into(), name: name.into() }
}

fn owner(name: &str, blocks: bool) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        block_owner_deletion: Some(blocks),
        controller: None,
    }
}

fn state(revision: u64, owners: Vec<OwnerReference>) -> State {
    State { owners, revision: revision.to_string(), ..State::default() }
}

fn look(graph: &mut Graph) -> Vec<String> {
    let mut look: Vec<String> = graph.take_look().iter().map(ToString::to_string).collect();
    look.sort();
    look.dedup();
    look
}

#[test]
fn owners_that_were_only_heard_of_are_looked_for() {
    let mut graph = Graph::default();
    graph.observe(&"b".into(), place("b"), state(1, vec![owner("a", false)]));
    assert_eq!(look(&mut graph), ["a"]);
    assert_eq!(graph.known(&owner("a", false), "n"), Known::Nothing);
    graph.observe(&"a".into(), place("a"), state(2, vec![]));
    assert!(look(&mut graph).is_empty());
    assert_eq!(graph.known(&owner("a", false), "n"), Known::Solid);
    assert_eq!(graph.known(&owner("a", false), "elsewhere"), Known::Nothing);
    graph.remove("a");
    assert_eq!(look(&mut graph), ["b"]);
    assert_eq!(graph.known(&owner("a", false), "n"), Known::Absent);
}

#[test]
fn what_is_absent_at_one_place_may_be_at_another() {
    let mut graph = Graph::default();
    let mut other = owner("a", false);
    other.kind = "Secret".to_owned();
    graph.observe(&"b".into(), place("b"), state(1, vec![owner("a", false)]));
    graph.observe(&"c".into(), place("c"), state(2, vec![other.clone()]));
    look(&mut graph);
    graph.found_absent(&"a".into(), &place("a"));
    assert_eq!(look(&mut graph), ["a", "b"]);
    assert_eq!(&*graph.get("a").expect("still heard of").place.kind, "Secret");
    graph.found_absent(&"a".into(), &Place::of_owner(&other, "n"));
    assert_eq!(look(&mut graph), ["b", "c"]);
    assert!(graph.get("a").is_none());
}

#[test]
fn who_waits_is_looked_at_when_nobody_blocks_it_any_more() {
    let mut graph = Graph::default();
    graph.observe(&"a".into(), place("a"), state(1, vec![]));
    graph.observe(&"b".into(), place("b"), state(2, vec![owner("a", true)]));
    graph.observe(&"c".into(), place("c"), state(3, vec![owner("a", true)]));
    graph.observe(&"d".into(), place("d"), state(4, vec![owner("a", false)]));
    look(&mut graph);
    let waits = State { finalizers: vec![FOREGROUND.to_owned()], is_deleting: true, ..state(5, vec![]) };
    graph.observe(&"a".into(), place("a"), waits);
    assert_eq!(look(&mut graph), ["a", "b", "c", "d"]);
    assert_eq!(graph.get("a").map(|node| node.n_blocking), Some(2));
    graph.remove("b");
    assert!(look(&mut graph).is_empty());
    graph.observe(&"c".into(), place("c"), state(6, vec![owner("a", false)]));
    assert_eq!(look(&mut graph), ["a"]);
}

#[test]
fn what_is_heard_late_changes_nothing() {
    let mut graph = Graph::default();
    graph.observe(&"a".into(), place("a"), state(5, vec![owner("o", false)]));
    graph.observe(&"a".into(), place("a"), state(4, vec![]));
    assert_eq!(graph.get("a").map(|node| node.state.owners.len()), Some(1));
}

#[test]
fn what_is_lost_keeps_its_dependents() {
    let mut graph = Graph::default();
    graph.observe(&"a".into(), place("a"), state(1, vec![]));
    graph.observe(&"b".into(), place("b"), state(2, vec![owner("a", false)]));
    graph.lose("a");
    assert_eq!(look(&mut graph), ["a"]);
    assert_eq!(graph.known(&owner("a", false), "n"), Known::Nothing);
    graph.observe(&"a".into(), place("a"), state(1, vec![]));
    assert!(look(&mut graph).is_empty());
    graph.remove("a");
    assert_eq!(look(&mut graph), ["b"]);
}

#[test]
fn what_is_lost_and_not_where_it_was_is_gone_whatever_others_know_it_as() {
    let mut graph = Graph::default();
    graph.observe(&"a".into(), place("a"), state(1, vec![]));
    graph.observe(&"b".into(), place("b"), state(2, vec![owner("a", false)]));
    graph.lose_as("a", &"v2".into(), &"ConfigMap".into());
    assert_eq!(look(&mut graph), ["a"]);
    let there = Place { api_version: "v2".into(), ..place("a") };
    assert_eq!(graph.get("a").map(|node| &node.place), Some(&there));
    graph.found_absent(&"a".into(), &there);
    assert_eq!(look(&mut graph), ["b"]);
    assert_eq!(graph.known(&owner("a", false), "n"), Known::Absent);
}

#[test]
fn links_are_what_the_objects_say() {
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..200 {
        let mut graph = Graph::default();
        let mut model: HashMap<String, Vec<OwnerReference>> = HashMap::new();
        for revision in 0..200 {
            let name = format!("o{}", rng.u8(0..8));
            if rng.u8(0..4) == 0 {
                graph.remove(&name);
                model.remove(&name);
            } else {
                let owners: Vec<_> =
                    (0..rng.u8(0..3)).map(|_| owner(&format!("o{}", rng.u8(0..8)), rng.bool())).collect();
                graph.observe(&name.as_str().into(), place(&name), state(revision, owners.clone()));
                model.insert(name, owners);
            }
        }
        for name in model.keys() {
            let links: Vec<bool> = model
                .iter()
                .filter(|(other, _)| *other != name)
                .filter_map(|(_, owners)| {
                    let mut named = owners.iter().filter(|owner| owner.uid == *name).peekable();
                    named.peek()?;
                    Some(named.any(|owner| owner.block_owner_deletion == Some(true)))
                })
                .collect();
            let node = graph.get(name).expect("it is there");
            // Dependents of what was removed meanwhile and came back are not linked anew: UIDs do not come back.
            assert!(node.dependents.len() <= links.len(), "{name}");
            assert!(node.n_blocking <= node.dependents.len(), "{name}");
            let of = |uid: &Uid| {
                model.get(&**uid).is_some_and(|owners| owners.iter().any(|owner| owner.uid == *name))
            };
            assert!(node.dependents.iter().all(of), "{name}");
        }
        for name in model.keys().cloned().collect::<Vec<_>>() {
            graph.remove(&name);
        }
        assert_eq!(graph.len(), 0);
    }
}
