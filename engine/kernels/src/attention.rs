//! Causal attention over pages. Each (row, head) is reduced over its positions in order, whatever shares the step (P1).

use crate::{
    Cpu, KernelError, Pool,
    cpu::versions,
    exp::exp,
    expect_len,
    fault::{self, Fault},
    kv::{Kv, Opened, PAGE},
    label::{Capability, Denied},
    matmul::Shared,
};
use std::{cell::RefCell, sync::OnceLock};

/// Rows that share one reading of the keys and values.
const ROWS: usize = 8;

/// Consecutive rows of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Index of the first row in the batch.
    pub row: usize,
    /// Rows.
    pub len: usize,
    /// Position of the first row; row `i` reads positions `0..=start + i`.
    pub start: usize,
    /// Pages, in order of position; they must reach the last row's position, and each must be what its capability says.
    pub pages: &'a [Capability],
}

/// Queries of a batch: `stride` elements from row to row, of which the first `heads * dim` are the query.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// All rows.
    pub data: &'a [f32],
    /// Elements from row to row.
    pub stride: usize,
    /// Query heads; a multiple of the heads of keys and values.
    pub heads: usize,
}

/// Writes `softmax(q k / sqrt(dim)) v` of each row and head into `out`, `heads * dim` elements a row.
///
/// # Errors
/// When shapes do not fit, a page lies outside, the pages do not reach a span's end, a page is not what its capability says
/// (and then nothing of it is read), or a worker panicked.
pub fn attend(
    cpu: Cpu,
    pool: &mut Pool,
    (kv, layer): (&Kv, usize),
    spans: &[Span<'_>],
    queries: Queries<'_>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let shape = kv.shape();
    let width = queries.heads * shape.dim;
    check(kv, layer, spans, queries, out.len())?;
    let mut tasks = Vec::new();
    for span in spans {
        for from in (0..span.len).step_by(ROWS) {
            for head in 0..shape.heads {
                tasks.push((*span, from, ROWS.min(span.len - from), head));
            }
        }
    }
    let group = queries.heads / shape.heads;
    let fault = fault::seeded();
    let denied = OnceLock::new();
    let out = Shared::new(out);
    pool.run(tasks.len(), 1, &|range| {
        for &(span, from, count, head) in &tasks[range] {
            SCRATCH.with_borrow_mut(|scratch| {
                let pages = match spans.first() {
                    Some(first)
                        if fault == Some(Fault::ForeignPages) && first.pages.len() >= span.pages.len() =>
                    {
                        first.pages
                    }
                    _ => span.pages,
                };
                let start = span.start + from;
                let block = Block { kv, layer, head, pages, start, count, group, fault };
                let lane = head * group * shape.dim;
                let query = |row: usize| {
                    let at = (span.row + from + row) * queries.stride + lane;
                    &queries.data[at..at + group * shape.dim]
                };
                scratch.load(&block, query);
                if let Err(why) = attend_block(cpu, &block, scratch) {
                    // The first of them will do.
                    let _ = denied.set(why);
                    return;
                }
                for row in 0..count {
                    let at = (span.row + from + row) * width + lane;
                    // JUSTIFICATION: heads of one row are written by several threads.
                    // SAFETY: this task alone has this block of rows and this head; `check` compared the output's size.
                    let place = unsafe { out.part(at, group * shape.dim) };
                    let from = row * group * shape.dim;
                    place.copy_from_slice(&scratch.out[from..from + group * shape.dim]);
                }
            });
        }
    })?;
    denied.into_inner().map_or(Ok(()), |why| Err(KernelError::Denied(why)))
}

fn check(
    kv: &Kv,
    layer: usize,
    spans: &[Span<'_>],
    queries: Queries<'_>,
    out: usize,
) -> Result<(), KernelError> {
    let shape = kv.shape();
    let rows: usize = spans.iter().map(|span| span.len).sum();
    let width = queries.heads * shape.dim;
    expect_len("query heads", queries.heads % shape.heads, 0)?;
    expect_len("attention outputs", out, rows * width)?;
    expect_len("queries", queries.data.len(), rows * queries.stride)?;
    if queries.stride < width || layer >= shape.layers {
        return Err(KernelError::Shape { what: "query stride", found: queries.stride, wanted: width });
    }
    let mut row = 0;
    for span in spans {
        expect_len("first row of a span", span.row, row)?;
        row += span.len;
        let wanted = (span.start + span.len).div_ceil(PAGE);
        if span.pages.len() < wanted {
            return Err(KernelError::Shape { what: "page table", found: span.pages.len(), wanted });
        }
        if let Some(&page) = span.pages[..wanted].iter().find(|page| page.page >= kv.pages()) {
            return Err(KernelError::Shape { what: "page", found: page.page, wanted: kv.pages() });
        }
    }
    Ok(())
}

/// Some rows of one sequence, and the query heads that share one head of keys and values.
struct Block<'a> {
    kv: &'a Kv,
    layer: usize,
    head: usize,
    pages: &'a [Capability],
    start: usize,
    count: usize,
    group: usize,
    fault: Option<Fault>,
}

impl Block<'_> {
    /// Positions that its last row reads.
    fn bound(&self) -> usize {
        self.start + self.count
    }

    /// Positions of page `index` that row `row` reads.
    fn seen(&self, row: usize, index: usize) -> usize {
        if self.fault == Some(Fault::MaskedNotBounded) {
            return PAGE;
        }
        (self.start + row + 1).saturating_sub(index * PAGE).min(PAGE)
    }

    /// Page `index`, as far as the last row reads it. Where the bytes are read, once more for keys and for values: P3.
    #[inline(always)]
    fn open(&self, index: usize, page: Capability) -> Result<Opened<'_>, Denied> {
        self.kv.open_with(self.layer, page, self.seen(self.count - 1, index), self.fault)
    }
}

#[derive(Default)]
struct Scratch {
    /// Scaled queries, `[row][query head][dim]`.
    query: Vec<f32>,
    /// `[row][query head][position]`.
    scores: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    /// As `query`.
    out: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Scratch {
    fn load<'q>(&mut self, block: &Block<'_>, query: impl Fn(usize) -> &'q [f32]) {
        let dim = block.kv.shape().dim;
        let heads = block.count * block.group;
        // A square root and a division, both exact to the last bit by IEEE 754.
        let scale = 1.0 / (dim as f32).sqrt();
        self.query.clear();
        for row in 0..block.count {
            self.query.extend(query(row).iter().map(|q| q * scale));
        }
        self.scores.resize(heads * block.bound().next_multiple_of(PAGE), 0.0);
        self.keys.resize(dim * PAGE, 0.0);
        self.values.resize(dim * PAGE, 0.0);
        self.out.clear();
        self.out.resize(heads * dim, 0.0);
    }
}

versions! {
    /// Fills `scratch.out` for one block.
    fn attend_block(block: &Block<'_>, scratch: &mut Scratch) -> Result<(), Denied> = attend_block_body
}

#[inline(always)]
fn attend_block_body(block: &Block<'_>, scratch: &mut Scratch) -> Result<(), Denied> {
    let Scratch { query, scores, keys, values, out } = scratch;
    let dim = block.kv.shape().dim;
    let stride = block.bound().next_multiple_of(PAGE);
    let pages = block.bound().div_ceil(PAGE);
    for (index, &page) in block.pages[..pages].iter().enumerate() {
        block.open(index, page)?.keys(block.head, keys);
        for row in 0..block.count {
            if block.seen(row, index) == 0 {
                continue;
            }
            for head in row * block.group..(row + 1) * block.group {
                let place = &mut scores[head * stride + index * PAGE..][..PAGE];
                place.copy_from_slice(&score_page(&query[head * dim..(head + 1) * dim], keys));
            }
        }
    }
    for row in 0..block.count {
        for head in row * block.group..(row + 1) * block.group {
            let len = block.start + row + 1;
            softmax(&mut scores[head * stride..head * stride + len]);
            match block.fault {
                Some(Fault::MaskedNotBounded) => scores[head * stride + len..(head + 1) * stride].fill(0.0),
                Some(Fault::SumByChunk) if block.count > 1 => {
                    sum_backwards(&mut scores[head * stride..][..len])
                }
                Some(_) | None => {}
            }
        }
    }
    for (index, &page) in block.pages[..pages].iter().enumerate() {
        block.open(index, page)?.values(block.head, values);
        for row in 0..block.count {
            let seen = block.seen(row, index);
            for head in row * block.group..(row + 1) * block.group {
                let weights = &scores[head * stride + index * PAGE..][..seen];
                add_values(weights, values, &mut out[head * dim..(head + 1) * dim]);
            }
        }
    }
    Ok(())
}

/// Scores of the 16 positions of a page: four chains over the elements `d mod 4`, added pairwise at the end.
#[inline(always)]
fn score_page(query: &[f32], keys: &[f32]) -> [f32; PAGE] {
    let mut acc = [[0f32; PAGE]; 4];
    let (fours, _) = query.as_chunks::<4>();
    let (columns, _) = keys.as_chunks::<{ PAGE * 4 }>();
    for (four, columns) in fours.iter().zip(columns) {
        for (c, acc) in acc.iter_mut().enumerate() {
            for (lane, acc) in acc.iter_mut().enumerate() {
                *acc = four[c].mul_add(columns[c * PAGE + lane], *acc);
            }
        }
    }
    let mut sum = [0f32; PAGE];
    for (lane, sum) in sum.iter_mut().enumerate() {
        *sum = (acc[0][lane] + acc[1][lane]) + (acc[2][lane] + acc[3][lane]);
    }
    sum
}

/// Turns scores into weights that sum to 1. The sum has 16 lanes by position, so no position's place depends on the others.
#[inline(always)]
fn softmax(scores: &mut [f32]) {
    let mut highest = [f32::NEG_INFINITY; PAGE];
    for scores in scores.chunks(PAGE) {
        for (highest, &score) in highest.iter_mut().zip(scores) {
            *highest = highest.max(score);
        }
    }
    let highest = highest.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let mut lanes = [0f32; PAGE];
    for scores in scores.chunks_mut(PAGE) {
        for (lane, score) in lanes.iter_mut().zip(scores) {
            *score = exp(*score - highest);
            *lane += *score;
        }
    }
    let share = 1.0 / sum_lanes(lanes);
    for score in scores {
        *score *= share;
    }
}

/// What a seeded fault makes of weights that sum to 1: the same numbers but for the last bits.
fn sum_backwards(weights: &mut [f32]) {
    let share = 1.0 / weights.iter().rev().sum::<f32>();
    weights.iter_mut().for_each(|weight| *weight *= share);
}

/// Adds lanes as a fixed tree.
#[inline(always)]
pub(crate) fn sum_lanes(mut lanes: [f32; PAGE]) -> f32 {
    let mut width = PAGE / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Adds the weighted values of a page, position by position.
#[inline(always)]
fn add_values(weights: &[f32], values: &[f32], out: &mut [f32]) {
    let dim = out.len();
    let (parts, _) = out.as_chunks_mut::<16>();
    for (part, out) in parts.iter_mut().enumerate() {
        let mut acc = *out;
        for (weight, values) in weights.iter().zip(values.chunks_exact(dim)) {
            for (acc, value) in acc.iter_mut().zip(&values[part * 16..part * 16 + 16]) {
                *acc = weight.mul_add(*value, *acc);
            }
        }
        *out = acc;
    }
}

#[cfg(test)]
mod tests;
