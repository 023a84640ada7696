//! The writer: takes what waits, applies it to its image, makes it durable, answers.
//!
//! ```text
//! queue ──► take what has come ──► image ──► frame ──► append ──► sync ──► answers ──► checkpoint, if due
//!              ▲──────────────── what comes meanwhile goes with the next ────────────────────┘
//! ```

use std::io;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::fault::{Fault, seeded};
use crate::ledger::disk::Disk;
use crate::ledger::error::LedgerError;
use crate::ledger::frame::{Builder, FRAME_RECORDS_MAX};
use crate::ledger::image::Image;
use crate::ledger::queue::{Entry, Queue};
use crate::ledger::record::Record;
use crate::ledger::room::Room;
use crate::ledger::usage::Taken;

/// Writes a journal.
pub(crate) struct Writer<D> {
    pub(crate) disk: D,
    pub(crate) image: Image,
    /// The number of the next frame.
    pub(crate) seq: u64,
    /// Bytes since the last checkpoint.
    bytes: usize,
    /// Bytes after which the next checkpoint is due.
    bytes_max: usize,
    /// Rows of usage, and reservations that will need one.
    backlog: Arc<Room>,
    frame: Builder,
    sealed: Vec<u8>,
    answers: Vec<Answer>,
}

/// What is said once the frame is on the medium.
enum Answer {
    Written(oneshot::Sender<()>),
    Taken(oneshot::Sender<Taken>, Taken),
    Confirmed(oneshot::Sender<Result<(), LedgerError>>, Result<(), LedgerError>),
}

impl<D: Disk> Writer<D> {
    /// Writes `image` as a checkpoint, and goes on from there.
    pub(crate) fn begin(
        disk: D,
        image: Image,
        seq: u64,
        bytes_max: usize,
        backlog: Arc<Room>,
    ) -> io::Result<Self> {
        let mut writer = Self {
            disk,
            image,
            seq,
            bytes: 0,
            bytes_max,
            backlog,
            frame: Builder::default(),
            sealed: Vec::new(),
            answers: Vec::new(),
        };
        writer.checkpoint()?;
        Ok(writer)
    }

    /// Writes until the queue is closed and empty, or a write fails.
    pub(crate) fn run(&mut self, queue: &Queue) -> io::Result<()> {
        let mut entries = Vec::with_capacity(FRAME_RECORDS_MAX);
        loop {
            queue.take(&mut entries, FRAME_RECORDS_MAX);
            if entries.is_empty() {
                return Ok(());
            }
            self.commit(&mut entries)?;
        }
    }

    /// Writes `entries`, at most [`FRAME_RECORDS_MAX`], and answers them. After an error the disk's content is
    /// not known: nothing more may be written, and the answers are dropped unsaid.
    pub(crate) fn commit(&mut self, entries: &mut Vec<Entry>) -> io::Result<()> {
        for entry in entries.drain(..) {
            self.take_in(entry)?;
        }
        if seeded(Fault::ToldEarly) {
            self.answer();
        }
        if self.frame.records() > 0 {
            self.append_frame()?;
            self.disk.sync()?;
        }
        self.answer();
        if self.bytes >= self.bytes_max {
            self.checkpoint()?;
        }
        Ok(())
    }

    fn take_in(&mut self, entry: Entry) -> io::Result<()> {
        match entry {
            Entry::Told { record, ticket } | Entry::Lazy { record, ticket } => {
                self.write(&record)?;
                self.answers.push(Answer::Written(ticket));
            }
            Entry::Untold { record } => self.write(&record)?,
            Entry::Sync { ticket } => self.answers.push(Answer::Written(ticket)),
            Entry::Take { answer } => {
                if let Some(number) = self.image.usage.next_batch() {
                    self.write(&Record::Take { number })?;
                }
                self.answers.push(Answer::Taken(answer, self.image.usage.given()));
            }
            Entry::Confirm { number, answer } => {
                let confirmed = if self.image.usage.batch_out() == Some(number) {
                    self.write(&Record::Confirm { number })?;
                    Ok(())
                } else {
                    Err(LedgerError::NotOut { number })
                };
                self.answers.push(Answer::Confirmed(answer, confirmed));
            }
        }
        Ok(())
    }

    fn write(&mut self, record: &Record) -> io::Result<()> {
        let rows = self.image.usage.rows();
        // What does not fit the image must not reach the file: replay would refuse it.
        self.image.apply(record).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        self.frame.add(record);
        let rows_made = self.image.usage.rows().saturating_sub(rows);
        let rows_gone = rows.saturating_sub(self.image.usage.rows());
        // A reservation's place in the backlog becomes its row's, or is free if the row was there already.
        let is_settled = matches!(record, Record::Settle { .. });
        self.backlog.give(rows_gone.saturating_add(usize::from(is_settled).saturating_sub(rows_made)));
        Ok(())
    }

    fn answer(&mut self) {
        for answer in self.answers.drain(..) {
            // Whoever does not wait any more has lost nothing.
            match answer {
                Answer::Written(ticket) => ticket.send(()).unwrap_or_default(),
                Answer::Taken(answer, taken) => drop(answer.send(taken)),
                Answer::Confirmed(answer, confirmed) => drop(answer.send(confirmed)),
            }
        }
    }

    /// Puts the image into a new file, which takes the journal's place.
    fn checkpoint(&mut self) -> io::Result<()> {
        self.disk.stage()?;
        let Self { disk, image, seq, frame, sealed, .. } = self;
        let mut append = |frame: &mut Builder| {
            sealed.clear();
            frame.seal(*seq, sealed);
            *seq = seq.saturating_add(1);
            disk.append(sealed)
        };
        image.checkpoint(&mut |record| {
            frame.add(record);
            if frame.records() < FRAME_RECORDS_MAX { Ok(()) } else { append(frame) }
        })?;
        if frame.records() > 0 {
            append(frame)?;
        }
        self.disk.promote()?;
        self.bytes = 0;
        Ok(())
    }

    fn append_frame(&mut self) -> io::Result<()> {
        self.sealed.clear();
        self.frame.seal(self.seq, &mut self.sealed);
        self.seq = self.seq.saturating_add(1);
        self.bytes = self.bytes.saturating_add(self.sealed.len());
        self.disk.append(&self.sealed)
    }
}
