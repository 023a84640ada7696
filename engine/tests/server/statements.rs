//! What an engine signs of what it did: the tokens that it sent and no others, whatever became of the sequence between.

use crate::{
    common::{config, greedy, name, no_cache, oracle, prompt, submit},
    gateway::{Gateway, Server},
};
use engine::core::{Ended, EngineConfig, PrefixCache};
use isolation::units::Tokens;
use wire::{
    Ending, Finished, OutputDigest, Sampling, Statement, Submit, ToEngine, digest_bias, digest_tokens,
};

fn digest_output(ids: impl IntoIterator<Item = u32>) -> [u8; 32] {
    let mut digest = OutputDigest::default();
    ids.into_iter().for_each(|id| digest.push(id));
    digest.finish()
}

/// What was signed of a sequence, if it is what was sent, asked and proved; or the first claim that is not.
fn judged(gateway: &Gateway, asked: &Submit) -> Result<Statement, &'static str> {
    let hello = gateway.hello.as_ref().unwrap();
    let transcript = &gateway.reader.transcripts()[&asked.request];
    let Some(Ended::Admitted(Ending::Completed(finish))) = transcript.ended else { panic!("{transcript:?}") };
    let evidence = transcript.evidence.clone().unwrap();
    let signed = transcript.statement.as_ref().ok_or("it is not stated")?;
    let stated = Statement::read(signed, &hello.boot_key).unwrap();
    let sampling = &asked.sampling;
    let expected = Statement {
        request: asked.request,
        epoch: hello.epoch,
        model: hello.model_digest,
        prompt_sha256: digest_tokens(&asked.prompt),
        prompt_tokens: asked.prompt.len() as u32,
        cached: evidence.cached,
        written: evidence.written,
        attended: asked.prompt.len() as u32,
        pages: evidence.pages,
        generations: evidence.generations,
        max_tokens: asked.max_tokens,
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        top_k: sampling.top_k,
        min_p: sampling.min_p,
        frequency_penalty: sampling.frequency_penalty,
        presence_penalty: sampling.presence_penalty,
        logit_bias_sha256: digest_bias(&sampling.logit_bias),
        stop_sha256: digest_tokens(&asked.stop_tokens),
        seed: sampling.seed,
        finish,
        output_tokens: transcript.tokens.len() as u32,
        output_sha256: digest_output(transcript.tokens.iter().map(|token| token.id)),
    };
    expected.differs(&stated).map_or(Ok(stated), Err)
}

/// Requests of three tenants with all that can be asked, over a cache.
fn stated_as_done(server: &Server) -> Result<(), &'static str> {
    let mut gateway = Gateway::open(server);
    let sampling = Sampling {
        temperature: 0.8,
        top_p: 0.9,
        top_k: 30,
        min_p: 0.01,
        seed: u64::MAX - 4,
        frequency_penalty: 0.3,
        presence_penalty: -0.1,
        logit_bias: vec![(5, 1.5)],
        ..greedy()
    };
    for number in 0..9 {
        let asked = submit(number, u64::from(number % 3), prompt(number % 2, 13), 1 + number);
        let asked = Submit { sampling: Sampling { seed: number.into(), ..sampling.clone() }, ..asked };
        gateway.submit(asked.clone());
        gateway.settle();
        judged(&gateway, &asked)?;
    }
    Ok(())
}

#[test]
fn an_engine_signs_what_it_did() {
    let server = Server::start();
    assert_eq!(stated_as_done(&server), Ok(()));
    let hello = Gateway::open(&server).hello.unwrap();
    assert_eq!(hello.build, engine::build());
    assert_ne!(hello.boot_key, [0; 32]);
    let again = Server::start();
    let next = Gateway::open(&again).hello.unwrap();
    assert_ne!(hello.boot_key, next.boot_key, "each life has its own key");
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_an_engine_that_states_no_output_would_be_noticed() {
    use engine::fault::{Fault, with};
    let forgets = |serve: Box<dyn FnOnce() -> _>| with(Fault::OutputUnstated, serve);
    let server = Server::within(crate::gateway::device(30), |_| {}, forgets);
    assert_eq!(stated_as_done(&server), Err("output_tokens"));
}

/// A token that ends a sequence is not sent, and so is not stated.
#[test]
fn a_stop_token_is_not_in_the_output() {
    let server = Server::start();
    let mut gateway = Gateway::open(&server);
    let whole = oracle(&submit(0, 1, prompt(0, 6), 20));
    let mut ends = vec![];
    for (number, at) in (1..).zip([0, 3, 7]) {
        let asked = Submit { stop_tokens: vec![whole[at].id], ..submit(number, 1, prompt(0, 6), 20) };
        gateway.submit(asked.clone());
        gateway.settle();
        let stated = judged(&gateway, &asked).unwrap();
        assert_eq!(stated.finish, Finished::Stop);
        let sent = oracle(&asked);
        assert_eq!(stated.output_tokens as usize, sent.len());
        let with_stop = sent.iter().map(|token| token.id).chain([whole[at].id]);
        assert_ne!(stated.output_sha256, digest_output(with_stop));
        ends.push(sent.len());
    }
    assert_eq!(ends[0], 0, "one ends before its first token");
    assert!(ends[2] > 0, "one has tokens before its stop");
}

/// A sequence that gives its place or its pages up computes its output again, and states it once.
#[test]
fn a_preempted_sequence_states_its_output_once() {
    let few = EngineConfig { sequences_max: 2, step_tokens: Tokens::new(4), ..no_cache() };
    let server = Server::with(2400, |config| config.engine = few);
    let mut gateway = Gateway::open(&server);
    // Long enough that they surely still run when the late one comes.
    let long: Vec<Submit> = (1..3).map(|number| submit(number, 1, prompt(number, 30), 1500)).collect();
    for asked in &long {
        gateway.submit(asked.clone());
    }
    gateway.status_when(|status| status.decoded > 20);
    let late = submit(9, 2, prompt(5, 6), 3);
    gateway.submit(late.clone());
    let computed: usize = long.iter().chain([&late]).map(|asked| asked.prompt.len()).sum();
    gateway.settle();
    // More was computed than there are prompts: somebody was displaced in the midst of its output.
    assert!(gateway.status().prefilled > computed as u64, "nobody was displaced: the test shows nothing");
    for asked in long.iter().chain([&late]) {
        let stated = judged(&gateway, asked).unwrap();
        assert_eq!(gateway.reader.transcripts()[&asked.request].tokens, oracle(asked));
        assert_eq!(stated.output_tokens, asked.max_tokens);
    }
}

/// A cached prefix is stated as such: what was not written again.
#[test]
fn what_came_from_the_cache_is_stated() {
    let cache = EngineConfig { prefix_cache: PrefixCache::Share { percent: 80 }, ..config() };
    let server = Server::with(60, |server| server.engine = cache);
    let mut gateway = Gateway::open(&server);
    let cached = [1, 2].map(|number| {
        let asked = submit(number, 1, prompt(0, 21), 2);
        gateway.submit(asked.clone());
        gateway.settle();
        let stated = judged(&gateway, &asked).unwrap();
        assert_eq!(stated.written + stated.cached, 21);
        stated.cached
    });
    assert_eq!(cached, [0, 20]);
}

#[test]
fn what_did_not_complete_is_not_stated() {
    let server = Server::with(1200, |_| {});
    let mut gateway = Gateway::open(&server);
    gateway.submit(submit(1, 1, prompt(0, 8), 1500));
    gateway.status_when(|status| status.running == 1);
    gateway.say(&ToEngine::Cancel(name(1)));
    gateway.settle();
    let transcript = &gateway.reader.transcripts()[&name(1)];
    assert_eq!(transcript.ended, Some(Ended::Admitted(Ending::Cancelled)));
    assert_eq!(transcript.statement, None);
}
