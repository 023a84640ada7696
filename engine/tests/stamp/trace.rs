//! Non-interference (P1): among any traffic, each request gets what it gets alone.

use crate::common::{
    PAGE, Rng, Session, assert_at_rest, config, greedy, oracle, prompt, solo, submit, try_engine,
};
use engine::{
    core::{Ended, EngineConfig, Fuse, PrefixCache, Progress},
    device::stamp::Lie,
};
use isolation::units::{Pages, Tokens};
use wire::{Ending, Refusal, Sampling, Submit};

/// Why a trace is not as it must be.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken(what())) }
}

fn any_config(rng: &mut Rng) -> EngineConfig {
    let prefix_cache = if rng.below(3) == 0 {
        PrefixCache::Off
    } else {
        PrefixCache::Share { percent: rng.pick(&[10, 50, 100]) }
    };
    EngineConfig {
        step_tokens: Tokens::new(rng.pick(&[1, 2, 3, 5, 8, 16, 64])),
        sequences_max: rng.pick(&[1, 2, 4, 8]),
        queue_max: rng.pick(&[0, 3, 40]),
        prefix_cache,
        scrub_pages: Pages::new(rng.pick(&[1, 2, 8])),
        ..config()
    }
}

/// Few bases, so that tenants send the same prompts; lengths about whole pages.
fn any_submit(rng: &mut Rng, number: u32) -> Submit {
    let pages = 1 + rng.below(5) as u32;
    let length = (pages * PAGE + rng.below(3) as u32).saturating_sub(1);
    let mut ids = prompt(rng.below(3) as u32, length);
    if rng.below(3) == 0 {
        // The same first token of the last page, and another one behind it.
        let last = ids.len() - 1;
        ids[last] = rng.below(64) as u32;
    }
    let sampling = match rng.below(3) {
        0 => greedy(),
        1 => Sampling { temperature: 1.0, top_p: 0.9, seed: rng.below(4), ..greedy() },
        _ => Sampling { temperature: 0.7, top_k: 5, presence_penalty: 1.0, seed: rng.below(4), ..greedy() },
    };
    let stop_tokens = if rng.below(2) == 0 { vec![rng.below(64) as u32] } else { vec![] };
    let base = submit(number, 1 + rng.below(4), ids, 1 + rng.below(7) as u32);
    Submit { sampling, stop_tokens, ..base }
}

/// What went through one trace, so that a test can tell that it tested something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) completed: u32,
    cancelled: u32,
    cached: u32,
    shrunk_out: u32,
    overloaded: u32,
    mixed: u32,
}

/// Random traffic from one seed: submit, cancel, step, shrink; then to rest.
pub(crate) fn run_trace(seed: u64, lie: Lie) -> Result<Seen, Broken> {
    let mut rng = Rng(seed);
    let pages = rng.pick(&[8, 9, 14, 30]);
    let engine = try_engine(pages, any_config(&mut rng), lie).map_err(|e| Broken(e.to_string()))?;
    let mut session = Session::new(engine);
    let mut sent: Vec<Submit> = vec![];
    let mut seen = Seen::default();
    for _ in 0..20 + rng.below(40) {
        match rng.below(10) {
            0..=4 => {
                let next = any_submit(&mut rng, sent.len() as u32);
                let window = session.engine.window().get();
                let asked = next.prompt.len() as u64 + u64::from(next.max_tokens);
                match session.submit(&next) {
                    Ok(()) => check(asked <= u64::from(window), || format!("{asked} of {window} admitted"))?,
                    Err(Refusal::TooLong { asked: named, window: at }) => {
                        check((named, at) == (asked, window) && asked > u64::from(window), || {
                            "TooLong".into()
                        })?;
                    }
                    Err(Refusal::Overloaded { .. }) => seen.overloaded += 1,
                    Err(other) => return Err(Broken(format!("{other:?}"))),
                }
                sent.push(next);
            }
            5 if !sent.is_empty() => {
                let whom = rng.below(sent.len() as u64) as usize;
                session.engine.cancel(sent[whom].request);
            }
            6 if rng.below(6) == 0 => session.engine.shrink(Pages::new(1 + rng.below(3) as u32)),
            _ => step(&mut session, 1 + rng.below(4))?,
        }
        let status = session.engine.status();
        seen.mixed += u32::from(status.running > 1);
    }
    step(&mut session, 100_000)?;
    judge(&mut session, &sent, &mut seen)?;
    Ok(seen)
}

fn step(session: &mut Session, count: u64) -> Result<(), Broken> {
    for _ in 0..count {
        let (engine, reader) = (&mut session.engine, &mut session.reader);
        let mut result = Ok(());
        let progress = engine.step(&mut |frame| {
            if result.is_ok() {
                result = reader.read(frame);
            }
        });
        result.map_err(|unsound| Broken(unsound.to_string()))?;
        if progress == Progress::Idle {
            return Ok(());
        }
    }
    check(count < 1000, || "restless".into())
}

fn judge(session: &mut Session, sent: &[Submit], seen: &mut Seen) -> Result<(), Broken> {
    check(session.engine.fuse() == Fuse::Intact, || format!("{:?}", session.engine.fuse()))?;
    for submit in sent {
        let transcript = &session.reader.transcripts()[&submit.request];
        let expected = oracle(submit);
        let (tokens, cached) =
            (&transcript.tokens, transcript.evidence.as_ref().map_or(0, |evidence| evidence.cached));
        seen.cached += u32::from(cached > 0);
        // What a tenant has is what it sent, and what it was answered.
        let has_own = sent.iter().any(|other| {
            let known = [other.prompt.clone(), oracle(other).iter().map(|token| token.id).collect()].concat();
            let is_head = known.get(..cached as usize) == submit.prompt.get(..cached as usize);
            is_head && other.request != submit.request && other.tag == submit.tag
        });
        check(cached == 0 || has_own, || format!("{cached} tokens from nowhere"))?;
        match &transcript.ended {
            Some(Ended::Admitted(Ending::Completed(_))) => {
                seen.completed += 1;
                check(*tokens == expected, || format!("tenant {} got other tokens", submit.tag))?;
            }
            Some(Ended::Admitted(Ending::Cancelled)) => {
                seen.cancelled += 1;
                check(expected.starts_with(tokens), || "a cancelled head differs".into())?;
            }
            Some(Ended::Refused(refusal)) => {
                seen.shrunk_out += u32::from(matches!(refusal, Refusal::TooLong { .. }));
                check(tokens.is_empty(), || "a refused request got tokens".into())?;
            }
            Some(Ended::Admitted(Ending::Failed(failed))) => return Err(Broken(format!("{failed:?}"))),
            None => return Err(Broken("no end".into())),
        }
    }
    assert_at_rest(&session.engine.status());
    Ok(())
}

fn traces() -> u64 {
    std::env::var("TRACES").ok().map_or(300, |count| count.parse().unwrap())
}

#[test]
fn each_request_among_others_gets_what_it_gets_alone() {
    let seeds = match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..traces()).collect(),
    };
    let whole = seeds.len() > 1;
    let mut sum = Seen::default();
    for seed in seeds {
        let seen = run_trace(seed, Lie::None).unwrap_or_else(|broken| panic!("SEED={seed}: {}", broken.0));
        sum.completed += seen.completed;
        sum.cancelled += seen.cancelled;
        sum.cached += seen.cached;
        sum.shrunk_out += seen.shrunk_out;
        sum.overloaded += seen.overloaded;
        sum.mixed += seen.mixed;
    }
    println!("{sum:?}");
    let each = [sum.completed, sum.cancelled, sum.cached, sum.shrunk_out, sum.overloaded, sum.mixed];
    assert!(!whole || each.iter().all(|count| *count > 100), "too little was tested: {sum:?}");
}

/// The oracle is no engine; here the same is asked of a fresh engine.
#[test]
fn the_oracle_is_a_fresh_engine() {
    let mut rng = Rng(1);
    for number in 0..100 {
        let submit = any_submit(&mut rng, number);
        let alone = solo(&submit);
        assert_eq!(alone.tokens, oracle(&submit));
        assert!(matches!(alone.ended, Some(Ended::Admitted(Ending::Completed(_)))));
    }
}
