//! A tenant's sums and open reservations. Whatever changes them passes here: the request that is served, the
//! writer's image, and replay after a crash.
//!
//! Architecture invariant: knows no limit, no file and no clock; a change is done whole or not at all.

use std::collections::BTreeMap;

use crate::fault::{Fault, seeded};
use crate::ledger::budget::{BudgetKind, Payer, Period, asked, spent};
use crate::ledger::calendar::window;
use crate::ledger::line::{Binds, Line};
use crate::ledger::part::Part;
use crate::ledger::price::{Pricing, Used, WorstCase};
use crate::level::ModelName;
use crate::time::UnixMillis;

mod part;

/// Windows of a line that are kept, those used last, beside any with an open reservation. A clock that is never
/// behind its latest time by more than a window finds what it had counted: of the windows that were used since
/// the one it is in now, there are at most two, the one before and the one after. One that goes back further
/// counts that window from zero.
pub(crate) const WINDOWS_KEPT: usize = 3;
/// New months after which a line by day or month is forgotten that nobody used since. A month is new that is not
/// among the last [`WINDOWS_KEPT`] that were used: a clock that jumps away and back makes one, and one that
/// swings about the end of a month makes one.
pub(crate) const MONTHS_KEPT: u32 = 3;

/// A request that is reserved and not settled.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Open {
    /// When it was made: it belongs to the windows and the hour of this moment.
    pub(crate) made: UnixMillis,
    pub(crate) payer: Payer,
    pub(crate) model: ModelName,
    /// As it was when the reservation was made.
    pub(crate) pricing: Pricing,
    pub(crate) binds: Binds,
    pub(crate) worst: WorstCase,
    /// The last progress mark.
    pub(crate) used: Used,
}

/// What is spent and reserved of a line in one window.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Sum {
    /// First day of the window.
    pub(crate) start: u64,
    pub(crate) spent: u64,
    pub(crate) reserved: u64,
    /// Open reservations that it counts.
    pub(crate) holders: u32,
    pub(crate) told: Told,
    /// What the store has given this gateway of the budget.
    pub(crate) part: Part,
}

impl Sum {
    /// What is spent and reserved here.
    pub(crate) const fn used(&self) -> u64 {
        self.spent.saturating_add(self.reserved)
    }

    /// What is spent here and, as far as is known, elsewhere.
    pub(crate) const fn total(&self) -> u64 {
        self.spent.saturating_add(self.part.spent_elsewhere)
    }
}

/// What has been told of a sum, for its hard and for its soft budget.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Told {
    pub(crate) hard: Highest,
    pub(crate) soft: Highest,
}

/// The highest threshold that was told, of a limit; 0 % where none was.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Highest {
    pub(crate) limit: u64,
    pub(crate) percent: u8,
}

impl Told {
    pub(crate) fn of(&mut self, kind: BudgetKind) -> &mut Highest {
        match kind {
            BudgetKind::Hard => &mut self.hard,
            BudgetKind::Soft => &mut self.soft,
        }
    }
}

/// A change that does not fit the books. A fault of ours, or a journal that is not what was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unfit {
    /// A reservation has a number that another has.
    #[error("two reservations have one number")]
    SameNumber,
    /// No open reservation has this number.
    #[error("no open reservation has this number")]
    NoSuchReservation,
    /// More is used than was reserved.
    #[error("more is used than was reserved")]
    BeyondWorst,
    /// A sum would be 2^64 or more.
    #[error("a sum would not fit into 64 bits")]
    TooLarge,
    /// An open reservation has no sum.
    #[error("a reservation has no sum")]
    NoSum,
    /// A sum is stated twice.
    #[error("a sum is stated twice")]
    SumTwice,
    /// A batch of usage is taken while another is out, or out of turn.
    #[error("a batch of usage is taken or confirmed out of turn")]
    Batch,
}

/// The sums of one line, the one used last at the end.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    era: u32,
    sums: Vec<Sum>,
}

/// A tenant's sums and open reservations.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Book {
    /// First days of the months in which reservations were made, the last one at the end.
    months: [u64; WINDOWS_KEPT],
    /// New months that there were.
    era: u32,
    lines: BTreeMap<Line, Tally>,
    open: BTreeMap<u64, Open>,
    sums: usize,
}

impl Book {
    /// What is spent and reserved of `line` in the window that `at` lies in; zeros where nothing is.
    pub(crate) fn sum(&self, line: &Line, at: UnixMillis) -> Sum {
        let start = window(line.period, at);
        let sums = self.lines.get(line).map_or(&[][..], |tally| &tally.sums);
        sums.iter().find(|sum| sum.start == start).copied().unwrap_or(Sum { start, ..Sum::default() })
    }

    /// Sums that it holds.
    pub(crate) const fn sums(&self) -> usize {
        self.sums
    }

    /// Sums that it would hold in addition for `open`.
    pub(crate) fn sums_missing(&self, open: &Open) -> usize {
        let is_missing = |line: &Line| {
            let start = window(line.period, open.made);
            self.lines.get(line).is_none_or(|tally| tally.sums.iter().all(|sum| sum.start != start))
        };
        open.binds.lines(open.payer, &open.model).filter(is_missing).count()
    }

    /// Whether every sum of `open` has room for it in 64 bits.
    pub(crate) fn check(&self, open: &Open) -> Result<(), Unfit> {
        for line in open.binds.lines(open.payer, &open.model) {
            let sum = self.sum(&line, open.made);
            let asked = asked(line.unit, open.worst, open.pricing);
            let held = sum.spent.checked_add(sum.reserved).and_then(|held| held.checked_add(asked));
            held.ok_or(Unfit::TooLarge)?;
        }
        Ok(())
    }

    /// Reserves.
    pub(crate) fn reserve(&mut self, id: u64, open: Open) -> Result<(), Unfit> {
        if self.open.contains_key(&id) {
            return Err(Unfit::SameNumber);
        }
        self.check(&open)?;
        self.turn(window(Period::Month, open.made));
        for line in open.binds.lines(open.payer, &open.model) {
            let asked = asked(line.unit, open.worst, open.pricing);
            let start = window(line.period, open.made);
            let tally = self.lines.entry(line).or_default();
            tally.era = self.era;
            let before = tally.sums.len();
            let mut sum = tally.take(start);
            sum.reserved = sum.reserved.saturating_add(asked);
            sum.holders = sum.holders.saturating_add(1);
            tally.put(sum);
            self.sums = self.sums.saturating_sub(before).saturating_add(tally.sums.len());
        }
        self.open.insert(id, open);
        Ok(())
    }

    /// Notes what a reservation has used so far.
    pub(crate) fn mark(&mut self, id: u64, used: Used) -> Result<(), Unfit> {
        let open = self.open.get_mut(&id).ok_or(Unfit::NoSuchReservation)?;
        if used.within(open.worst) != used {
            return Err(Unfit::BeyondWorst);
        }
        open.used = used;
        Ok(())
    }

    /// Ends a reservation: `used` is spent, the rest is free again. Returns what was open.
    pub(crate) fn settle(&mut self, id: u64, used: Used) -> Result<Open, Unfit> {
        let open = self.open.get(&id).ok_or(Unfit::NoSuchReservation)?;
        if used.within(open.worst) != used {
            return Err(Unfit::BeyondWorst);
        }
        let open = self.open.remove(&id).ok_or(Unfit::NoSuchReservation)?;
        for line in open.binds.lines(open.payer, &open.model) {
            let held = asked(line.unit, open.worst, open.pricing);
            let held = if seeded(Fault::RefundTwice) { held.saturating_mul(2) } else { held };
            let start = window(line.period, open.made);
            let sums = self.lines.get_mut(&line).map(|tally| &mut tally.sums).ok_or(Unfit::NoSum)?;
            let sum = if seeded(Fault::SettledLate) {
                sums.last_mut()
            } else {
                sums.iter_mut().find(|sum| sum.start == start)
            };
            let sum = sum.ok_or(Unfit::NoSum)?;
            sum.reserved = sum.reserved.saturating_sub(held);
            sum.holders = sum.holders.saturating_sub(1);
            sum.spent = sum.spent.saturating_add(spent(line.unit, used, open.pricing));
        }
        Ok(open)
    }

    /// Notes what has been told of a sum that there is.
    pub(crate) fn tell(&mut self, line: &Line, start: u64, kind: BudgetKind, highest: Highest) {
        let sums = self.lines.get_mut(line).map(|tally| &mut tally.sums);
        if let Some(sum) = sums.into_iter().flatten().find(|sum| sum.start == start) {
            *sum.told.of(kind) = highest;
        }
    }

    /// The reservations that are open.
    pub(crate) const fn open(&self) -> &BTreeMap<u64, Open> {
        &self.open
    }

    /// Forgets lines that nobody used for long, when a month is new.
    fn turn(&mut self, month: u64) {
        let [first, second, last] = self.months;
        if month == last {
            return;
        }
        if month == second {
            self.months = [first, last, month];
            return;
        }
        self.months = [second, last, month];
        if month == first {
            return;
        }
        self.era = self.era.saturating_add(1);
        let era = self.era;
        self.lines.retain(|line, tally| {
            let is_fresh = era.saturating_sub(tally.era) < MONTHS_KEPT;
            is_fresh || line.period == Period::Total || tally.sums.iter().any(|sum| sum.holders > 0)
        });
        self.sums = self.lines.values().map(|tally| tally.sums.len()).sum();
    }

    /// The months used last, and how many there were, for a checkpoint.
    pub(crate) const fn age(&self) -> ([u64; WINDOWS_KEPT], u32) {
        (self.months, self.era)
    }

    /// Every line with the number of the month in which it was used last, and its sums in order of use.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&Line, u32, &[Sum])> {
        self.lines.iter().map(|(line, tally)| (line, tally.era, &tally.sums[..]))
    }

    /// An empty book of this age, from a checkpoint.
    pub(crate) fn aged(months: [u64; WINDOWS_KEPT], era: u32) -> Self {
        Self { months, era, ..Self::default() }
    }

    /// A sum from a checkpoint, nothing reserved; those of a line come in order of use.
    pub(crate) fn restore_sum(&mut self, line: Line, era: u32, sum: Sum) -> Result<(), Unfit> {
        let tally = self.lines.entry(line).or_default();
        if tally.sums.iter().any(|other| other.start == sum.start) {
            return Err(Unfit::SumTwice);
        }
        tally.era = era;
        tally.sums.push(Sum { reserved: 0, holders: 0, ..sum });
        self.sums = self.sums.saturating_add(1);
        Ok(())
    }

    /// A reservation from a checkpoint; its sums came before.
    pub(crate) fn restore_open(&mut self, id: u64, open: Open) -> Result<(), Unfit> {
        if open.used.within(open.worst) != open.used {
            return Err(Unfit::BeyondWorst);
        }
        if self.open.contains_key(&id) {
            return Err(Unfit::SameNumber);
        }
        for line in open.binds.lines(open.payer, &open.model) {
            let start = window(line.period, open.made);
            let sums = self.lines.get_mut(&line).map(|tally| &mut tally.sums);
            let mut sums = sums.into_iter().flatten();
            let sum = sums.find(|sum| sum.start == start).ok_or(Unfit::NoSum)?;
            let asked = asked(line.unit, open.worst, open.pricing);
            sum.reserved = sum.reserved.checked_add(asked).ok_or(Unfit::TooLarge)?;
            sum.spent.checked_add(sum.reserved).ok_or(Unfit::TooLarge)?;
            sum.holders = sum.holders.saturating_add(1);
        }
        self.open.insert(id, open);
        Ok(())
    }
}

impl Tally {
    /// Takes the sum of the window out, or a new one.
    fn take(&mut self, start: u64) -> Sum {
        let at = self.sums.iter().position(|sum| sum.start == start);
        at.map_or(Sum { start, ..Sum::default() }, |at| self.sums.remove(at))
    }

    /// Puts it back as the one used last, and lets windows go that are over.
    fn put(&mut self, sum: Sum) {
        self.sums.push(sum);
        let mut older = self.sums.len().saturating_sub(WINDOWS_KEPT);
        self.sums.retain(|sum| {
            let is_kept = older == 0 || sum.holders > 0;
            older = older.saturating_sub(1);
            is_kept
        });
    }
}

#[cfg(test)]
mod tests;
