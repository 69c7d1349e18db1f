//! Changing objects: whole ones, parts of them by merge patch, and by server-side apply.

use http::Method;

use super::{
    Bench,
    drive::{Limit, drive},
    objects::{self, JSON, MARK_DIGITS, collection, config_map},
    target::Target,
    turn::{Turn, known_time, middle},
};
use crate::{
    args::ApiPart,
    report::{Goal, Outcome, Section, Table},
    say,
    stats::{count, rate, time},
};

/// How objects are changed, and by how many at once.
const CASES: [(How, usize); 6] = [
    (How::Update, 1),
    (How::Update, 64),
    (How::Patch, 1),
    (How::Patch, 64),
    (How::Apply, 1),
    (How::Apply, 64),
];

/// How much more than a merge patch an apply of the whole object may cost.
const APPLY_COSTS: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Update,
    Patch,
    Apply,
}

impl How {
    fn text(self) -> &'static str {
        match self {
            How::Update => "update",
            How::Patch => "merge patch",
            How::Apply => "apply",
        }
    }
}

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let target = bench.target(ApiPart::Updates).await?;
    say(&format!("updates: creating {} objects…", count(bench.scale.listed as u64)));
    objects::fill(&target.endpoint, &target.namespace, bench.scale.listed).await?;
    let mut turns = vec![vec![]; CASES.len()];
    for turn in 1..=bench.scale.turns {
        for ((how, clients), turns) in CASES.iter().zip(&mut turns) {
            let what = how.text();
            say(&format!("updates: measuring {what} by {clients}, turn {turn} of {}…", bench.scale.turns));
            turns.push(change(bench, &target, *how, *clients, turn).await?);
        }
    }
    target.end().await?;
    let mut section = Section::new("Changing objects");
    let mut table = Table::new(&["what", "clients", "ours", "p50", "p99", "CPU each"]);
    for ((how, clients), turns) in CASES.iter().zip(&turns) {
        table.row([
            how.text().into(),
            clients.to_string(),
            rate(middle(turns, |turn| turn.rate)),
            time(middle(turns, |turn| turn.p50)),
            time(middle(turns, |turn| turn.p99)),
            known_time(middle(turns, |turn| turn.processor)),
        ]);
    }
    section.tables.push(table);
    section.outcomes.extend(CASES.iter().zip(&turns).filter(|((how, _), _)| *how == How::Apply).filter_map(
        |((_, clients), applies)| {
            let patches = CASES.iter().position(|case| *case == (How::Patch, *clients))?;
            Some(apply_outcome(*clients, applies, &turns[patches]))
        },
    ));
    section.notes.push(format!(
        "Random ones of {} ConfigMaps of one KiB. An update sends the whole object, without a resourceVersion; a \
         patch changes one value of its data; an apply sends the whole object with one value changed, by force.",
        count(bench.scale.listed as u64)
    ));
    Ok(section)
}

/// What an apply costs in merge patches: processor time where that is known, else time.
fn apply_outcome(clients: usize, applies: &[Turn], patches: &[Turn]) -> Outcome {
    let known = middle(patches, |turn| turn.processor) > 0.0;
    let field = if known { |turn: &Turn| turn.processor } else { |turn: &Turn| turn.p50 };
    let (apply, patch) = (middle(applies, field), middle(patches, field));
    let of = if known { "CPU" } else { "p50" };
    Outcome {
        what: format!("{of} of an apply, {clients} clients"),
        ours: time(apply),
        yardstick: format!("merge patch {}", time(patch)),
        measured: apply / patch,
        unit: "",
        goal: Goal::AtMost(APPLY_COSTS),
    }
}

async fn change(
    bench: &Bench,
    target: &Target,
    how: How,
    clients: usize,
    turn: usize,
) -> anyhow::Result<Turn> {
    let (maker, path, listed) = (target.endpoint.clone(), collection(&target.namespace), bench.scale.listed);
    let ran = drive(&target.endpoint, clients, Limit::time(bench.scale.turn), move |client, nth, random| {
        let idx = random.usize(..listed);
        let name = objects::name(idx);
        // Never what it was, or nothing would be written.
        let seq = (turn * 1_000 + client) as u64 * 100_000 + nth;
        let path = format!("{path}/{name}");
        match how {
            How::Update => maker.ask(Method::PUT, &path, JSON, config_map(&name, idx, seq)),
            How::Patch => {
                let patch = format!("{{\"data\":{{\"seq\":\"{seq:0MARK_DIGITS$}\"}}}}");
                maker.ask(Method::PATCH, &path, "application/merge-patch+json", patch)
            }
            How::Apply => {
                let path = format!("{path}?fieldManager=bench&force=true");
                let object = config_map(&name, idx, seq);
                maker.ask(Method::PATCH, &path, "application/apply-patch+yaml", object)
            }
        }
    })
    .await?;
    Ok(Turn::of(ran))
}
