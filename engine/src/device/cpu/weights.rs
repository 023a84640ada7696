//! A model's weights, packed. Read tensor by tensor, so that at no time more than one lies in memory twice.

use super::{LoadError, LoadProgress};
use kernels::{Cpu, KernelError, Matrix, Pool, Quant, Rows, matmul};
use model::{LlamaShape, ModelFile, TensorInfo, TensorKind};
use std::path::Path;

/// All that a forward pass multiplies with. Never changes; many devices may share it.
pub struct Weights {
    shape: LlamaShape,
    digest: [u8; 32],
    pub(super) embedding: Matrix,
    /// None: the embedding serves as the output head too.
    pub(super) head: Option<Matrix>,
    pub(super) norm: Vec<f32>,
    pub(super) layers: Vec<Layer>,
}

/// One layer's weights.
pub(super) struct Layer {
    pub(super) attention_norm: Vec<f32>,
    /// Query, key and value, one after another.
    pub(super) qkv: Stack,
    pub(super) attention_out: Matrix,
    pub(super) ffn_norm: Vec<f32>,
    /// Gate, then up.
    pub(super) gate_up: Stack,
    pub(super) down: Matrix,
}

/// Matrices that read the same rows, their outputs one after another. One matrix where their formats allow, so that one call
/// serves all.
pub(super) struct Stack(Vec<Matrix>);

impl Stack {
    fn outputs(&self) -> usize {
        self.0.iter().map(Matrix::rows).sum()
    }

    /// As [`matmul`], for all of them.
    pub(super) fn multiply(
        &self,
        cpu: Cpu,
        pool: &mut Pool,
        rows: &Rows,
        out: &mut Vec<f32>,
    ) -> Result<(), KernelError> {
        let width = self.outputs();
        out.resize(rows.len().saturating_mul(width), 0.0);
        if let [matrix] = self.0.as_slice() {
            return matmul(cpu, pool, matrix, rows, out);
        }
        let mut from = 0_usize;
        for matrix in &self.0 {
            let mut part = vec![0.0; rows.len().saturating_mul(matrix.rows())];
            matmul(cpu, pool, matrix, rows, &mut part)?;
            for (out, part) in out.chunks_exact_mut(width).zip(part.chunks_exact(matrix.rows())) {
                let places = out.iter_mut().skip(from);
                places.zip(part).for_each(|(place, value)| *place = *value);
            }
            from = from.saturating_add(matrix.rows());
        }
        Ok(())
    }
}

impl Weights {
    /// Reads and packs a model file.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn read(path: &Path, progress: &mut dyn FnMut(LoadProgress)) -> Result<Self, LoadError> {
        let file = ModelFile::open(path)?;
        let shape = LlamaShape::from_gguf(file.header())?;
        let digest = file.digest(&mut |_| ())?;
        let mut reader = Reader::new(&file, progress);
        let (width, heads) = (shape.width, shape.heads.saturating_mul(shape.head_dim));
        let kv = shape.kv_heads.saturating_mul(shape.head_dim);
        let embedding = reader.matrix("token_embd.weight", shape.vocab, width)?;
        let head =
            if shape.tied_head { None } else { Some(reader.matrix("output.weight", shape.vocab, width)?) };
        let norm = reader.vector("output_norm.weight", width)?;
        let mut layers = Vec::with_capacity(shape.layers);
        for layer in 0..shape.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            layers.push(Layer {
                attention_norm: reader.vector(&name("attn_norm"), width)?,
                qkv: reader
                    .stack(&[(name("attn_q"), heads), (name("attn_k"), kv), (name("attn_v"), kv)], width)?,
                attention_out: reader.matrix(&name("attn_output"), width, heads)?,
                ffn_norm: reader.vector(&name("ffn_norm"), width)?,
                gate_up: reader
                    .stack(&[(name("ffn_gate"), shape.ffn), (name("ffn_up"), shape.ffn)], width)?,
                down: reader.matrix(&name("ffn_down"), width, shape.ffn)?,
            });
        }
        Ok(Self { shape, digest, embedding, head, norm, layers })
    }

    /// The same weights as 32-bit floats, so that activations are not quantised: an oracle for tests.
    ///
    /// # Errors
    /// When memory is short: it takes 4 bytes a weight.
    pub fn unquantised(&self) -> Result<Self, KernelError> {
        let stack = |stack: &Stack| -> Result<Stack, KernelError> {
            Ok(Stack(stack.0.iter().map(Matrix::unquantised).collect::<Result<_, _>>()?))
        };
        let layer = |layer: &Layer| -> Result<Layer, KernelError> {
            Ok(Layer {
                attention_norm: layer.attention_norm.clone(),
                qkv: stack(&layer.qkv)?,
                attention_out: layer.attention_out.unquantised()?,
                ffn_norm: layer.ffn_norm.clone(),
                gate_up: stack(&layer.gate_up)?,
                down: layer.down.unquantised()?,
            })
        };
        Ok(Self {
            shape: self.shape.clone(),
            digest: self.digest,
            embedding: self.embedding.unquantised()?,
            head: self.head.as_ref().map(Matrix::unquantised).transpose()?,
            norm: self.norm.clone(),
            layers: self.layers.iter().map(layer).collect::<Result<_, _>>()?,
        })
    }

    /// The model's sizes.
    #[must_use]
    pub fn shape(&self) -> &LlamaShape {
        &self.shape
    }

    /// SHA-256 of the file they came from.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The output head.
    pub(super) fn head(&self) -> &Matrix {
        self.head.as_ref().unwrap_or(&self.embedding)
    }
}

struct Reader<'a> {
    file: &'a ModelFile,
    progress: &'a mut dyn FnMut(LoadProgress),
    bytes: Vec<u8>,
    done: u64,
    total: u64,
}

impl<'a> Reader<'a> {
    fn new(file: &'a ModelFile, progress: &'a mut dyn FnMut(LoadProgress)) -> Self {
        let total =
            file.header().tensors().iter().fold(0_u64, |sum, tensor| sum.saturating_add(tensor.bytes));
        Self { file, progress, bytes: Vec::new(), done: 0, total }
    }

    fn info(&self, name: &str, rows: usize, cols: usize) -> Result<&'a TensorInfo, LoadError> {
        let file: &'a ModelFile = self.file;
        let tensor = file.header().tensor(name);
        let tensor = tensor.ok_or_else(|| LoadError::NoTensor { name: name.to_owned() })?;
        let wanted = [cols, rows].map(|size| u64::try_from(size).unwrap_or(u64::MAX));
        let dims = tensor.dims.iter().copied().chain(std::iter::repeat(1));
        for (found, wanted) in dims.take(tensor.dims.len().max(2)).zip(wanted.into_iter().chain([1, 1])) {
            if found != wanted {
                return Err(LoadError::Tensor { name: name.to_owned(), found, wanted });
            }
        }
        Ok(tensor)
    }

    fn read(&mut self, tensor: &TensorInfo) -> Result<(), LoadError> {
        self.file.tensor(tensor, &mut self.bytes)?;
        self.done = self.done.saturating_add(tensor.bytes);
        (self.progress)(LoadProgress { done: self.done, total: self.total });
        Ok(())
    }

    fn matrix(&mut self, name: &str, rows: usize, cols: usize) -> Result<Matrix, LoadError> {
        let tensor = self.info(name, rows, cols)?;
        self.read(tensor)?;
        Ok(Matrix::pack(rows, cols, quant(tensor.kind), &self.bytes)?)
    }

    fn stack(&mut self, parts: &[(String, usize)], cols: usize) -> Result<Stack, LoadError> {
        let mut infos = Vec::with_capacity(parts.len());
        for (name, rows) in parts {
            infos.push((self.info(name, *rows, cols)?, *rows));
        }
        let kinds = infos.iter().map(|(tensor, _)| quant(tensor.kind));
        let alike = kinds.clone().zip(kinds.skip(1)).all(|(one, next)| one.packs_like(next));
        let Some((first, _)) = infos.first().filter(|_| alike) else {
            let parts = parts.iter().map(|(name, rows)| self.matrix(name, *rows, cols));
            return Ok(Stack(parts.collect::<Result<_, _>>()?));
        };
        let all = infos.iter().fold(0_usize, |sum, (_, rows)| sum.saturating_add(*rows));
        let mut matrix = Matrix::zeroed(all, cols, quant(first.kind))?;
        let mut at = 0_usize;
        for (tensor, rows) in infos {
            self.read(tensor)?;
            matrix.set_rows(at, rows, quant(tensor.kind), &self.bytes)?;
            at = at.saturating_add(rows);
        }
        Ok(Stack(vec![matrix]))
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<Vec<f32>, LoadError> {
        let tensor = self.info(name, 1, len)?;
        if tensor.kind != TensorKind::F32 {
            return Err(LoadError::NotFloat { name: name.to_owned() });
        }
        self.read(tensor)?;
        let (numbers, _) = self.bytes.as_chunks::<4>();
        Ok(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}

const fn quant(kind: TensorKind) -> Quant {
    match kind {
        TensorKind::F32 => Quant::F32,
        TensorKind::F16 => Quant::F16,
        TensorKind::Q4_0 => Quant::Q4_0,
        TensorKind::Q4_1 => Quant::Q4_1,
        TensorKind::Q8_0 => Quant::Q8_0,
        TensorKind::Q4K => Quant::Q4K,
        TensorKind::Q6K => Quant::Q6K,
    }
}

#[cfg(test)]
impl Weights {
    /// A tiny model of random weights, for tests that need no file.
    pub(super) fn random(shape: LlamaShape, seed: u64) -> Self {
        let mut state = seed;
        let mut next = move || {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let mut matrix = |rows: usize, cols: usize| {
            let bytes: Vec<u8> = (0..rows * cols).flat_map(|_| (next() * 0.4).to_le_bytes()).collect();
            Matrix::pack(rows, cols, Quant::F32, &bytes).unwrap()
        };
        let heads = shape.heads * shape.head_dim;
        let kv = shape.kv_heads * shape.head_dim;
        let layers = (0..shape.layers)
            .map(|_| Layer {
                attention_norm: vec![1.0; shape.width],
                qkv: Stack(vec![matrix(heads + 2 * kv, shape.width)]),
                attention_out: matrix(shape.width, heads),
                ffn_norm: vec![1.0; shape.width],
                gate_up: Stack(vec![matrix(shape.ffn, shape.width), matrix(shape.ffn, shape.width)]),
                down: matrix(shape.width, shape.ffn),
            })
            .collect();
        let embedding = matrix(shape.vocab, shape.width);
        Self { digest: [0; 32], embedding, head: None, norm: vec![1.0; shape.width], layers, shape }
    }
}
