//! What the command says on standard output: lines, tables, JSON.
//!
//! Architecture invariant: the only place that writes to standard output.

use std::io::{self, Write};
use std::net::SocketAddr;

use serde_json::Value;

use crate::exit::{Doing, Exit, Failure};

/// How a listing is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// Aligned columns for people.
    Table,
    /// One JSON document for programs.
    Json,
}

impl Form {
    /// What `--json` chooses.
    pub(crate) const fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Table }
    }
}

/// Writes one line and flushes it, so that a reader behind a pipe sees it at once.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).doing(Exit::Other, "write to standard output")
}

/// Says where the Admin API is, if it is served.
pub(crate) fn api(address: Option<SocketAddr>) -> Result<(), Failure> {
    address.map_or(Ok(()), |address| line(&format!("admin API: http://{address}")))
}

/// Writes one JSON document on one line.
pub(crate) fn json(value: &Value) -> Result<(), Failure> {
    line(&value.to_string())
}

/// Writes rows under a heading, each column as wide as its widest cell.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    line(&layout(heading, rows))
}

fn layout(heading: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = heading.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let heading: Vec<String> = heading.iter().map(|cell| (*cell).to_owned()).collect();
    let lines = std::iter::once(&heading).chain(rows).map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A tenant's name or the like as one safe line: control characters, which could steer a terminal, become U+FFFD.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".to_owned(), "long cell".to_owned()], vec!["longer".to_owned(), "b".to_owned()]];
        assert_eq!(layout(&["ID", "NAME"], &rows), "ID      NAME\na       long cell\nlonger  b");
    }

    #[test]
    fn no_escape_reaches_a_terminal() {
        assert_eq!(printable("a\u{1b}[2J\nb"), "a\u{fffd}[2J\u{fffd}b");
    }
}
