//! RedisMigration: every key of one Redis server goes to another.
//!
//! The machine goes Pending → Precheck → Migrate → Succeeded, or to PreFailed and Failed. `Precheck` looks whether both
//! servers are there, and are two. `Migrate` moves keys a batch at a time, with their values and their times to live: which
//! keys are about to be moved is written to the status first, a key is taken from the source only when the other server
//! has confirmed it, and only if nobody has changed it meanwhile. So a process may die at any point: the one after it
//! finishes the batch that is on record, and each key is counted once.
//!
//! A key that both servers have is that of the source in the end, and one that somebody deletes at the source on the way is
//! gone from both. What is on the way is on record at the source, in a set whose name begins with `windlass:held:`.
//!
//! [`definition`] is the kind, [`machine`] the machine, and [`REGISTRATION`] all of it together. `transfer` moves keys,
//! and `resp` talks to the servers.

mod kind;
mod resp;
mod transfer;

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::{ResourceExt, core::ApiResource};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windlass_runtime::{
    GraphFormat, Registration, Scope,
    phase::{self, Ctx, GraphErrors, Handler, Machine, Phase, PhaseReconciler, Report, Step, StepError},
};

pub use self::kind::{RedisMigration, RedisMigrationSpec, RedisMigrationStatus, definition};
use self::transfer::Transfer;

/// What a hub is told of it.
pub const REGISTRATION: Registration = Registration {
    name: "redis-migration",
    about: "Moves the keys of one Redis server to another",
    crd: Some(definition),
    graph: Some(drawn),
    build: |context| {
        // The machine reads objects itself, and tells what is wrong with one that it cannot read.
        let kind = ApiResource::erase::<RedisMigration>(&());
        let informer = context.informers.of_metadata(&kind, &Scope::all());
        let reconciler = PhaseReconciler::new(machine()?, context.client.clone());
        Ok(context.controller(reconciler).reconciles_if(&informer, phase::asked).workers(WORKERS))
    },
};

/// How many migrations go on at a time: one that moves large keys keeps the others waiting otherwise. More would take
/// more memory.
const WORKERS: usize = 4;

/// How many keys at a time, when the object does not say.
const BATCH: u32 = 100;

/// How many connections are kept for the next batch, and how long. Beyond that each batch opens its own.
const MOST_OPEN: usize = 64;
const OPEN_FOR: Duration = Duration::from_secs(60);

/// How many pages without keys are read before others have their turn.
const MOST_PAGES: usize = 64;

/// The machine.
pub fn machine() -> Result<Machine<RedisMigration>, GraphErrors> {
    let seconds = Duration::from_secs;
    let migrate = Phase::new("Migrate").runs(Step::new(Migrate::default()));
    Machine::builder("redis-migration")
        .initial("Pending")
        .phase(Phase::new("Pending").runs(Step::nothing()).then("Precheck").or("PreFailed"))
        .phase(
            Phase::new("Precheck")
                .runs(Step::new(precheck))
                .retries(5)
                .back_off(Duration::from_millis(200), seconds(5))
                .then("Migrate")
                .or("PreFailed"),
        )
        .phase(
            migrate
                .retries(10)
                .back_off(Duration::from_millis(200), seconds(30))
                .then("Succeeded")
                .or("Failed"),
        )
        .succeeds("Succeeded")
        .fails("PreFailed")
        .fails("Failed")
        .build()
}

/// Its phases. A graph that makes no sense says why instead.
fn drawn(format: GraphFormat) -> String {
    machine().map_or_else(|errors| errors.to_string(), |machine| machine.graph(format))
}

/// How far a migration is, where people look first.
fn shown(report: Report, moved: u64, total: u64) -> Report {
    let report = report.progress(moved, total);
    report.field("moved", moved).field("total", total).field("progress", format!("{moved}/{total}"))
}

async fn precheck(ctx: Ctx<RedisMigration>) -> Result<Report, StepError> {
    let mut transfer = Transfer::open(&ctx.object).await?;
    transfer.check().await?;
    let total = transfer.n_keys().await?;
    Ok(shown(Report::done(), 0, total))
}

/// What is remembered from batch to batch.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Memo {
    moved: u64,
    total: u64,
    /// The keys that are about to be moved, or may have been, as base64: they are any bytes.
    pending: Vec<String>,
    /// Where the look through the source goes on. It saves time and nothing hangs on it: the last look through goes from
    /// the beginning to the end without finding anything.
    cursor: u64,
    /// How many keys this look through has found.
    found: u64,
}

/// Moves keys.
#[derive(Default)]
struct Migrate {
    /// Connections for the next batch and when they were used last, by the UID of the migration.
    open: Mutex<HashMap<String, (Instant, Transfer)>>,
}

impl Migrate {
    fn take(&self, uid: &str) -> Option<Transfer> {
        let mut open = self.open.lock();
        open.retain(|_, (used, _)| used.elapsed() < OPEN_FOR);
        open.remove(uid).map(|(_, transfer)| transfer)
    }

    fn keep(&self, uid: String, transfer: Transfer) {
        let mut open = self.open.lock();
        if open.len() < MOST_OPEN {
            open.insert(uid, (Instant::now(), transfer));
        }
    }
}

#[async_trait]
impl Handler<RedisMigration> for Migrate {
    async fn handle(&self, ctx: Ctx<RedisMigration>) -> Result<Report, StepError> {
        let uid = ctx.object.uid().unwrap_or_default();
        let open = self.take(&uid);
        let mut transfer = match open {
            Some(transfer) => transfer,
            None => Transfer::open(&ctx.object).await?,
        };
        let memo = match &ctx.state.data {
            Some(data) => Memo::deserialize(data)?,
            None => Memo { total: transfer.n_keys().await?, ..Memo::default() },
        };
        let (memo, is_done) = go_on(&mut transfer, memo, ctx.object.spec.batch_size.unwrap_or(BATCH)).await?;
        let report = if is_done { Report::done() } else { Report::again(Duration::ZERO) };
        if !is_done {
            self.keep(uid, transfer);
        }
        let report = shown(report, memo.moved, memo.total);
        Ok(report.data(serde_json::to_value(memo)?))
    }
}

/// Moves the keys that are on record, and looks for those that are next. Whether there are none.
async fn go_on(transfer: &mut Transfer, mut memo: Memo, batch: u32) -> Result<(Memo, bool), StepError> {
    let keys: Result<Vec<Vec<u8>>, _> =
        memo.pending.drain(..).map(|key| BASE64_STANDARD.decode(key)).collect();
    let keys = keys?;
    if !keys.is_empty() {
        let n_gone = transfer.move_keys(&keys).await?;
        memo.moved = memo.moved.saturating_add(keys.len() as u64 - n_gone);
        memo.total = memo.total.saturating_sub(n_gone).max(memo.moved);
    }
    for _ in 0..MOST_PAGES {
        let (cursor, keys) = transfer.scan(memo.cursor, batch).await?;
        memo.cursor = cursor;
        memo.found = memo.found.saturating_add(keys.len() as u64);
        memo.pending = keys.iter().map(|key| BASE64_STANDARD.encode(key)).collect();
        let is_round = cursor == 0;
        if is_round && memo.found == 0 {
            memo.total = memo.moved;
            return Ok((memo, true));
        }
        if is_round {
            memo.found = 0;
        }
        if !memo.pending.is_empty() {
            break;
        }
    }
    Ok((memo, false))
}
