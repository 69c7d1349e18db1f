//! Text in columns, for people.

/// Lays out rows in columns; numbers (cells that begin with a digit) go to the right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |idx: usize| {
        let cells = rows.iter().map(|row| row[idx].chars().count());
        cells.chain([header[idx].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut lines =
        vec![line(&header.iter().map(ToString::to_string).collect::<Vec<_>>(), &widths, rows.first())];
    lines.extend(rows.iter().map(|row| line(row, &widths, Some(row))));
    lines.join("\n")
}

fn line(cells: &[String], widths: &[usize], like: Option<&Vec<String>>) -> String {
    let is_number =
        |idx: usize| like.is_some_and(|row| row[idx].starts_with(|first: char| first.is_ascii_digit()));
    let padded = cells.iter().zip(widths).enumerate().map(|(idx, (cell, &width))| match is_number(idx) {
        true => format!("{cell:>width$}"),
        false => format!("{cell:<width$}"),
    });
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// A number of bytes, as people say it.
pub(crate) fn human_bytes(n_bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n_bytes < 1024 {
        return format!("{n_bytes} B");
    }
    let mut amount = n_bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_right_and_words_left() {
        let rows = vec![vec!["log-1".into(), "12".into()], vec!["part-10".into(), "7".into()]];
        assert_eq!(table(&["FILE", "BYTES"], &rows), "FILE     BYTES\nlog-1       12\npart-10      7");
    }

    #[test]
    fn bytes_read_well() {
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(1536), "1.5 KiB");
        assert_eq!(human_bytes(3 << 40), "3.0 TiB");
    }
}
