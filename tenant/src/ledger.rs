//! Budgets and usage: what each key, project and tenant may spend, has reserved and has spent.
//!
//! ```text
//! Claim ──► Ledger::reserve ──► Reservation ──► settle, drop, or a crash: used is spent, the rest is free
//!              │ all budgets, or none              │                        │
//!              ▼                                   ▼                        ▼
//!           journal: reserve, on disk           mark (not waited for)    settle ──► usage rows ──► Batch
//! ```
//!
//! # Invariants
//! - B1: `spent + reserved <= part` for each hard budget, at all times; and what all gateways hold of a budget is
//!   at most its limit ([`BudgetParts`](crate::BudgetParts)).
//! - B2: a request that a budget binds reaches an engine only when its reservation is on disk.
//! - B3: a reservation is settled exactly once, in the windows and the hour in which it was made, to no more
//!   than was reserved.
//! - B4: each settlement is in exactly one batch of usage, and a batch is the same until it is confirmed.
//! - B5: the journal is what was written, or is refused; only a torn end, of which nobody was told, is cut.
//!
//! # After a crash
//! A reservation that nobody settled is settled to its last progress mark that is on disk; without one to
//! nothing, for nothing was proven to be used. So a tenant is never charged for what nobody can show, and what
//! an engine computed between the last mark and the crash is given away.
//!
//! Architecture invariant: no store, no network, no clock: time is an argument. No text but a model's name.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;
use uuid::{NoContext, Timestamp, Uuid};

mod book;
mod budget;
mod calendar;
mod disk;
mod error;
mod frame;
mod image;
mod line;
mod part;
mod price;
mod queue;
mod record;
mod reservation;
mod reserve;
mod room;
mod usage;
mod writer;

pub use book::Unfit;
pub use budget::{
    BadThresholds, Budget, BudgetKind, BudgetName, Payer, Period, REQUEST_BUDGETS_MAX, THRESHOLDS_MAX,
    Thresholds, Unit,
};
pub use calendar::{Resets, UtcHour};
pub(crate) use calendar::{hour, hours_from, resets, window, window_hours};
pub use error::{BudgetRefusal, LedgerError, MarkBeyond, OverBudget, SettleDefect};
pub use image::{Damage, Damaged};
pub(crate) use line::Line;
pub use part::Shortage;
pub(crate) use part::{Low, Part, Slice, Spent};
pub use price::{
    BadPrices, PRICE_MAX, PRICED_MODELS_MAX, Price, PriceTooHigh, Prices, Pricing, REQUEST_TOKENS_MAX,
    TooManyTokens, Used, WorstCase,
};
pub use reservation::{BudgetWarning, Cost, Journalled, Reservation, Settled};
pub use reserve::Claim;
pub(crate) use reserve::Shared;
pub use usage::{Amounts, BATCH_ROWS_MAX, Batch, Taken, UsageRow};

use book::Book;
pub(crate) use book::Sum;
use disk::{Disk, Folder, Found};
use frame::{FRAME_BYTES_MAX, FRAME_RECORDS_MAX, HEADER_BYTES};
use image::Image;
use queue::{Entry, Queue, Urgency};
use record::RECORD_BYTES_MAX;
use room::Room;
use usage::LIVES_MAX;
use writer::Writer;

use crate::fault::{Fault, inherit, seeded};
use crate::store::TenantId;
use crate::time::UnixMillis;

/// Records that may wait for the disk, beside one settlement for each open reservation.
pub const LEDGER_QUEUE_MAX: usize = 4_096;
/// Requests that may be reserved at once.
pub const RESERVATIONS_MAX: usize = 65_536;
/// Sums that may be kept: one for each level, models, unit and period that a budget has bound, and window.
pub const SUMS_MAX: usize = 262_144;
/// Rows of usage that may wait to be stored, those that open reservations will need included.
pub const USAGE_ROWS_MAX: usize = 131_072;
/// Tenants that may have a book: as many as a store may hold.
pub const BOOKS_MAX: usize = 100_000;
/// Bytes of the journal after its checkpoint, beyond which a new checkpoint takes its place.
pub const JOURNAL_TAIL_BYTES_MAX: usize = 64 << 20;
/// Bytes of a journal. While a checkpoint is written there are two files.
pub const JOURNAL_BYTES_MAX: usize = 320 << 20;

// Each bound at once, with the largest records there are, and the frame that passes the tail's bound.
const _: () = {
    let records = RESERVATIONS_MAX + SUMS_MAX + USAGE_ROWS_MAX + BOOKS_MAX + LIVES_MAX + 3;
    let checkpoint = records * (RECORD_BYTES_MAX + 2) + records.div_ceil(FRAME_RECORDS_MAX) * HEADER_BYTES;
    assert!(checkpoint + JOURNAL_TAIL_BYTES_MAX + FRAME_BYTES_MAX <= JOURNAL_BYTES_MAX);
};

/// The books of all tenants, and the journal that they can be made again from. Dropping it writes what is
/// queued; reservations that live longer are settled when it is opened again, to their last progress marks.
pub struct Ledger {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

/// What was found when a ledger was opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Replayed {
    /// Records after the last checkpoint.
    pub records: u64,
    /// Bytes of a torn end that were cut off; nobody had been told that they are safe.
    pub cut_bytes: usize,
    /// Reservations that nobody had settled, and that were settled now.
    pub settled: u64,
}

/// How a budget stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BudgetStanding {
    /// What is spent in this window, in the budget's unit.
    pub spent: u64,
    /// What is reserved beside it.
    pub reserved: u64,
    /// When the window ends.
    pub resets: Resets,
}

/// What a test makes smaller.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) queue_max: usize,
    pub(crate) reservations_max: usize,
    pub(crate) sums_max: usize,
    pub(crate) rows_max: usize,
    pub(crate) tenants_max: usize,
    pub(crate) tail_bytes_max: usize,
}

impl Bounds {
    pub(crate) const FULL: Self = Self {
        queue_max: LEDGER_QUEUE_MAX,
        reservations_max: RESERVATIONS_MAX,
        sums_max: SUMS_MAX,
        rows_max: USAGE_ROWS_MAX,
        tenants_max: BOOKS_MAX,
        tail_bytes_max: JOURNAL_TAIL_BYTES_MAX,
    };
}

/// What a journal is opened from.
enum Source {
    /// There is none yet; it is named so.
    Fresh(Uuid),
    /// Its bytes.
    Bytes(Vec<u8>),
}

impl Ledger {
    /// Opens the ledger in `folder`, or begins one: reads the journal, cuts a torn end, settles what nobody
    /// settled, writes all of it as a new checkpoint, and starts the writer. `now` names a journal that is
    /// begun.
    ///
    /// # Errors
    /// [`LedgerError::Locked`], [`LedgerError::Damaged`], [`LedgerError::Disk`].
    pub fn open(folder: &Path, now: UnixMillis) -> Result<(Self, Replayed), LedgerError> {
        Self::open_within(folder, Bounds::FULL, now)
    }

    fn open_within(folder: &Path, bounds: Bounds, now: UnixMillis) -> Result<(Self, Replayed), LedgerError> {
        let disk = Folder::claim(folder)?;
        let source = match disk.read(JOURNAL_BYTES_MAX).map_err(LedgerError::Disk)? {
            Found::Nothing => Source::Fresh(journal_name(now)),
            Found::Journal(bytes) => Source::Bytes(bytes),
        };
        Self::open_on(&source, disk, bounds)
    }

    /// Opens what was read, and writes to `disk`.
    fn open_on<D: Disk>(source: &Source, disk: D, bounds: Bounds) -> Result<(Self, Replayed), LedgerError> {
        let (shared, mut writer, replayed) = assemble(source, disk, bounds)?;
        let writes = Arc::clone(&shared);
        let thread = thread::Builder::new().name("ledger".to_owned()).spawn(inherit(move || {
            // Also when the thread panics: whoever waits must learn that nothing is written any more.
            let ends = EndsQueue(&writes.queue);
            if let Err(error) = writer.run(&writes.queue) {
                writes.queue.end(error.kind());
            }
            drop(ends);
        }));
        let writer = Some(thread.map_err(LedgerError::Disk)?);
        Ok((Self { shared, writer }, replayed))
    }

    /// Reserves the worst case of a request against every budget that binds it, or against none; resolves when
    /// that is on disk, or at once where no budget binds it: then only its usage is at stake, and a crash may
    /// forget that it began. `now` chooses the windows and the hour in which all of the request will count.
    ///
    /// Dropping the future gives back what it has reserved.
    ///
    /// # Errors
    /// [`BudgetRefusal`]; the request must not reach an engine then.
    pub async fn reserve(&self, claim: Claim<'_>, now: UnixMillis) -> Result<Reservation, BudgetRefusal> {
        let (reservation, journalled) = self.shared.begin(&claim, now)?;
        if reservation.is_bound() {
            journalled.await?;
        }
        Ok(reservation)
    }

    /// Names its journal, and so this gateway where it is told from others.
    pub(crate) fn journal(&self) -> Uuid {
        self.shared.journal
    }

    /// Its books.
    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// How `budget` of `tenant` stands at `now`.
    pub fn standing(&self, tenant: TenantId, budget: &Budget, now: UnixMillis) -> BudgetStanding {
        let books = self.shared.books.lock().unwrap_or_else(PoisonError::into_inner);
        let book = books.get(&tenant).map(Arc::clone);
        drop(books);
        let sum =
            book.map(|book| book.lock().unwrap_or_else(PoisonError::into_inner).sum(&budget.line(), now));
        let sum = sum.unwrap_or_default();
        let resets = calendar::resets(budget.period, now);
        BudgetStanding { spent: sum.total(), reserved: sum.reserved, resets }
    }

    /// The batch of usage that is out, or the next one; resolves when it is on disk which rows are in it.
    ///
    /// # Errors
    /// [`LedgerError::QueueFull`], [`LedgerError::Ended`].
    pub async fn take_batch(&self) -> Result<Taken, LedgerError> {
        let (answer, taken) = oneshot::channel();
        self.shared.queue.push(Entry::Take { answer }, Urgency::Refusable)?;
        taken.await.map_err(|_| LedgerError::Ended)
    }

    /// Says that batch `number` is stored, for good; resolves when that is on disk. After an error the same
    /// batch is given again, and the store must see by its number that it has it.
    ///
    /// # Errors
    /// [`LedgerError::NotOut`] when another batch is out or none, [`LedgerError::QueueFull`],
    /// [`LedgerError::Ended`].
    pub async fn confirm(&self, number: u64) -> Result<(), LedgerError> {
        let (answer, confirmed) = oneshot::channel();
        self.shared.queue.push(Entry::Confirm { number, answer }, Urgency::Refusable)?;
        confirmed.await.map_err(|_| LedgerError::Ended)?
    }

    /// Requests that are reserved and not settled.
    pub fn outstanding(&self) -> usize {
        self.shared.reservations.taken()
    }

    /// Rows of usage that no store has confirmed, those that open reservations will need included; at most
    /// [`USAGE_ROWS_MAX`].
    pub fn usage_backlog(&self) -> usize {
        self.shared.backlog.taken()
    }

    /// What ended the journal; none while it is written. For readiness.
    pub fn ended_by(&self) -> Option<io::ErrorKind> {
        self.shared.queue.ended_by()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.shared.queue.close();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has ended the queue, and so has told already.
            writer.join().unwrap_or_default();
        }
    }
}

/// Ends the queue when it is dropped; a reason that was given before stays.
struct EndsQueue<'a>(&'a Queue);

impl Drop for EndsQueue<'_> {
    fn drop(&mut self) {
        self.0.end(io::ErrorKind::Other);
    }
}

fn journal_name(now: UnixMillis) -> Uuid {
    let nanos = u32::try_from(now.unsigned().rem_euclid(1_000).saturating_mul(1_000_000)).unwrap_or(0);
    Uuid::new_v7(Timestamp::from_unix(NoContext, now.unsigned().div_euclid(1_000), nanos))
}

/// Makes books and a writer of what was read.
fn assemble<D: Disk>(
    source: &Source,
    disk: D,
    bounds: Bounds,
) -> Result<(Arc<Shared>, Writer<D>, Replayed), LedgerError> {
    let (mut image, read) = match source {
        Source::Fresh(journal) => (Image::new(*journal), image::Read::NOTHING),
        Source::Bytes(bytes) => {
            if bytes.len() > JOURNAL_BYTES_MAX {
                return Err(Damaged { at: 0, why: Damage::TooLong }.into());
            }
            Image::read(bytes)?
        }
    };
    let unfit = |why| Damaged { at: 0, why: Damage::Unfit(why) };
    if seeded(Fault::PartForgotten) {
        image.books.clear();
    }
    let settled = image.settle_open().map_err(unfit)?;
    if let Source::Bytes(_) = source {
        // Random: a copy of these bytes that is opened another time counts under another name.
        image.usage.begin_life(Uuid::new_v7(Timestamp::from_unix(NoContext, 0, 0)));
    }
    let backlog = Arc::new(Room::new(image.usage.rows(), bounds.rows_max));
    let books = image.books.iter().map(|(tenant, book)| (*tenant, Arc::new(Mutex::new(Book::clone(book)))));
    let shared = Arc::new(Shared {
        books: Mutex::new(books.collect::<HashMap<_, _>>()),
        queue: Queue::new(bounds.queue_max),
        journal: image.journal,
        last_id: AtomicU64::new(image.last_id),
        tenants_max: bounds.tenants_max,
        sums: Room::new(image.sums(), bounds.sums_max),
        reservations: Room::new(0, bounds.reservations_max),
        backlog: Arc::clone(&backlog),
    });
    let writer = Writer::begin(disk, image, read.next_seq, bounds.tail_bytes_max, backlog);
    let writer = writer.map_err(LedgerError::Disk)?;
    Ok((shared, writer, Replayed { records: read.records, cut_bytes: read.torn_bytes, settled }))
}

#[cfg(test)]
pub(crate) mod tests;
