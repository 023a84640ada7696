//! What models there are.

use serde::Serialize;

use super::json_bytes;

/// One model on offer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ModelEntry {
    /// Its name.
    pub(crate) id: String,
    /// Unix time, in seconds, from which it has been on offer.
    pub(crate) created: u64,
    /// Tokens that a request of this caller may truly span, prompt and output together.
    pub(crate) window: u32,
}

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    context_window: u32,
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Entry<'a>>,
}

impl ModelEntry {
    fn entry(&self) -> Entry<'_> {
        let Self { id, created, window } = self;
        Entry { id, object: "model", created: *created, owned_by: "bulkhead", context_window: *window }
    }
}

/// The body of `GET /v1/models`.
pub(crate) fn models_json(models: &[ModelEntry]) -> Vec<u8> {
    json_bytes(&List { object: "list", data: models.iter().map(ModelEntry::entry).collect() })
}

/// The body of `GET /v1/models/{id}`.
pub(crate) fn model_json(model: &ModelEntry) -> Vec<u8> {
    json_bytes(&model.entry())
}
