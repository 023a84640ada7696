//! Runs sequences to their end in process, and believes the engine no more than a gateway does. For tests and benches.

use crate::{
    core::{Engine, Progress},
    device::Device,
};
use isolation::{
    evidence::{Evidence, Expectation, IntegrityError, Stamp, StampCheck},
    tag::TenantTag,
    units::{Epoch, Pages, Tokens},
};
use std::collections::BTreeMap;
use thiserror::Error;
use wire::{Alarm, Ending, Refusal, RequestId, Submit, ToGateway, TokenOut, digest_tokens};

/// How a sequence ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ended {
    /// Before it was admitted, or before it had pages.
    Refused(Refusal),
    /// After it was admitted.
    Admitted(Ending),
}

/// All that came of one sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// What was proved, if it came so far.
    pub evidence: Option<wire::Evidence>,
    /// The tokens that came.
    pub tokens: Vec<TokenOut>,
    /// How it ended, if it has.
    pub ended: Option<Ended>,
    /// What was stated of it, as it came; nothing, where no server signs.
    pub statement: Option<String>,
}

/// What a gateway would raise an alarm on.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum Unsound {
    /// Evidence or a stamp did not stand up to what was sent.
    #[error("{0}")]
    Integrity(IntegrityError),
    /// A frame came where it has no place: before its evidence, after its end, or for a sequence that nobody sent.
    #[error("a frame has no place")]
    Unexpected,
    /// An end names another number of tokens than came.
    #[error("{named} tokens named, {came} came")]
    Completion {
        /// By the end.
        named: u32,
        /// In deltas.
        came: usize,
    },
    /// The engine did not come to rest.
    #[error("not at rest after {steps} steps")]
    Restless {
        /// How many.
        steps: u64,
    },
}

impl From<IntegrityError> for Unsound {
    fn from(error: IntegrityError) -> Self {
        Self::Integrity(error)
    }
}

enum Belief {
    Awaits(Expectation),
    Believes(StampCheck),
    Done,
}

/// Reads the frames of many sequences. Holds one entry for each that it was told of, and each alarm.
#[derive(Default)]
pub struct Reader {
    beliefs: BTreeMap<RequestId, Belief>,
    transcripts: BTreeMap<RequestId, Transcript>,
    alarms: Vec<Alarm>,
}

impl Reader {
    /// Nothing was sent yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes note of what is sent.
    pub fn expect(&mut self, submit: &Submit) {
        let prompt = Tokens::new(u32::try_from(submit.prompt.len()).unwrap_or(u32::MAX));
        let (tag, epoch) = (TenantTag::new(submit.tag), Epoch::new(submit.epoch));
        let digest = digest_tokens(&submit.prompt);
        let expectation = Expectation::new(submit.request, tag, epoch, digest, prompt);
        self.beliefs.insert(submit.request, Belief::Awaits(expectation));
        self.transcripts.insert(submit.request, Transcript::default());
    }

    /// Takes note of a refusal.
    pub fn refused(&mut self, request: RequestId, refusal: Refusal) {
        self.beliefs.insert(request, Belief::Done);
        self.transcripts.entry(request).or_default().ended = Some(Ended::Refused(refusal));
    }

    /// Judges one frame.
    ///
    /// # Errors
    /// What a gateway would raise an alarm on.
    pub fn read(&mut self, frame: ToGateway) -> Result<(), Unsound> {
        match frame {
            ToGateway::Hello(_) | ToGateway::Status(_) => Err(Unsound::Unexpected),
            ToGateway::Alarm(alarm) => {
                self.alarms.push(alarm);
                Ok(())
            }
            ToGateway::Refused { request, refusal } => match self.beliefs.get(&request) {
                Some(Belief::Awaits(_)) => {
                    self.refused(request, refusal);
                    Ok(())
                }
                Some(Belief::Believes(_) | Belief::Done) | None => Err(Unsound::Unexpected),
            },
            ToGateway::Evidence { stamp, evidence } => self.evidence(stamp, evidence),
            ToGateway::Delta(delta) => {
                let Some(Belief::Believes(check)) = self.beliefs.get_mut(&delta.stamp.request) else {
                    return Err(Unsound::Unexpected);
                };
                let tokens = check.accept(core_stamp(delta.stamp), delta.tokens)?.into_inner();
                self.transcripts.entry(delta.stamp.request).or_default().tokens.extend(tokens);
                Ok(())
            }
            ToGateway::End(end) => {
                let request = end.stamp.request;
                match self.beliefs.insert(request, Belief::Done) {
                    Some(Belief::Believes(mut check)) => {
                        check.accept(core_stamp(end.stamp), ())?.into_inner()
                    }
                    Some(Belief::Awaits(_)) if end.stamp.sequence == 0 => {}
                    Some(Belief::Awaits(_) | Belief::Done) | None => return Err(Unsound::Unexpected),
                }
                let transcript = self.transcripts.entry(request).or_default();
                transcript.ended = Some(Ended::Admitted(end.ending));
                transcript.statement = end.statement;
                let came = transcript.tokens.len();
                if u32::try_from(came) == Ok(end.completion) {
                    Ok(())
                } else {
                    Err(Unsound::Completion { named: end.completion, came })
                }
            }
        }
    }

    fn evidence(&mut self, stamp: wire::Stamp, evidence: wire::Evidence) -> Result<(), Unsound> {
        let Some(Belief::Awaits(expectation)) = self.beliefs.insert(stamp.request, Belief::Done) else {
            return Err(Unsound::Unexpected);
        };
        let (_, check) = expectation.judge(&Evidence {
            request: stamp.request,
            tag: TenantTag::new(stamp.tag),
            epoch: Epoch::new(stamp.epoch),
            prompt_digest: evidence.prompt_digest,
            written: Tokens::new(evidence.written),
            attended: Tokens::new(evidence.attended),
            cached: Tokens::new(evidence.cached),
            pages: Pages::new(evidence.pages),
            generations: evidence.generations,
        })?;
        if stamp.sequence != 0 {
            return Err(Unsound::Unexpected);
        }
        self.beliefs.insert(stamp.request, Belief::Believes(check));
        self.transcripts.entry(stamp.request).or_default().evidence = Some(evidence);
        Ok(())
    }

    /// What the engine found wrong with itself so far, in the order in which it was told.
    #[must_use]
    pub fn alarms(&self) -> &[Alarm] {
        &self.alarms
    }

    /// What came of each sequence so far.
    #[must_use]
    pub fn transcripts(&self) -> &BTreeMap<RequestId, Transcript> {
        &self.transcripts
    }

    /// What came of each sequence.
    #[must_use]
    pub fn into_transcripts(self) -> BTreeMap<RequestId, Transcript> {
        self.transcripts
    }
}

/// Submits all, and steps until nothing is left to do.
///
/// # Errors
/// What a gateway would raise an alarm on.
pub fn run_to_end<D: Device>(
    engine: &mut Engine<D>,
    submits: Vec<Submit>,
) -> Result<BTreeMap<RequestId, Transcript>, Unsound> {
    let mut reader = Reader::new();
    for submit in submits {
        let request = submit.request;
        reader.expect(&submit);
        if let Err(refusal) = engine.submit(submit) {
            reader.refused(request, refusal);
        }
    }
    settle(engine, &mut reader)?;
    Ok(reader.into_transcripts())
}

/// Steps until nothing is left to do.
///
/// # Errors
/// What a gateway would raise an alarm on.
pub fn settle<D: Device>(engine: &mut Engine<D>, reader: &mut Reader) -> Result<(), Unsound> {
    let mut result = Ok(());
    for _ in 0..STEPS_MAX {
        let progress = engine.step(&mut |frame| {
            let read = reader.read(frame);
            if result.is_ok() {
                result = read;
            }
        });
        match (result, progress) {
            (Err(_), _) | (Ok(()), Progress::Idle) => return result,
            (Ok(()), Progress::Worked) => {}
        }
    }
    Err(Unsound::Restless { steps: STEPS_MAX })
}

/// Far more than any run in process takes.
const STEPS_MAX: u64 = 10_000_000;

fn core_stamp(stamp: wire::Stamp) -> Stamp {
    Stamp {
        request: stamp.request,
        tag: TenantTag::new(stamp.tag),
        epoch: Epoch::new(stamp.epoch),
        sequence: stamp.sequence,
    }
}
