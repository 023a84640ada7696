//! An engine on a watched device, what was sent to it, and the oracles that every row is judged by.

use crate::{
    common::{EPOCH, oracle},
    watch::{Act, Book, Watch},
};
use engine::{
    core::{Ended, Engine, EngineConfig, Fuse, Progress, Reader, Transcript},
    device::stamp::Lie,
};
use isolation::{keyed::Secrets, units::Epoch};
use std::{cell::RefCell, rc::Rc};
use wire::{Alarm, Ending, EngineStatus, Refusal, RequestId, Submit};

/// What a row's scenario gives: `Err` is the violation, in words.
pub(crate) type Held<T = ()> = Result<T, String>;

/// Far more than any scenario takes.
const STEPS_MAX: u32 = 5_000;

pub(crate) fn hold(holds: bool, what: impl FnOnce() -> String) -> Held {
    if holds { Ok(()) } else { Err(what()) }
}

/// A guard that is lost.
#[cfg(feature = "seeded-faults")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    Core(isolation::fault::Fault),
    Engine(engine::fault::Fault),
}

/// A scenario without a guard must break, and for the reason that the guard is there for.
#[cfg(feature = "seeded-faults")]
pub(crate) fn breaks(loss: Loss, scenario: fn() -> Held, reason: &str) {
    let found = match loss {
        Loss::Core(fault) => isolation::fault::with(fault, scenario),
        Loss::Engine(fault) => engine::fault::with(fault, scenario),
    };
    match found {
        Err(found) if found.contains(reason) => {}
        other => panic!("without {loss:?}, expected a violation with {reason:?}, found {other:?}"),
    }
}

/// A row: its test, its control, its scenario, and the guards without which it must break, each with a part of what it says then.
macro_rules! row {
    ($test:ident, $control:ident, $scenario:path, [$($loss:expr => $reason:literal),+ $(,)?]) => {
        #[test]
        fn $test() {
            assert_eq!($scenario(), Ok(()));
        }

        #[cfg(feature = "seeded-faults")]
        #[test]
        fn $control() {
            #[allow(unused_imports, reason = "a row may name faults of one kind alone")]
            use {crate::rig::Loss, engine::fault::Fault::*, isolation::fault::Fault::*};
            $(crate::rig::breaks($loss, $scenario, $reason);)+
        }
    };
}
pub(crate) use row;

/// How the requests of a world ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    pub(crate) completed: u32,
    pub(crate) cancelled: u32,
    pub(crate) refused: u32,
    pub(crate) failed: u32,
}

/// See the module.
pub(crate) struct World {
    pub(crate) engine: Engine<Watch>,
    reader: Reader,
    sent: Vec<Submit>,
    pub(crate) book: Rc<RefCell<Book>>,
}

impl World {
    pub(crate) fn new(pages: u32, config: EngineConfig) -> Held<Self> {
        Self::begin(Watch::new(pages, Lie::None), config, EPOCH)
    }

    pub(crate) fn lying(pages: u32, config: EngineConfig, lie: Lie) -> Held<Self> {
        Self::begin(Watch::new(pages, lie), config, EPOCH)
    }

    /// A life of the engine on a device that may have had others.
    pub(crate) fn begin(device: Watch, config: EngineConfig, epoch: u64) -> Held<Self> {
        let book = Rc::clone(&device.book);
        let engine = Engine::new(device, config, Epoch::new(epoch), Secrets::new([4; 16]));
        Ok(Self { engine: engine.map_err(|e| e.to_string())?, reader: Reader::new(), sent: vec![], book })
    }

    pub(crate) fn act(&self, step: u64, act: Act) {
        self.book.borrow_mut().acts.insert(step, act);
    }

    /// Sends a request, which may be refused.
    pub(crate) fn try_send(&mut self, submit: &Submit) -> Result<(), Refusal> {
        self.reader.expect(submit);
        self.sent.push(submit.clone());
        let result = self.engine.submit(submit.clone());
        if let Err(refusal) = &result {
            self.reader.refused(submit.request, refusal.clone());
        }
        result
    }

    /// Sends a request that must be let in.
    pub(crate) fn send(&mut self, submit: &Submit) -> Held {
        let sent = self.try_send(submit);
        sent.map_err(|refusal| self.blown().unwrap_or_else(|| format!("refused: {refusal:?}")))
    }

    /// Why the engine trusts itself no more, if so.
    fn blown(&self) -> Option<String> {
        match self.engine.fuse() {
            Fuse::Blown(why) => Some(format!("the fuse is blown: {why}")),
            Fuse::Intact => None,
        }
    }

    /// One step, and what a gateway and the device's book say of it.
    pub(crate) fn step(&mut self) -> Held<Progress> {
        let reader = &mut self.reader;
        let mut read = Ok(());
        let progress = self.engine.step(&mut |frame| {
            if read.is_ok() {
                read = reader.read(frame);
            }
        });
        if let Some(wrong) = &self.book.borrow().wrong {
            return Err(wrong.clone());
        }
        read.map_err(|unsound| format!("a frame is unsound: {unsound}"))?;
        Ok(progress)
    }

    pub(crate) fn steps(&mut self, count: u32) -> Held {
        (0..count).try_for_each(|_| self.step().map(drop))
    }

    pub(crate) fn settle(&mut self) -> Held {
        for _ in 0..STEPS_MAX {
            if self.step()? == Progress::Idle {
                return Ok(());
            }
        }
        Err("the engine does not come to rest".into())
    }

    /// What the engine told of itself so far.
    pub(crate) fn alarms(&self) -> &[Alarm] {
        self.reader.alarms()
    }

    pub(crate) fn of(&self, request: RequestId) -> &Transcript {
        &self.reader.transcripts()[&request]
    }

    /// Runs one request alone to its end, and gives the tokens that came from the cache.
    pub(crate) fn cached(&mut self, submit: &Submit) -> Held<u32> {
        self.send(submit)?;
        self.settle()?;
        let evidence = self.of(submit.request).evidence.as_ref();
        let cached = evidence.map(|evidence| evidence.cached);
        cached.ok_or_else(|| self.blown().unwrap_or_else(|| "nothing was proved".into()))
    }

    /// O2, O4 and O7: each request ended, each answer is the one it gets alone or, cut short, a head of it, and every page is home.
    pub(crate) fn judge(&mut self) -> Held<Tally> {
        self.settle()?;
        if let Some(why) = self.blown() {
            return Err(why);
        }
        let tally = self.judge_answers()?;
        at_rest(&self.engine.status())?;
        Ok(tally)
    }

    /// [`World::judge`] without the pages.
    pub(crate) fn judge_answers(&mut self) -> Held<Tally> {
        let mut tally = Tally::default();
        for submit in &self.sent {
            let transcript = self.of(submit.request);
            let (tokens, tag) = (&transcript.tokens, submit.tag);
            let is_head = || oracle(submit).starts_with(tokens);
            let (count, holds) = match &transcript.ended {
                Some(Ended::Admitted(Ending::Completed(_))) => {
                    (&mut tally.completed, *tokens == oracle(submit))
                }
                Some(Ended::Admitted(Ending::Cancelled)) => (&mut tally.cancelled, is_head()),
                Some(Ended::Admitted(Ending::Failed(_))) => (&mut tally.failed, is_head()),
                Some(Ended::Refused(_)) => (&mut tally.refused, tokens.is_empty()),
                None => return Err(format!("a request of tenant {tag} has no end")),
            };
            *count += 1;
            hold(holds, || format!("tenant {tag} got other tokens"))?;
        }
        Ok(tally)
    }

    /// Like [`World::judge`], where every request must have completed.
    pub(crate) fn all_complete(&mut self) -> Held {
        let tally = self.judge()?;
        let sent = self.sent.len() as u32;
        hold(tally.completed == sent, || format!("of {sent} requests not all completed: {tally:?}"))
    }
}

/// O7: nothing is held but what the cache keeps, and each page is in one place.
pub(crate) fn at_rest(status: &EngineStatus) -> Held {
    let census = status.census;
    let is_still = (status.running, status.queued) == (0, 0)
        && (census.leased, census.quarantined, census.dirty) == (0, 0, 0);
    let sum = census.clean + census.shared + census.withdrawn;
    hold(is_still && sum == census.total, || format!("pages are held or missing at rest: {census:?}"))
}
