//! Everything that a journal says: what the writer keeps beside the file, so that a checkpoint is the file's
//! own meaning, and what replay makes of a file.

use std::collections::BTreeMap;
use std::io;

use uuid::Uuid;

use crate::fault::{Fault, seeded};
use crate::ledger::book::{Book, Unfit};
use crate::ledger::frame::{Frames, Next, first_record};
use crate::ledger::price::Used;
use crate::ledger::record::Record;
use crate::ledger::usage::Usage;
use crate::store::TenantId;

/// Where and why a journal is not what was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the ledger's journal is damaged or was changed, at byte {at}: {why}")]
pub struct Damaged {
    /// Where the frame begins that cannot be used.
    pub at: usize,
    /// What is wrong with it.
    pub why: Damage,
}

/// What is wrong with a journal.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Damage {
    /// A frame is unreadable and others follow, or it is out of turn.
    #[error("a frame is unreadable, and it is not the last; or frames are missing, double or moved")]
    Frame,
    /// It does not begin with a whole checkpoint.
    #[error("it does not begin with a whole checkpoint")]
    NoCheckpoint,
    /// A record is not as this program writes it, or stands where it must not.
    #[error("a record is not as this program writes it")]
    Form,
    /// A record does not fit those before it.
    #[error("a record does not fit those before it: {0}")]
    Unfit(#[from] Unfit),
    /// Longer than any journal may be.
    #[error("it is longer than any journal may be")]
    TooLong,
}

/// All books and all usage.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Image {
    /// Names the journal.
    pub(crate) journal: Uuid,
    /// The highest number that a reservation has had.
    pub(crate) last_id: u64,
    pub(crate) books: BTreeMap<TenantId, Book>,
    pub(crate) usage: Usage,
}

/// What was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Read {
    /// Records after the checkpoint.
    pub(crate) records: u64,
    /// Bytes of a torn end.
    pub(crate) torn_bytes: usize,
    /// The number that the next frame has.
    pub(crate) next_seq: u64,
}

impl Read {
    /// There was nothing to read.
    pub(crate) const NOTHING: Self = Self { records: 0, torn_bytes: 0, next_seq: 0 };
}

enum Stage {
    Start,
    Checkpoint { records: u64 },
    Journal,
}

impl Image {
    /// Nothing spent, nothing reserved.
    pub(crate) fn new(journal: Uuid) -> Self {
        Self { journal, last_id: 0, books: BTreeMap::new(), usage: Usage::after(journal, 0) }
    }

    /// Reads a whole journal.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, Read), Damaged> {
        let mut image = Self::new(Uuid::nil());
        let mut read = Read::NOTHING;
        let mut stage = Stage::Start;
        let mut frames = Frames::new(bytes);
        loop {
            let at = frames.at();
            let damaged = |why| Damaged { at, why };
            match frames.next() {
                Next::Frame { mut body, seq } => {
                    read.next_seq = seq.saturating_add(1);
                    while !body.is_empty() {
                        let (record, rest) = first_record(body).ok_or(damaged(Damage::Form))?;
                        if matches!(stage, Stage::Journal) {
                            read.records = read.records.saturating_add(1);
                        }
                        stage = image.meet(stage, record).map_err(damaged)?;
                        body = rest;
                    }
                }
                Next::Torn { bytes } => {
                    read.torn_bytes = bytes;
                    break;
                }
                Next::End => break,
                Next::Damaged => return Err(damaged(Damage::Frame)),
            }
        }
        match stage {
            Stage::Journal => Ok((image, read)),
            // It was whole on the medium before it got its name: no crash leaves less.
            Stage::Start | Stage::Checkpoint { .. } => {
                Err(Damaged { at: frames.at(), why: Damage::NoCheckpoint })
            }
        }
    }

    fn meet(&mut self, stage: Stage, record: Record) -> Result<Stage, Damage> {
        match (stage, record) {
            (Stage::Start, Record::Begin { journal, last_id, last_batch }) => {
                (self.journal, self.last_id) = (journal, last_id);
                self.usage = Usage::after(journal, last_batch);
                Ok(Stage::Checkpoint { records: 0 })
            }
            (Stage::Start, _) => Err(Damage::NoCheckpoint),
            (Stage::Checkpoint { records }, Record::End { records: stated }) if records == stated => {
                Ok(Stage::Journal)
            }
            (Stage::Checkpoint { records }, record) => {
                self.restore(record)?;
                Ok(Stage::Checkpoint { records: records.saturating_add(1) })
            }
            (Stage::Journal, record) => {
                self.apply(&record)?;
                Ok(Stage::Journal)
            }
        }
    }

    /// Makes the change that a record states.
    pub(crate) fn apply(&mut self, record: &Record) -> Result<(), Damage> {
        match record {
            Record::Reserve { id, open } => {
                self.last_id = self.last_id.max(*id);
                self.books.entry(open.payer.tenant).or_default().reserve(*id, open.clone())?;
            }
            Record::Mark { tenant, id, used } => self.book(*tenant)?.mark(*id, *used)?,
            Record::Settle { tenant, id, used } => {
                let open = self.book(*tenant)?.settle(*id, *used)?;
                self.usage.count(&open, *used);
            }
            Record::Tell { tenant, line, start, kind, highest } => {
                self.book(*tenant)?.tell(line, *start, *kind, *highest);
            }
            Record::Part { tenant, line, start, part, spent } => {
                self.books.entry(*tenant).or_default().share(line, *start, *part, *spent);
            }
            Record::Forget { tenant, line, start } => {
                self.books.entry(*tenant).or_default().forget(line, *start);
            }
            Record::Take { number } => self.usage.take(*number)?,
            Record::Confirm { number } => self.usage.confirm(*number)?,
            Record::Begin { .. }
            | Record::Book { .. }
            | Record::Sum { .. }
            | Record::Open { .. }
            | Record::Row { .. }
            | Record::Life { .. }
            | Record::End { .. } => return Err(Damage::Form),
        }
        Ok(())
    }

    /// Takes in a part of a checkpoint.
    fn restore(&mut self, record: Record) -> Result<(), Damage> {
        match record {
            Record::Book { tenant, months, era } => {
                match self.books.insert(tenant, Book::aged(months, era)) {
                    None => {}
                    Some(_) => return Err(Damage::Form),
                }
            }
            Record::Sum { tenant, line, era, sum } => self.book(tenant)?.restore_sum(line, era, sum)?,
            Record::Open { id, open } => {
                self.book(open.payer.tenant)?.restore_open(id, open)?;
            }
            Record::Life { name } => self.usage.begin_life(name),
            Record::Row { place, row } => self.usage.restore(place, &row)?,
            Record::Reserve { .. }
            | Record::Mark { .. }
            | Record::Settle { .. }
            | Record::Tell { .. }
            | Record::Part { .. }
            | Record::Forget { .. }
            | Record::Take { .. }
            | Record::Confirm { .. }
            | Record::Begin { .. }
            | Record::End { .. } => return Err(Damage::Form),
        }
        Ok(())
    }

    fn book(&mut self, tenant: TenantId) -> Result<&mut Book, Unfit> {
        self.books.get_mut(&tenant).ok_or(Unfit::NoSuchReservation)
    }

    /// Settles whatever is open to its last progress mark, for nobody is there to do it any more. Returns how
    /// many.
    pub(crate) fn settle_open(&mut self) -> Result<u64, Unfit> {
        let mut settled = 0_u64;
        for book in self.books.values_mut() {
            let open: Vec<(u64, Used)> = book.open().iter().map(|(id, open)| (*id, open.used)).collect();
            for (id, used) in open {
                let used = if seeded(Fault::UnsettledForgotten) { Used::NONE } else { used };
                let open = book.settle(id, used)?;
                self.usage.count(&open, used);
                settled = settled.saturating_add(1);
            }
        }
        Ok(settled)
    }

    /// Sums that are held.
    pub(crate) fn sums(&self) -> usize {
        self.books.values().map(Book::sums).sum()
    }

    /// Gives `emit` every record of a checkpoint, in order.
    pub(crate) fn checkpoint(&self, emit: &mut dyn FnMut(&Record) -> io::Result<()>) -> io::Result<()> {
        let (journal, last_id) = (self.journal, self.last_id);
        emit(&Record::Begin { journal, last_id, last_batch: self.usage.last_batch() })?;
        let mut records = 0_u64;
        let mut part = |record: &Record| {
            records = records.saturating_add(1);
            emit(record)
        };
        for (tenant, book) in &self.books {
            let (months, era) = book.age();
            part(&Record::Book { tenant: *tenant, months, era })?;
            for (line, era, sums) in book.lines() {
                for sum in sums {
                    part(&Record::Sum { tenant: *tenant, line: line.clone(), era, sum: *sum })?;
                }
            }
            for (id, open) in book.open() {
                part(&Record::Open { id: *id, open: open.clone() })?;
            }
        }
        for (name, rows) in self.usage.lives() {
            part(&Record::Life { name })?;
            for (place, row) in rows {
                part(&Record::Row { place, row })?;
            }
        }
        emit(&Record::End { records })
    }
}

#[cfg(test)]
mod tests;
