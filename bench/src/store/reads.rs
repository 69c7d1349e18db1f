//! Reads of a large store, against the same keys in the standard library's map.
//!
//! Both sides hand out what they find behind a reference count, and both are made to look at it: a caller who
//! reads a value does too, and it is there that the processor waits for memory.

use std::{collections::BTreeMap, hint::black_box, ops::Bound, sync::Arc, time::Instant};

use bytes::Bytes;
use windlass_store::{Embedded, Read, Store};

use super::{
    Bench,
    load::{self, NAMESPACE_KEYS},
    say,
};
use crate::{
    report::{Goal, Outcome, Section, Table},
    stats::{count, median, time},
};

/// Ranges read in one turn.
const RANGES: usize = 200;

/// Full scans in one turn.
const SCANS: usize = 3;

/// The yardstick: what a map must hold to answer the same questions, and nothing more.
type Map = BTreeMap<Box<[u8]>, Arc<Item>>;

struct Item {
    value: Bytes,
}

/// Nanoseconds that one read takes, in each of the turns.
#[derive(Clone, Copy, Debug)]
struct Turn {
    get: [f64; 2],
    held_get: f64,
    range: [f64; 2],
    scan: [f64; 2],
}

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let keys = bench.scale.keys;
    say(&format!("reads: writing {} keys…", count(keys as u64)));
    let folder = bench.folder("reads")?;
    let store = load::filled(&folder, keys).await?;
    let mut order: Vec<usize> = (0..keys).collect();
    let mut random = fastrand::Rng::with_seed(2);
    random.shuffle(&mut order);
    // One by one, as a map comes about that is in use; collecting would pack its nodes.
    let mut map = Map::new();
    for &idx in &order {
        map.insert(load::key(idx).into_bytes().into(), Arc::new(Item { value: load::value(idx as u64) }));
    }
    random.shuffle(&mut order);
    let wanted: Vec<String> = order.into_iter().map(load::key).collect();
    say("reads: measuring…");
    let mut turns = vec![];
    for _ in 0..bench.scale.pairs {
        turns.push(Turn {
            get: [gets(&store, &wanted).await?, map_gets(&map, &wanted)],
            held_get: held_gets(&store, &wanted).await?,
            range: [ranges(&store, keys).await?, map_ranges(&map, keys)],
            scan: [scans(&store).await?, map_scans(&map)],
        });
    }
    Ok(report(keys, &turns))
}

async fn gets(store: &Embedded, wanted: &[String]) -> anyhow::Result<f64> {
    let begun = Instant::now();
    for key in wanted {
        let snapshot = store.snapshot(Read::Latest).await?;
        snapshot.get(key.as_bytes()).into_iter().for_each(|entry| touch(&entry.value));
    }
    Ok(nanos_each(begun, wanted.len()))
}

async fn held_gets(store: &Embedded, wanted: &[String]) -> anyhow::Result<f64> {
    let snapshot = store.snapshot(Read::Latest).await?;
    let begun = Instant::now();
    for key in wanted {
        snapshot.get(key.as_bytes()).into_iter().for_each(|entry| touch(&entry.value));
    }
    Ok(nanos_each(begun, wanted.len()))
}

fn map_gets(map: &Map, wanted: &[String]) -> f64 {
    let begun = Instant::now();
    for key in wanted {
        map.get(key.as_bytes()).into_iter().for_each(|item| touch(&item.value));
    }
    nanos_each(begun, wanted.len())
}

/// The prefixes of all keys of some namespaces, not in order.
fn prefixes(keys: usize) -> impl Iterator<Item = String> {
    let namespaces = keys / NAMESPACE_KEYS;
    // A stride that has no divisor in common with the number of namespaces visits each.
    (0..RANGES).map(move |idx| format!("pods/namespace-{}/", idx * 37 % namespaces))
}

async fn ranges(store: &Embedded, keys: usize) -> anyhow::Result<f64> {
    let begun = Instant::now();
    for prefix in prefixes(keys) {
        let snapshot = store.snapshot(Read::Latest).await?;
        let page = snapshot.range(prefix.as_bytes(), None, NAMESPACE_KEYS);
        anyhow::ensure!(page.entries.len() == NAMESPACE_KEYS, "{} entries in {prefix}", page.entries.len());
        page.entries.iter().for_each(|entry| touch(&entry.value));
    }
    Ok(nanos_each(begun, RANGES))
}

fn map_ranges(map: &Map, keys: usize) -> f64 {
    let begun = Instant::now();
    for prefix in prefixes(keys) {
        let items: Vec<Arc<Item>> = map_range(map, &prefix).take(NAMESPACE_KEYS).cloned().collect();
        items.iter().for_each(|item| touch(&item.value));
    }
    nanos_each(begun, RANGES)
}

async fn scans(store: &Embedded) -> anyhow::Result<f64> {
    let begun = Instant::now();
    for _ in 0..SCANS {
        let snapshot = store.snapshot(Read::Latest).await?;
        snapshot.iter(b"pods/", None).for_each(|entry| touch(&entry.value));
    }
    Ok(nanos_each(begun, SCANS))
}

fn map_scans(map: &Map) -> f64 {
    let begun = Instant::now();
    for _ in 0..SCANS {
        map_range(map, "pods/").for_each(|item| touch(&item.value));
    }
    nanos_each(begun, SCANS)
}

/// What is under a prefix that ends with a slash.
fn map_range<'a>(map: &'a Map, prefix: &str) -> impl Iterator<Item = &'a Arc<Item>> {
    // The byte after the slash is a zero: no key under the prefix comes after it.
    let end = format!("{}0", prefix.trim_end_matches('/'));
    let bounds = (Bound::Included(prefix.as_bytes()), Bound::Excluded(end.as_bytes()));
    map.range::<[u8], _>(bounds).map(|(_, item)| item)
}

/// What a caller does at least: it looks at what it has got.
fn touch(value: &Bytes) {
    black_box(value.len());
}

fn nanos_each(begun: Instant, times: usize) -> f64 {
    begun.elapsed().as_nanos() as f64 / times as f64
}

fn report(keys: usize, turns: &[Turn]) -> Section {
    let mut section = Section::new("Reads");
    let mut table = Table::new(&["read", "ours", "BTreeMap", "ours / BTreeMap"]);
    let mut compare = |what: String, field: fn(&Turn) -> [f64; 2], goal: Option<Goal>| {
        let ours = time(median(turns.iter().map(|turn| field(turn)[0])));
        let yardstick = time(median(turns.iter().map(|turn| field(turn)[1])));
        let ratio = median(turns.iter().map(|turn| field(turn)[0] / field(turn)[1]));
        table.row([what.clone(), ours.clone(), yardstick.clone(), format!("{ratio:.2}")]);
        if let Some(goal) = goal {
            let what = format!("{what}, of BTreeMap");
            section.outcomes.push(Outcome { what, ours, yardstick, measured: ratio, unit: " ×", goal });
        }
    };
    let goal = Some(Goal::AtMost(2.0));
    compare("one key".into(), |turn| turn.get, goal);
    compare("one key, of a snapshot at hand".into(), |turn| [turn.held_get, turn.get[1]], None);
    compare(format!("range of {NAMESPACE_KEYS}"), |turn| turn.range, goal);
    compare("all keys".into(), |turn| turn.scan, goal);
    section.tables.push(table);
    section.notes.push(format!(
        "{} keys, values of one KiB, keys in random order. Each read of ours takes a snapshot first, unless said \
         otherwise; a range is collected, all keys are only visited.",
        count(keys as u64)
    ));
    section
}
