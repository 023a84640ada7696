//! The engine of our own making: what it does wrong, and how it says it.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use wire::{
    BootKey, Decoder, Delta, End, Ending, Evidence, Finished, Hello, PROTOCOL, Refusal, Stamp, Statement,
    Submit, ToEngine, ToGateway, TokenOut, Witness, digest_tokens,
};

use super::EPOCH;

/// What the engine does wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lie {
    None,
    Digest,
    Tag,
    Epoch,
    ShortWritten,
    Attended,
    CachedWhole,
    NoPages,
    EvidenceSequence,
    NoEvidence,
    TokensFirst,
    DeltaTag,
    DeltaEpoch,
    DeltaSequence,
    DeltaRepeated,
    RefusedLate,
    DiesFirst,
    DiesLater,
    Refuses,
    Silent,
    /// Proves and says tokens, and then nothing more.
    Stalls,
}

/// An engine of a test's own making.
pub trait Peer: Send + 'static {
    /// What it says to a message; `None` when it dies instead.
    fn hear(&mut self, message: ToEngine) -> Option<Vec<ToGateway>>;
}

/// Serves sessions for ever; dies with the test's runtime.
pub(super) fn engine(socket: &Path, mut peer: impl Peer) {
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            session(stream, &mut peer).await;
        }
    });
}

async fn session(mut stream: UnixStream, peer: &mut impl Peer) {
    let mut decoder = Decoder::new();
    let mut bytes = vec![0; 64 * 1024];
    loop {
        while let Some(message) = decoder.take::<ToEngine>().unwrap() {
            let Some(frames) = peer.hear(message) else { return };
            for frame in frames {
                if stream.write_all(&wire::encode(&frame).unwrap()).await.is_err() {
                    return;
                }
                // One frame at a time, so that a client sees what was verified before a lie.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        match stream.read(&mut bytes).await {
            Ok(count) if count > 0 => decoder.push(&bytes[..count]),
            _ => return,
        }
    }
}

/// Tells one [`Lie`].
pub struct Liar {
    pub lie: Lie,
    pub marker: Vec<u32>,
    pub said: watch::Sender<u32>,
}

impl Peer for Liar {
    fn hear(&mut self, message: ToEngine) -> Option<Vec<ToGateway>> {
        match message {
            ToEngine::Hello(_) => Some(vec![hello()]),
            ToEngine::Submit(submit) => answer(&submit, self.lie, &self.marker),
            ToEngine::Cancel(_) => {
                self.said.send_modify(|count| *count += 1);
                Some(vec![])
            }
            ToEngine::Status => Some(vec![status()]),
            ToEngine::Quotas(_) => Some(vec![]),
        }
    }
}

pub fn hello() -> ToGateway {
    hello_in([3; 16])
}

/// What an engine says first in this session.
pub fn hello_in(session: [u8; 16]) -> ToGateway {
    ToGateway::Hello(Box::new(Hello {
        protocol: PROTOCOL,
        epoch: EPOCH,
        session,
        model_digest: MODEL,
        vocab: 49_152,
        window: 2048,
        capacity: 4096,
        page_tokens: 16,
        sequences_max: 64,
        boot_key: boot_key().public(),
        build: [0, 1, 0],
    }))
}

/// SHA-256 of the model file, as the engine says.
pub const MODEL: [u8; 32] = [5; 32];

/// What the engines of this process sign with.
pub fn boot_key() -> &'static BootKey {
    static KEY: OnceLock<BootKey> = OnceLock::new();
    KEY.get_or_init(|| BootKey::make(&ring::rand::SystemRandom::new()).unwrap())
}

/// The frames of one sequence, with the statement that is true of them, whatever else is false.
pub fn stated(submit: &Submit, frames: Vec<ToGateway>) -> Vec<ToGateway> {
    stated_as(submit, frames, |statement| statement.sign(boot_key()).ok())
}

/// The same, where the engine states what it likes.
pub fn stated_as(
    submit: &Submit,
    mut frames: Vec<ToGateway>,
    say: impl Fn(Statement) -> Option<String>,
) -> Vec<ToGateway> {
    let mut witness = Witness::of(submit, MODEL);
    for frame in &mut frames {
        match frame {
            ToGateway::Evidence { evidence, .. } => witness.proved(evidence),
            ToGateway::Delta(delta) => witness.sent(&delta.tokens),
            ToGateway::End(end) => {
                let Ending::Completed(finish) = end.ending else { continue };
                end.statement = witness.stated(finish).and_then(&say);
            }
            _ => {}
        }
    }
    frames
}

pub fn status() -> ToGateway {
    ToGateway::Status(wire::EngineStatus {
        epoch: EPOCH,
        window: 2048,
        capacity: 4096,
        running: 0,
        queued: 0,
        steps: 0,
        prefilled: 0,
        decoded: 0,
        census: wire::Census { clean: 256, total: 256, ..wire::Census::default() },
    })
}

/// The frames of one sequence; none when the engine dies instead.
pub fn answer(submit: &Submit, lie: Lie, marker: &[u32]) -> Option<Vec<ToGateway>> {
    let stamp = |sequence| Stamp { request: submit.request, tag: submit.tag, epoch: EPOCH, sequence };
    let mut first = stamp(0);
    let prompt = submit.prompt.len() as u32;
    let mut evidence = Evidence {
        prompt_digest: digest_tokens(&submit.prompt),
        written: prompt,
        attended: prompt,
        cached: 0,
        pages: 1,
        generations: 9,
    };
    let mut second = stamp(1);
    match lie {
        Lie::Digest => evidence.prompt_digest = digest_tokens(&[0]),
        Lie::Tag => first.tag ^= 1,
        Lie::Epoch => first.epoch ^= 1,
        Lie::ShortWritten => evidence.written -= 1,
        Lie::Attended => evidence.attended += 1,
        Lie::CachedWhole => (evidence.written, evidence.cached) = (0, prompt),
        Lie::NoPages => evidence.pages = 0,
        Lie::EvidenceSequence => first.sequence = 1,
        Lie::DeltaTag => second.tag ^= 1,
        Lie::DeltaEpoch => second.epoch ^= 1,
        Lie::DeltaSequence => second.sequence = 2,
        Lie::DeltaRepeated => second.sequence = 0,
        Lie::DiesFirst => return None,
        Lie::Silent => return Some(vec![]),
        Lie::Refuses => {
            let refusal = Refusal::TooLong { asked: 100, window: 77 };
            return Some(vec![ToGateway::Refused { request: submit.request, refusal }]);
        }
        Lie::None | Lie::NoEvidence | Lie::TokensFirst | Lie::RefusedLate | Lie::DiesLater | Lie::Stalls => {}
    }
    let token = |&id| TokenOut { id, logprob: 0.0, top: vec![] };
    let proof = ToGateway::Evidence { stamp: first, evidence };
    let tokens = ToGateway::Delta(Delta { stamp: second, tokens: marker.iter().map(token).collect() });
    let ending = Ending::Completed(Finished::Length);
    let completion = marker.len() as u32;
    let end = ToGateway::End(End { stamp: stamp(2), ending, completion, statement: None });
    let refusal = Refusal::Empty;
    let frames = match lie {
        Lie::NoEvidence => vec![end],
        Lie::Stalls => vec![proof, tokens],
        Lie::TokensFirst => vec![tokens, proof, end],
        Lie::RefusedLate => vec![proof, ToGateway::Refused { request: submit.request, refusal }, tokens],
        // Garbage after the proof: the gateway ends the session.
        Lie::DiesLater => vec![proof, hello()],
        _ => vec![proof, tokens, end],
    };
    Some(stated(submit, frames))
}
