//! EIO and ENOSPC at every call: a clear stop, nothing acknowledged that is not there, a clean restart.

use super::world::{Bounds, World, verify};
use crate::{
    CommitError, Expect, ReadError, Txn,
    sim::{Call, Done, EIO, ENOSPC, Fault, Replay, SimDisk},
};

const STEPS: usize = 30;

/// Runs worlds in which the call after the first `spared` fails, for every `spared`, until none fails.
fn fail_every_call(fault: impl Fn(u64) -> Fault) -> u64 {
    let mut n_failures = 0;
    for seed in 0..3 {
        for spared in 0.. {
            let disk = SimDisk::default();
            disk.inject(fault(spared));
            let mut world = World::new(seed, disk.clone());
            let outcome = world.run(STEPS);
            if !disk.fault_fired() {
                outcome.expect("nothing failed");
                break;
            }
            n_failures += 1;
            if let Err(reason) = &outcome {
                assert!(!reason.contains("WRONG"), "seed {seed}, call {spared}: {reason}");
            }
            expect_clean_restart(&world, seed, spared);
        }
    }
    n_failures
}

/// After the failure the process ends, or the power goes; either way the store opens and holds its promises.
fn expect_clean_restart(world: &World, seed: u64, spared: u64) {
    world.disk.heal();
    let trace = world.disk.trace();
    let mut replay = Replay::new(&trace);
    while replay.step().is_some() {}
    let acked = replay.acked().iter().max().copied().unwrap_or(1);
    let asked = world.head();
    let bounds = Bounds { heads: acked..=asked };
    let images = [world.disk.image(), replay.image(1), replay.image(2), replay.image(3)];
    for (idx, image) in images.into_iter().enumerate() {
        verify(image, &world.model, &bounds)
            .unwrap_or_else(|why| panic!("seed {seed}, failure at call {spared}, image {idx}: {why}"));
    }
}

#[test]
fn an_input_output_error_at_any_call_stops_the_store_cleanly() {
    let n_failures = fail_every_call(|spared| Fault::once(spared, EIO))
        + fail_every_call(|spared| Fault::lasting(spared, EIO));
    println!("{n_failures} failures");
}

#[test]
fn a_short_write_at_any_call_stops_the_store_cleanly() {
    fail_every_call(|spared| Fault::once(spared, EIO).among(&[Call::Write]).having_done(Done::Part(50)));
}

#[test]
fn a_failure_that_did_its_work_all_the_same_stops_the_store_cleanly() {
    fail_every_call(|spared| Fault::once(spared, EIO).having_done(Done::Everything));
}

#[test]
fn a_full_disk_at_any_call_loses_nothing() {
    fail_every_call(|spared| {
        Fault::lasting(spared, ENOSPC).among(&[Call::Create, Call::Write, Call::SetLen])
    });
    fail_every_call(|spared| Fault::once(spared, ENOSPC).having_done(Done::Part(30)));
}

#[test]
fn a_disk_that_was_full_is_written_again_once_there_is_room() {
    let mut n_recovered = 0;
    for spared in 0..400 {
        let disk = SimDisk::default();
        disk.inject(Fault::lasting(spared, ENOSPC).among(&[Call::Create]));
        let mut world = World::new(5, disk.clone());
        if world.run(STEPS).is_err() || !disk.fault_fired() {
            continue;
        }
        disk.heal();
        world.run(STEPS).expect("there is room again");
        n_recovered += 1;
    }
    assert!(n_recovered > 0, "no run met a full disk and went on");
}

#[test]
fn a_restart_after_a_failure_can_be_trusted_after_a_power_cut_too() {
    let mut n_restarts = 0;
    for seed in 0..4 {
        for spared in 0.. {
            let disk = SimDisk::default();
            disk.inject(Fault::once(spared, EIO));
            let mut world = World::new(seed, disk.clone());
            let outcome = world.run(STEPS);
            if !disk.fault_fired() {
                break;
            }
            if outcome.is_ok() {
                continue;
            }
            // The next process reads what the last one wrote, from the same cache, and goes on.
            world.restart();
            n_restarts += 1;
            world.run(STEPS).expect("the disk is well again");
            expect_clean_restart(&world, seed, spared);
        }
    }
    assert!(n_restarts > 100, "only {n_restarts} restarts");
}

#[test]
fn a_stopped_store_acknowledges_nothing() {
    let disk = SimDisk::default();
    let mut world = World::new(1, disk.clone());
    world.run(STEPS).expect("a healthy disk");
    world.restart();
    world.run(1).expect("a healthy disk");
    disk.inject(Fault::lasting(0, EIO).among(&[Call::Sync]));
    while world.run(1).is_ok() {}
    disk.heal();
    let parts = world.parts.as_mut().expect("open");
    let before = disk.trace().steps().len();
    let head = parts.writer.tables.window().head;
    assert!(matches!(parts.writer.compact(head), Err(ReadError::Stopped(_))));
    parts.writer.idle();
    parts.writer.commit([Txn::new().put("key", "value", Expect::Any)].into_iter(), |reply| {
        assert!(matches!(reply, Err(CommitError::Stopped(_))));
    });
    parts.writer.close(&mut parts.checkpointer);
    assert_eq!(disk.trace().steps().len(), before, "a stopped store still writes");
}

#[test]
fn many_short_lives_leave_no_more_behind_than_a_long_one() {
    let disk = SimDisk::default();
    let mut world = World::new(2, disk.clone());
    let mut most = 0;
    for _ in 0..400 {
        world.restart();
        // Less than would be owed a checkpoint.
        world.commit().expect("a healthy disk");
        let parts = world.parts.as_mut().expect("just opened");
        while parts.checkpointer.step_if_due().expect("a healthy disk") {}
        most = most.max(disk.image().iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
    }
    assert!(most < 80 << 10, "{most} bytes for a few kilobytes of data");
}
