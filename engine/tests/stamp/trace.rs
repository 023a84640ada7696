//! Non-interference (P1): among any traffic, each request gets what it gets alone.

use crate::{
    common::{EPOCH, PAGE, Rng, Session, assert_at_rest, oracle, solo},
    events::{Event, TENANTS, Trace, any_submit},
};
use engine::{
    core::{Ended, Engine, Fuse, Progress},
    device::stamp::{Lie, StampDevice},
};
use isolation::{
    keyed::Secrets,
    tag::TenantTag,
    units::{Epoch, Pages, Tokens},
};
use std::num::NonZeroU32;
use wire::{Ending, Refusal, Submit};

/// Why a trace is not as it must be.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken(what())) }
}

/// What went through traces, so that a test can tell that it tested something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) completed: u32,
    cancelled: u32,
    cached: u32,
    shrunk_out: u32,
    overloaded: u32,
    asked_back: u32,
    preempted: u32,
    crashed: u32,
    mixed: u32,
}

impl Seen {
    fn add(&mut self, more: Self) {
        for (sum, more) in self.counts().into_iter().zip(more.counts_of()) {
            *sum += more;
        }
    }

    fn counts(&mut self) -> [&mut u32; 9] {
        let Self {
            completed,
            cancelled,
            cached,
            shrunk_out,
            overloaded,
            asked_back,
            preempted,
            crashed,
            mixed,
        } = self;
        [completed, cancelled, cached, shrunk_out, overloaded, asked_back, preempted, crashed, mixed]
    }

    fn counts_of(mut self) -> [u32; 9] {
        self.counts().map(|count| *count)
    }
}

/// One life of the engine, and what was sent to it.
struct Life {
    session: Session,
    sent: Vec<Submit>,
    asked_back: u32,
    is_shrunk: bool,
}

impl Life {
    fn begin(trace: &Trace, device: StampDevice, number: u64) -> Result<Self, Broken> {
        let epoch = Epoch::new(EPOCH + number);
        let secrets = Secrets::new([number as u8; 16]);
        let broken = |why: String| Broken(why);
        let mut engine =
            Engine::new(device, trace.config, epoch, secrets).map_err(|e| broken(e.to_string()))?;
        engine.set_quotas(&trace.quotas).map_err(|e| broken(e.to_string()))?;
        Ok(Self { session: Session::new(engine), sent: vec![], asked_back: 0, is_shrunk: false })
    }
}

/// Random traffic from one seed, then to rest.
pub(crate) fn run_trace(seed: u64, lie: Lie) -> Result<Seen, Broken> {
    run(&Trace::from_seed(seed), lie)
}

fn run(trace: &Trace, lie: Lie) -> Result<Seen, Broken> {
    let device = StampDevice::new(Pages::new(trace.pages), NonZeroU32::new(PAGE).unwrap(), Tokens::new(64));
    let mut life = Life::begin(trace, device.lying(lie), 0)?;
    let mut seen = Seen::default();
    for event in &trace.events {
        match event {
            Event::Submit(next) => send(&mut life, trace, next, &mut seen)?,
            Event::Cancel(whom) => {
                life.sent.get(*whom).iter().for_each(|sent| life.session.engine.cancel(sent.request));
            }
            Event::Preempt(whom) => {
                let sent = life.sent.get(*whom);
                let is_back = sent.is_some_and(|sent| life.session.engine.preempt(sent.request));
                life.asked_back += u32::from(is_back);
                seen.asked_back += u32::from(is_back);
            }
            Event::Forget(tag) => life.session.engine.forget(*tag),
            Event::Shrink(by) => {
                life.is_shrunk = true;
                life.session.engine.shrink(Pages::new(*by));
            }
            Event::Crash => {
                seen.crashed += 1;
                note_preempted(&life, &mut seen);
                judge(&life, &mut seen, AtEnd::Unknown)?;
                let epoch = life.session.engine.hello([0; 16], [0; 32]).epoch;
                life = Life::begin(trace, life.session.engine.into_device(), epoch - EPOCH + 1)?;
            }
            Event::Step(count) => step(&mut life, trace, *count)?,
        }
        seen.mixed += u32::from(life.session.engine.status().running > 1);
    }
    step(&mut life, trace, 100_000)?;
    note_preempted(&life, &mut seen);
    check(life.session.engine.fuse() == Fuse::Intact, || format!("{:?}", life.session.engine.fuse()))?;
    let alarms = life.session.reader.alarms();
    check(alarms.is_empty(), || format!("{alarms:?}"))?;
    judge(&life, &mut seen, AtEnd::All)?;
    assert_at_rest(&life.session.engine.status());
    Ok(seen)
}

/// Sends a request; what is refused for its length must be too long for its tenant, and nothing else may be.
fn send(life: &mut Life, trace: &Trace, next: &Submit, seen: &mut Seen) -> Result<(), Broken> {
    let engine = &life.session.engine;
    let next = Submit { epoch: engine.hello([0; 16], [0; 32]).epoch, ..next.clone() };
    let asked = next.prompt.len() as u64 + u64::from(next.max_tokens);
    let mut window = u64::from(engine.window().get());
    if !life.is_shrunk {
        let tag = TenantTag::new(next.tag);
        let others = trace.quotas.iter().filter(|(other, _)| *other != tag);
        let kept: u32 = others.map(|(_, quota)| quota.floor().get()).sum();
        let cap = trace.quotas.iter().find(|(other, _)| *other == tag).map_or(u32::MAX, |q| q.1.cap().get());
        window = window.min(u64::from((trace.pages - kept).min(cap)) * u64::from(PAGE));
    }
    match life.session.submit(&next) {
        Ok(()) => check(asked <= window, || format!("{asked} of {window} admitted"))?,
        Err(Refusal::TooLong { asked: named, window: at }) => {
            let is_right = named == asked && asked > u64::from(at) && u64::from(at) <= window;
            check(is_right && (life.is_shrunk || u64::from(at) == window), || {
                format!("{asked} refused at {at}, not {window}")
            })?;
        }
        Err(Refusal::Overloaded { .. }) => seen.overloaded += 1,
        Err(other) => return Err(Broken(format!("{other:?}"))),
    }
    life.sent.push(next);
    Ok(())
}

fn step(life: &mut Life, trace: &Trace, count: u64) -> Result<(), Broken> {
    for _ in 0..count {
        let (engine, reader) = (&mut life.session.engine, &mut life.session.reader);
        let mut result = Ok(());
        let progress = engine.step(&mut |frame| {
            if result.is_ok() {
                result = reader.read(frame);
            }
        });
        result.map_err(|unsound| Broken(unsound.to_string()))?;
        check_quotas(life, trace)?;
        if progress == Progress::Idle {
            return Ok(());
        }
    }
    check(count < 1000, || "restless".into())
}

/// No cap is passed, and each floor is there or can be had (I13).
fn check_quotas(life: &Life, trace: &Trace) -> Result<(), Broken> {
    let quota = |tag| trace.quotas.iter().find(|(other, _)| *other == tag).map(|(_, quota)| *quota);
    let mut taken = 0;
    for tag in (1..=TENANTS).map(TenantTag::new) {
        let held = life.session.engine.held(tag).get();
        let (floor, cap) = quota(tag).map_or((0, u32::MAX), |quota| (quota.floor().get(), quota.cap().get()));
        check(held <= cap, || format!("tenant {tag} holds {held} pages of {cap}"))?;
        taken += held.max(floor);
    }
    check(life.is_shrunk || taken <= trace.pages, || format!("{taken} pages are held or reserved"))
}

/// By the engine's own choice, beside those that the trace asked for.
fn note_preempted(life: &Life, seen: &mut Seen) {
    seen.preempted += u32::try_from(life.session.engine.preempted()).unwrap() - life.asked_back;
}

/// What is known of how requests ended.
#[derive(Clone, Copy, Eq, PartialEq)]
enum AtEnd {
    /// Each has.
    All,
    /// The engine died before it could say.
    Unknown,
}

fn judge(life: &Life, seen: &mut Seen, at_end: AtEnd) -> Result<(), Broken> {
    for submit in &life.sent {
        let transcript = &life.session.reader.transcripts()[&submit.request];
        let expected = oracle(submit);
        let (tokens, cached) =
            (&transcript.tokens, transcript.evidence.as_ref().map_or(0, |evidence| evidence.cached));
        seen.cached += u32::from(cached > 0);
        // What a tenant has is what it sent, and what it was answered.
        let has_own = life.sent.iter().any(|other| {
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
            // Preempted, and then the pool became too small for it.
            Some(Ended::Admitted(Ending::Failed(wire::Failed::NoCapacity))) if life.is_shrunk => {
                check(expected.starts_with(tokens), || "a failed head differs".into())?;
            }
            Some(Ended::Admitted(Ending::Failed(failed))) => return Err(Broken(format!("{failed:?}"))),
            None if at_end == AtEnd::Unknown => {
                check(expected.starts_with(tokens), || "a torn head differs".into())?;
            }
            None => return Err(Broken("no end".into())),
        }
    }
    Ok(())
}

/// Runs traces `0..count`, or the one that `SEED` names. One that fails is made small before it is shown.
fn run_all(count: u64) {
    let seeds = match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..count).collect(),
    };
    let mut sum = Seen::default();
    for seed in &seeds {
        let trace = Trace::from_seed(*seed);
        match run(&trace, Lie::None) {
            Ok(seen) => sum.add(seen),
            Err(broken) => {
                let small = trace.shrunk(|trace| run(trace, Lie::None).is_err());
                let why = run(&small, Lie::None).map(|_| ()).map_err(|broken| broken.0);
                panic!("SEED={seed}: {}\nmade small: {why:?}\n{small}", broken.0);
            }
        }
    }
    println!("{} traces: {sum:?}, no violation", seeds.len());
    let too_little = seeds.len() > 1 && sum.counts_of().iter().any(|count| *count < 100);
    assert!(!too_little, "too little was tested: {sum:?}");
}

#[test]
fn each_request_among_others_gets_what_it_gets_alone() {
    run_all(2_000);
}

#[test]
#[ignore = "long: a hundred thousand traces, for ./check --soak"]
fn soak_each_request_among_others_gets_what_it_gets_alone() {
    run_all(100_000);
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

/// A trace that fails is made small, and still fails.
#[test]
fn a_failing_trace_shrinks() {
    let fails = |trace: &Trace| run(trace, Lie::ReadShort).is_err();
    let trace = (0..50).map(Trace::from_seed).find(fails).unwrap();
    let small = trace.clone().shrunk(fails);
    assert!(fails(&small) && small.events.len() <= 2, "{small:#?}");
    assert!(matches!(small.events.first(), Some(Event::Submit(_))), "{small:#?}");
}
