//! Where a walk through an object stands: a chain on the stack, written out only when there is something to tell.

use std::fmt;

/// One place in an object.
pub(super) struct Place<'a> {
    up: Option<&'a Place<'a>>,
    step: Step<'a>,
}

enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
}

impl<'a> Place<'a> {
    pub(super) const ROOT: Place<'static> = Place { up: None, step: Step::Root };

    /// The place of a field, or of the value under a key of a map.
    pub(super) fn field(&'a self, name: &'a str) -> Place<'a> {
        Place { up: Some(self), step: Step::Field(name) }
    }

    /// The place of an entry of a list.
    pub(super) fn index(&'a self, index: usize) -> Place<'a> {
        Place { up: Some(self), step: Step::Index(index) }
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }
}

/// As in `spec.list[0].name`; the root is empty.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(up) = self.up else { return Ok(()) };
        up.fmt(f)?;
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) if up.is_root() => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}
