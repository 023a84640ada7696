//! Parts of budgets in a book: given, and forgotten with their line.

use crate::ledger::book::{Book, Sum, Tally, Told};
use crate::ledger::line::Line;
use crate::ledger::part::Part;

impl Book {
    /// The sum of a line in this window, if there is one.
    pub(crate) fn held(&self, line: &Line, start: u64) -> Option<Sum> {
        self.lines.get(line)?.sums.iter().find(|sum| sum.start == start).copied()
    }

    /// Sets what is held of a line in a window, and what is spent of that; what is reserved counts on.
    pub(crate) fn share(&mut self, line: &Line, start: u64, part: Part, spent: u64) {
        let fresh = Tally { era: self.era, sums: Vec::new() };
        let tally = self.lines.entry(line.clone()).or_insert(fresh);
        let before = tally.sums.len();
        match tally.sums.iter_mut().find(|sum| sum.start == start) {
            Some(sum) => sum.share(part, spent),
            None => {
                let mut sum = Sum { start, ..Sum::default() };
                sum.share(part, spent);
                tally.put(sum);
            }
        }
        self.sums = self.sums.saturating_sub(before).saturating_add(tally.sums.len());
    }

    /// Forgets what was counted of a line in a window and what is held of it; what is reserved stays so.
    pub(crate) fn forget(&mut self, line: &Line, start: u64) {
        let Some(tally) = self.lines.get_mut(line) else { return };
        let before = tally.sums.len();
        tally.sums.retain(|sum| sum.start != start || sum.holders > 0);
        if let Some(sum) = tally.sums.iter_mut().find(|sum| sum.start == start) {
            (sum.spent, sum.part, sum.told) = (0, Part::NONE, Told::default());
        }
        self.sums = self.sums.saturating_sub(before).saturating_add(tally.sums.len());
        if tally.sums.is_empty() {
            self.lines.remove(line);
        }
    }
}

impl Sum {
    fn share(&mut self, part: Part, spent: u64) {
        if self.part.epoch != part.epoch {
            self.told = Told::default();
        }
        (self.part, self.spent) = (part, spent);
    }
}
