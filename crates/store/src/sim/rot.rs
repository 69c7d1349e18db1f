//! Decay: what happens to a disk at rest. Each damage is a value, so that a failed test can print it.

use fastrand::Rng;

use super::Image;

/// One damage to an image. Blocks are counted in their own size from the start of the file; the last block of a
/// file may be a short one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rot {
    /// A bit is the other way round.
    Flip {
        /// In which file.
        name: String,
        /// In which byte.
        at: usize,
        /// Which bit of it, below 8.
        bit: u8,
    },
    /// A block reads as zeros.
    Zero {
        /// In which file.
        name: String,
        /// How long a block is.
        size: usize,
        /// Which block.
        block: usize,
    },
    /// A block was written over another one, too.
    Duplicate {
        /// In which file.
        name: String,
        /// How long a block is.
        size: usize,
        /// The block that is there twice.
        from: usize,
        /// The block that is gone.
        to: usize,
    },
    /// Two blocks changed places.
    Swap {
        /// In which file.
        name: String,
        /// How long a block is.
        size: usize,
        /// One block.
        a: usize,
        /// The other block.
        b: usize,
    },
    /// A file lost its end.
    Truncate {
        /// Which file.
        name: String,
        /// What is left.
        len: usize,
    },
    /// A file is gone.
    Lose {
        /// Which file.
        name: String,
    },
    /// Two files changed names.
    Exchange {
        /// One file.
        a: String,
        /// The other file.
        b: String,
    },
}

impl Rot {
    /// All damages to single blocks of `size` bytes: zeroed, written over the next, changed places with the
    /// next.
    pub(crate) fn of_blocks(image: &Image, size: usize) -> impl Iterator<Item = Rot> {
        image.iter().flat_map(move |(name, bytes)| {
            let n_blocks = bytes.len().div_ceil(size);
            (0..n_blocks).flat_map(move |block| {
                let zero = Rot::Zero { name: name.to_owned(), size, block };
                let next = (block + 1 < n_blocks).then(|| {
                    let (name, other) = (name.to_owned(), block + 1);
                    [
                        Rot::Duplicate { name: name.clone(), size, from: block, to: other },
                        Rot::Duplicate { name: name.clone(), size, from: other, to: block },
                        Rot::Swap { name, size, a: block, b: other },
                    ]
                });
                [zero].into_iter().chain(next.into_iter().flatten())
            })
        })
    }

    /// All damages to whole files: lost, cut after every `step` bytes, each pair exchanged.
    pub(crate) fn of_files(image: &Image, step: usize) -> impl Iterator<Item = Rot> {
        image.iter().enumerate().flat_map(move |(idx, (name, bytes))| {
            let cuts = (0..bytes.len()).step_by(step);
            let others = image.iter().skip(idx + 1);
            [Rot::Lose { name: name.to_owned() }]
                .into_iter()
                .chain(cuts.map(|len| Rot::Truncate { name: name.to_owned(), len }))
                .chain(others.map(|(other, _)| Rot::Exchange { a: name.to_owned(), b: other.to_owned() }))
        })
    }

    /// Some damage to one of the files, none if all are empty. The same seed gives the same one.
    pub(crate) fn any(image: &Image, seed: u64) -> Option<Rot> {
        let mut rng = Rng::with_seed(seed);
        let files: Vec<_> = image.iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
        if files.is_empty() {
            return None;
        }
        let (name, bytes) = files[rng.usize(..files.len())];
        let name = name.to_owned();
        let size = if rng.bool() { 512 } else { 4096 };
        let n_blocks = bytes.len().div_ceil(size);
        let mut block = || rng.usize(..n_blocks);
        let (a, b) = (block(), block());
        Some(match rng.u8(..8) {
            0 => Rot::Zero { name, size, block: a },
            1 => Rot::Duplicate { name, size, from: a, to: b },
            2 => Rot::Swap { name, size, a, b },
            3 => Rot::Truncate { name, len: rng.usize(..bytes.len()) },
            4 => Rot::Lose { name },
            5 => Rot::Exchange { a: name, b: files[rng.usize(..files.len())].0.to_owned() },
            _ => Rot::Flip { name, at: rng.usize(..bytes.len()), bit: rng.u8(..8) },
        })
    }
}

impl Image {
    /// Every byte of every file: its file, and where it is there.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (&str, usize)> {
        self.iter().flat_map(|(name, bytes)| (0..bytes.len()).map(move |at| (name, at)))
    }

    /// This image, damaged. Equal to this one if the damage makes no difference, such as zeros for zeros.
    pub(crate) fn rotten(&self, rot: &Rot) -> Image {
        let mut image = self.clone();
        match rot {
            Rot::Flip { name, at, bit } => image.bytes_mut(name)[*at] ^= 1 << bit,
            Rot::Zero { name, size, block } => {
                let bytes = image.bytes_mut(name);
                let end = bytes.len().min((block + 1) * size);
                bytes[block * size..end].fill(0);
            }
            Rot::Duplicate { name, size, from, to } => {
                let bytes = image.bytes_mut(name);
                let n_bytes = shorter(bytes.len(), *size, *from, *to);
                bytes.copy_within(from * size..from * size + n_bytes, to * size);
            }
            Rot::Swap { name, size, a, b } => {
                let bytes = image.bytes_mut(name);
                for idx in 0..shorter(bytes.len(), *size, *a, *b) {
                    bytes.swap(a * size + idx, b * size + idx);
                }
            }
            Rot::Truncate { name, len } => image.bytes_mut(name).truncate(*len),
            Rot::Lose { name } => {
                image.files.remove(name);
            }
            Rot::Exchange { a, b } => {
                let [at_a, at_b] = [a, b].map(|name| image.files.remove(name));
                image.files.extend(at_b.map(|bytes| (a.clone(), bytes)));
                image.files.extend(at_a.map(|bytes| (b.clone(), bytes)));
            }
        }
        image
    }
}

/// How many bytes two blocks of a file of `len` bytes have in common, as the last may be a short one.
fn shorter(len: usize, size: usize, a: usize, b: usize) -> usize {
    size.min(len - a.max(b) * size)
}
