//! An engine that does not start has no session to tell what it found: its log must.

use crate::common::{config, try_engine};
use engine::{core::EngineStartError, device::stamp::Lie};
use isolation::units::Tokens;
use std::sync::{Arc, Mutex};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::with_default,
};

/// Keeps the `page` of each error.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u64>>>);

impl Visit for Log {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "page" {
            self.0.lock().unwrap().push(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Why an engine on this device does not start, and the pages that its log names.
fn refused(lie: Lie) -> (Option<EngineStartError>, Vec<u64>) {
    let log = Log::default();
    let error = with_default(log.clone(), || try_engine(8, config(), lie).err());
    let pages = log.0.lock().unwrap().clone();
    (error, pages)
}

#[test]
fn pages_unfit_before_a_first_wipe_that_fails_are_in_the_log() {
    let (error, pages) = refused(Lie::SkipThenFail(6));
    assert!(matches!(error, Some(EngineStartError::Device(_))), "{error:?}");
    assert_eq!(pages, [6]);
}

#[test]
fn pages_unfit_in_a_pool_without_a_window_are_in_the_log() {
    let (error, pages) = refused(Lie::SkipWipe(0));
    assert_eq!(error, Some(EngineStartError::NoWindow { window: Tokens::ZERO }));
    assert_eq!(pages, (0..8).collect::<Vec<_>>());
}
