//! Writes small GGUF files for tests, right or wrong as asked.

use crate::gguf::{Array, Value};

/// A GGUF file under construction. Nothing is checked: tests write wrong files too.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) version: u32,
    pub(crate) entries: Vec<(String, Value)>,
    /// Name, dimensions, ggml type number, relative offset.
    pub(crate) tensors: Vec<(String, Vec<u64>, u32, u64)>,
    pub(crate) alignment: usize,
    pub(crate) data_bytes: usize,
}

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer { version: 3, entries: Vec::new(), tensors: Vec::new(), alignment: 32, data_bytes: 0 }
    }

    pub(crate) fn entry(mut self, key: &str, value: Value) -> Writer {
        self.entries.push((key.to_owned(), value));
        self
    }

    pub(crate) fn text(self, key: &str, text: &str) -> Writer {
        self.entry(key, Value::Text(text.to_owned()))
    }

    pub(crate) fn number(self, key: &str, number: u64) -> Writer {
        self.entry(key, Value::Unsigned(number))
    }

    pub(crate) fn texts(self, key: &str, texts: &[&str]) -> Writer {
        self.entry(key, Value::Array(Array::Text(texts.iter().map(|text| (*text).to_owned()).collect())))
    }

    pub(crate) fn tensor(mut self, name: &str, dims: &[u64], number: u32, offset: u64) -> Writer {
        self.tensors.push((name.to_owned(), dims.to_vec(), number, offset));
        self
    }

    pub(crate) fn data(mut self, bytes: usize) -> Writer {
        self.data_bytes = bytes;
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.entries.len() as u64).to_le_bytes());
        for (key, value) in &self.entries {
            write_text(&mut out, key);
            write_value(&mut out, value);
        }
        for (name, dims, number, offset) in &self.tensors {
            write_text(&mut out, name);
            out.extend((dims.len() as u32).to_le_bytes());
            dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(number.to_le_bytes());
            out.extend(offset.to_le_bytes());
        }
        if !self.tensors.is_empty() {
            out.resize(out.len().next_multiple_of(self.alignment), 0);
        }
        let pattern = (0..self.data_bytes).map(|at| (at % 251) as u8);
        out.extend(pattern);
        out
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    let number: u32 = match value {
        Value::Unsigned(_) => 10,
        Value::Signed(_) => 11,
        Value::Float32(_) => 6,
        Value::Float64(_) => 12,
        Value::Flag(_) => 7,
        Value::Text(_) => 8,
        Value::Array(_) => 9,
    };
    out.extend(number.to_le_bytes());
    match value {
        Value::Unsigned(number) => out.extend(number.to_le_bytes()),
        Value::Signed(number) => out.extend(number.to_le_bytes()),
        Value::Float32(number) => out.extend(number.to_le_bytes()),
        Value::Float64(number) => out.extend(number.to_le_bytes()),
        Value::Flag(flag) => out.push((*flag).into()),
        Value::Text(text) => write_text(out, text),
        Value::Array(array) => write_array(out, array),
    }
}

fn write_array(out: &mut Vec<u8>, array: &Array) {
    let number: u32 = match array {
        Array::Unsigned(_) => 10,
        Array::Signed(_) => 11,
        Array::Float32(_) => 6,
        Array::Float64(_) => 12,
        Array::Flag(_) => 7,
        Array::Text(_) => 8,
        Array::Nested(_) => 9,
    };
    out.extend(number.to_le_bytes());
    out.extend((array.len() as u64).to_le_bytes());
    match array {
        Array::Unsigned(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
        Array::Signed(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
        Array::Float32(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
        Array::Float64(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
        Array::Flag(items) => items.iter().for_each(|item| out.push((*item).into())),
        Array::Text(items) => items.iter().for_each(|item| write_text(out, item)),
        Array::Nested(items) => items.iter().for_each(|item| write_array(out, item)),
    }
}
