//! The format on disk does not change by accident.

use std::sync::Arc;

use crate::{
    Change, Entry, Revision,
    engine::embedded::{
        frame::{Frame, FrameBuilder, FrameKind},
        header::{FileKind, StoreId},
    },
    seal::Sealer,
};

/// The frame of the worked example in docs/store-format.md.
fn example() -> (Vec<u8>, u64) {
    let store = StoreId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes());
    let seed = store.seed(FileKind::Segment, 1) ^ 512;
    let revision = Revision::new(2);
    let entry =
        |key: &str, at| Arc::new(Entry { key: key.into(), value: "v1".into(), revision: Revision::new(at) });
    let put = Change { key: "a".into(), revision, current: Some(entry("a", 2)), previous: None };
    let delete = Change { key: "b".into(), revision, current: None, previous: Some(entry("b", 1)) };
    let mut frame = FrameBuilder::default();
    frame.txns(&[Arc::new(put), Arc::new(delete)], &Sealer(None));
    let (bytes, _) = frame.finish(FrameKind::Txns, revision, 0, 0, seed);
    (bytes.to_vec(), seed)
}

#[test]
fn the_worked_example_in_the_document_is_what_is_written() {
    let (bytes, seed) = example();
    let frame = Frame::decode(&bytes, seed).expect("it was just written");
    assert_eq!((frame.kind, frame.len), (FrameKind::Txns, 512));
    let hex: Vec<String> = bytes[..64].iter().map(|byte| format!("{byte:02x}")).collect();
    let dump: Vec<String> = hex
        .chunks(16)
        .enumerate()
        .map(|(row, line)| format!("{:03x}  {}", 512 + row * 16, line.join(" ")))
        .collect();
    let document = include_str!("../../../../../../docs/store-format.md");
    assert!(document.contains(&dump.join("\n")), "docs/store-format.md should show:\n{}", dump.join("\n"));
}
