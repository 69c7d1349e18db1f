//! `windlass store`: the embedded store, seen from outside.

use std::{
    io::{IsTerminal, Write},
    path::Path,
};

use anyhow::{Context, bail};
use windlass_store::{
    OpenError,
    tools::{self, Stats, Verdict},
};

use crate::{
    args::{DataDir, StoreCommand, Usage},
    table::{human_bytes, table},
};

/// Tells a person who waits what is being done. A large store takes seconds to read.
fn progress(doing: &str, data_dir: &DataDir) {
    if std::io::stderr().is_terminal() {
        eprintln!("{doing} {} ...", data_dir.store().display());
    }
}

/// Runs the command and prints what it found.
pub(crate) fn run(command: StoreCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        StoreCommand::Check(data_dir) => check(&data_dir, out),
        StoreCommand::Stats(data_dir) => stats(&data_dir, out),
        StoreCommand::Snapshot { data_dir, file } => snapshot(&data_dir, &file, out),
        StoreCommand::Restore { data_dir, file } => restore(&data_dir, &file, out),
    }
}

fn check(data_dir: &DataDir, out: &mut dyn Write) -> anyhow::Result<()> {
    expect_store(data_dir)?;
    progress("verifying", data_dir);
    let Verdict { files, whole } =
        tools::check(&data_dir.store()).map_err(|error| with_hint(error, data_dir))?;
    let rows: Vec<_> = files
        .iter()
        .map(|file| {
            let verdict = file
                .damage
                .as_ref()
                .map_or("ok".into(), |damage| format!("DAMAGED at byte {}: {}", damage.offset, damage.why));
            vec![file.file.clone(), file.records.to_string(), human_bytes(file.bytes), verdict]
        })
        .collect();
    writeln!(out, "{}\n", table(&["FILE", "RECORDS", "SIZE", "VERDICT"], &rows))?;
    let stats = whole.map_err(|error| {
        anyhow::anyhow!("{}\nhint: {}", crate::exit::chain(&error.into()), restore_hint(data_dir))
    })?;
    let n_damaged = files.iter().filter(|file| file.damage.is_some()).count();
    if n_damaged > 0 {
        bail!("{n_damaged} of {} files are damaged\n{}", files.len(), restore_hint(data_dir));
    }
    if stats.torn_bytes > 0 {
        writeln!(
            out,
            "note: a crash left {} behind; nobody was promised it, and the next start cuts it off",
            human_bytes(stats.torn_bytes)
        )?;
    }
    writeln!(
        out,
        "ok: every record of {} files verifies; {} keys at revision {}",
        files.len(),
        stats.keys,
        stats.window.head
    )?;
    Ok(())
}

fn stats(data_dir: &DataDir, out: &mut dyn Write) -> anyhow::Result<()> {
    expect_store(data_dir)?;
    progress("reading", data_dir);
    let stats = tools::stats(&data_dir.store()).map_err(|error| with_hint(error, data_dir))?;
    let Stats { store, window, keys, live_bytes, changes, frames, files, .. } = &stats;
    let disk_bytes = stats.disk_bytes();
    let ratio = disk_bytes as f64 / (*live_bytes).max(1) as f64;
    let lines = [
        ("store", store.clone()),
        ("revision", window.head.to_string()),
        ("kept from", format!("{} ({changes} changes in {frames} frames)", window.floor)),
        ("keys", keys.to_string()),
        ("live data", human_bytes(*live_bytes)),
        (
            "on disk",
            format!("{} in {} files, {ratio:.1} times the live data", human_bytes(disk_bytes), files.len()),
        ),
    ];
    for (name, value) in lines {
        writeln!(out, "{name:<14} {value}")?;
    }
    Ok(())
}

fn snapshot(data_dir: &DataDir, file: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    expect_store(data_dir)?;
    if file.symlink_metadata().is_ok() {
        return Err(
            Usage(format!("{}: there is such a file already, expected a new name", file.display())).into()
        );
    }
    progress("reading", data_dir);
    let info = tools::snapshot(&data_dir.store(), file).map_err(|error| with_hint(error, data_dir))?;
    writeln!(
        out,
        "wrote {}: {} keys, {}, as of revision {}",
        file.display(),
        info.keys,
        human_bytes(info.bytes),
        info.revision
    )?;
    writeln!(
        out,
        "to put it back: windlass store restore {} --data-dir {}",
        file.display(),
        data_dir.path().display()
    )?;
    Ok(())
}

fn restore(data_dir: &DataDir, file: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    if !file.is_file() {
        return Err(Usage(format!(
            "{} is not a file; make one with: windlass store snapshot FILE",
            file.display()
        ))
        .into());
    }
    tools::verify_snapshot(file).map_err(|error| Usage(crate::exit::chain(&error.into())))?;
    std::fs::create_dir_all(data_dir.path())
        .with_context(|| format!("cannot create {}", data_dir.path().display()))?;
    progress("restoring", data_dir);
    let restored = tools::restore(file, &data_dir.store()).map_err(|error| with_hint(error, data_dir))?;
    writeln!(
        out,
        "restored {} keys, {}, of revision {}; the store goes on from revision {}",
        restored.snapshot.keys,
        human_bytes(restored.snapshot.bytes),
        restored.snapshot.revision,
        restored.revision
    )?;
    if let Some(moved) = restored.moved {
        writeln!(out, "what was there before is in {}", moved.display())?;
    }
    Ok(())
}

fn expect_store(data_dir: &DataDir) -> Result<(), Usage> {
    match data_dir.store().is_dir()
        && std::fs::read_dir(data_dir.store()).is_ok_and(|mut files| files.next().is_some())
    {
        true => Ok(()),
        false => Err(Usage(format!(
            "--data-dir {}: there is no store in it, expected the directory of an earlier start",
            data_dir.path().display()
        ))),
    }
}

/// Says what to do about it.
pub(crate) fn with_hint(error: OpenError, data_dir: &DataDir) -> anyhow::Error {
    let hint = match &error {
        OpenError::InUse { .. } => {
            Some("stop that process first; stats and snapshot work while it runs".to_owned())
        }
        OpenError::Damaged(_) => Some(format!(
            "stop whoever uses it and look closer: windlass store check --data-dir {}",
            data_dir.path().display()
        )),
        OpenError::NewerFormat { .. } => {
            Some("use the version of windlass that wrote it, or a newer one".to_owned())
        }
        _ => None,
    };
    let error = anyhow::Error::new(error);
    match hint {
        Some(hint) => anyhow::anyhow!("{}\nhint: {hint}", crate::exit::chain(&error)),
        None => error,
    }
}

fn restore_hint(data_dir: &DataDir) -> String {
    format!(
        "restore the newest snapshot: windlass store restore FILE --data-dir {}",
        data_dir.path().display()
    )
}
