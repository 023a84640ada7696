//! What a header says, for a person who asks what a file is.

use std::collections::BTreeMap;

use crate::gguf::{Gguf, TensorKind, Value};

/// Longest text shown, in characters.
const SHOWN_MAX: usize = 80;

/// A header in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Version of the format.
    pub version: u32,
    /// `general.architecture`.
    pub architecture: String,
    /// `general.name`.
    pub name: String,
    /// Number of parameters: elements of all tensors.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub tensor_bytes: u64,
    /// How many tensors there are of each number format.
    pub tensors: BTreeMap<&'static str, u64>,
    /// Every metadata entry: texts cut to 80 characters, arrays as their lengths.
    pub metadata: Vec<(String, String)>,
}

impl Summary {
    /// Sums up a header.
    #[must_use]
    pub fn of(gguf: &Gguf) -> Summary {
        let text = |key| gguf.text(key).ok().flatten().unwrap_or("").chars().take(SHOWN_MAX).collect();
        let mut tensors = BTreeMap::new();
        let (mut parameters, mut tensor_bytes) = (0_u64, 0_u64);
        for tensor in gguf.tensors() {
            let count = tensors.entry(name_of(tensor.kind)).or_insert(0_u64);
            *count = count.saturating_add(1);
            let elements = tensor.dims.iter().fold(1_u64, |product, dim| product.saturating_mul(*dim));
            parameters = parameters.saturating_add(elements);
            tensor_bytes = tensor_bytes.saturating_add(tensor.bytes);
        }
        Summary {
            version: gguf.version(),
            architecture: text("general.architecture"),
            name: text("general.name"),
            parameters,
            tensor_bytes,
            tensors,
            metadata: gguf.metadata().iter().map(|(key, value)| (key.clone(), shown(value))).collect(),
        }
    }
}

fn name_of(kind: TensorKind) -> &'static str {
    match kind {
        TensorKind::F32 => "F32",
        TensorKind::F16 => "F16",
        TensorKind::Q4_0 => "Q4_0",
        TensorKind::Q4_1 => "Q4_1",
        TensorKind::Q8_0 => "Q8_0",
        TensorKind::Q4K => "Q4_K",
        TensorKind::Q6K => "Q6_K",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Unsigned(number) => number.to_string(),
        Value::Signed(number) => number.to_string(),
        Value::Float32(number) => number.to_string(),
        Value::Float64(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
        // Escaped, for a terminal obeys control characters.
        Value::Text(text) => {
            let start: String = text.chars().take(SHOWN_MAX).collect();
            let more = if start.len() < text.len() { "..." } else { "" };
            format!("{}{more}", start.escape_debug())
        }
        Value::Array(array) => format!("array of {}", array.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Writer;

    #[test]
    fn a_header_is_summed_up() {
        let bytes = Writer::new()
            .text("general.architecture", "llama")
            .text("tokenizer.chat_template", &format!("\u{1b}[2J{}", "x".repeat(200)))
            .texts("tokenizer.ggml.tokens", &["a", "b"])
            .tensor("a", &[32, 2], 3, 0)
            .tensor("b", &[4], 0, 64)
            .data(80)
            .bytes();
        let summary = Summary::of(&Gguf::parse(&mut bytes.as_slice(), bytes.len() as u64).unwrap());
        assert_eq!(
            (summary.architecture.as_str(), summary.parameters, summary.tensor_bytes),
            ("llama", 68, 56)
        );
        assert_eq!(summary.tensors, BTreeMap::from([("F32", 1), ("Q4_1", 1)]));
        let shown = summary.metadata.iter().find(|entry| entry.0 == "tokenizer.chat_template").unwrap();
        assert!(shown.1.starts_with("\\u{1b}[2Jxxx") && shown.1.ends_with("..."), "{}", shown.1);
        assert!(summary.metadata.contains(&("tokenizer.ggml.tokens".to_owned(), "array of 2".to_owned())));
    }
}
