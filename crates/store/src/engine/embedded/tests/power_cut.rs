//! Power cuts at every write and sync, again and again, and proof that the test can find what it looks for.
//!
//! `WINDLASS_POWER_CUTS` sets the number of images: a million by
//! `WINDLASS_POWER_CUTS=1000000 cargo test -p windlass-store --lib power_cut`.

use super::world::{Bounds, Model, Sealing, World, sealed, verify};
use crate::{
    engine::embedded::planted::{Bug, plant},
    sim::{Image, Mark, Replay, SimDisk},
};

const STEPS: usize = 40;

/// Counts images and cuts the power.
struct Cutter {
    n_images: u64,
    most_images: u64,
    seed: u64,
}

impl Cutter {
    /// Runs a world, then looks at what the power cut at each point of it can leave.
    fn cut_world(&mut self, seed: u64) -> Result<(), String> {
        self.seed = seed;
        let mut world = World::new(seed, SimDisk::default());
        world.run(STEPS).map_err(|reason| format!("the world of seed {seed} stopped: {reason}"))?;
        let start = Bounds { heads: 1..=1 };
        self.cut(&world.disk, &world.model, &start, 2).map_err(|why| format!("seed {seed}: {why}"))
    }

    /// Looks at what a power cut at each point of the disk's trace can leave; inside recovery too, `depth` deep.
    fn cut(&mut self, disk: &SimDisk, model: &Model, start: &Bounds, depth: u32) -> Result<(), String> {
        let trace = disk.trace();
        let mut replay = Replay::new(&trace);
        loop {
            let acked = replay.acked().iter().max().copied().unwrap_or(0).max(*start.heads.start());
            let asked = replay.asked().iter().max().copied().unwrap_or(0).max(*start.heads.end());
            let bounds = Bounds { heads: acked..=asked };
            let n_images = if replay.is_settled() { 1 } else { 2 };
            for seed in 0..n_images {
                if self.n_images >= self.most_images {
                    return Ok(());
                }
                self.n_images += 1;
                let at = replay.at();
                let image = replay.image(seed ^ self.seed << 8);
                self.look(image, model, &bounds, depth)
                    .map_err(|why| format!("cut at step {at}, image {seed}, depth {depth}: {why}"))?;
            }
            if replay.step().is_none() {
                return Ok(());
            }
        }
    }

    fn look(&mut self, image: Image, model: &Model, bounds: &Bounds, depth: u32) -> Result<(), String> {
        let (disk, head) = verify(image, model, bounds)?;
        // What has been found and served must be found again, after another crash just now or a clean close.
        disk.mark(Mark::Acked(head));
        let again = Bounds { heads: head..=head };
        verify(disk.image(), model, &again).map_err(|why| format!("at the second start: {why}"))?;
        let one_in = if depth == 2 { 12 } else { 30 };
        if depth > 0 && self.n_images.is_multiple_of(one_in) {
            let bounds = Bounds { heads: *bounds.heads.start()..=head };
            self.cut(&disk, model, &bounds, depth - 1)?;
        }
        Ok(())
    }
}

fn cut_worlds(n_images: u64) -> Result<u64, String> {
    let mut cutter = Cutter { n_images: 0, most_images: n_images, seed: 0 };
    let mut seed = 0;
    while cutter.n_images < n_images {
        cutter.cut_world(seed)?;
        seed += 1;
    }
    Ok(cutter.n_images)
}

#[test]
fn nothing_acknowledged_is_lost_by_a_power_cut() {
    let n_images = std::env::var("WINDLASS_POWER_CUTS")
        .map_or(20_000, |number| number.parse().expect("WINDLASS_POWER_CUTS is a number"));
    let n_images = cut_worlds(n_images).unwrap_or_else(|why| panic!("{why}"));
    println!("{n_images} images, nothing lost");
}

#[test]
fn nothing_acknowledged_is_lost_by_a_power_cut_while_sealed() {
    for sealing in [Sealing::OneKey, Sealing::Rotating] {
        sealed(sealing, || cut_worlds(6_000)).unwrap_or_else(|why| panic!("{sealing:?}: {why}"));
    }
}

#[test]
fn planted_bugs_are_found() {
    use Bug::*;
    let bugs = [
        SkipSync,
        AckBeforeSync,
        SkipNameSync,
        SkipPartSync,
        SkipManifestSync,
        SkipMendSync,
        KeepTornTail,
        CutTooMuch,
        ReuseRevision,
        DropSegmentsEarly,
        MislabelPart,
        TrustChecksums,
    ];
    for bug in bugs {
        plant(Some(bug));
        let found = cut_worlds(20_000);
        plant(None);
        match found {
            Err(why) => println!("{bug:?} found: {}", why.chars().take(160).collect::<String>()),
            Ok(n_images) => panic!("{bug:?} was not found in {n_images} images"),
        }
    }
}

#[test]
fn a_store_goes_on_after_a_power_cut_and_survives_the_next() {
    for seed in 0..60 {
        let mut world = World::new(seed, SimDisk::default());
        for life in 0..4 {
            world.run(STEPS).expect("a healthy disk");
            let trace = world.disk.trace();
            let mut replay = Replay::new(&trace);
            while replay.step().is_some() {}
            let (acked, asked) = (replay.acked().iter().max().copied().unwrap_or(1), world.head());
            let image = replay.image(seed << 8 | life);
            verify(image.clone(), &world.model, &Bounds { heads: acked..=asked })
                .unwrap_or_else(|why| panic!("seed {seed}, life {life}: {why}"));
            world.disk = SimDisk::from_image(image);
            world.restart();
        }
    }
}
