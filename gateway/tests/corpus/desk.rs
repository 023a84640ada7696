//! An engine that answers each prompt with its own tokens, so that an answer tells whose it is; and what it may do wrong.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use wire::{
    Delta, End, Ending, Evidence, Finished, Stamp, Submit, ToEngine, ToGateway, TokenOut, digest_tokens,
};

use crate::rig::{EPOCH, Peer, Rig, hello, stated, status};

/// Tokens that an answer has at most.
const ECHO_MAX: usize = 64;

/// What the desk does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// Answers each.
    Honest,
    /// Holds its first answer back until the second request is there, and sends both then.
    Late,
    /// Answers requests in pairs, each with what belongs to the other, proof and all.
    Crossed,
    /// Answers requests in pairs, each with the other's tokens behind its own proof.
    CrossedTokens,
    /// The first frame of each answer but the first comes from the slot of the request before.
    StaleSlot,
}

/// What the desk has heard.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Vec<Submit>>>);

impl Heard {
    pub fn all(&self) -> Vec<Submit> {
        self.0.lock().unwrap().clone()
    }

    /// Waits until so many requests have come.
    pub async fn wait(&self, count: usize) {
        while self.all().len() < count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

pub struct Desk {
    way: Way,
    heard: Heard,
    said: watch::Sender<u32>,
    held: Vec<Submit>,
}

/// A gateway before a desk.
pub async fn open(way: Way) -> (Rig, Heard) {
    let (said, cancelled) = watch::channel(0);
    let heard = Heard::default();
    let desk = Desk { way, heard: heard.clone(), said, held: vec![] };
    (Rig::with(desk, cancelled).await, heard)
}

impl Peer for Desk {
    fn hear(&mut self, message: ToEngine) -> Option<Vec<ToGateway>> {
        Some(match message {
            ToEngine::Hello(_) => vec![hello()],
            ToEngine::Status => vec![status()],
            ToEngine::Quotas(_) => vec![],
            ToEngine::Cancel(_) => {
                self.said.send_modify(|count| *count += 1);
                vec![]
            }
            ToEngine::Submit(submit) => {
                self.heard.0.lock().unwrap().push((*submit).clone());
                self.held.push(*submit);
                self.serve()
            }
        })
    }
}

impl Desk {
    fn serve(&mut self) -> Vec<ToGateway> {
        let held = std::mem::take(&mut self.held);
        match (self.way, held.as_slice()) {
            (Way::Honest, all) => all.iter().flat_map(|one| answer(one, one, one)).collect(),
            (Way::Late, [_]) if self.heard.all().len() == 1 => self.wait(held),
            (Way::Late, all) => all.iter().flat_map(|one| answer(one, one, one)).collect(),
            (Way::Crossed, [a, b]) => [answer(a, b, b), answer(b, a, a)].concat(),
            (Way::CrossedTokens, [a, b]) => [answer(a, a, b), answer(b, b, a)].concat(),
            (Way::Crossed | Way::CrossedTokens, _) => self.wait(held),
            (Way::StaleSlot, all) => {
                let heard = self.heard.all();
                let now = &all[0];
                let Some(before) = heard.len().checked_sub(2).and_then(|at| heard.get(at)) else {
                    return answer(now, now, now);
                };
                let mut frames = answer(now, now, now);
                let stale = Stamp { tag: before.tag, ..stamp(now, 1) };
                let (tokens, now) = (echo(before), now.clone());
                if let Some(ToGateway::End(end)) = frames.last_mut() {
                    end.completion += tokens.len() as u32;
                }
                frames.insert(1, ToGateway::Delta(Delta { stamp: stale, tokens }));
                stated(&now, frames)
            }
        }
    }

    fn wait(&mut self, held: Vec<Submit>) -> Vec<ToGateway> {
        self.held = held;
        vec![]
    }
}

fn stamp(of: &Submit, sequence: u32) -> Stamp {
    Stamp { request: of.request, tag: of.tag, epoch: EPOCH, sequence }
}

fn echo(of: &Submit) -> Vec<TokenOut> {
    of.prompt.iter().take(ECHO_MAX).map(|&id| TokenOut { id, logprob: 0.0, top: vec![] }).collect()
}

/// An answer to `to`, with the proof of one and the tokens of another.
fn answer(to: &Submit, proof_of: &Submit, tokens_of: &Submit) -> Vec<ToGateway> {
    let prompt = proof_of.prompt.len() as u32;
    let evidence = Evidence {
        prompt_digest: digest_tokens(&proof_of.prompt),
        written: prompt,
        attended: prompt,
        cached: 0,
        pages: 1,
        generations: 9,
    };
    let tokens = echo(tokens_of);
    let completion = tokens.len() as u32;
    let ending = Ending::Completed(Finished::Length);
    let frames = vec![
        ToGateway::Evidence { stamp: stamp(to, 0), evidence },
        ToGateway::Delta(Delta { stamp: stamp(to, 1), tokens }),
        ToGateway::End(End { stamp: stamp(to, 2), ending, completion, statement: None }),
    ];
    stated(to, frames)
}
