//! The journal's records and their bytes.
//!
//! ```text
//! kind: 1   fields, each of a fixed width, little-endian; a model's name is its length (1) and its bytes
//! ```

use uuid::Uuid;

use crate::key::KeyId;
use crate::ledger::book::{Highest, Open, Sum, Told, WINDOWS_KEPT};
use crate::ledger::budget::{BudgetKind, Payer, Period, Unit};
use crate::ledger::calendar::window;
use crate::ledger::line::{Binds, Line};
use crate::ledger::part::Part;
use crate::ledger::price::{Price, Pricing, Used, WorstCase};
use crate::ledger::usage::{Amounts, Place, UsageRow};
use crate::level::{Level, ModelName, Models, ProjectId};
use crate::store::TenantId;
use crate::time::UnixMillis;

/// Bytes that a record may have.
pub(crate) const RECORD_BYTES_MAX: usize = 320;
/// The form of the journal that this program writes.
pub(crate) const VERSION: u32 = 2;
/// The form of before budgets had parts, which is read still. What it counted of budgets is in the store, or gets there as usage:
/// a line without a part begins anew.
const VERSION_WITHOUT_PARTS: u32 = 1;

/// One change of the books, or one part of a checkpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Record {
    /// A request is reserved.
    Reserve { id: u64, open: Open },
    /// It has used so much.
    Mark { tenant: TenantId, id: u64, used: Used },
    /// It has ended, and used so much.
    Settle { tenant: TenantId, id: u64, used: Used },
    /// A threshold was told.
    Tell { tenant: TenantId, line: Line, start: u64, kind: BudgetKind, highest: Highest },
    /// Rows of usage were put into a batch.
    Take { number: u64 },
    /// They are stored.
    Confirm { number: u64 },
    /// So much is held of a line in a window, and so much of that is spent.
    Part { tenant: TenantId, line: Line, start: u64, part: Part, spent: u64 },
    /// A line is counted no more in a window.
    Forget { tenant: TenantId, line: Line, start: u64 },
    /// A checkpoint begins; the first record of a file.
    Begin { journal: Uuid, last_id: u64, last_batch: u64 },
    /// A tenant's book.
    Book { tenant: TenantId, months: [u64; WINDOWS_KEPT], era: u32 },
    /// A sum of it.
    Sum { tenant: TenantId, line: Line, era: u32, sum: Sum },
    /// A reservation that is open.
    Open { id: u64, open: Open },
    /// The rows of usage that follow came in a life of this name.
    Life { name: Uuid },
    /// A row of usage.
    Row { place: Place, row: UsageRow },
    /// A checkpoint ends, after so many records between.
    End { records: u64 },
}

impl Record {
    /// Puts its bytes at the end of `to`.
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        let to = &mut Put(to);
        match self {
            Self::Reserve { id, open } => to.u8(1).u64(*id).open(open),
            Self::Mark { tenant, id, used } => to.u8(2).bytes(tenant.bytes()).u64(*id).used(*used),
            Self::Settle { tenant, id, used } => to.u8(3).bytes(tenant.bytes()).u64(*id).used(*used),
            Self::Tell { tenant, line, start, kind, highest } => {
                to.u8(4).bytes(tenant.bytes()).line(line).u64(*start).kind(*kind).highest(*highest)
            }
            Self::Take { number } => to.u8(5).u64(*number),
            Self::Confirm { number } => to.u8(6).u64(*number),
            Self::Part { tenant, line, start, part, spent } => {
                to.u8(8).bytes(tenant.bytes()).line(line).u64(*start).part(*part).u64(*spent)
            }
            Self::Forget { tenant, line, start } => to.u8(9).bytes(tenant.bytes()).line(line).u64(*start),
            Self::Begin { journal, last_id, last_batch } => {
                to.u8(16).u32(VERSION).bytes(journal.as_bytes()).u64(*last_id).u64(*last_batch)
            }
            Self::Book { tenant, months: [first, second, last], era } => {
                to.u8(17).bytes(tenant.bytes()).u64(*first).u64(*second).u64(*last).u32(*era)
            }
            Self::Sum { tenant, line, era, sum } => {
                let Told { hard, soft } = sum.told;
                let to = to.u8(22).bytes(tenant.bytes()).line(line).u32(*era).u64(sum.start);
                to.u64(sum.spent).highest(hard).highest(soft).part(sum.part)
            }
            Self::Open { id, open } => to.u8(19).u64(*id).open(open).used(open.used),
            Self::Row { place, row } => {
                let place = match place {
                    Place::Pending => 0,
                    Place::Out => 1,
                };
                to.u8(20).u8(place).row(row)
            }
            Self::Life { name } => to.u8(30).bytes(name.as_bytes()),
            Self::End { records } => to.u8(21).u64(*records),
        };
    }

    /// Reads what [`Record::write`] wrote; none for anything else.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Get(bytes);
        let record = Self::read_from(&mut from)?;
        from.0.is_empty().then_some(record)
    }

    fn read_from(from: &mut Get<'_>) -> Option<Self> {
        Some(match from.u8()? {
            1 => Self::Reserve { id: from.u64()?, open: from.open()? },
            2 => Self::Mark { tenant: from.tenant()?, id: from.u64()?, used: from.used()? },
            3 => Self::Settle { tenant: from.tenant()?, id: from.u64()?, used: from.used()? },
            4 => Self::Tell {
                tenant: from.tenant()?,
                line: from.line()?,
                start: from.u64()?,
                kind: from.kind()?,
                highest: from.highest()?,
            },
            5 => Self::Take { number: from.u64()? },
            6 => Self::Confirm { number: from.u64()? },
            // What was spent before, in the form without parts.
            7 => {
                let (tenant, line, at) = (from.tenant()?, from.line()?, from.time()?);
                from.u64()?;
                let start = window(line.period, at);
                Self::Part { tenant, line, start, part: Part::NONE, spent: 0 }
            }
            8 => Self::Part {
                tenant: from.tenant()?,
                line: from.line()?,
                start: from.u64()?,
                part: from.part()?,
                spent: from.u64()?,
            },
            9 => Self::Forget { tenant: from.tenant()?, line: from.line()?, start: from.u64()? },
            16 => {
                matches!(from.u32()?, VERSION | VERSION_WITHOUT_PARTS).then_some(())?;
                let journal = Uuid::from_bytes(from.array()?);
                Self::Begin { journal, last_id: from.u64()?, last_batch: from.u64()? }
            }
            17 => Self::Book {
                tenant: from.tenant()?,
                months: [from.u64()?, from.u64()?, from.u64()?],
                era: from.u32()?,
            },
            kind @ (18 | 22) => {
                let (tenant, line, era) = (from.tenant()?, from.line()?, from.u32()?);
                let (start, counted) = (from.u64()?, from.u64()?);
                let told = Told { hard: from.highest()?, soft: from.highest()? };
                let (spent, part) = if kind == 18 { (0, Part::NONE) } else { (counted, from.part()?) };
                let sum = Sum { start, spent, reserved: 0, holders: 0, told, part };
                Self::Sum { tenant, line, era, sum }
            }
            19 => {
                let (id, open) = (from.u64()?, from.open()?);
                Self::Open { id, open: Open { used: from.used()?, ..open } }
            }
            20 => {
                let place = from.one_of([Place::Pending, Place::Out])?;
                Self::Row { place, row: from.row()? }
            }
            30 => Self::Life { name: Uuid::from_bytes(from.array()?) },
            21 => Self::End { records: from.u64()? },
            _ => return None,
        })
    }
}

/// Writes fields one after another.
struct Put<'a>(&'a mut Vec<u8>);

impl Put<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    fn used(&mut self, used: Used) -> &mut Self {
        self.u64(used.prompt).u64(used.cached).u64(used.completion)
    }

    fn model(&mut self, model: &ModelName) -> &mut Self {
        let name = model.as_str().as_bytes();
        // A name has at most 128 bytes: its maker checks.
        self.u8(u8::try_from(name.len()).unwrap_or(u8::MAX)).bytes(name)
    }

    fn payer(&mut self, payer: Payer) -> &mut Self {
        self.bytes(payer.tenant.bytes()).bytes(payer.project.bytes()).bytes(payer.key.bytes())
    }

    fn kind(&mut self, kind: BudgetKind) -> &mut Self {
        self.u8(match kind {
            BudgetKind::Hard => 0,
            BudgetKind::Soft => 1,
        })
    }

    fn highest(&mut self, highest: Highest) -> &mut Self {
        self.u64(highest.limit).u8(highest.percent)
    }

    fn part(&mut self, part: Part) -> &mut Self {
        let Part { epoch, amount, seen, spent_elsewhere } = part;
        self.u64(epoch).u64(amount).u64(seen).u64(spent_elsewhere)
    }

    fn line(&mut self, line: &Line) -> &mut Self {
        match line.level {
            Level::Key(id) => self.u8(0).bytes(id.bytes()),
            Level::Project(id) => self.u8(1).bytes(id.bytes()),
            Level::Tenant(id) => self.u8(2).bytes(id.bytes()),
        };
        match &line.models {
            Models::All => self.u8(0),
            Models::One(model) => self.u8(1).model(model),
        };
        self.u8(match line.unit {
            Unit::Tokens => 0,
            Unit::MicroMoney => 1,
        });
        self.u8(match line.period {
            Period::Day => 0,
            Period::Month => 1,
            Period::Total => 2,
        })
    }

    fn open(&mut self, open: &Open) -> &mut Self {
        self.u64(open.made.unsigned()).payer(open.payer).model(&open.model);
        match open.pricing {
            Pricing::Unpriced => self.u8(0),
            Pricing::Priced(price) => {
                let [prompt, cached, completion] = price.parts();
                self.u8(1).u64(prompt).u64(cached).u64(completion)
            }
        };
        self.u64(open.binds.bits()).u64(open.worst.prompt()).u64(open.worst.completion())
    }

    fn row(&mut self, row: &UsageRow) -> &mut Self {
        let Amounts { requests, prompt, cached, completion, cost_micro, unpriced } = row.amounts;
        self.u64(row.hour).payer(row.payer).model(&row.model).u64(requests).u64(prompt).u64(cached);
        self.u64(completion).u64(cost_micro).u64(unpriced)
    }
}

/// Reads fields one after another.
struct Get<'a>(&'a [u8]);

impl Get<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn one_of<T, const N: usize>(&mut self, cases: [T; N]) -> Option<T> {
        let at = usize::from(self.u8()?);
        cases.into_iter().nth(at)
    }

    fn time(&mut self) -> Option<UnixMillis> {
        i64::try_from(self.u64()?).ok().and_then(UnixMillis::new)
    }

    fn tenant(&mut self) -> Option<TenantId> {
        self.array().map(|bytes| TenantId(Uuid::from_bytes(bytes)))
    }

    fn project(&mut self) -> Option<ProjectId> {
        self.array().map(|bytes| ProjectId(Uuid::from_bytes(bytes)))
    }

    fn key(&mut self) -> Option<KeyId> {
        KeyId::parse(core::str::from_utf8(&self.array::<12>()?).ok()?)
    }

    fn used(&mut self) -> Option<Used> {
        Some(Used { prompt: self.u64()?, cached: self.u64()?, completion: self.u64()? })
    }

    fn model(&mut self) -> Option<ModelName> {
        let length = usize::from(self.u8()?);
        let (name, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        ModelName::new(core::str::from_utf8(name).ok()?)
    }

    fn payer(&mut self) -> Option<Payer> {
        Some(Payer { tenant: self.tenant()?, project: self.project()?, key: self.key()? })
    }

    fn kind(&mut self) -> Option<BudgetKind> {
        self.one_of([BudgetKind::Hard, BudgetKind::Soft])
    }

    fn highest(&mut self) -> Option<Highest> {
        Some(Highest { limit: self.u64()?, percent: self.u8()? })
    }

    fn part(&mut self) -> Option<Part> {
        let (epoch, amount, seen) = (self.u64()?, self.u64()?, self.u64()?);
        Some(Part { epoch, amount, seen, spent_elsewhere: self.u64()? })
    }

    fn line(&mut self) -> Option<Line> {
        let level = match self.u8()? {
            0 => Level::Key(self.key()?),
            1 => Level::Project(self.project()?),
            2 => Level::Tenant(self.tenant()?),
            _ => return None,
        };
        let models = match self.u8()? {
            0 => Models::All,
            1 => Models::One(self.model()?),
            _ => return None,
        };
        let unit = self.one_of([Unit::Tokens, Unit::MicroMoney])?;
        let period = self.one_of([Period::Day, Period::Month, Period::Total])?;
        Some(Line { level, models, unit, period })
    }

    fn open(&mut self) -> Option<Open> {
        let (made, payer, model) = (self.time()?, self.payer()?, self.model()?);
        let pricing = match self.u8()? {
            0 => Pricing::Unpriced,
            1 => Pricing::Priced(Price::new(self.u64()?, self.u64()?, self.u64()?).ok()?),
            _ => return None,
        };
        let binds = Binds::from_bits(self.u64()?)?;
        let worst = WorstCase::new(self.u64()?, self.u64()?, 1).ok()?;
        Some(Open { made, payer, model, pricing, binds, worst, used: Used::NONE })
    }

    fn row(&mut self) -> Option<UsageRow> {
        let (hour, payer, model) = (self.u64()?, self.payer()?, self.model()?);
        let amounts = Amounts {
            requests: self.u64()?,
            prompt: self.u64()?,
            cached: self.u64()?,
            completion: self.u64()?,
            cost_micro: self.u64()?,
            unpriced: self.u64()?,
        };
        Some(UsageRow { hour, payer, model, amounts })
    }
}

#[cfg(test)]
mod tests;
