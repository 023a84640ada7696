use super::*;
use crate::{kv::KvShape, matmul::tests::numbers, vector::each_cpu_agrees};

const SHAPE: KvShape = KvShape { layers: 1, heads: 2, dim: 32 };
const HEADS: usize = 6;
const WIDTH: usize = HEADS * SHAPE.dim;

/// Pages of the one owner that these tests know, in order of position.
fn mine<const N: usize>(pages: [usize; N]) -> [Capability; N] {
    pages.map(|page| Capability { page, owner: 7, generation: 3 })
}

/// A sequence of `len` positions on the given pages of an otherwise poisoned memory.
fn memory(pages: &[Capability], len: usize, seed: u32) -> Kv {
    let mut kv = Kv::new(SHAPE, 16).unwrap();
    write(&mut kv, pages, len, seed);
    kv
}

fn write(kv: &mut Kv, pages: &[Capability], len: usize, seed: u32) {
    for page in pages {
        kv.erase(page.page).unwrap();
    }
    let (keys, values) = (numbers(len * 64, seed), numbers(len * 64, seed + 1));
    for p in 0..len {
        let slot = (pages[p / PAGE], p % PAGE);
        kv.write(0, slot, &keys[p * 64..(p + 1) * 64], &values[p * 64..(p + 1) * 64]).unwrap();
    }
}

fn run(cpu: Cpu, threads: usize, kv: &Kv, spans: &[Span<'_>], queries: &[f32]) -> Vec<u32> {
    let mut out = vec![f32::NAN; queries.len()];
    let queries = Queries { data: queries, stride: WIDTH, heads: HEADS };
    attend(cpu, &mut Pool::new(threads).unwrap(), (kv, 0), spans, queries, &mut out).unwrap();
    out.iter().map(|x| x.to_bits()).collect()
}

/// Plain f64 attention of one row and head, over the keys and values as f16 holds them.
fn truth(kv: &Kv, pages: &[Capability], position: usize, head: usize, query: &[f32]) -> Vec<f64> {
    let (mut keys, mut values) = (vec![0f32; 32 * PAGE], vec![0f32; 32 * PAGE]);
    let kv_head = head / (HEADS / SHAPE.heads);
    let mut scores = vec![];
    let mut rows = vec![];
    for p in 0..=position {
        let opened = kv.open(0, pages[p / PAGE], p % PAGE + 1).unwrap();
        opened.keys(kv_head, &mut keys);
        opened.values(kv_head, &mut values);
        let score: f64 =
            (0..32).map(|d| f64::from(query[d]) * f64::from(keys[d * PAGE + p % PAGE])).sum::<f64>();
        scores.push(score / 32f64.sqrt());
        rows.push(values[p % PAGE * 32..(p % PAGE + 1) * 32].to_vec());
    }
    let highest = scores.iter().copied().fold(f64::MIN, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| (s - highest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    (0..32).map(|d| weights.iter().zip(&rows).map(|(w, v)| w / sum * f64::from(v[d])).sum()).collect()
}

#[test]
fn it_is_close_to_plain_attention_on_every_path() {
    let pages = mine([5, 2, 9]);
    let kv = memory(&pages, 40, 1);
    let queries = numbers(40 * WIDTH, 3);
    let span = Span { row: 0, len: 40, start: 0, pages: &pages };
    let got = each_cpu_agrees(|cpu| run(cpu, 1, &kv, &[span], &queries));
    for row in [0, 1, 15, 16, 17, 31, 39] {
        for head in 0..HEADS {
            let at = row * WIDTH + head * 32;
            let truth = truth(&kv, &pages, row, head, &queries[at..at + 32]);
            for d in 0..32 {
                let got = f64::from(f32::from_bits(got[at + d]));
                assert!((got - truth[d]).abs() < 2e-6, "row {row} head {head}: {got} for {}", truth[d]);
            }
        }
    }
}

/// Whether chunks and thread counts change a row's bits.
fn varies_by_chunk() -> Option<String> {
    let pages = mine([5, 2, 9]);
    let kv = memory(&pages, 40, 1);
    let queries = numbers(40 * WIDTH, 3);
    let whole = run(Cpu::best(), 1, &kv, &[Span { row: 0, len: 40, start: 0, pages: &pages }], &queries);
    for cpu in Cpu::all() {
        for threads in [1, 2, 4] {
            for cut in [1, 7, 8, 15, 16, 17, 39] {
                let first = Span { row: 0, len: cut, start: 0, pages: &pages };
                let second = Span { row: 0, len: 40 - cut, start: cut, pages: &pages };
                let a = run(cpu, threads, &kv, &[first], &queries[..cut * WIDTH]);
                let b = run(cpu, threads, &kv, &[second], &queries[cut * WIDTH..]);
                if [a, b].concat() != whole {
                    return Some(format!("{cpu:?}, {threads} threads, cut at {cut}"));
                }
            }
        }
    }
    None
}

/// Whether a neighbour in the batch, and where the pages lie, change a row's bits.
fn varies_by_neighbour() -> bool {
    let pages = mine([5, 2, 9]);
    let queries = numbers(40 * WIDTH, 3);
    let span = Span { row: 0, len: 40, start: 0, pages: &pages };
    let alone = run(Cpu::best(), 1, &memory(&pages, 40, 1), &[span], &queries);
    let moved = mine([0, 1, 3]);
    let mut elsewhere = memory(&moved, 40, 1);
    write(&mut elsewhere, &mine([12, 13, 14]), 48, 77);
    let both = [&numbers(3 * WIDTH, 5)[..], &queries].concat();
    let spans = [
        Span { row: 0, len: 3, start: 27, pages: &mine([12, 13, 14]) },
        Span { row: 3, len: 40, start: 0, pages: &moved },
    ];
    run(Cpu::best(), 2, &elsewhere, &spans, &both)[3 * WIDTH..] != alone
}

/// Whether poison in these slots of its last page changes the bits of a row at position 17, the page's slot 1.
fn poison_shows(slots: std::ops::Range<usize>) -> bool {
    let pages = mine([5, 2]);
    let queries = numbers(WIDTH, 3);
    let span = Span { row: 0, len: 1, start: 17, pages: &pages };
    // Filled to the end, so that the bound alone keeps the rest out: a page's own mark would hide its loss.
    let mut kv = memory(&pages, 32, 1);
    let before = run(Cpu::best(), 1, &kv, &[span], &queries);
    let bad = [f32::NAN; 64];
    for slot in slots {
        kv.write(0, (pages[1], slot), &bad, &bad).unwrap();
    }
    run(Cpu::best(), 1, &kv, &[span], &queries) != before
}

/// P1: chunks, neighbours, page places and threads leave each row's bits alone.
#[test]
fn a_row_has_the_same_bits_however_it_comes() {
    assert_eq!(varies_by_chunk(), None);
    assert!(!varies_by_neighbour());
}

/// P3: loads end at the bound; a weight of zero would not keep a poisoned value out.
#[test]
fn nothing_beyond_the_bound_is_read() {
    assert!(poison_shows(1..2), "what lies at the position has an effect");
    assert!(!poison_shows(2..PAGE));
}

/// The positive controls: the same comparisons, on kernels without the guard.
#[cfg(feature = "seeded-faults")]
#[test]
fn seeded_faults_of_attention_are_noticed() {
    use crate::fault::{Fault, with};
    assert!(with(Fault::SumByChunk, varies_by_chunk).is_some());
    assert!(with(Fault::ForeignPages, varies_by_neighbour));
    assert!(with(Fault::MaskedNotBounded, || poison_shows(2..PAGE)));
}

#[test]
fn spans_that_do_not_fit_are_refused() {
    let kv = memory(&mine([5, 2]), 20, 1);
    let queries = numbers(WIDTH, 3);
    let mut out = vec![0.0; WIDTH];
    let mut try_span = |span: Span<'_>| {
        let queries = Queries { data: &queries, stride: WIDTH, heads: HEADS };
        attend(Cpu::best(), &mut Pool::new(1).unwrap(), (&kv, 0), &[span], queries, &mut out)
    };
    assert!(try_span(Span { row: 0, len: 1, start: 32, pages: &mine([5, 2]) }).is_err());
    assert!(try_span(Span { row: 0, len: 1, start: 0, pages: &mine([16]) }).is_err());
    assert!(try_span(Span { row: 1, len: 1, start: 0, pages: &mine([5]) }).is_err());
    assert!(try_span(Span { row: 0, len: 2, start: 0, pages: &mine([5]) }).is_err());
    assert!(try_span(Span { row: 0, len: 1, start: 19, pages: &mine([5, 2]) }).is_ok());
}

/// What attention gives for the two pages of one owner, when what is shown for the second is this.
fn shown(second: Capability) -> Result<(), KernelError> {
    let kv = memory(&mine([5, 2]), 20, 1);
    let [first, _] = mine([5, 2]);
    let queries = numbers(WIDTH, 3);
    let mut out = vec![f32::NAN; WIDTH];
    let queries = Queries { data: &queries, stride: WIDTH, heads: HEADS };
    let span = Span { row: 0, len: 1, start: 19, pages: &[first, second] };
    attend(Cpu::best(), &mut Pool::new(2).unwrap(), (&kv, 0), &[span], queries, &mut out)
}

/// P3: where the bytes are read, a page opens for its owner, in its life, as far as it is filled.
#[test]
fn a_page_that_is_not_what_is_shown_is_not_read() {
    let [_, second] = mine([5, 2]);
    assert_eq!(shown(second), Ok(()));
    let denied = |shown_as| shown(shown_as).unwrap_err();
    let page = 2;
    assert_eq!(denied(Capability { owner: 8, ..second }), KernelError::Denied(Denied::Owner { page }));
    assert_eq!(
        denied(Capability { generation: 4, ..second }),
        KernelError::Denied(Denied::Generation { page, asked: 4, found: 3 })
    );
    let unwritten = Denied::Unwritten { page: 9, layer: 0, filled: 0, asked: 4 };
    assert_eq!(denied(Capability { page: 9, ..second }), KernelError::Denied(unwritten));
}

/// The positive controls: each guard of the label alone stands between a wrong capability and the bytes.
#[cfg(feature = "seeded-faults")]
#[test]
fn seeded_faults_of_page_capabilities_are_noticed() {
    use crate::fault::{Fault, with};
    let [_, second] = mine([5, 2]);
    for (fault, capability) in [
        (Fault::NoOwnerCheck, Capability { owner: 8, ..second }),
        (Fault::NoGenerationCheck, Capability { generation: 4, ..second }),
        (Fault::NoFilledCheck, Capability { page: 9, ..second }),
    ] {
        assert!(shown(capability).is_err());
        assert_eq!(with(fault, || shown(capability)), Ok(()), "{fault:?}");
    }
}
