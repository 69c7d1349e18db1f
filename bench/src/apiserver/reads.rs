//! Reading: one object, all of them, a page, those with a label. Against a bare handler that gives the same bytes.

use std::{fs, sync::Arc};

use anyhow::ensure;

use super::{
    Bench,
    bare::Bare,
    client::Endpoint,
    drive::{Limit, drive},
    objects::{self, SHARDS, collection},
    target::Target,
    turn::{Turn, known_time, middle},
};
use crate::{
    args::ApiPart,
    report::{Goal, Outcome, Section, Table},
    say,
    stats::{count, mebibytes, median, rate, time},
};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    One,
    All,
    Page,
    Selected,
}

/// One row: what, by how many, and whether it is judged.
#[derive(Clone, Copy, Debug)]
struct Case {
    what: What,
    clients: usize,
    judged: bool,
}

const CASES: [Case; 5] = [
    Case { what: What::One, clients: 1, judged: false },
    Case { what: What::One, clients: 64, judged: true },
    Case { what: What::All, clients: 4, judged: true },
    Case { what: What::Page, clients: 16, judged: true },
    // The bare handler need not look at what it leaves out.
    Case { what: What::Selected, clients: 16, judged: false },
];

impl What {
    /// The file with the answer.
    fn file(self) -> &'static str {
        match self {
            What::One => "one",
            What::All => "all",
            What::Page => "page",
            What::Selected => "selected",
        }
    }

    fn text(self, bench: &Bench) -> String {
        let listed = count(bench.scale.listed as u64);
        match self {
            What::One => "get".to_owned(),
            What::All => format!("list of {listed}"),
            What::Page => format!("page of {}", bench.scale.page),
            What::Selected => format!("list by label, {} of {listed}", bench.scale.listed / SHARDS),
        }
    }

    fn path(self, bench: &Bench, namespace: &str) -> String {
        let path = collection(namespace);
        match self {
            What::One => format!("{path}/{}", objects::name(0)),
            What::All => path,
            What::Page => format!("{path}?limit={}", bench.scale.page),
            What::Selected => format!("{path}?labelSelector=shard%3Ds7"),
        }
    }
}

pub(crate) async fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let target = bench.target(ApiPart::Reads).await?;
    say(&format!("reads: creating {} objects…", count(bench.scale.listed as u64)));
    objects::fill(&target.endpoint, &target.namespace, bench.scale.listed).await?;
    let folder = bench.folder("bare")?;
    let mut connection = target.endpoint.connect().await?;
    for what in [What::One, What::All, What::Page, What::Selected] {
        let answer = connection.fetch(target.endpoint.get(&what.path(bench, &target.namespace))).await?;
        fs::write(folder.join(what.file()), answer)?;
    }
    drop(connection);
    let bare = Bare::start(&folder)?;
    let mut turns = vec![vec![]; CASES.len()];
    for turn in 1..=bench.scale.turns {
        for (case, turns) in CASES.iter().zip(&mut turns) {
            let (what, clients) = (case.what.text(bench), case.clients);
            say(&format!("reads: measuring {what} by {clients}, turn {turn} of {}…", bench.scale.turns));
            turns.push([ours(bench, &target, *case).await?, theirs(bench, &bare, *case).await?]);
        }
    }
    target.end().await?;
    report(bench, &turns)
}

async fn ours(bench: &Bench, target: &Target, case: Case) -> anyhow::Result<Turn> {
    let maker = target.endpoint.clone();
    let limit = Limit::time(bench.scale.turn);
    let ran = match case.what {
        What::One => {
            let (listed, path) = (bench.scale.listed, collection(&target.namespace));
            drive(&target.endpoint, case.clients, limit, move |_, _, random| {
                maker.get(&format!("{path}/{}", objects::name(random.usize(..listed))))
            })
            .await?
        }
        what => repeat(&target.endpoint, case.clients, limit, what.path(bench, &target.namespace)).await?,
    };
    Ok(Turn::of(ran))
}

async fn theirs(bench: &Bench, bare: &Bare, case: Case) -> anyhow::Result<Turn> {
    let path = format!("/{}", case.what.file());
    let ran = repeat(&bare.endpoint, case.clients, Limit::time(bench.scale.turn), path).await?;
    Ok(Turn::of(ran))
}

/// Asks for the same thing over and over.
async fn repeat(
    endpoint: &Arc<Endpoint>,
    clients: usize,
    limit: Limit,
    path: String,
) -> anyhow::Result<super::drive::Ran> {
    let maker = endpoint.clone();
    drive(endpoint, clients, limit, move |_, _, _| maker.get(&path)).await
}

fn report(bench: &Bench, turns: &[Vec<[Turn; 2]>]) -> anyhow::Result<Section> {
    let mut section = Section::new("Reading objects");
    let mut table = Table::new(&[
        "what",
        "clients",
        "ours",
        "p50",
        "p99",
        "CPU each",
        "bytes/s",
        "bare handler",
        "its p50",
        "its CPU each",
        "ours / bare",
    ]);
    for (case, turns) in CASES.iter().zip(turns) {
        let ours = |field| middle(turns.iter().map(|pair| &pair[0]), field);
        let theirs = |field| middle(turns.iter().map(|pair| &pair[1]), field);
        let ratio = median(turns.iter().map(|[ours, theirs]| ours.rate / theirs.rate));
        let (bytes, same) = (ours(|turn| turn.bytes), theirs(|turn| turn.bytes));
        ensure!(
            bytes / same > 0.99 && same / bytes > 0.99,
            "answers of {bytes} and of {same} bytes were compared"
        );
        let what = case.what.text(bench);
        table.row([
            what.clone(),
            case.clients.to_string(),
            rate(ours(|turn| turn.rate)),
            time(ours(|turn| turn.p50)),
            time(ours(|turn| turn.p99)),
            known_time(ours(|turn| turn.processor)),
            mebibytes(ours(|turn| turn.rate * turn.bytes)),
            rate(theirs(|turn| turn.rate)),
            time(theirs(|turn| turn.p50)),
            known_time(theirs(|turn| turn.processor)),
            format!("{ratio:.2}"),
        ]);
        if case.judged {
            section.outcomes.push(Outcome {
                what: format!("{what} by {}, of the bare handler", case.clients),
                ours: rate(ours(|turn| turn.rate)),
                yardstick: rate(theirs(|turn| turn.rate)),
                measured: ratio,
                unit: " ×",
                goal: Goal::AtLeast(0.6),
            });
        }
        match (case.what, case.clients) {
            (What::One, 64) => {
                section.reported.push([
                    "gets by 64".into(),
                    rate(ours(|turn| turn.rate)),
                    "1,765–2,307/s".into(),
                ]);
            }
            (What::All, _) => {
                section.reported.push([what, rate(ours(|turn| turn.rate)), "9/s".into()]);
            }
            _ => {}
        }
    }
    section.tables.push(table);
    section.notes.push(
        "ConfigMaps, sent as one KiB; gets are of random ones. The bare handler is hyper and rustls in a process of \
         its own that has the answers at hand. CPU is what the server takes for an answer. Clients are connections \
         over HTTP/1.1 with TLS, and share the cores with the server."
            .into(),
    );
    Ok(section)
}
