//! What is recorded of engines: what each holds, and what it finds wrong with itself.

use std::sync::Arc;
use std::time::SystemTime;

use audit::{AlarmCause, EngineAlarm, EngineSeen, Hex, Record, Word};
use tokio::sync::{mpsc, watch};
use wire::{Alarm, Cause, Hello};

use crate::house::House;
use crate::meter::Meter;

/// Records each engine as it is connected, with what it truly holds.
pub(crate) async fn record_engines(house: Arc<House>, mut seen: watch::Receiver<Option<Hello>>) {
    while seen.changed().await.is_ok() {
        let Some(hello) = seen.borrow_and_update().clone() else { continue };
        let record = Record::EngineSeen(EngineSeen {
            model: Hex(hello.model_digest),
            epoch: Word(hello.epoch),
            window: hello.window,
            capacity: hello.capacity,
            page_tokens: hello.page_tokens,
        });
        if house.audit.append(&record, SystemTime::now()).is_err() {
            tracing::error!("an engine could not be recorded: the audit log takes no more");
        }
    }
}

/// Records each alarm of an engine, and counts it.
pub(crate) async fn record_alarms(house: Arc<House>, mut alarms: mpsc::Receiver<Alarm>) {
    while let Some(alarm) = alarms.recv().await {
        let Alarm { number, epoch, cause } = alarm;
        match cause {
            Cause::Unsound(why) => tracing::error!(
                alarm = "unsound",
                epoch,
                number,
                ?why,
                "the engine found itself unsound: it admits nothing more and drains"
            ),
            Cause::Withdrawn { page, generation, last } => tracing::error!(
                alarm = "withdrawn",
                epoch,
                number,
                page,
                generation,
                last_tag = last,
                "a page of the engine was not blank after its wipe and is withdrawn for good"
            ),
        }
        let record = Record::Alarm(EngineAlarm { epoch: Word(epoch), number, cause: recorded(cause) });
        if house.audit.append(&record, SystemTime::now()).is_err() {
            tracing::error!("an alarm could not be recorded: the audit log takes no more");
        }
        Meter::add(&house.meter.engine_alarms);
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
