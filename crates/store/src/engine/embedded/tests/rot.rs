//! Damage to any byte of any file: found and named, or provably without effect; never served.

use super::world::{ManualClock, Sealing, World, compare, open, sealed};
use crate::{
    engine::embedded::OpenError,
    sim::{Image, Rot, SimDisk},
};

/// A store that was closed, with every kind of file in it, and its head.
fn closed_world(seed: u64) -> (World, u64) {
    let mut world = World::new(seed, SimDisk::default());
    world.run(60).expect("a healthy disk");
    world.close().expect("a healthy disk");
    let parts =
        open(&SimDisk::from_image(world.disk.image()), &ManualClock::default()).expect("a healthy disk");
    let head = parts.writer.tables.window().head.get();
    (world, head)
}

/// Whether opening the damaged image finds the damage. Panics if it is served, or if anything is missing.
fn is_found(world: &World, head: u64, image: Image, what: &str) -> bool {
    match open(&SimDisk::from_image(image), &ManualClock::default()) {
        Err(OpenError::Damaged(damage)) => {
            assert!(!damage.file.is_empty() && !damage.why.is_empty());
            true
        }
        Err(OpenError::NewerFormat { .. } | OpenError::Io { .. }) => true,
        Err(error) => panic!("{what}: {error}"),
        Ok(parts) => {
            let found = compare(&parts, &world.model).unwrap_or_else(|why| panic!("{what} is served: {why}"));
            assert_eq!(found, head, "{what}: the end of the log is lost without a word");
            false
        }
    }
}

#[test]
fn a_flipped_bit_in_any_byte_is_found() {
    flip_every_byte();
}

#[test]
fn a_flipped_bit_in_any_byte_of_a_sealed_store_is_found() {
    sealed(Sealing::OneKey, flip_every_byte);
    sealed(Sealing::Rotating, flip_every_byte);
}

fn flip_every_byte() {
    let (world, head) = closed_world(3);
    let image = world.disk.image();
    let (mut n_found, mut n_harmless) = (0, 0);
    for (name, at) in image.positions() {
        let rot = Rot::Flip { name: name.into(), at, bit: (at % 8) as u8 };
        match is_found(&world, head, image.rotten(&rot), &format!("{rot:?}")) {
            true => n_found += 1,
            false => n_harmless += 1,
        }
    }
    println!("{n_found} flips found, {n_harmless} where nothing is stored");
    assert!(n_found > 4 * n_harmless);
}

#[test]
fn after_a_moment_of_quiet_a_flipped_bit_is_found_without_a_close_too() {
    let mut world = World::new(11, SimDisk::default());
    world.run(60).expect("a healthy disk");
    let clock = world.clock.clone();
    let disk = world.disk.clone();
    let parts = world.parts.get_or_insert_with(|| open(&disk, &clock).expect("a healthy disk"));
    parts.writer.idle();
    let head = parts.writer.tables.window().head.get();
    let image = world.disk.image();
    for (name, at) in image.positions().filter(|(name, _)| name.starts_with("log-")) {
        // The frame that vouches for the others may itself be taken for a torn write; nothing hangs on it.
        let rot = Rot::Flip { name: name.into(), at, bit: (at % 8) as u8 };
        is_found(&world, head, image.rotten(&rot), &format!("{rot:?}"));
    }
}

#[test]
fn damaged_blocks_and_lost_files_are_found() {
    let (world, head) = closed_world(4);
    let image = world.disk.image();
    let blocks =
        Rot::of_blocks(&image, 512).chain(Rot::of_blocks(&image, 4096)).chain(Rot::of_files(&image, 512));
    let mut n_found = 0;
    for rot in blocks {
        let rotten = image.rotten(&rot);
        if rotten != image && is_found(&world, head, rotten, &format!("{rot:?}")) {
            n_found += 1;
        }
    }
    assert!(n_found > 100, "only {n_found} found");
}
