//! The disk while it runs: like a directory when all is well, and failing as told when it is not.

use std::{env, fs, io, process};

use crate::{
    Directory, Disk,
    sim::{CALLS, Call, Done, EIO, ENOSPC, Fault, Image, Mark, SimDisk},
};

/// Does a bit of everything and tells what came of it, errors included.
fn script(disk: &dyn Disk) -> io::Result<Vec<String>> {
    let mut seen = Vec::new();
    let a = disk.create("a")?;
    a.write_at(b"hello", 3)?;
    a.set_len(6)?;
    a.set_len(7)?;
    let mut buf = [9; 7];
    a.read_at(&mut buf, 0)?;
    seen.push(format!("{buf:?} {}", a.len()?));
    for offset in [1, 1 << 40] {
        seen.push(format!("{:?}", a.read_at(&mut buf, offset).map_err(|error| error.kind())));
    }
    a.sync()?;
    disk.create("b")?.write_at(b"other", 0)?;
    disk.rename("b", "a")?;
    disk.rename("a", "a")?;
    disk.sync_names()?;
    a.read_at(&mut buf, 0)?;
    seen.push(format!("{buf:?} still open, {} by name", disk.open("a")?.len()?));
    let cut = disk.open("a")?;
    let again = disk.create("a")?;
    seen.push(format!("{} {}", cut.is_empty()?, again.is_empty()?));
    seen.push(format!("{:?}", disk.open("b").map(|_| ()).map_err(|error| error.kind())));
    seen.push(format!("{:?}", disk.rename("b", "c").map_err(|error| error.kind())));
    seen.push(format!("{:?}", disk.remove("b").map_err(|error| error.kind())));
    disk.create("d")?;
    disk.remove("a")?;
    seen.push(format!("{:?}", disk.list()?));
    Ok(seen)
}

#[test]
fn it_behaves_as_a_directory_does() {
    let path = env::temp_dir().join(format!("windlass-sim-{}", process::id()));
    let real = script(&Directory::open(&path).unwrap());
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(script(&SimDisk::default()).unwrap(), real.unwrap());
}

#[test]
fn the_trace_has_changes_and_marks_in_order_and_no_reads() {
    let disk = SimDisk::from_image(Image::from_iter([("a", vec![1, 2])]));
    disk.mark(Mark::Asked(7));
    let file = disk.open("a").unwrap();
    file.write_at(&[3], 2).unwrap();
    file.read_at(&mut [0; 3], 0).unwrap();
    file.sync().unwrap();
    disk.mark(Mark::Acked(7));
    let trace = disk.trace();
    let told: Vec<_> = trace.steps().iter().map(|step| format!("{step:?}")).collect();
    assert_eq!(told, ["Mark(Asked(7))", "Edit(FileId(0), Write(2..3))", "Sync(FileId(0))", "Mark(Acked(7))"]);
    assert_eq!(disk.image().get("a"), Some([1, 2, 3].as_slice()));
    assert_eq!(format!("{:?}", trace.base), r#"{"a": 2}"#);
}

#[test]
fn every_call_can_be_made_to_fail() {
    for spared in 0.. {
        let disk = SimDisk::default();
        disk.inject(Fault::once(spared, EIO).among(CALLS));
        let ended = script(&disk);
        if !disk.fault_fired() {
            assert!(spared > 20, "the script makes {spared} calls");
            break;
        }
        // The script catches five errors that it expects and tells of them; all others end it.
        let told = ended.unwrap_or_else(|error| vec![error.to_string()]).concat();
        assert!(told.contains("os error 5") || told.contains("Uncategorized"), "call {spared}: {told}");
    }
}

#[test]
fn a_full_disk_takes_part_of_a_write_until_there_is_room() {
    const GROWING: &[Call] = &[Call::Create, Call::Write, Call::SetLen];
    let disk = SimDisk::default();
    let file = disk.create("a").unwrap();
    disk.inject(Fault::lasting(1, ENOSPC).among(GROWING).having_done(Done::Part(50)));
    file.write_at(&[1; 10], 0).unwrap();
    for _ in 0..2 {
        assert_eq!(file.write_at(&[2; 10], 10).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
    assert_eq!(file.len().unwrap(), 15);
    assert_eq!(file.set_len(100).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.sync().unwrap();
    assert!(disk.create("b").is_err());
    assert_eq!(disk.list().unwrap(), ["a"]);
    disk.heal();
    assert_eq!(file.set_len(1 << 40).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    file.write_at(&[2; 10], 10).unwrap();
    assert_eq!(file.len().unwrap(), 20);
}

#[test]
fn a_call_can_do_everything_and_still_report_an_error() {
    let disk = SimDisk::from_image(Image::from_iter([("a", vec![1])]));
    disk.inject(Fault::once(0, EIO).having_done(Done::Everything));
    assert!(disk.rename("a", "b").is_err());
    assert_eq!(disk.list().unwrap(), ["b"]);
}
