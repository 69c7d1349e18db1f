//! What becomes of lines when the disk is full, and when the log is closed.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A disk that can be full.
#[derive(Clone, Default)]
struct Disk {
    written: Arc<Mutex<Vec<u8>>>,
    is_full: Arc<AtomicBool>,
}

impl Out for Disk {
    fn put(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.lock().extend_from_slice(lines);
        Ok(())
    }

    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk {
    fn log(&self, mode: Mode) -> (Log, Counter) {
        let lost = Counter::default();
        (Log::over(Box::new(self.clone()), mode, lost.clone()).expect("a thread"), lost)
    }

    fn fill(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    fn text(&self) -> String {
        String::from_utf8(self.written.lock().clone()).expect("text")
    }
}

fn line(text: &str) -> Vec<u8> {
    format!("{text}\n").into_bytes()
}

#[tokio::test]
async fn closing_writes_what_is_left() {
    for mode in [Mode::Blocking, Mode::Batch, Mode::Strict] {
        let disk = Disk::default();
        let (log, lost) = disk.log(mode);
        for number in 0..1_000 {
            log.record_later(line(&number.to_string()));
        }
        log.close().await;
        let expected: String = (0..1_000).map(|number| format!("{number}\n")).collect();
        assert_eq!(disk.text(), expected, "{mode:?}");
        assert_eq!(lost.get(), 0);
        assert!(!log.record(line("late")).await || mode == Mode::Batch, "{mode:?}");
        assert_eq!(lost.get(), 1, "{mode:?}");
    }
}

#[tokio::test]
async fn a_full_disk_loses_lines_and_stops_nobody_unless_strict() {
    for mode in [Mode::Blocking, Mode::Batch] {
        let disk = Disk::default();
        let (log, lost) = disk.log(mode);
        disk.fill(true);
        log.announce(line("a")).await;
        log.record(line("b")).await;
        assert!(!log.is_behind().await, "{mode:?}");
        log.close().await;
        assert_eq!((disk.text().as_str(), lost.get()), ("", 2), "{mode:?}");
    }
}

#[tokio::test]
async fn in_strict_mode_what_was_done_is_kept_until_there_is_room() {
    let disk = Disk::default();
    let (log, lost) = disk.log(Mode::Strict);
    assert!(log.announce(line("begun")).await);
    disk.fill(true);
    assert!(!log.announce(line("refused")).await);
    assert!(!log.is_behind().await, "nothing has been done that is not written");
    log.record(line("done")).await;
    assert!(log.is_behind().await);
    assert!(!log.announce(line("refused too")).await);
    disk.fill(false);
    assert!(!log.is_behind().await);
    assert!(log.announce(line("next")).await);
    log.close().await;
    assert_eq!(disk.text(), "begun\ndone\nnext\n");
    assert_eq!(lost.get(), 2, "those that were refused");
}

#[tokio::test]
async fn what_waits_is_bounded() {
    let disk = Disk::default();
    let (log, lost) = disk.log(Mode::Batch);
    // Nobody can write while this is held.
    let held = disk.written.lock();
    for _ in 0..3 * MOST_LINES {
        log.record_later(line("x"));
    }
    let n_waiting = log.shared.queue.lock().entries.len();
    assert!(n_waiting <= MOST_LINES, "{n_waiting}");
    drop(held);
    log.close().await;
    let n_written = disk.text().lines().count() as u64;
    assert_eq!(n_written + lost.get(), 3 * MOST_LINES as u64);
    assert!(lost.get() >= MOST_LINES as u64, "{}", lost.get());
}
