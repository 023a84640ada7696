//! What the scenarios stand on: an engine on a stamp device, requests that must get what the oracle says, and lost guards.

use crate::common::{Session, assert_at_rest, oracle, try_engine};
use engine::{
    core::{Ended, EngineConfig, Fuse, Progress},
    device::stamp::Lie,
};
use wire::{Ending, RequestId, Submit};

/// What went wrong.
pub(crate) type Wrong = String;

pub(crate) fn demand(holds: bool, what: impl FnOnce() -> String) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(what()) }
}

/// A guard that is lost, or a device that is not honest.
#[cfg(feature = "seeded-faults")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    Core(isolation::fault::Fault),
    Engine(engine::fault::Fault),
    Device(Lie),
}

/// What a scenario says without a guard. A panic says it too.
#[cfg(feature = "seeded-faults")]
pub(crate) fn without(loss: Loss, scenario: fn(Lie) -> Result<(), Wrong>) -> Result<(), Wrong> {
    let run = |lie| {
        std::panic::catch_unwind(|| scenario(lie)).unwrap_or_else(|_| Err("the scenario stopped".to_owned()))
    };
    match loss {
        Loss::Core(fault) => isolation::fault::with(fault, || run(Lie::None)),
        Loss::Engine(fault) => engine::fault::with(fault, || run(Lie::None)),
        Loss::Device(lie) => run(lie),
    }
}

/// An engine with a reader that believes it no more than a gateway would.
pub(crate) struct Stage {
    pub(crate) session: Session,
    sent: Vec<Submit>,
}

impl Stage {
    pub(crate) fn new(pages: u32, config: EngineConfig, lie: Lie) -> Result<Self, Wrong> {
        let engine = try_engine(pages, config, lie).map_err(|error| error.to_string())?;
        Ok(Self { session: Session::new(engine), sent: vec![] })
    }

    pub(crate) fn send(&mut self, submit: Submit) -> Result<(), Wrong> {
        let result = self.session.submit(&submit);
        self.sent.push(submit);
        result.map_err(|refusal| format!("refused: {refusal:?}"))
    }

    pub(crate) fn cancel(&mut self, request: RequestId) {
        self.session.engine.cancel(request);
    }

    pub(crate) fn step(&mut self) -> Result<Progress, Wrong> {
        let (engine, reader) = (&mut self.session.engine, &mut self.session.reader);
        let mut read = Ok(());
        let progress = engine.step(&mut |frame| {
            if read.is_ok() {
                read = reader.read(frame);
            }
        });
        read.map(|()| progress).map_err(|unsound| unsound.to_string())
    }

    pub(crate) fn steps(&mut self, count: u32) -> Result<(), Wrong> {
        (0..count).try_for_each(|_| self.step().map(|_| ()))
    }

    /// Steps until there is nothing to do.
    pub(crate) fn settle(&mut self) -> Result<(), Wrong> {
        for _ in 0..100_000 {
            if self.step()? == Progress::Idle {
                return Ok(());
            }
        }
        Err("the engine does not come to rest".to_owned())
    }

    /// Runs one request to its end, and gives the tokens that came from the cache.
    pub(crate) fn cached(&mut self, submit: Submit) -> Result<u32, Wrong> {
        let name = submit.request;
        self.send(submit)?;
        self.settle()?;
        Ok(self.session.reader.transcripts()[&name].evidence.as_ref().map_or(0, |proof| proof.cached))
    }

    /// Steps from a request's arrival to its first token.
    pub(crate) fn steps_to_first(&mut self, submit: Submit) -> Result<u32, Wrong> {
        let name = submit.request;
        self.send(submit)?;
        for steps in 1..1_000 {
            self.step()?;
            if !self.session.reader.transcripts()[&name].tokens.is_empty() {
                return Ok(steps);
            }
        }
        Err("a first token does not come".to_owned())
    }

    /// Comes to rest, and demands that all that completed is what the oracle says, that what ended otherwise got the head of
    /// it, that no page is lost, and that the fuse is whole.
    pub(crate) fn end(&mut self) -> Result<(), Wrong> {
        self.settle()?;
        for submit in &self.sent {
            let transcript = &self.session.reader.transcripts()[&submit.request];
            let expected = oracle(submit);
            let is_right = match &transcript.ended {
                Some(Ended::Admitted(Ending::Completed(_))) => transcript.tokens == expected,
                Some(Ended::Admitted(Ending::Cancelled | Ending::Failed(_))) => {
                    expected.starts_with(&transcript.tokens)
                }
                Some(Ended::Refused(_)) => transcript.tokens.is_empty(),
                None => return Err("a request has no end".to_owned()),
            };
            demand(is_right, || format!("tenant {} got what is not its own", submit.tag))?;
        }
        demand(self.session.engine.fuse() == Fuse::Intact, || format!("{:?}", self.session.engine.fuse()))?;
        let status = self.session.engine.status();
        std::panic::catch_unwind(|| assert_at_rest(&status)).map_err(|_| "pages are not at rest".to_owned())
    }

    /// Demands that this request completed.
    pub(crate) fn demand_completed(&self, name: RequestId) -> Result<(), Wrong> {
        let ended = &self.session.reader.transcripts()[&name].ended;
        let is_completed = matches!(ended, Some(Ended::Admitted(Ending::Completed(_))));
        demand(is_completed, || format!("a request ended in {ended:?}"))
    }
}
