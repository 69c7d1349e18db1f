//! What was found: a table for each part, and at the end every goal with its verdict. As text and as markdown.

use std::{fmt::Write, fs, io::ErrorKind, path::Path};

use anyhow::Context;

use crate::machine::Machine;

/// Characters of a line on a terminal.
const LINE: usize = 100;

/// What a number should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn text(self, unit: &str) -> String {
        match self {
            Goal::AtLeast(bound) => format!("≥ {bound}{unit}"),
            Goal::AtMost(bound) => format!("≤ {bound}{unit}"),
        }
    }

    /// How far `measured` is on the wrong side, as a share of the bound; not positive when the goal is met.
    fn excess(self, measured: f64) -> f64 {
        match self {
            Goal::AtLeast(bound) => (bound - measured) / bound,
            Goal::AtMost(bound) => (measured - bound) / bound.max(f64::MIN_POSITIVE),
        }
    }
}

/// A goal and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// What is judged.
    pub(crate) what: String,
    /// What we do.
    pub(crate) ours: String,
    /// What it is held against.
    pub(crate) yardstick: String,
    /// The number judged: a quotient, unless the unit says otherwise.
    pub(crate) measured: f64,
    /// Printed after `measured` and the bound.
    pub(crate) unit: &'static str,
    pub(crate) goal: Goal,
}

impl Outcome {
    fn verdict(&self) -> String {
        match self.goal.excess(self.measured) {
            excess if excess <= 0.0 => "met".into(),
            excess => format!("missed by {:.0} %", (excess * 100.0).max(1.0)),
        }
    }

    fn cells(&self) -> Vec<String> {
        let Outcome { what, ours, yardstick, measured, unit, goal } = self;
        vec![
            what.clone(),
            ours.clone(),
            yardstick.clone(),
            format!("{measured:.2}{unit}"),
            goal.text(unit),
            self.verdict(),
        ]
    }
}

/// Rows under headings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[&'static str]) -> Self {
        Table { columns: columns.to_vec(), rows: vec![] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Aligned columns: the first to the left, the others to the right.
    fn text(&self) -> String {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let headings = self.columns.iter().map(|column| (*column).to_owned()).collect();
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            for (idx, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let _ = match idx {
                    0 => write!(text, "  {cell:<width$}"),
                    _ => write!(text, "  {cell:>width$}"),
                };
            }
            text.push('\n');
        }
        text
    }

    fn markdown(&self) -> String {
        let rule = self.columns.iter().enumerate().map(|(idx, _)| if idx == 0 { "---" } else { "--:" });
        let mut text =
            format!("| {} |\n|{}|\n", self.columns.join(" | "), rule.collect::<Vec<_>>().join("|"));
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

/// What one part of the benchmark found.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) tables: Vec<Table>,
    /// What one must know to read the tables.
    pub(crate) notes: Vec<String>,
    pub(crate) outcomes: Vec<Outcome>,
    /// What, ours, and what someone reports of kube-apiserver: for the documentation only.
    pub(crate) reported: Vec<[String; 3]>,
}

impl Section {
    pub(crate) fn new(title: &'static str) -> Self {
        Section { title, tables: vec![], notes: vec![], outcomes: vec![], reported: vec![] }
    }

    pub(crate) fn text(&self) -> String {
        let tables: Vec<String> = self.tables.iter().map(Table::text).collect();
        let mut text = format!("{}\n{}", self.title, tables.join("\n"));
        for note in &self.notes {
            text.push_str(&wrapped(note));
        }
        text
    }

    fn markdown(&self) -> String {
        let mut text = format!("### {}\n\n", self.title);
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        for table in &self.tables {
            let _ = write!(text, "\n{}", table.markdown());
        }
        text
    }
}

/// The words of `note` in lines that fit a terminal.
fn wrapped(note: &str) -> String {
    let mut text = String::new();
    let mut width = LINE;
    for word in note.split(' ') {
        if width + 1 + word.chars().count() > LINE {
            text.push_str(if text.is_empty() { " " } else { "\n " });
            width = 1;
        }
        text.push(' ');
        text.push_str(word);
        width += 1 + word.chars().count();
    }
    text + "\n"
}

/// Every goal of every section, with its verdict.
fn goals(sections: &[Section]) -> Table {
    let mut table = Table::new(&["goal", "ours", "yardstick", "measured", "wanted", "verdict"]);
    for outcome in sections.iter().flat_map(|section| &section.outcomes) {
        table.row(outcome.cells());
    }
    table
}

/// The goals, for the terminal.
pub(crate) fn summary(sections: &[Section]) -> String {
    format!("Goals\n{}", goals(sections).text())
}

/// Everything, for the documentation.
pub(crate) fn markdown(title: &str, machine: &Machine, sections: &[Section]) -> String {
    let mut parts: Vec<String> = sections.iter().map(Section::markdown).collect();
    parts.extend(orientation(sections));
    let goals = goals(sections).markdown();
    format!("## {title}\n\n{}\n### Goals\n\n{goals}\n{}", machine.markdown(), parts.join("\n"))
}

/// What is reported of others, beside ours. They were not measured here, so nothing is judged by it.
fn orientation(sections: &[Section]) -> Option<String> {
    let mut table = Table::new(&["what", "ours", "kube-apiserver 1.37 + etcd 3.7 (reported)"]);
    let rows: Vec<_> = sections.iter().flat_map(|section| section.reported.clone()).collect();
    if rows.is_empty() {
        return None;
    }
    rows.into_iter().for_each(|row| table.row(row));
    let note = "The last column was not measured in this run: it is what is reported for a quiet machine of two \
                cores with the load beside it.";
    Some(format!("### For orientation\n\n{note}\n\n{}", table.markdown()))
}

/// Writes `text` to `file` in place of what the benchmark of this name wrote before, and leaves the rest alone.
pub(crate) fn write(file: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let before = match fs::read_to_string(file) {
        Ok(before) => before,
        Err(error) if error.kind() == ErrorKind::NotFound => "# Benchmarks\n".to_owned(),
        Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
    };
    fs::write(file, replaced(&before, name, text)).with_context(|| format!("writing {}", file.display()))
}

fn replaced(before: &str, name: &str, text: &str) -> String {
    let [begin, end] = ["begin", "end"].map(|edge| format!("<!-- windlass-bench {name}: {edge} -->\n"));
    let text = format!("{begin}{text}{end}");
    let found = before.split_once(&begin).and_then(|(head, rest)| Some((head, rest.split_once(&end)?.1)));
    match found {
        Some((head, tail)) => format!("{head}{text}{tail}"),
        None => format!("{before}\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(measured: f64, goal: Goal) -> Outcome {
        let (what, ours, yardstick) = ("writes".into(), "6".into(), "10".into());
        Outcome { what, ours, yardstick, measured, unit: " ×", goal }
    }

    #[test]
    fn a_verdict_says_how_far_off_it_is() {
        assert_eq!(outcome(0.6, Goal::AtLeast(0.6)).verdict(), "met");
        assert_eq!(outcome(0.3, Goal::AtLeast(0.6)).verdict(), "missed by 50 %");
        assert_eq!(outcome(1.5, Goal::AtMost(1.5)).verdict(), "met");
        assert_eq!(outcome(3.0, Goal::AtMost(1.5)).verdict(), "missed by 100 %");
    }

    #[test]
    fn notes_fit_a_terminal() {
        let note = ["word"; 50].join(" ");
        let text = wrapped(&note);
        assert!(text.lines().all(|line| line.len() <= LINE && line.starts_with("  word")), "{text}");
        assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), note);
    }

    #[test]
    fn a_table_reads_the_same_in_both_forms() {
        let mut table = Table::new(&["writers", "µs"]);
        table.row(["1".into(), "68".into()]);
        assert_eq!(table.text(), "  writers  µs\n  1        68\n");
        assert_eq!(table.markdown(), "| writers | µs |\n|---|--:|\n| 1 | 68 |\n");
    }

    #[test]
    fn results_take_the_place_of_earlier_ones_and_of_nothing_else() {
        let one = replaced("# Benchmarks\n", "store", "first\n");
        let two = replaced(&one, "apiserver", "other\n") + "\nBy hand.\n";
        let three = replaced(&two, "store", "second\n");
        assert_eq!(three, two.replace("first", "second"));
        assert!(three.contains("other\n") && three.ends_with("By hand.\n"), "{three}");
    }
}
