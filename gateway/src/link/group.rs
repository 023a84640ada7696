//! The sequences of one request: what each must prove, and what each may still say.

use isolation::evidence::{Evidence, Expectation, FirstToken, IntegrityError, Stamp, StampCheck, Verified};
use isolation::outcome::Failure;
use isolation::tag::TenantTag;
use isolation::units::{Epoch, Pages, Tokens};
use tokio::sync::mpsc;
use wire::{Ending, Hello, Refusal, RequestId, Submit, ToGateway, TokenOut};

use super::{Link, seen::Seen};

/// What one sequence did.
pub(crate) enum Event {
    /// It was refused before any page was touched.
    Refused(Refusal),
    /// It proved its prefill.
    Proved(Proved),
    /// It has more tokens.
    Tokens(Verified<Vec<TokenOut>>),
    /// It has no more; with its signed statement, if it completed.
    Ended(Ending, Option<String>),
}

/// A proof that was found to be what was sent, and its numbers for the record.
pub(crate) struct Proved {
    pub(crate) first: FirstToken,
    pub(crate) evidence: Evidence,
}

enum State {
    Waiting(Expectation),
    Proved(StampCheck),
    /// Cancelled by us: frames that were under way may still come, and go nowhere.
    Cancelled,
    Over,
}

/// All sequences of one request. Dropped, it cancels those that are not over.
pub(crate) struct Group {
    link: Link,
    frames: mpsc::Receiver<ToGateway>,
    sequences: Vec<(RequestId, State)>,
    seen: Seen,
}

impl Group {
    pub(super) fn new(link: Link, frames: mpsc::Receiver<ToGateway>) -> Self {
        Self { link, frames, sequences: Vec::new(), seen: Seen::default() }
    }

    /// Takes note of a sequence that is sent to the engine that said this hello.
    pub(super) fn expect(&mut self, submit: &Submit, hello: &Hello) {
        let count = Tokens::new(u32::try_from(submit.prompt.len()).unwrap_or(u32::MAX));
        let (digest, tag) = (wire::digest_tokens(&submit.prompt), TenantTag::new(submit.tag));
        let expectation = Expectation::new(submit.request, tag, Epoch::new(hello.epoch), digest, count);
        self.sequences.push((submit.request, State::Waiting(expectation)));
        self.seen.expect(submit, hello);
    }

    /// How many sequences there are.
    pub(crate) fn len(&self) -> usize {
        self.sequences.len()
    }

    /// Whether each has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.sequences.iter().all(|(_, state)| matches!(state, State::Over | State::Cancelled))
    }

    /// The next thing that a sequence did, and which. Safe to drop before it is ready.
    ///
    /// # Errors
    /// When the engine is lost, or what it says is not what was sent: then no more may be believed of this request.
    pub(crate) async fn next(&mut self) -> Result<(usize, Event), Failure> {
        let frame = loop {
            let frame = self.frames.recv().await.ok_or(Failure::EngineLost)?;
            if !self.is_of_cancelled(&frame) {
                break frame;
            }
        };
        self.judge(frame).inspect_err(|failure| {
            if let Failure::Integrity(error) = failure {
                tracing::error!(%error, alarm = "integrity", "the engine's word is not what was sent");
            }
        })
    }

    /// Ends one sequence that nobody needs more of.
    pub(crate) fn cancel(&mut self, index: usize) {
        if let Some((request, state)) = self.sequences.get_mut(index)
            && !matches!(state, State::Over | State::Cancelled)
        {
            *state = State::Cancelled;
            self.link.cancel(&[*request]);
        }
    }

    fn judge(&mut self, frame: ToGateway) -> Result<(usize, Event), Failure> {
        self.seen.hear(&frame);
        match frame {
            ToGateway::Refused { request, refusal } => {
                let (index, state) = self.find(request)?;
                let State::Waiting(_) = std::mem::replace(state, State::Over) else {
                    // Refused after it was admitted: no such end exists.
                    return Err(Failure::Integrity(IntegrityError::Closed { sequence: 0 }));
                };
                Ok((index, Event::Refused(refusal)))
            }
            ToGateway::Evidence { stamp, evidence } => {
                let (index, state) = self.find(stamp.request)?;
                let evidence = told(&stamp, &evidence);
                let State::Waiting(expectation) = std::mem::replace(state, State::Over) else {
                    return Err(Failure::Integrity(IntegrityError::Closed { sequence: stamp.sequence }));
                };
                #[cfg(feature = "seeded-faults")]
                let expectation = without_judgement(expectation, &evidence);
                let (first, check) = expectation.judge(&evidence).map_err(Failure::Integrity)?;
                *state = State::Proved(check);
                Ok((index, Event::Proved(Proved { first, evidence })))
            }
            ToGateway::Delta(delta) => {
                let (index, state) = self.find(delta.stamp.request)?;
                let tokens = accept(state, &delta.stamp, delta.tokens)?;
                Ok((index, Event::Tokens(tokens)))
            }
            ToGateway::End(end) => {
                let (index, state) = self.find(end.stamp.request)?;
                let ending = match (&*state, end.ending) {
                    // It may fail before it has anything to prove; to complete, it must have proved.
                    (State::Waiting(_), Ending::Failed(_) | Ending::Cancelled) => end.ending,
                    (State::Waiting(_) | State::Proved(_) | State::Cancelled | State::Over, _) => {
                        accept(state, &end.stamp, end.ending)?.into_inner()
                    }
                };
                *state = State::Over;
                Ok((index, Event::Ended(ending, self.seen.judge(&end)?)))
            }
            ToGateway::Hello(_) | ToGateway::Status(_) | ToGateway::Alarm(_) => {
                Err(Failure::Integrity(IntegrityError::Closed { sequence: 0 }))
            }
        }
    }

    fn is_of_cancelled(&self, frame: &ToGateway) -> bool {
        let request = match frame {
            ToGateway::Refused { request, .. } => *request,
            ToGateway::Evidence { stamp, .. } => stamp.request,
            ToGateway::Delta(delta) => delta.stamp.request,
            ToGateway::End(end) => end.stamp.request,
            ToGateway::Hello(_) | ToGateway::Status(_) | ToGateway::Alarm(_) => return false,
        };
        self.sequences.iter().any(|(name, state)| *name == request && matches!(state, State::Cancelled))
    }

    fn find(&mut self, request: RequestId) -> Result<(usize, &mut State), Failure> {
        let expected = self.sequences.first().map_or([0; 16], |(request, _)| *request);
        let mut all = self.sequences.iter_mut().enumerate();
        all.find(|(_, (name, _))| *name == request)
            .map(|(index, (_, state))| (index, state))
            .ok_or(Failure::Integrity(IntegrityError::Request { expected, got: request }))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let is_over = |state: &State| matches!(state, State::Over | State::Cancelled);
        let left = self.sequences.iter().filter(|(_, state)| !is_over(state));
        let left: Vec<RequestId> = left.map(|(request, _)| *request).collect();
        if !left.is_empty() {
            self.link.cancel(&left);
        }
    }
}

fn accept<T>(state: &mut State, stamp: &wire::Stamp, payload: T) -> Result<Verified<T>, Failure> {
    let State::Proved(check) = state else {
        return Err(Failure::Integrity(IntegrityError::Closed { sequence: stamp.sequence }));
    };
    let stamp = Stamp {
        request: stamp.request,
        tag: TenantTag::new(stamp.tag),
        epoch: Epoch::new(stamp.epoch),
        sequence: stamp.sequence,
    };
    #[cfg(feature = "seeded-faults")]
    let stamp = without_stamps(check, stamp);
    check.accept(stamp, payload).map_err(Failure::Integrity)
}

/// The engine's evidence in the core's words. A stamp that is no first one makes it another request's.
fn told(stamp: &wire::Stamp, evidence: &wire::Evidence) -> Evidence {
    let request = if stamp.sequence == 0 { stamp.request } else { [0; 16] };
    Evidence {
        request,
        tag: TenantTag::new(stamp.tag),
        epoch: Epoch::new(stamp.epoch),
        prompt_digest: evidence.prompt_digest,
        written: Tokens::new(evidence.written),
        attended: Tokens::new(evidence.attended),
        cached: Tokens::new(evidence.cached),
        pages: Pages::new(evidence.pages),
        generations: evidence.generations,
    }
}

/// What the engine says is what is expected.
#[cfg(feature = "seeded-faults")]
fn without_judgement(expectation: Expectation, said: &Evidence) -> Expectation {
    if !crate::fault::seeded(crate::fault::Fault::BelieveEvidence) {
        return expectation;
    }
    Expectation::new(said.request, said.tag, said.epoch, said.prompt_digest, said.attended)
}

/// A check that fits whatever frame has come.
#[cfg(feature = "seeded-faults")]
fn without_stamps(check: &mut StampCheck, stamp: Stamp) -> Stamp {
    if !crate::fault::seeded(crate::fault::Fault::BelieveStamps) {
        return stamp;
    }
    let one = Tokens::new(1);
    let said = Evidence {
        request: stamp.request,
        tag: stamp.tag,
        epoch: stamp.epoch,
        prompt_digest: [0; 32],
        written: one,
        attended: one,
        cached: Tokens::ZERO,
        pages: Pages::new(1),
        generations: 0,
    };
    if let Ok((_first, fresh)) =
        Expectation::new(said.request, said.tag, said.epoch, [0; 32], one).judge(&said)
    {
        *check = fresh;
    }
    Stamp { sequence: 1, ..stamp }
}
