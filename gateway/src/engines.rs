//! What is recorded of engines: what each holds, which what is recorded of requests refers to, and what it finds wrong with itself.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use audit::{AlarmCause, AuditError, AuditLog, Committed, EngineAlarm, EngineSeen, Hex, Record, Word};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use wire::{Alarm, Cause, Hello};

use crate::house::House;

/// Alarms that wait for the disk, at most: few of the audit log's places, so that requests find theirs whatever an engine tells.
const UNSETTLED_MAX: usize = 64;
/// Pause before a record is offered again to an audit log that is full.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// The audit log, and what its records refer to.
pub(crate) struct Recorder {
    log: Arc<AuditLog>,
    /// Index of the leaf that says which policy is in force.
    policy: u64,
    /// The session whose engine was recorded last.
    seen: Mutex<Option<[u8; 16]>>,
}

impl Recorder {
    pub(crate) const fn new(log: Arc<AuditLog>, policy: u64) -> Self {
        Self { log, policy, seen: Mutex::new(None) }
    }

    pub(crate) fn log(&self) -> &AuditLog {
        &self.log
    }

    pub(crate) const fn policy(&self) -> u64 {
        self.policy
    }

    /// Records an engine with what it truly holds, once for each session; before anything that refers to it.
    pub(crate) fn engine(&self, hello: &Hello) -> Result<(), AuditError> {
        // Held while the record is queued, which waits for nothing: nobody refers to an engine whose record is not before its own.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == Some(hello.session) {
            return Ok(());
        }
        let record = Record::EngineSeen(EngineSeen {
            model: Hex(hello.model_digest),
            build: hello.build,
            epoch: Word(hello.epoch),
            boot_key: Hex(hello.boot_key),
            window: hello.window,
            capacity: hello.capacity,
            page_tokens: hello.page_tokens,
        });
        // On disk with, or before, the first record that refers to it.
        drop(self.log.append(&record, SystemTime::now())?);
        *seen = Some(hello.session);
        Ok(())
    }
}

/// Records each engine as it is connected, also those that nobody asks anything.
pub(crate) async fn record_engines(house: Arc<House>, mut seen: watch::Receiver<Option<Hello>>) {
    while seen.changed().await.is_ok() {
        let Some(hello) = seen.borrow_and_update().clone() else { continue };
        if let Err(error) = offer(|| house.recorder.engine(&hello)).await {
            tracing::error!(%error, "an engine could not be recorded");
        }
    }
}

/// Records each alarm of an engine, until nobody can send any more and all that came are on disk. They are counted before they
/// come here, where they wait for the disk.
pub(crate) async fn record_alarms<T>(
    append: impl Fn(&Record) -> Result<T, AuditError>,
    mut alarms: mpsc::Receiver<Alarm>,
) where
    T: Future<Output = Result<Committed, AuditError>>,
{
    let mut taken = Vec::with_capacity(UNSETTLED_MAX);
    while alarms.recv_many(&mut taken, UNSETTLED_MAX).await > 0 {
        let mut last = None;
        for Alarm { number, epoch, cause } in taken.drain(..) {
            let record = Record::Alarm(EngineAlarm { epoch: Word(epoch), number, cause: recorded(cause) });
            match offer(|| append(&record)).await {
                Ok(ticket) => last = Some(ticket),
                Err(error) => tracing::error!(%error, epoch, number, "an alarm could not be recorded"),
            }
        }
        // Records are written in their order: with the last, all of them are on disk.
        if let Some(ticket) = last
            && let Err(error) = ticket.await
        {
            tracing::error!(%error, "alarms could not be recorded");
        }
    }
}

/// Offers a record until the log takes it or has ended. What comes meanwhile waits in a bounded channel.
async fn offer<T>(append: impl Fn() -> Result<T, AuditError>) -> Result<T, AuditError> {
    loop {
        let offered = append();
        let Err(AuditError::Full { .. }) = offered else { return offered };
        sleep(FULL_PAUSE).await;
    }
}

fn recorded(cause: Cause) -> AlarmCause {
    match cause {
        Cause::Unsound(why) => AlarmCause::Unsound { why: unsound(why) },
        Cause::Withdrawn { page, generation, last } => {
            AlarmCause::Withdrawn { page, generation, last: last.map(Word) }
        }
    }
}

const fn unsound(why: wire::Unsound) -> audit::Unsound {
    match why {
        wire::Unsound::Lease => audit::Unsound::Lease,
        wire::Unsound::Read => audit::Unsound::Read,
        wire::Unsound::Prefix => audit::Unsound::Prefix,
        wire::Unsound::Census => audit::Unsound::Census,
        wire::Unsound::Receipt => audit::Unsound::Receipt,
        wire::Unsound::Steps => audit::Unsound::Steps,
        wire::Unsound::Scrub => audit::Unsound::Scrub,
        wire::Unsound::Starved => audit::Unsound::Starved,
        wire::Unsound::WholePrompt => audit::Unsound::WholePrompt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{Ready, ready};
    use std::sync::Mutex;

    use wire::Unsound;

    /// A log that is full at every other try.
    #[derive(Default)]
    struct Log(Mutex<(u64, Vec<Record>)>);

    impl Log {
        fn append(&self, record: &Record) -> Result<Ready<Result<Committed, AuditError>>, AuditError> {
            let (tries, records) = &mut *self.0.lock().unwrap();
            *tries += 1;
            if *tries % 2 == 1 {
                return Err(AuditError::Full { limit: 1 });
            }
            records.push(*record);
            Ok(ready(Ok(Committed { index: *tries, leaf: Hex([0; 32]), tenant_seq: 0 })))
        }
    }

    #[tokio::test]
    async fn an_alarm_that_finds_the_log_full_is_recorded_a_little_later() {
        let (sender, alarms) = mpsc::channel(8);
        let alarm = |number| Alarm { number, epoch: 3, cause: Cause::Unsound(Unsound::Read) };
        for number in 0..3 {
            sender.try_send(alarm(number)).unwrap();
        }
        drop(sender);
        let log = Log::default();
        record_alarms(|record| log.append(record), alarms).await;
        let records = log.0.into_inner().unwrap().1;
        let cause = AlarmCause::Unsound { why: audit::Unsound::Read };
        let record = |number| Record::Alarm(EngineAlarm { epoch: Word(3), number, cause });
        assert_eq!(records, [0, 1, 2].map(record));
    }

    /// A log that has ended takes nothing, and nothing waits for it.
    #[tokio::test]
    async fn a_log_that_has_ended_is_not_offered_anything_again() {
        let (sender, alarms) = mpsc::channel(8);
        sender.try_send(Alarm { number: 0, epoch: 3, cause: Cause::Unsound(Unsound::Read) }).unwrap();
        drop(sender);
        let tries = Mutex::new(0);
        let append = |_: &Record| -> Result<Ready<_>, _> {
            *tries.lock().unwrap() += 1;
            Err(AuditError::Ended)
        };
        record_alarms(append, alarms).await;
        assert_eq!(tries.into_inner().unwrap(), 1);
    }
}
