//! Decay: each damage does what it says to one place and nothing to the others.

use crate::sim::{Image, Rot};

fn image() -> Image {
    let a: Vec<u8> = (0..1300).map(|at| (at / 512 + 1) as u8).collect();
    Image::from_iter([("a", a), ("b", vec![9; 10])])
}

#[track_caller]
fn check(rot: Rot, a: impl IntoIterator<Item = (usize, u8)>) {
    let wanted: Vec<u8> = a.into_iter().flat_map(|(times, byte)| vec![byte; times]).collect();
    let rotten = image().rotten(&rot);
    assert_eq!(rotten.get("a").unwrap(), wanted, "{rot:?}");
    assert_eq!(rotten.get("b"), image().get("b"), "{rot:?}");
}

#[test]
fn each_damage_does_what_it_says() {
    let (name, size) = (String::from("a"), 512);
    check(Rot::Flip { name: name.clone(), at: 1, bit: 7 }, [(1, 1), (1, 129), (510, 1), (512, 2), (276, 3)]);
    check(Rot::Zero { name: name.clone(), size, block: 2 }, [(512, 1), (512, 2), (276, 0)]);
    let duplicate = Rot::Duplicate { name: name.clone(), size, from: 2, to: 0 };
    check(duplicate, [(276, 3), (236, 1), (512, 2), (276, 3)]);
    let swap = Rot::Swap { name: name.clone(), size, a: 0, b: 2 };
    check(swap, [(276, 3), (236, 1), (512, 2), (276, 1)]);
    check(Rot::Truncate { name: name.clone(), len: 600 }, [(512, 1), (88, 2)]);

    assert_eq!(format!("{:?}", image().rotten(&Rot::Lose { name })), r#"{"b": 10}"#);
    let exchanged = image().rotten(&Rot::Exchange { a: "a".into(), b: "b".into() });
    assert_eq!((exchanged.get("a"), exchanged.get("b")), (image().get("b"), image().get("a")));
    let itself = Rot::Exchange { a: "a".into(), b: "a".into() };
    assert!(image().rotten(&itself) == image());
}

#[test]
fn every_byte_and_block_and_file_has_its_turn() {
    let image = image();
    assert_eq!(image.positions().count(), 1310);
    for (name, at) in image.positions() {
        let flipped = image.rotten(&Rot::Flip { name: name.to_owned(), at, bit: 0 });
        let changed =
            |(name, at): &(&str, usize)| image.get(name).unwrap()[*at] != flipped.get(name).unwrap()[*at];
        assert_eq!(image.positions().filter(changed).collect::<Vec<_>>(), [(name, at)]);
    }
    // Four blocks zeroed, and three things done to each of the two pairs of neighbours.
    let of_blocks: Vec<_> = Rot::of_blocks(&image, 512).collect();
    assert_eq!(of_blocks.len(), 4 + 2 * 3);
    assert!(of_blocks.iter().all(|rot| image.rotten(rot) != image));
    // Each file lost, cut to 0, 512 and 1024 or to 0, and the two exchanged.
    let of_files: Vec<_> = Rot::of_files(&image, 512).collect();
    assert_eq!(of_files.len(), 2 + 3 + 1 + 1);
    assert!(of_files.iter().all(|rot| image.rotten(rot) != image));
}

#[test]
fn random_damage_is_of_all_kinds_and_never_out_of_bounds() {
    let image = image();
    let kind = |rot: Rot| {
        image.rotten(&rot);
        format!("{rot:?}").split(' ').next().map(String::from)
    };
    let kinds: std::collections::BTreeSet<_> =
        (0..1000).map(|seed| Rot::any(&image, seed).unwrap()).filter_map(kind).collect();
    assert_eq!(kinds.len(), 7, "{kinds:?}");
    assert_eq!(Rot::any(&Image::from_iter([("empty", Vec::new())]), 0), None);
}
