//! A log of a few lines under power cuts, right and with bugs planted: the harness must tell them apart.
//!
//! This is also the pattern for testing the engine: run, replay, and at each point of the trace open many images
//! and compare with what was asked for and acknowledged; then cut the power again while the image is opened.

use std::io;

use xxhash_rust::xxh3::xxh3_64;

use crate::{
    Disk, DiskFile,
    sim::{Call, EIO, Fault, Mark, Replay, SECTOR, SimDisk},
};

const NAME: &str = "log";

/// What is wrong with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    AckBeforeSync,
    NameNotSynced,
    NoChecksum,
    SectorShared,
    RetryAfterFailedSync,
}

/// A log of numbers, each in a record of its own.
struct ToyLog {
    file: Box<dyn DiskFile>,
    numbers: Vec<u64>,
    bug: Bug,
}

impl ToyLog {
    fn open(disk: &SimDisk, bug: Bug) -> io::Result<Self> {
        let file = if disk.list()?.is_empty() {
            let file = disk.create(NAME)?;
            if bug != Bug::NameNotSynced {
                disk.sync_names()?;
            }
            file
        } else {
            disk.open(NAME)?
        };
        let mut log = ToyLog { file, numbers: Vec::new(), bug };
        while let Some(number) = log.read()? {
            log.numbers.push(number);
        }
        // What lies behind the last good record may be half of a bad one; it must be gone before the next.
        log.file.set_len(log.end())?;
        log.file.sync()?;
        Ok(log)
    }

    fn record_len(&self) -> usize {
        if self.bug == Bug::SectorShared { 16 } else { SECTOR }
    }

    fn end(&self) -> u64 {
        (self.numbers.len() * self.record_len()) as u64
    }

    /// The number behind the last one read, if a good record is there.
    fn read(&self) -> io::Result<Option<u64>> {
        let mut record = [0; 16];
        if self.file.len()? < self.end() + 16 {
            return Ok(None);
        }
        self.file.read_at(&mut record, self.end())?;
        let (number, sum) = record.split_at(8);
        let number = u64::from_le_bytes(number.try_into().expect("eight bytes"));
        let wanted = self.numbers.last().map_or(1, |last| last + 1);
        let is_good = match self.bug {
            Bug::NoChecksum => number != 0,
            _ => sum == self.sum(number).to_le_bytes() && number == wanted,
        };
        Ok(is_good.then_some(number))
    }

    fn sum(&self, number: u64) -> u64 {
        xxh3_64(&number.to_le_bytes())
    }

    fn append(&mut self, number: u64) -> io::Result<()> {
        let mut record = number.to_le_bytes().to_vec();
        record.extend(self.sum(number).to_le_bytes());
        record.resize(self.record_len(), 0);
        self.file.write_at(&record, self.end())?;
        let is_due = self.bug != Bug::AckBeforeSync || number.is_multiple_of(3);
        if is_due && self.file.sync().is_err() {
            if self.bug != Bug::RetryAfterFailedSync {
                return Err(io::Error::from_raw_os_error(EIO));
            }
            self.file.sync()?;
        }
        self.numbers.push(number);
        Ok(())
    }
}

/// Appends a few numbers and marks what was asked for and acknowledged.
fn run(disk: &SimDisk, bug: Bug) -> io::Result<()> {
    let mut log = ToyLog::open(disk, bug)?;
    let first = log.numbers.len() as u64 + 1;
    for number in first..first + 5 {
        disk.mark(Mark::Asked(number));
        log.append(number)?;
        disk.mark(Mark::Acked(number));
    }
    Ok(())
}

/// Cuts the power everywhere in what was done to `disk`, and again while the image is opened, `depth` deep.
/// `acked` were acknowledged before, up to `asked` may be there.
fn cut(disk: &SimDisk, bug: Bug, acked: u64, asked: u64, depth: u32) -> Result<(), String> {
    let trace = disk.trace();
    let mut replay = Replay::new(&trace);
    loop {
        let acked = replay.acked().last().map_or(acked, |last| *last);
        let asked = replay.asked().last().map_or(asked, |last| *last);
        for seed in 0..if replay.is_settled() { 1 } else { 30 } {
            let disk = SimDisk::from_image(replay.image(seed));
            let found = ToyLog::open(&disk, bug).map_err(|error| error.to_string())?.numbers;
            let n_found = found.len() as u64;
            if !(acked..=asked).contains(&n_found) || !found.iter().copied().eq(1..=n_found) {
                let at = replay.at();
                return Err(format!("{acked} acked, {asked} asked, {found:?} found: step {at}, seed {seed}"));
            }
            if depth > 0 {
                // What was found counts as acknowledged from where it could be read, after recovery.
                disk.mark(Mark::Acked(n_found));
                cut(&disk, bug, acked, n_found, depth - 1)?;
            }
        }
        if replay.step().is_none() {
            return Ok(());
        }
    }
}

#[test]
fn a_careful_log_survives_cuts_and_cuts_while_it_recovers() {
    let disk = SimDisk::default();
    run(&disk, Bug::None).unwrap();
    assert_eq!(cut(&disk, Bug::None, 0, 0, 2), Ok(()));
    assert_eq!(ToyLog::open(&SimDisk::from_image(disk.image()), Bug::None).unwrap().numbers, [1, 2, 3, 4, 5]);
}

#[test]
fn a_careful_log_survives_errors_followed_by_cuts() {
    for spared in 0.. {
        let disk = SimDisk::default();
        disk.inject(Fault::once(spared, EIO));
        let ended = run(&disk, Bug::None);
        assert_eq!(cut(&disk, Bug::None, 0, 0, 0), Ok(()), "call {spared}");
        assert_eq!(ended.is_err(), disk.fault_fired());
        if ended.is_ok() {
            break;
        }
    }
}

#[test]
fn planted_bugs_are_found() {
    for bug in [Bug::AckBeforeSync, Bug::NameNotSynced, Bug::NoChecksum, Bug::SectorShared] {
        let disk = SimDisk::default();
        run(&disk, bug).unwrap();
        let found = cut(&disk, bug, 0, 0, 0);
        assert!(found.is_err(), "{bug:?}");
    }
}

#[test]
fn trusting_a_sync_after_one_that_failed_is_found() {
    let bug = Bug::RetryAfterFailedSync;
    let disk = SimDisk::default();
    disk.inject(Fault::once(2, EIO).among(&[Call::Sync]));
    run(&disk, bug).unwrap();
    assert!(cut(&disk, bug, 0, 0, 0).is_err());
}
