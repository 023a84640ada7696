//! One step: plan, tell the device, confirm, choose, and say what came of it.

use crate::{
    core::{
        Blown, Engine, Progress,
        plan::{Phase, View, plan},
        sequence::{Part, Running, Verdict},
    },
    device::{Chunk, Device, DeviceFault, Want},
    fault::{Fault, seeded},
};
use isolation::step::{OpenStep, StepReceipt};
use std::collections::BTreeMap;
use wire::{Ending, Failed, ToGateway};

/// What became of the sequences that took part, by their place; who is not in it goes on.
type Verdicts = BTreeMap<usize, Verdict>;

impl<D: Device> Engine<D> {
    /// Does one step's work, and hands out the frames there are.
    pub fn step(&mut self, emit: &mut dyn FnMut(ToGateway)) -> Progress {
        let mut worked = self.make_room();
        worked |= self.compute(emit);
        // After the step's own frames: what ended in `compute` by a fault is in the outbox as well.
        for frame in self.outbox.drain(..) {
            worked = true;
            emit(frame);
        }
        if worked { Progress::Worked } else { Progress::Idle }
    }

    fn compute(&mut self, emit: &mut dyn FnMut(ToGateway)) -> bool {
        if self.running.is_empty() {
            return false;
        }
        let step = match self.pool.open_step() {
            Ok(step) => step,
            Err(exhausted) => {
                self.blow(Blown::Steps(exhausted));
                self.fail_running(Failed::Device);
                return true;
            }
        };
        self.steps = step.id().get();
        let mut verdicts = Verdicts::new();
        let parts = self.gather(&step, &mut verdicts);
        let mut logits = std::mem::take(&mut self.logits);
        let receipt = self.run(step, parts, &mut logits, &mut verdicts, emit);
        self.logits = logits;
        if let Err(foreign) = self.pool.settle(&receipt) {
            self.blow(Blown::Receipt(foreign));
            self.fail_running(Failed::Isolation);
        }
        self.obey(verdicts, emit);
        if !cfg!(feature = "unguarded") {
            self.audit();
        }
        true
    }

    /// Asks the plan, and each sequence that has a turn for its part.
    fn gather(&mut self, step: &OpenStep, verdicts: &mut Verdicts) -> Vec<Part> {
        let weight = |running: &Running| self.pool.quota(running.tag()).weight();
        let candidates: Vec<_> = self.running.iter().map(|one| one.candidate(weight(one))).collect();
        let budget = self.config.step_tokens.min(self.facts.chunk_max).get();
        let mut parts = Vec::new();
        for turn in plan(&View { budget, candidates: &candidates }).turns {
            let Some(running) = self.running.get_mut(turn.candidate) else { continue };
            match running.join(turn.candidate, turn.tokens, step) {
                Ok(part) => parts.push(part),
                Err(error) => {
                    verdicts.insert(turn.candidate, Verdict::Ends(Ending::Failed(Failed::Isolation)));
                    self.blow(Blown::Lease(error));
                }
            }
        }
        parts
    }

    fn run(
        &mut self,
        step: OpenStep,
        parts: Vec<Part>,
        logits: &mut Vec<f32>,
        verdicts: &mut Verdicts,
        emit: &mut dyn FnMut(ToGateway),
    ) -> StepReceipt {
        if parts.is_empty() {
            return step.fail();
        }
        let chunks: Vec<_> = parts.iter().map(chunk).collect();
        let rows = parts.iter().filter(|part| part.reaches_end).count();
        let (receipt, result) = self.device.run(step, &chunks, logits);
        drop(chunks);
        let is_whole = logits.len() == rows.saturating_mul(self.facts.vocab);
        if let Err(fault) = &result {
            tracing::error!(%fault, sequences = parts.len(), "the device failed a step");
        }
        if result.is_err() || !is_whole {
            let failed = self.judge(result);
            verdicts.extend(parts.iter().map(|part| (part.place, Verdict::Ends(Ending::Failed(failed)))));
            return receipt;
        }
        let mut rows = logits.chunks_exact(self.facts.vocab);
        for part in parts {
            let row = if part.reaches_end { rows.next() } else { None };
            let place = part.place;
            let verdict = self.take_in(part, &receipt, row, emit);
            verdicts.insert(place, verdict);
        }
        receipt
    }

    /// What a step that gave no rows was: a broken device, or one that stopped before it read what it must not (P3).
    fn judge(&mut self, result: Result<(), DeviceFault>) -> Failed {
        match result {
            Err(DeviceFault::Denied(denied)) => {
                self.blow(Blown::Read(denied));
                Failed::Isolation
            }
            Ok(())
            | Err(
                DeviceFault::OtherStep { .. }
                | DeviceFault::Length { .. }
                | DeviceFault::Table { .. }
                | DeviceFault::Page { .. }
                | DeviceFault::Token { .. }
                | DeviceFault::Step { .. }
                | DeviceFault::Kernel(_)
                | DeviceFault::Broken,
            ) => Failed::Device,
        }
    }

    /// Confirms one sequence's part and, if it has a row of logits, moves it on.
    fn take_in(
        &mut self,
        part: Part,
        receipt: &StepReceipt,
        row: Option<&[f32]>,
        emit: &mut dyn FnMut(ToGateway),
    ) -> Verdict {
        let count = u64::try_from(part.ids.len()).unwrap_or(u64::MAX);
        let Some(running) = self.running.get_mut(part.place) else { return Verdict::Goes };
        match running.phase() {
            Phase::Prefilling => self.prefilled = self.prefilled.saturating_add(count),
            Phase::Decoding => {}
        }
        if let Err(error) = running.commit(part, receipt) {
            self.blow(Blown::Lease(error));
            return Verdict::Ends(Ending::Failed(Failed::Isolation));
        }
        let Some(row) = row else { return Verdict::Goes };
        let constant: Vec<f32>;
        let row = if seeded(Fault::SanitiseNan) && row.iter().any(|logit| logit.is_nan()) {
            constant = vec![0.0; row.len()];
            constant.as_slice()
        } else {
            row
        };
        match running.advance(row, &mut self.scratch, emit) {
            Ok(verdict) => {
                self.decoded = self.decoded.saturating_add(1);
                verdict
            }
            Err(_) => Verdict::Ends(Ending::Failed(Failed::NotANumber)),
        }
    }

    /// Keeps prefixes, and ends who has ended.
    fn obey(&mut self, verdicts: Verdicts, emit: &mut dyn FnMut(ToGateway)) {
        // From the last to the first, so that the places before stay what they are.
        for (place, verdict) in verdicts.into_iter().rev() {
            match verdict {
                Verdict::Goes => {}
                Verdict::Began => self.keep(place),
                Verdict::Ends(ending) => {
                    match ending {
                        _ if seeded(Fault::KeepFailed) => self.keep(place),
                        Ending::Completed(_) => self.keep(place),
                        Ending::Failed(Failed::NotANumber) => self.distrust(place),
                        Ending::Cancelled | Ending::Failed(_) => {}
                    }
                    if place < self.running.len() {
                        emit(self.running.remove(place).end(ending));
                    }
                }
            }
        }
    }

    /// Keeps the full pages of a sequence whose steps all succeeded.
    pub(super) fn keep(&mut self, place: usize) {
        if self.prefixes.is_off() {
            return;
        }
        let Some(running) = self.running.get_mut(place) else { return };
        let kept = match running.seal() {
            Ok(Some(run)) => self.prefixes.keep(&mut self.registry, &run).map_err(Blown::Prefix),
            Ok(None) => Ok(()),
            Err(error) => Err(Blown::Lease(error)),
        };
        if let Err(why) = kept {
            self.blow(why);
        }
    }

    /// Forgets all prefixes of a tenant whose numbers went bad: nobody knows which page holds the cause (D07).
    fn distrust(&mut self, place: usize) {
        let Some(running) = self.running.get(place) else { return };
        tracing::error!(
            tag = running.tag().get(),
            "a logit was not a number; the tenant's prefixes are let go"
        );
        self.prefixes.forget(running.tag());
    }
}

fn chunk(part: &Part) -> Chunk<'_> {
    let want = if part.reaches_end { Want::LastLogits } else { Want::Nothing };
    Chunk { tokens: &part.ids, access: &part.access, want }
}
