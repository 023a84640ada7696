use super::*;
use crate::device::{Device, stamp::StampDevice};
use isolation::{
    page::Verify,
    pool::Pool,
    tag::Registry,
    units::{PageSize, Pages},
};
use std::num::NonZeroU32;
use wire::{Failed, Logprobs, Sampling};

const PAGE: PageSize = PageSize::new(NonZeroU32::new(4).unwrap());

pub(crate) fn waiting(tag: u64, name: u8) -> Waiting {
    with_prompt(tag, name, vec![1; 6], 3)
}

fn with_prompt(tag: u64, name: u8, prompt: Vec<u32>, max_new: u32) -> Waiting {
    let tag = TenantTag::new(tag);
    let scope = Registry::new().open(tag);
    let limits = Limits::derive(Tokens::new(64), Pages::new(16), PAGE).unwrap();
    let sampling = Sampling {
        temperature: 0.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
        seed: 0,
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        logit_bias: vec![],
        logprobs: Logprobs::Omit,
    };
    Waiting::new(
        Stamper::new([name; 16], tag, Epoch::new(1)),
        limits.admit(&scope, prompt, Tokens::new(max_new)).unwrap(),
        BTreeSet::from([5]),
        Sampler::new(sampling, 8).unwrap(),
    )
}

struct Bench {
    pool: Pool,
    running: Running,
    frames: Vec<ToGateway>,
}

/// A running sequence of 6 prompt tokens and 3 to generate.
fn bench() -> Bench {
    let mut device = StampDevice::new(Pages::new(4), NonZeroU32::new(4).unwrap(), Tokens::new(64));
    let mut pool = Pool::new(Pages::new(4), device.facts().page_size, Epoch::new(1));
    pool.scrub(Pages::new(4), Verify::ReadBack, &mut device).unwrap();
    let lease = pool.lease(&Registry::new().open(TenantTag::new(1)), Pages::new(3)).unwrap();
    let running = with_prompt(1, 9, vec![1, 2, 3, 4, 5, 6], 3).start(lease, vec![], 0);
    Bench { pool, running, frames: vec![] }
}

impl Bench {
    fn compute(&mut self, count: u32) -> bool {
        let step = self.pool.open_step().unwrap();
        let part = self.running.join(0, count, &step).unwrap();
        let reaches_end = part.reaches_end;
        let receipt = step.finish();
        self.running.commit(part, &receipt).unwrap();
        self.pool.settle(&receipt).unwrap();
        reaches_end
    }

    fn choose(&mut self, id: usize) -> Result<Verdict, NotANumber> {
        let mut logits = [0.0; 8];
        logits[id] = 1.0;
        self.running.advance(&logits, &mut Scratch::default(), &mut |frame| self.frames.push(frame))
    }
}

/// The table of all states and events: what a running sequence is, what happens to it, what it is then.
#[test]
fn the_table_of_states_is_whole() {
    let mut bench = bench();
    let phase = |bench: &Bench| (bench.running.phase(), bench.running.left());
    assert_eq!(phase(&bench), (Phase::Prefilling, 6));
    assert!(!bench.compute(4));
    assert_eq!(phase(&bench), (Phase::Prefilling, 2));
    assert!(bench.compute(2));
    assert_eq!(bench.choose(0), Ok(Verdict::Began));
    assert_eq!(phase(&bench), (Phase::Decoding, 1));
    assert!(bench.compute(1));
    assert_eq!(bench.choose(1), Ok(Verdict::Goes));
    assert_eq!(phase(&bench), (Phase::Decoding, 1));
    assert!(bench.compute(1));
    assert_eq!(bench.choose(2), Ok(Verdict::Ends(Ending::Completed(Finished::Length))));
    let end = bench.running.end(Ending::Completed(Finished::Length));
    bench.frames.push(end);

    let stamps: Vec<u32> = bench.frames.iter().map(sequence_of).collect();
    assert_eq!(stamps, [0, 1, 2, 3, 4]);
    assert!(matches!(&bench.frames[4], ToGateway::End(end) if end.completion == 3));
}

#[test]
fn a_stop_token_ends_without_being_sent() {
    let mut bench = bench();
    bench.compute(6);
    assert_eq!(bench.choose(5), Ok(Verdict::Ends(Ending::Completed(Finished::Stop))));
    assert_eq!(bench.frames.len(), 1);
    assert!(matches!(bench.frames[0], ToGateway::Evidence { .. }));
}

#[test]
fn evidence_is_what_was_done() {
    let mut bench = bench();
    bench.compute(4);
    bench.compute(2);
    bench.choose(0).unwrap();
    let ToGateway::Evidence { evidence, .. } = &bench.frames[0] else { panic!("{:?}", bench.frames[0]) };
    assert_eq!(evidence.prompt_digest, digest_tokens(&[1, 2, 3, 4, 5, 6]));
    assert_eq!((evidence.written, evidence.attended, evidence.cached, evidence.pages), (6, 6, 0, 2));
    assert_eq!(evidence.generations, bench.running.lease.generation_digest());
}

#[test]
fn without_a_number_there_is_no_evidence_and_no_token() {
    let mut bench = bench();
    bench.compute(6);
    let result =
        bench.running.advance(&[f32::NAN; 8], &mut Scratch::default(), &mut |frame| bench.frames.push(frame));
    assert_eq!(result, Err(NotANumber));
    assert!(bench.frames.is_empty());
    let end = bench.running.end(Ending::Failed(Failed::NotANumber));
    assert_eq!(sequence_of(&end), 0);
}

#[test]
fn a_part_that_is_not_confirmed_is_not_held() {
    let mut bench = bench();
    let step = bench.pool.open_step().unwrap();
    let part = bench.running.join(0, 4, &step).unwrap();
    let receipt = step.fail();
    assert!(bench.running.commit(part, &receipt).is_err());
    assert!(bench.running.held.is_empty());
    assert_eq!(bench.running.written, Tokens::ZERO);
    assert!(bench.running.seal().unwrap().is_none());
}

#[test]
fn a_waiting_sequence_is_asked_again() {
    let narrow = Limits::derive(Tokens::new(8), Pages::new(16), PAGE).unwrap();
    let wide = Limits::derive(Tokens::new(9), Pages::new(16), PAGE).unwrap();
    assert!(waiting(1, 1).readmit(&wide).is_ok());
    assert!(waiting(1, 1).readmit(&narrow).is_err());
    assert_eq!(sequence_of(&waiting(1, 1).end(Ending::Cancelled)), 0);
}

/// What was generated before a preemption is computed again like a prompt, and the stamps go on.
#[test]
fn a_preempted_sequence_goes_on_where_it_was() {
    let mut bench = bench();
    bench.compute(6);
    bench.choose(0).unwrap();
    bench.compute(1);
    bench.choose(1).unwrap();
    let Bench { mut pool, running, mut frames } = bench;
    assert_eq!((running.own_pages(), running.preempted()), (Pages::new(3), Preempted::default()));
    let once = Preempted { for_pages: 1, ..Preempted::default() };
    let waiting = running.preempt(once);
    assert_eq!((waiting.known(), waiting.total()), (&[1, 2, 3, 4, 5, 6, 0, 1][..], Tokens::new(9)));
    let mut device = StampDevice::new(Pages::new(4), NonZeroU32::new(4).unwrap(), Tokens::new(64));
    pool.scrub(Pages::new(4), Verify::ReadBack, &mut device).unwrap();
    let lease = pool.lease(&Registry::new().open(TenantTag::new(1)), Pages::new(3)).unwrap();
    let mut bench = Bench { pool, running: waiting.start(lease, vec![], 0), frames: vec![] };
    assert_eq!((bench.running.phase(), bench.running.left()), (Phase::Prefilling, 8));
    assert_eq!(bench.running.preempted(), once);
    assert!(bench.compute(8));
    assert_eq!(bench.choose(2), Ok(Verdict::Ends(Ending::Completed(Finished::Length))));
    frames.extend(bench.frames);
    frames.push(bench.running.end(Ending::Completed(Finished::Length)));
    assert_eq!(frames.iter().map(sequence_of).collect::<Vec<_>>(), [0, 1, 2, 3, 4], "one evidence, no gap");
    assert!(matches!(&frames[4], ToGateway::End(end) if end.completion == 3));
}

/// Whoever has been answered in part gets an end; a refusal would deny what is out.
#[test]
fn who_was_answered_in_part_is_not_refused() {
    assert!(matches!(waiting(1, 1).turn_away(Refusal::ShuttingDown), ToGateway::Refused { .. }));
    for (refusal, failed) in [
        (Refusal::ShuttingDown, Failed::ShuttingDown),
        (Refusal::TooLong { asked: 9, window: 8 }, Failed::NoCapacity),
    ] {
        let mut bench = bench();
        bench.compute(6);
        bench.choose(0).unwrap();
        let last = bench.running.preempt(Preempted::default()).turn_away(refusal);
        let expected = Ending::Failed(failed);
        assert!(matches!(&last, ToGateway::End(end) if end.ending == expected && end.completion == 1));
        assert_eq!(sequence_of(&last), 2);
    }
}

fn sequence_of(frame: &ToGateway) -> u32 {
    match frame {
        ToGateway::Evidence { stamp, .. } => stamp.sequence,
        ToGateway::Delta(delta) => delta.stamp.sequence,
        ToGateway::End(end) => end.stamp.sequence,
        ToGateway::Hello(_) | ToGateway::Refused { .. } | ToGateway::Status(_) | ToGateway::Alarm(_) => {
            panic!("{frame:?}")
        }
    }
}
