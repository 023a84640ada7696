//! Runs one prepared request: sends its sequences, waits for their proofs, then answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use isolation::outcome::Finish;
use model::ModelText;
use tenant::Used;
use tokio::time::Instant;
use wire::{Logprobs, TokenOut};

use super::bill::{Bill, Due, Reached};
use super::cuts::{Broken, Cuts, Until};
use super::teller::{Teller, Told};
use super::words::{completed, contract, tokens};
use super::{Body, Client, Prepared, Proofs};
use crate::answer::{Denied, refused};
use crate::link::{Engine, Event, Group, Link, NotSent, Wanted};
use crate::meter::Meter;
use crate::openai::{Choice, DONE, Piece, Shape, StreamMode, TokenLogprob, Usage};
use crate::record::Ledger;

/// What a request runs with.
pub(crate) struct Run {
    pub(crate) link: Link,
    pub(crate) engine: Engine,
    pub(crate) model: Arc<ModelText>,
    pub(crate) window: u32,
    pub(crate) tag: isolation::tag::TenantTag,
    /// Until all sequences have proved their prefill, and until the end.
    pub(crate) limits: (Duration, Duration),
    /// Where no seed was given.
    pub(crate) seed: u64,
    pub(crate) shape: Shape,
    /// Turns true when running requests must end.
    pub(crate) cut: tokio::sync::watch::Receiver<bool>,
    /// Says when the key does not work any more.
    pub(crate) presence: tenant::Presence,
    pub(crate) meter: Arc<Meter>,
}

/// Answers the request and closes its account. A denial before the head is returned, for the edge to answer.
pub(crate) async fn serve(
    run: Run,
    prepared: Prepared,
    (mut ledger, mut bill): (Ledger, Bill),
    client: &mut dyn Client,
) -> Result<(), (Denied, Option<Ledger>)> {
    let (ended, began, due) = {
        let mut answer = Answer::new(&run, &prepared, (&mut ledger, &mut bill), client);
        let ended = answer.whole(prepared.prompts.clone()).await;
        let due = Due::of(answer.used(), answer.usage().prompt, answer.reached, &ended, answer.began);
        (ended, answer.began, due)
    };
    bill.settle(due, &run.meter);
    match ended {
        Ok(()) => {
            ledger.complete();
            Ok(())
        }
        // Dropped open, the ledger says cancelled.
        Err(Broken::Gone) => Ok(()),
        Err(Broken::Severed(denied)) => {
            client.sever().await;
            ledger.deny(&denied);
            Ok(())
        }
        Err(Broken::Denied(denied)) if began => {
            // The head is out: an error event for a stream, a cut for a body that was announced whole.
            if client.send(denied.event().into()).await.is_ok() {
                let _left = client.end().await;
            }
            ledger.deny(&denied);
            Ok(())
        }
        Err(Broken::Denied(denied)) => Err((denied, Some(ledger))),
    }
}

/// One choice of one prompt, as far as it has come.
struct Sequence {
    teller: Teller,
    text: String,
    logprobs: Vec<TokenLogprob>,
    cached: Option<u32>,
    finish: Option<Finish>,
}

struct Answer<'a> {
    run: &'a Run,
    prepared: &'a Prepared,
    ledger: &'a mut Ledger,
    bill: &'a mut Bill,
    client: &'a mut dyn Client,
    /// Whether the head of a stream is out.
    began: bool,
    reached: Reached,
    sequences: Vec<Sequence>,
    cuts: Cuts<'a>,
}

impl<'a> Answer<'a> {
    fn new(
        run: &'a Run,
        prepared: &'a Prepared,
        (ledger, bill): (&'a mut Ledger, &'a mut Bill),
        client: &'a mut dyn Client,
    ) -> Self {
        let call = &prepared.call;
        let count = prepared.prompts.len().saturating_mul(call.choices.into());
        let wants_logprobs = call.logprobs != Logprobs::Omit;
        let sequence = || Sequence {
            teller: Teller::new(call.stop.clone(), wants_logprobs),
            text: String::new(),
            logprobs: Vec::new(),
            cached: None,
            finish: None,
        };
        let sequences = std::iter::repeat_with(sequence).take(count).collect();
        let until = Until::after(Instant::now(), run.limits.1);
        let cuts = Cuts { presence: &run.presence, shutdown: run.cut.clone(), until };
        let (began, reached) = (false, Reached::Nothing);
        Self { run, prepared, ledger, bill, client, began, reached, sequences, cuts }
    }

    async fn whole(&mut self, prompts: Vec<Vec<u32>>) -> Result<(), Broken> {
        let (start, (first_limit, limit)) = (Instant::now(), self.run.limits);
        let wanted = self.wanted(prompts);
        let sizes: Vec<(u32, u32)> = wanted.iter().map(|one| (tokens(&one.prompt), one.max_tokens)).collect();
        let run = self.run;
        let tickets = self.ledger.admit(&run.engine, run.window, &sizes)?;
        let to = (run.tag, run.engine.hello.epoch);
        let mut group = run.link.submit(to, wanted).map_err(|not_sent| match not_sent {
            NotSent::Away => Denied::NoEngine,
            NotSent::Busy => Denied::Overloaded,
            NotSent::Unsendable => Denied::Internal,
        })?;
        self.reached = Reached::Asked;
        self.cuts.until = Until::after(start, first_limit.min(limit));
        let early = self.prove(&mut group).await?;
        self.cuts.until = Until::after(start, limit);
        self.cuts.recorded(tickets).await?;
        let streams = matches!(self.prepared.call.stream, StreamMode::Events { .. });
        if streams {
            self.begin_stream(early.proofs, early.tokens, &mut group).await?;
        } else {
            for (index, tokens) in early.tokens {
                self.take(&mut group, index, &tokens).await?;
            }
            for (index, finish) in early.ended {
                self.finish(index, finish).await?;
            }
            self.run_on(&mut group).await?;
            return self.send_whole(early.proofs).await;
        }
        for (index, finish) in early.ended {
            self.finish(index, finish).await?;
        }
        self.run_on(&mut group).await?;
        self.end_stream().await
    }

    fn wanted(&self, prompts: Vec<Vec<u32>>) -> Vec<Wanted> {
        let call = &self.prepared.call;
        let seed = call.sampling.seed.unwrap_or(self.run.seed);
        let mut wanted = Vec::with_capacity(self.sequences.len());
        for prompt in prompts {
            for choice in 0..u64::from(call.choices) {
                wanted.push(Wanted {
                    prompt: prompt.clone(),
                    max_tokens: self.prepared.output,
                    stop_tokens: self.run.model.tokenizer.stop_tokens().to_vec(),
                    // The first choice has the caller's own seed; an odd constant sets the others apart.
                    sampling: call.sampling.with_seed(
                        seed.wrapping_add(choice.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                        call.logprobs,
                    ),
                });
            }
        }
        wanted
    }

    /// Waits until each sequence has proved its prefill; what comes before the last proof is kept.
    async fn prove(&mut self, group: &mut Group) -> Result<Early, Broken> {
        let count = group.len();
        let mut proofs: Vec<_> = std::iter::repeat_with(|| None).take(count).collect();
        let (mut kept, mut ended) = (Vec::new(), Vec::new());
        while proofs.iter().any(Option::is_none) {
            let (index, event) = self.next(group).await?;
            match event {
                Event::Refused(refusal) => {
                    if self.reached == Reached::Asked {
                        self.reached = Reached::Nothing;
                    }
                    return Err(self.refused(index, &refusal).into());
                }
                Event::Proved(proved) => {
                    self.ledger.proved(index, &proved.evidence);
                    if let Some(sequence) = self.sequences.get_mut(index) {
                        sequence.cached = Some(proved.first.cached().get());
                    }
                    if let Some(place) = proofs.get_mut(index) {
                        *place = Some(proved.first);
                    }
                    self.reached = Reached::Computed;
                    self.bill.mark(self.used());
                }
                Event::Tokens(tokens) => kept.push((index, tokens.into_inner())),
                Event::Ended(end, jws) => ended.push((index, completed(end, jws, (index, self.ledger))?)),
            }
        }
        let proofs = Proofs::whole(proofs, count).ok_or(Denied::Internal)?;
        Ok(Early { proofs, tokens: kept, ended })
    }

    fn refused(&self, index: usize, refusal: &wire::Refusal) -> Denied {
        let choices = usize::from(self.prepared.call.choices).max(1);
        let prompt = index.checked_div(choices).and_then(|prompt| self.prepared.prompts.get(prompt));
        let param = self.prepared.call.endpoint.prompt_field();
        refused(refusal, prompt.map_or(0, Vec::len), self.prepared.output, param)
    }

    /// The next event, or why there is none: the client left, the key is revoked, the server ends, the time is over.
    async fn next(&mut self, group: &mut Group) -> Result<(usize, Event), Broken> {
        // First, so that an engine which always has something to say does not outlast any of them.
        if let Some(denied) = self.cuts.now() {
            return Err(denied.into());
        }
        tokio::select! {
            biased;
            next = group.next() => next.map_err(|failure| Broken::Denied(Denied::Failed(failure))),
            () = self.client.gone() => Err(Broken::Gone),
            denied = self.cuts.come() => Err(denied.into()),
        }
    }

    async fn begin_stream(
        &mut self,
        proofs: Proofs,
        early: Vec<(usize, Vec<TokenOut>)>,
        group: &mut Group,
    ) -> Result<(), Broken> {
        let count = proofs.len();
        self.cuts.during(self.client.begin(proofs, Body::Events)).await?;
        self.began = true;
        self.ledger.answered(200);
        for index in 0..count {
            let event = self.run.shape.first_event(u32::try_from(index).unwrap_or(u32::MAX));
            self.send(event).await?;
        }
        for (index, tokens) in early {
            self.take(group, index, &tokens).await?;
        }
        Ok(())
    }

    /// Runs all sequences to their ends.
    async fn run_on(&mut self, group: &mut Group) -> Result<(), Broken> {
        while !group.is_over() {
            let (index, event) = self.next(group).await?;
            match event {
                Event::Tokens(tokens) => self.take(group, index, &tokens.into_inner()).await?,
                Event::Ended(end, jws) => {
                    let finish = completed(end, jws, (index, self.ledger))?;
                    self.finish(index, finish).await?;
                }
                // Each sequence was proved before, and is refused or proved once.
                Event::Refused(_) | Event::Proved(_) => return Err(Denied::Internal.into()),
            }
        }
        Ok(())
    }

    async fn take(&mut self, group: &mut Group, index: usize, tokens: &[TokenOut]) -> Result<(), Broken> {
        for token in tokens {
            let Some(sequence) = self.sequences.get_mut(index).filter(|one| !one.teller.is_stopped()) else {
                return Ok(());
            };
            let told = sequence.teller.take(&self.run.model, token);
            let (count, stopped) = (sequence.teller.tokens(), sequence.teller.is_stopped());
            self.ledger.completion(index, count);
            self.bill.mark(self.used());
            self.tell(index, told).await?;
            if stopped {
                group.cancel(index);
                self.finish(index, Finish::Stop).await?;
            }
        }
        Ok(())
    }

    async fn finish(&mut self, index: usize, finish: Finish) -> Result<(), Broken> {
        let Some(sequence) = self.sequences.get_mut(index).filter(|one| one.finish.is_none()) else {
            return Ok(());
        };
        sequence.finish = Some(finish);
        let told = sequence.teller.finish();
        self.tell(index, told).await?;
        self.ledger.finished(index, finish);
        if self.began {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            self.send(self.run.shape.finish_event(index, contract(finish))).await?;
        }
        Ok(())
    }

    /// Sends a piece of a stream, or keeps it for the whole answer.
    async fn tell(&mut self, index: usize, told: Told) -> Result<(), Broken> {
        if told.is_empty() {
            return Ok(());
        }
        if self.began {
            let logprobs =
                (self.prepared.call.logprobs != Logprobs::Omit).then_some(told.logprobs.as_slice());
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let event = self.run.shape.piece_event(&Piece { index, text: &told.text, logprobs });
            return self.send(event).await;
        }
        if let Some(sequence) = self.sequences.get_mut(index) {
            sequence.text.push_str(&told.text);
            sequence.logprobs.extend(told.logprobs);
        }
        Ok(())
    }

    async fn send(&mut self, bytes: Vec<u8>) -> Result<(), Broken> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.cuts.during(self.client.send(Bytes::from(bytes))).await
    }

    async fn end_stream(&mut self) -> Result<(), Broken> {
        self.all_finished()?;
        let usage = self.run.shape.usage_event(&self.usage());
        self.send(usage).await?;
        self.send(DONE.to_vec()).await?;
        self.cuts.during(self.client.end()).await
    }

    async fn send_whole(&mut self, proofs: Proofs) -> Result<(), Broken> {
        self.all_finished()?;
        let wants_logprobs = self.prepared.call.logprobs != Logprobs::Omit;
        let choices: Vec<Choice<'_>> = self
            .sequences
            .iter()
            .map(|sequence| Choice {
                text: &sequence.text,
                finish: contract(sequence.finish.unwrap_or(Finish::Length)),
                logprobs: wants_logprobs.then_some(sequence.logprobs.as_slice()),
            })
            .collect();
        let body = self.run.shape.whole(&choices, &self.usage());
        self.cuts.during(self.client.begin(proofs, Body::Json(body.len()))).await?;
        self.ledger.answered(200);
        let client = &mut *self.client;
        let write = async {
            client.send(Bytes::from(body)).await?;
            client.end().await
        };
        // Nothing else fits into a body whose length was announced.
        self.cuts.during(write).await.map_err(Broken::severed)
    }

    /// P5: an answer completes only if each of its sequences did.
    fn all_finished(&self) -> Result<(), Broken> {
        let all = self.sequences.iter().all(|sequence| sequence.finish.is_some());
        if all { Ok(()) } else { Err(Denied::Internal.into()) }
    }

    /// As it counts against limits and budgets: of the prompts, those that are proved.
    fn used(&self) -> Used {
        let choices = usize::from(self.prepared.call.choices).max(1);
        let proved = self.sequences.chunks(choices).map(|all| all.iter().any(|one| one.cached.is_some()));
        let prompts = self.prepared.prompts.iter().zip(proved).filter(|(_, is_proved)| *is_proved);
        let prompt = prompts.map(|(prompt, _)| u64::from(tokens(prompt))).sum();
        let Usage { cached, completion, .. } = self.usage();
        Used { prompt, cached, completion }
    }

    fn usage(&self) -> Usage {
        let choices = usize::from(self.prepared.call.choices).max(1);
        let prompts = self.prepared.prompts.iter().map(|prompt| u64::from(tokens(prompt))).sum();
        let cached =
            self.sequences.iter().step_by(choices).map(|one| u64::from(one.cached.unwrap_or(0))).sum();
        let completion = self.sequences.iter().map(|one| u64::from(one.teller.tokens())).sum();
        Usage { prompt: prompts, cached, completion }
    }
}

/// What came before the last proof.
struct Early {
    proofs: Proofs,
    tokens: Vec<(usize, Vec<TokenOut>)>,
    ended: Vec<(usize, Finish)>,
}
