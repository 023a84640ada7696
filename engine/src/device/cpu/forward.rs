//! One forward pass: rows of several sequences, stacked. Rows meet only in attention, and there only those of one sequence.

use super::{count, usize_of, weights::Weights};
use crate::device::{Chunk, Want};
use kernels::{
    Capability, Cpu, KernelError, Pool, Rows,
    attention::{Queries, Span, attend},
    kv::{Kv, PAGE},
    matmul,
    vector::{Rope, add, rms_norm, silu_mul},
};
use model::LlamaShape;

/// Where one row of the batch belongs.
#[derive(Clone, Copy, Debug)]
struct Row {
    token: u32,
    position: usize,
    page: Capability,
}

/// What a pass computes with.
pub(super) struct Machine<'a> {
    pub(super) cpu: Cpu,
    pub(super) pool: &'a mut Pool,
    pub(super) kv: &'a mut Kv,
    pub(super) rope: &'a Rope,
    pub(super) weights: &'a Weights,
}

/// Room for what a pass computes; kept from step to step, and written whole before it is read.
pub(super) struct Buffers {
    /// The residual stream.
    x: Vec<f32>,
    normed: Rows,
    qkv: Vec<f32>,
    attended: Vec<f32>,
    attended_rows: Rows,
    projected: Vec<f32>,
    gate_up: Vec<f32>,
    activated: Rows,
    last: Rows,
}

/// The rows of all chunks, in order. Chunks were checked before: each position has its page.
fn rows(chunks: &[Chunk<'_>], tables: &[Vec<Capability>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (chunk, table) in chunks.iter().zip(tables) {
        let start = count(chunk.access.start());
        let places = chunk.tokens.iter().zip(start..);
        rows.extend(places.filter_map(|(&token, position)| {
            table.get(position / PAGE).map(|&page| Row { token, position, page })
        }));
    }
    rows
}

/// What a chunk may show for each of its pages: as its lease gave them out, tenant and generation with each (P3).
fn capabilities(chunk: &Chunk<'_>) -> Vec<Capability> {
    let owner = chunk.access.tag().get();
    let pages = chunk.access.pages().iter().zip(chunk.access.generations());
    pages
        .map(|(page, generation)| Capability { page: page.index(), owner, generation: generation.get() })
        .collect()
}

impl Buffers {
    pub(super) fn new(shape: &LlamaShape) -> Result<Self, KernelError> {
        Ok(Self {
            x: Vec::new(),
            normed: Rows::new(shape.width)?,
            qkv: Vec::new(),
            attended: Vec::new(),
            attended_rows: Rows::new(shape.heads.saturating_mul(shape.head_dim))?,
            projected: Vec::new(),
            gate_up: Vec::new(),
            activated: Rows::new(shape.ffn)?,
            last: Rows::new(shape.width)?,
        })
    }

    /// Runs all layers over the rows of `chunks`, then the head over the last row of each chunk that wants logits.
    pub(super) fn run(
        &mut self,
        machine: &mut Machine<'_>,
        chunks: &[Chunk<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<(), KernelError> {
        let tables: Vec<Vec<Capability>> = chunks.iter().map(capabilities).collect();
        let rows = rows(chunks, &tables);
        let width = machine.weights.shape().width;
        self.x.resize(rows.len().saturating_mul(width), 0.0);
        for (row, x) in rows.iter().zip(self.x.chunks_exact_mut(width)) {
            machine.weights.embedding.row(usize_of(row.token), x)?;
        }
        let spans = spans(chunks, &tables);
        for layer in 0..machine.weights.shape().layers {
            self.attention(machine, layer, &rows, &spans)?;
            self.feed_forward(machine, layer)?;
        }
        self.head(machine, chunks, logits)
    }

    fn attention(
        &mut self,
        machine: &mut Machine<'_>,
        index: usize,
        rows: &[Row],
        spans: &[Span<'_>],
    ) -> Result<(), KernelError> {
        let Some(layer) = machine.weights.layers.get(index) else { return Ok(()) };
        let shape = machine.weights.shape();
        self.norm(machine, &layer.attention_norm, rows.len())?;
        layer.qkv.multiply(machine.cpu, machine.pool, &self.normed, &mut self.qkv)?;
        let (queries, keys) =
            (shape.heads.saturating_mul(shape.head_dim), shape.kv_heads.saturating_mul(shape.head_dim));
        let stride = queries.saturating_add(keys).saturating_add(keys);
        for (row, qkv) in rows.iter().zip(self.qkv.chunks_exact_mut(stride)) {
            let (turned, values) = qkv.split_at_mut(queries.saturating_add(keys));
            machine.rope.turn(row.position, turned)?;
            let (_, keys) = turned.split_at(queries);
            machine.kv.write(index, (row.page, slot(row.position)), keys, values)?;
        }
        self.attended.resize(rows.len().saturating_mul(queries), 0.0);
        let all = Queries { data: &self.qkv, stride, heads: shape.heads };
        let memory = (&*machine.kv, index);
        attend(machine.cpu, machine.pool, memory, spans, all, &mut self.attended)?;
        let attended = &self.attended;
        self.attended_rows.fill(machine.cpu, machine.pool, rows.len(), &|row, out| {
            copy_row(attended, row, out);
        })?;
        self.project(machine, Projection::Attention, &layer.attention_out)
    }

    fn feed_forward(&mut self, machine: &mut Machine<'_>, index: usize) -> Result<(), KernelError> {
        let Some(layer) = machine.weights.layers.get(index) else { return Ok(()) };
        let ffn = machine.weights.shape().ffn;
        self.norm(machine, &layer.ffn_norm, self.normed.len())?;
        layer.gate_up.multiply(machine.cpu, machine.pool, &self.normed, &mut self.gate_up)?;
        let (gate_up, cpu) = (&self.gate_up, machine.cpu);
        let both = ffn.saturating_mul(2);
        self.activated.fill(cpu, machine.pool, self.normed.len(), &|row, out| {
            if let Some((gate, up)) = row_of(gate_up, row, both).and_then(|row| row.split_at_checked(ffn)) {
                silu_mul(cpu, gate, up, out);
            }
        })?;
        self.project(machine, Projection::FeedForward, &layer.down)
    }

    /// Multiplies and adds the result to the residual stream.
    fn project(
        &mut self,
        machine: &mut Machine<'_>,
        from: Projection,
        matrix: &kernels::Matrix,
    ) -> Result<(), KernelError> {
        let rows = match from {
            Projection::Attention => &self.attended_rows,
            Projection::FeedForward => &self.activated,
        };
        self.projected.resize(self.x.len(), 0.0);
        matmul(machine.cpu, machine.pool, matrix, rows, &mut self.projected)?;
        add(machine.cpu, &mut self.x, &self.projected);
        Ok(())
    }

    fn norm(&mut self, machine: &mut Machine<'_>, weight: &[f32], rows: usize) -> Result<(), KernelError> {
        let (x, cpu, eps) = (&self.x, machine.cpu, machine.weights.shape().rms_eps);
        let width = weight.len();
        self.normed.fill(cpu, machine.pool, rows, &|row, out| {
            if let Some(x) = row_of(x, row, width) {
                rms_norm(cpu, x, weight, eps, out);
            }
        })
    }

    fn head(
        &mut self,
        machine: &mut Machine<'_>,
        chunks: &[Chunk<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<(), KernelError> {
        let mut wanted = Vec::new();
        let mut end = 0_usize;
        for chunk in chunks {
            end = end.saturating_add(chunk.tokens.len());
            if chunk.want == Want::LastLogits {
                wanted.push(end.saturating_sub(1));
            }
        }
        let (x, cpu, weight) = (&self.x, machine.cpu, &machine.weights.norm);
        let eps = machine.weights.shape().rms_eps;
        self.last.fill(cpu, machine.pool, wanted.len(), &|index, out| {
            if let Some(x) = wanted.get(index).and_then(|&row| row_of(x, row, weight.len())) {
                rms_norm(cpu, x, weight, eps, out);
            }
        })?;
        let head = machine.weights.head();
        logits.resize(wanted.len().saturating_mul(head.rows()), 0.0);
        matmul(cpu, machine.pool, head, &self.last, logits)
    }
}

/// Which rows a projection back into the residual stream reads.
#[derive(Clone, Copy)]
enum Projection {
    Attention,
    FeedForward,
}

fn spans<'a>(chunks: &[Chunk<'_>], tables: &'a [Vec<Capability>]) -> Vec<Span<'a>> {
    let mut row = 0_usize;
    let mut spans = Vec::with_capacity(chunks.len());
    for (chunk, pages) in chunks.iter().zip(tables) {
        let len = chunk.tokens.len();
        spans.push(Span { row, len, start: count(chunk.access.start()), pages });
        row = row.saturating_add(len);
    }
    spans
}

/// A position's place in its page.
fn slot(position: usize) -> usize {
    position % PAGE
}

fn row_of(all: &[f32], row: usize, width: usize) -> Option<&[f32]> {
    let from = row.checked_mul(width)?;
    all.get(from..from.checked_add(width)?)
}

fn copy_row(all: &[f32], row: usize, out: &mut [f32]) {
    if let Some(from) = row_of(all, row, out.len()) {
        out.copy_from_slice(from);
    }
}
