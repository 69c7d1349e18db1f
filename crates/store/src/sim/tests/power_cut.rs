//! Power cuts: what must survive does, in every image; what need not does not, in some.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use fastrand::Rng;

use crate::{
    Disk, DiskFile,
    sim::{Call, EIO, Edit, Fault, Image, Mood, Replay, SECTOR, SimDisk, Step, Trace},
};

/// A disk with one durable file `a` of so many ones, and the file.
fn disk_of_ones(len: usize) -> (SimDisk, Box<dyn DiskFile>) {
    let disk = SimDisk::from_image(Image::from_iter([("a", vec![1; len])]));
    let file = disk.open("a").unwrap();
    (disk, file)
}

/// A replay that stands at the end.
fn replayed(trace: &Trace) -> Replay<'_> {
    let mut replay = Replay::new(trace);
    while replay.step().is_some() {}
    assert_eq!(replay.at(), trace.steps().len());
    replay
}

/// What a thousand seeds leave at the end of what was done to the disk.
fn images(disk: &SimDisk) -> Vec<Image> {
    let trace = disk.trace();
    let replay = replayed(&trace);
    (0..1000).map(|seed| replay.image(seed)).collect()
}

/// What the disk has promised of one file: written anew here, the slow and simple way, as a check on the other.
#[derive(Default)]
struct Promise {
    live: Vec<u8>,
    synced: Vec<u8>,
    dirty: BTreeSet<usize>,
    /// No image is shorter, and none is longer.
    lens: (usize, usize),
}

impl Promise {
    fn step(&mut self, step: &Step) {
        let before = self.live.len();
        match step {
            Step::Edit(_, Edit::Write { offset, data }) => {
                self.live.resize(before.max(offset + data.len()), 0);
                self.live[*offset..offset + data.len()].copy_from_slice(data);
                self.dirty.extend(offset / SECTOR..=(offset + data.len() - 1) / SECTOR);
            }
            Step::Edit(_, Edit::SetLen(len)) => {
                self.live.resize(*len, 0);
                let (low, high) = (before.min(*len), before.max(*len));
                self.dirty.extend(low / SECTOR..high.div_ceil(SECTOR));
            }
            Step::Sync(_) => {
                self.synced.clone_from(&self.live);
                self.dirty.clear();
                self.lens = (self.live.len(), self.live.len());
            }
            _ => unreachable!("the workload does nothing else"),
        }
        let len = self.live.len();
        self.lens = (self.lens.0.min(len), self.lens.1.max(len));
    }

    fn check(&self, bytes: &[u8]) {
        assert!((self.lens.0..=self.lens.1).contains(&bytes.len()), "{} bytes", bytes.len());
        for (sector, (found, synced)) in bytes.chunks(SECTOR).zip(self.synced.chunks(SECTOR)).enumerate() {
            let n_bytes = found.len().min(synced.len());
            if !self.dirty.contains(&sector) {
                assert_eq!(found[..n_bytes], synced[..n_bytes], "sector {sector} was not written to");
            }
        }
    }
}

#[test]
fn sectors_without_unsynced_bytes_survive_every_cut() {
    for workload in 0..50 {
        let mut rng = Rng::with_seed(workload);
        let disk = SimDisk::from_image(Image::from_iter([("a", Vec::new())]));
        let file = disk.open("a").unwrap();
        for _ in 0..40 {
            let mut data = vec![0; rng.usize(1..2000)];
            rng.fill(&mut data);
            match rng.u8(..8) {
                0..5 => file.write_at(&data, rng.u64(..8000)).unwrap(),
                5 => file.set_len(rng.u64(..8000)).unwrap(),
                _ => file.sync().unwrap(),
            }
        }
        let trace = disk.trace();
        let mut replay = Replay::new(&trace);
        let mut promise = Promise::default();
        while let Some(step) = replay.step() {
            promise.step(step);
            let seeds = if replay.is_settled() { 0..1 } else { 0..20 };
            for image in seeds.map(|seed| replay.image(seed)) {
                promise.check(image.get("a").unwrap());
            }
            let kept = replay.image_in(Mood::Kept, 0);
            assert_eq!(kept.get("a").unwrap(), promise.live);
            let dropped = replay.image_in(Mood::Dropped, 0);
            assert_eq!(dropped.get("a").unwrap(), promise.synced);
        }
    }
}

#[test]
fn an_unsynced_write_survives_whole_or_not_or_in_any_part() {
    let (disk, file) = disk_of_ones(1024);
    file.write_at(&[2; 1024], 0).unwrap();
    let images = images(&disk);
    let seen = |wanted: &dyn Fn(&[u8], &[u8]) -> bool| {
        images.iter().any(|image| {
            let (first, second) = image.get("a").unwrap().split_at(512);
            wanted(first, second)
        })
    };
    let torn = |sector: &[u8]| sector[0] == 2 && sector[511] == 1 && sector.is_sorted_by(|a, b| a >= b);
    assert!(seen(&|first, second| first == [2; 512] && second == [2; 512]), "kept");
    assert!(seen(&|first, second| first == [1; 512] && second == [1; 512]), "dropped");
    assert!(seen(&|first, second| first == [1; 512] && second == [2; 512]), "the later without the earlier");
    assert!(seen(&|first, second| first == [0; 512] && second == [2; 512]), "zeros");
    assert!(seen(&|first, second| first == [2; 512] && torn(second)), "torn at its end");
    assert!(seen(&|first, _| torn(&first.iter().rev().copied().collect::<Vec<_>>())), "torn at its start");
    assert!(seen(&|first, _| first.iter().any(|byte| *byte > 2)), "garbled");
}

#[test]
fn a_garbled_sector_takes_its_old_bytes_along_and_no_others() {
    let (disk, file) = disk_of_ones(2048);
    file.write_at(&[2; 10], 600).unwrap();
    let images = images(&disk);
    let sectors = |image: &Image| {
        let bytes = image.get("a").unwrap();
        let old = [&bytes[512..600], &bytes[610..1024]].concat();
        let others = [&bytes[..512], &bytes[1024..]].concat();
        (old, others)
    };
    assert!(images.iter().any(|image| sectors(image).0.iter().any(|byte| *byte != 1)));
    assert!(images.iter().all(|image| sectors(image).1 == [1; 1536]));
}

#[test]
fn a_new_length_can_be_there_without_its_bytes_or_not_at_all() {
    let (disk, file) = disk_of_ones(512);
    file.set_len(2048).unwrap();
    file.write_at(&[2; 512], 512).unwrap();
    let grown = images(&disk);
    let lens: BTreeSet<_> = grown.iter().map(|image| image.get("a").unwrap().len()).collect();
    assert!(lens.contains(&512) && lens.contains(&2048) && lens.len() > 10, "{lens:?}");
    let tail_is = |byte| grown.iter().any(|image| image.get("a").unwrap().get(1024..) == Some(&[byte; 1024]));
    assert!(tail_is(0));
    let noisy = |image: &Image| image.get("a").unwrap().get(1024..).is_some_and(|tail| tail.contains(&77));
    assert!(grown.iter().any(noisy));

    let (disk, file) = disk_of_ones(2048);
    file.set_len(1024).unwrap();
    let lens: BTreeSet<_> = images(&disk).iter().map(|image| image.get("a").unwrap().len()).collect();
    assert!(lens.contains(&1024) && lens.contains(&2048));
    assert!(images(&disk).iter().all(|image| image.get("a").unwrap().iter().all(|byte| *byte == 1)));
}

#[test]
fn creating_over_a_file_can_leave_the_old_bytes_under_the_new() {
    let (disk, _) = disk_of_ones(1024);
    let file = disk.create("a").unwrap();
    file.write_at(&[2; 512], 0).unwrap();
    let mixed = [[2; 512], [1; 512]].concat();
    assert!(images(&disk).iter().any(|image| image.get("a") == Some(&mixed)));
}

/// All the sets of names and first bytes that a cut can leave.
fn outcomes(disk: &SimDisk) -> BTreeSet<String> {
    let told = |image: Image| {
        let file = |(name, bytes): (&str, &[u8])| format!("{name}{}", bytes.first().unwrap_or(&0));
        image.iter().map(file).collect::<Vec<_>>().join(" ")
    };
    images(disk).into_iter().map(told).collect()
}

#[test]
fn a_rename_is_all_or_nothing_and_its_content_was_synced_before() {
    let (disk, _) = disk_of_ones(1);
    let new = disk.create("new").unwrap();
    new.write_at(&[2], 0).unwrap();
    new.sync().unwrap();
    disk.rename("new", "a").unwrap();
    assert_eq!(outcomes(&disk), ["a1", "a1 new2", "a2"].map(String::from).into());
    disk.sync_names().unwrap();
    assert_eq!(outcomes(&disk), ["a2"].map(String::from).into());
}

#[test]
fn a_rename_never_moves_another_file_of_that_name() {
    let disk = SimDisk::from_image(Image::from_iter([("a", vec![1]), ("new", vec![9])]));
    disk.remove("new").unwrap();
    let new = disk.create("new").unwrap();
    new.write_at(&[2], 0).unwrap();
    new.sync().unwrap();
    disk.rename("new", "a").unwrap();
    assert_eq!(outcomes(&disk), ["a1", "a1 new2", "a1 new9", "a2"].map(String::from).into());
}

#[test]
fn syncing_the_names_makes_no_content_durable_and_the_other_way_round() {
    let disk = SimDisk::default();
    let file = disk.create("a").unwrap();
    file.write_at(&[2], 0).unwrap();
    disk.sync_names().unwrap();
    let seen = outcomes(&disk);
    assert!(seen.contains("a0") && seen.contains("a2") && !seen.contains(""));
    file.sync().unwrap();
    assert_eq!(outcomes(&disk), ["a2"].map(String::from).into());

    let disk = SimDisk::default();
    let file = disk.create("a").unwrap();
    file.write_at(&[2], 0).unwrap();
    file.sync().unwrap();
    assert_eq!(outcomes(&disk), ["", "a2"].map(String::from).into());
}

#[test]
fn changes_of_names_survive_one_without_the_other() {
    let (disk, _) = disk_of_ones(1);
    let new = disk.create("b").unwrap();
    new.write_at(&[2], 0).unwrap();
    new.sync().unwrap();
    disk.remove("a").unwrap();
    assert_eq!(outcomes(&disk), ["", "a1", "a1 b2", "b2"].map(String::from).into());
    disk.create("a").unwrap();
    disk.sync_names().unwrap();
    assert_eq!(outcomes(&disk), ["a0 b2"].map(String::from).into());
}

/// The sync fails, and the next one, which does not, hides the loss: fsyncgate.
#[test]
fn what_a_failed_sync_lost_no_later_sync_makes_durable() {
    let disk = SimDisk::from_image(Image::from_iter([("a", vec![0; 512])]));
    let file = disk.open("a").unwrap();
    file.write_at(&[1; 512], 0).unwrap();
    disk.inject(Fault::once(0, EIO).among(&[Call::Sync]));
    assert!(file.sync().is_err());
    file.write_at(&[2; 512], 512).unwrap();
    file.write_at(&[3; 10], 0).unwrap();
    file.sync().unwrap();
    let trace = disk.trace();
    assert!(matches!(trace.steps(), [_, Step::SyncFailed(_), _, _, Step::Sync(_)]));

    let replay = replayed(&trace);
    assert!(!replay.is_settled());
    for seed in 0..1000 {
        let image = replay.image(seed);
        let bytes = image.get("a").unwrap();
        assert_eq!((&bytes[..10], &bytes[512..]), ([3; 10].as_slice(), [2; 512].as_slice()), "seed {seed}");
    }
    assert_eq!(replay.image_in(Mood::Dropped, 0).get("a").unwrap()[10..512], [0; 502]);
    assert_eq!(replay.image_in(Mood::Kept, 0).get("a").unwrap()[10..512], [1; 502]);
}

#[test]
fn names_lost_by_a_failed_sync_stay_lost() {
    let disk = SimDisk::default();
    disk.create("a").unwrap();
    disk.inject(Fault::once(0, EIO));
    assert!(disk.sync_names().is_err());
    disk.create("b").unwrap();
    disk.sync_names().unwrap();
    let trace = disk.trace();
    let replay = replayed(&trace);
    assert_eq!(format!("{:?}", replay.image_in(Mood::Dropped, 0)), r#"{"b": 0}"#);
    assert_eq!(format!("{:?}", replay.image_in(Mood::Kept, 0)), r#"{"a": 0, "b": 0}"#);
}

#[test]
fn the_same_seed_gives_the_same_image() {
    let (disk, file) = disk_of_ones(4096);
    file.write_at(&[2; 4096], 2048).unwrap();
    assert!(images(&disk) == images(&disk));
    let distinct: BTreeSet<_> = images(&disk).iter().map(|image| image.get("a").unwrap().to_vec()).collect();
    assert!(distinct.len() > 500, "{} of 1000 differ", distinct.len());
}

/// An image costs what is not durable, not what was ever done: files at rest are shared, not copied.
#[test]
fn building_an_image_copies_only_files_with_unsynced_bytes() {
    let disk = SimDisk::from_image(Image::from_iter([("big", vec![1; 1 << 20])]));
    let file = disk.create("log").unwrap();
    for sector in 0..100 {
        file.write_at(&[3; SECTOR], sector * SECTOR as u64).unwrap();
        file.sync().unwrap();
    }
    disk.sync_names().unwrap();
    file.write_at(&[4; 4 * SECTOR], 100 * SECTOR as u64).unwrap();
    let trace = disk.trace();
    let replay = replayed(&trace);
    let started = Instant::now();
    for seed in 0..1000 {
        let image = replay.image(seed);
        assert!(Arc::ptr_eq(&image.files["big"], &trace.base.files["big"]));
    }
    eprintln!("{:?} per image of a trace of {} steps", started.elapsed() / 1000, trace.steps().len());
}
