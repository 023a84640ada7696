//! The numbers that a model of the Llama family is computed with, checked against each other.
//!
//! Architecture invariant: reads the header only.

use crate::gguf::{Gguf, GgufError};

/// Most layers. The largest Llama has 126.
pub const LAYERS_MAX: usize = 1_024;
/// Largest width, and largest feed-forward width is 16 times that.
pub const WIDTH_MAX: usize = 65_536;
/// Most attention heads.
pub const HEADS_MAX: usize = 1_024;
/// Longest window a model may claim to be trained for, in tokens.
pub const CONTEXT_MAX: usize = 16 * 1024 * 1024;
/// Largest vocabulary, in tokens.
pub const VOCAB_MAX: usize = 2 * 1024 * 1024;

/// Sizes and constants of a Llama model.
///
/// # Invariants
/// No count is 0; `heads` is a multiple of `kv_heads`; `head_dim` is even; floats are finite and positive.
#[derive(Debug, Clone, PartialEq)]
pub struct LlamaShape {
    /// Transformer layers.
    pub layers: usize,
    /// Elements of the residual stream.
    pub width: usize,
    /// Elements of the feed-forward's middle.
    pub ffn: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements of a head, all of which are rotated.
    pub head_dim: usize,
    /// Tokens of the window that the model was trained for.
    pub context: usize,
    /// Base of the rotary frequencies.
    pub rope_base: f32,
    /// Epsilon of the RMS norms.
    pub rms_eps: f32,
    /// Tokens of the vocabulary: rows of the embedding.
    pub vocab: usize,
    /// True when the output head is the embedding: the file has no `output.weight`.
    pub tied_head: bool,
}

/// Why a file is no Llama that we can compute.
#[derive(Debug, thiserror::Error)]
pub enum ShapeError {
    /// Another architecture.
    #[error("architecture {name:?} is not supported; \"llama\" is")]
    Architecture {
        /// What the file says.
        name: String,
    },
    /// A key is missing or has the wrong type.
    #[error(transparent)]
    Header(#[from] GgufError),
    /// A number that is 0 or above its bound.
    #[error("{key} is {claimed}; 1 to {bound} is supported")]
    OutOfBounds {
        /// The key.
        key: &'static str,
        /// What the file says.
        claimed: u64,
        /// The most we accept.
        bound: usize,
    },
    /// A float that is not finite and positive.
    #[error("{key} is not a positive number")]
    NotPositive {
        /// The key.
        key: &'static str,
    },
    /// Two facts that contradict each other.
    #[error("the file contradicts itself: {what} ({one} and {other})")]
    Contradiction {
        /// Which facts.
        what: &'static str,
        /// The one.
        one: u64,
        /// The other.
        other: u64,
    },
    /// Something that would change every output and that we do not compute yet.
    #[error("{what} is not supported")]
    Unsupported {
        /// What it is.
        what: &'static str,
    },
}

impl LlamaShape {
    /// Reads the shape from a header.
    ///
    /// # Errors
    /// [`ShapeError`]; nothing is assumed where the file is silent, but for what the format itself defaults.
    pub fn from_gguf(gguf: &Gguf) -> Result<LlamaShape, ShapeError> {
        let name = required(gguf.text("general.architecture")?, "general.architecture")?;
        if name != "llama" {
            return Err(ShapeError::Architecture { name: name.chars().take(64).collect() });
        }
        refuse_scaled_rope(gguf)?;
        let width = bounded(gguf, "llama.embedding_length", WIDTH_MAX)?;
        let heads = bounded(gguf, "llama.attention.head_count", HEADS_MAX)?;
        let kv_heads = optional(gguf, "llama.attention.head_count_kv", HEADS_MAX, heads)?;
        let default_dim = width.checked_div(heads).unwrap_or(0);
        let head_dim = optional(gguf, "llama.attention.key_length", WIDTH_MAX, default_dim)?;
        let shape = LlamaShape {
            layers: bounded(gguf, "llama.block_count", LAYERS_MAX)?,
            width,
            ffn: bounded(gguf, "llama.feed_forward_length", WIDTH_MAX.saturating_mul(16))?,
            heads,
            kv_heads,
            head_dim,
            context: bounded(gguf, "llama.context_length", CONTEXT_MAX)?,
            rope_base: positive(
                gguf.float32("llama.rope.freq_base")?.unwrap_or(10_000.0),
                "llama.rope.freq_base",
            )?,
            rms_eps: positive(
                required(
                    gguf.float32("llama.attention.layer_norm_rms_epsilon")?,
                    "llama.attention.layer_norm_rms_epsilon",
                )?,
                "llama.attention.layer_norm_rms_epsilon",
            )?,
            vocab: vocab(gguf, width)?,
            tied_head: gguf.tensor("output.weight").is_none(),
        };
        shape.agrees(gguf)?;
        Ok(shape)
    }

    fn agrees(&self, gguf: &Gguf) -> Result<(), ShapeError> {
        let same = |what, one: usize, other: usize| {
            if one == other { Ok(()) } else { Err(contradiction(what, one, other)) }
        };
        same("heads are no multiple of KV heads", self.heads.checked_rem(self.kv_heads).unwrap_or(1), 0)?;
        same("a head has an odd number of elements", self.head_dim.checked_rem(2).unwrap_or(1), 0)?;
        let value_dim = optional(gguf, "llama.attention.value_length", WIDTH_MAX, self.head_dim)?;
        same("key and value lengths differ", self.head_dim, value_dim)?;
        let rotated = optional(gguf, "llama.rope.dimension_count", WIDTH_MAX, self.head_dim)?;
        same("only a part of each head is rotated", self.head_dim, rotated)?;
        if self.head_dim == 0 {
            return Err(contradiction("width and heads", self.width, self.heads));
        }
        Ok(())
    }
}

/// Scaled rotary frequencies change every position: to ignore them would be silently wrong.
fn refuse_scaled_rope(gguf: &Gguf) -> Result<(), ShapeError> {
    let scaling = gguf.text("llama.rope.scaling.type")?.unwrap_or("none");
    if scaling != "none" || gguf.tensor("rope_freqs.weight").is_some() {
        return Err(ShapeError::Unsupported { what: "a scaled rotary embedding" });
    }
    if gguf.unsigned("llama.expert_count")?.unwrap_or(0) > 0 {
        return Err(ShapeError::Unsupported { what: "a mixture of experts" });
    }
    Ok(())
}

/// Rows of the embedding; the token list must name each.
fn vocab(gguf: &Gguf, width: usize) -> Result<usize, ShapeError> {
    let embedding = required(gguf.tensor("token_embd.weight"), "token_embd.weight")?;
    let &[columns, rows] = embedding.dims.as_slice() else {
        return Err(contradiction("the embedding is no matrix; its dimensions", embedding.dims.len(), 2));
    };
    let (columns, rows) = (usize_of(columns), usize_of(rows));
    if columns != width {
        return Err(contradiction("embedding columns and width", columns, width));
    }
    if rows > VOCAB_MAX {
        return Err(contradiction("embedding rows and their bound", rows, VOCAB_MAX));
    }
    let named = required(gguf.texts("tokenizer.ggml.tokens")?, "tokenizer.ggml.tokens")?.len();
    if named != rows {
        return Err(contradiction("tokens named and embedding rows", named, rows));
    }
    Ok(rows)
}

fn contradiction(what: &'static str, one: usize, other: usize) -> ShapeError {
    let wide = |number| u64::try_from(number).unwrap_or(u64::MAX);
    ShapeError::Contradiction { what, one: wide(one), other: wide(other) }
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn required<T>(value: Option<T>, key: &'static str) -> Result<T, GgufError> {
    value.ok_or(GgufError::Missing { key })
}

fn bounded(gguf: &Gguf, key: &'static str, bound: usize) -> Result<usize, ShapeError> {
    let claimed = required(gguf.unsigned(key)?, key)?;
    match usize::try_from(claimed) {
        Ok(number) if (1..=bound).contains(&number) => Ok(number),
        Ok(_) | Err(_) => Err(ShapeError::OutOfBounds { key, claimed, bound }),
    }
}

fn optional(gguf: &Gguf, key: &'static str, bound: usize, default: usize) -> Result<usize, ShapeError> {
    if gguf.metadata().contains_key(key) { bounded(gguf, key, bound) } else { Ok(default) }
}

fn positive(number: f32, key: &'static str) -> Result<f32, ShapeError> {
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err(ShapeError::NotPositive { key }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::Value;
    use crate::testing::Writer;

    fn llama() -> Writer {
        Writer::new()
            .text("general.architecture", "llama")
            .number("llama.block_count", 2)
            .number("llama.context_length", 128)
            .number("llama.embedding_length", 8)
            .number("llama.feed_forward_length", 16)
            .number("llama.attention.head_count", 2)
            .number("llama.attention.head_count_kv", 1)
            .entry("llama.attention.layer_norm_rms_epsilon", Value::Float32(1e-5))
            .texts("tokenizer.ggml.tokens", &["a", "b", "c"])
            .tensor("token_embd.weight", &[8, 3], 0, 0)
            .data(96)
    }

    fn shape(writer: &Writer) -> Result<LlamaShape, ShapeError> {
        let bytes = writer.bytes();
        LlamaShape::from_gguf(&Gguf::parse(&mut bytes.as_slice(), bytes.len() as u64).unwrap())
    }

    fn with(key: &str, value: Value) -> Result<LlamaShape, ShapeError> {
        let mut writer = llama();
        writer.entries.retain(|entry| entry.0 != key);
        shape(&writer.entry(key, value))
    }

    #[test]
    fn a_shape_is_read() {
        let expected = LlamaShape {
            layers: 2,
            width: 8,
            ffn: 16,
            heads: 2,
            kv_heads: 1,
            head_dim: 4,
            context: 128,
            rope_base: 10_000.0,
            rms_eps: 1e-5,
            vocab: 3,
            tied_head: true,
        };
        assert_eq!(shape(&llama()).unwrap(), expected);
        let untied = llama().tensor("output.weight", &[8, 3], 0, 96).data(192);
        assert!(!shape(&untied).unwrap().tied_head);
    }

    #[test]
    fn what_we_cannot_compute_is_refused() {
        let text = |text: &str| Value::Text(text.to_owned());
        assert!(matches!(with("general.architecture", text("gpt2")), Err(ShapeError::Architecture { .. })));
        assert!(matches!(with("llama.rope.scaling.type", text("yarn")), Err(ShapeError::Unsupported { .. })));
        assert!(with("llama.rope.scaling.type", text("none")).is_ok());
        assert!(matches!(
            with("llama.expert_count", Value::Unsigned(8)),
            Err(ShapeError::Unsupported { .. })
        ));
        let freqs = llama().tensor("rope_freqs.weight", &[2], 0, 96).data(128);
        assert!(matches!(shape(&freqs), Err(ShapeError::Unsupported { .. })));
        for (key, number) in [
            ("llama.attention.head_count_kv", 3),
            ("llama.rope.dimension_count", 2),
            ("llama.attention.key_length", 3),
            ("llama.attention.value_length", 8),
            ("llama.embedding_length", 16),
        ] {
            let result = with(key, Value::Unsigned(number));
            assert!(matches!(result, Err(ShapeError::Contradiction { .. })), "{key} = {number}");
        }
    }

    #[test]
    fn numbers_out_of_bounds_are_refused() {
        for key in [
            "llama.block_count",
            "llama.embedding_length",
            "llama.attention.head_count",
            "llama.context_length",
        ] {
            for number in [0, u64::MAX] {
                let result = with(key, Value::Unsigned(number));
                assert!(matches!(result, Err(ShapeError::OutOfBounds { .. })), "{key} = {number}");
            }
            assert!(with(key, Value::Flag(true)).is_err());
        }
        for number in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let result = with("llama.rope.freq_base", Value::Float32(number));
            assert!(matches!(result, Err(ShapeError::NotPositive { .. })), "{number}");
        }
        let mut writer = llama();
        writer.entries.retain(|entry| entry.0 != "llama.block_count");
        assert!(matches!(
            shape(&writer),
            Err(ShapeError::Header(GgufError::Missing { key: "llama.block_count" }))
        ));
    }

    #[test]
    fn the_embedding_and_the_token_list_agree() {
        let mut short = llama();
        short.entries.retain(|entry| entry.0 != "tokenizer.ggml.tokens");
        let short = short.texts("tokenizer.ggml.tokens", &["a", "b"]);
        assert!(matches!(shape(&short), Err(ShapeError::Contradiction { one: 2, other: 3, .. })));
        let flat = Writer { tensors: Vec::new(), ..llama() }.tensor("token_embd.weight", &[24], 0, 0);
        assert!(matches!(shape(&flat), Err(ShapeError::Contradiction { .. })));
    }
}
