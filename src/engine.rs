//! `bulkhead engine`: the engine alone, behind a Unix socket.

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;

use ::engine::core::{EngineConfig, EngineStartError};
use ::engine::device::cpu::{CpuDevice, CpuOptions, LoadError};
use ::engine::server::{self, Control, Ready, ServerConfig, ServerError};
use isolation::units::Tokens;
use kernels::KernelError;
use serde_json::json;

use crate::cli::EngineArgs;
use crate::exit::{Doing, Exit, Failure};
use crate::shutdown::Signals;
use crate::{memory, model, pool, present, wirekey};

pub(crate) fn run(args: &EngineArgs) -> Result<(), Failure> {
    let wire_key = wirekey::read(&args.wire_key_file)?;
    let need = model::need(&args.model)?;
    let chosen = pool::choose(args.size.pool_tokens, need, memory::available_bytes())?;
    tracing::info!(pool_tokens = chosen.tokens, pool_mib = pool::mib(chosen.bytes), why = %chosen.why, "pool");
    let options = CpuOptions {
        pool_tokens: Tokens::new(chosen.tokens),
        threads: threads(args.size.threads),
        isa: None,
    };
    let engine =
        EngineConfig { advertised_window: args.size.window.map(Tokens::new), ..EngineConfig::default() };
    let config = ServerConfig::new(args.socket.clone(), wire_key, engine);
    stop_on_signal(config.control.clone())?;
    if args.until_stdin_closes {
        stop_when_stdin_closes(config.control.clone())?;
    }
    let mut said = Ok(());
    let make = || CpuDevice::load(&args.model, options, &mut |_| {});
    let served = server::run(config, make, |ready| said = announce(ready, &chosen));
    served.map_err(|error| refused(&args.model, &error)).and(said)
}

/// Gives what kept the engine from serving its exit code.
fn refused(model: &Path, error: &ServerError<LoadError>) -> Failure {
    let exit = match error {
        ServerError::Device(
            LoadError::NoMemoryForPool { .. } | LoadError::Kernel(KernelError::NoMemory { .. }),
        )
        | ServerError::Engine(
            EngineStartError::Capacity(_)
            | EngineStartError::BeyondTrained { .. }
            | EngineStartError::NoWindow { .. },
        ) => Exit::Capacity,
        ServerError::Device(
            LoadError::File(_)
            | LoadError::Shape(_)
            | LoadError::NoTensor { .. }
            | LoadError::Tensor { .. }
            | LoadError::NotFloat { .. },
        )
        | ServerError::Engine(EngineStartError::Vocabulary { .. }) => {
            return Failure::new(Exit::Model, format_args!("{} cannot be served: {error}", model.display()));
        }
        ServerError::Device(LoadError::Kernel(
            KernelError::Shape { .. }
            | KernelError::Unsupported { .. }
            | KernelError::Denied(_)
            | KernelError::WorkerPanicked
            | KernelError::NoThread { .. },
        ))
        | ServerError::Engine(
            EngineStartError::Zero { .. } | EngineStartError::Percent { .. } | EngineStartError::Device(_),
        )
        | ServerError::System { .. }
        | ServerError::NoRandomness => Exit::Engine,
        ServerError::Live { .. } | ServerError::NotASocket { .. } | ServerError::OpenFolder { .. } => {
            Exit::Locked
        }
    };
    let advice = match error {
        ServerError::Engine(EngineStartError::Capacity(_)) => {
            ": ask for a smaller --window, or more by --pool-tokens"
        }
        ServerError::Engine(EngineStartError::BeyondTrained { .. }) => ": ask for a smaller --window",
        ServerError::Live { .. } => ": stop it, or name another --socket",
        ServerError::Device(_)
        | ServerError::Engine(_)
        | ServerError::NotASocket { .. }
        | ServerError::OpenFolder { .. }
        | ServerError::System { .. }
        | ServerError::NoRandomness => "",
    };
    Failure::new(exit, format_args!("{error}{advice}"))
}

/// The line that whoever started the engine waits for.
fn announce(ready: &Ready, pool: &pool::Choice) -> Result<(), Failure> {
    let digest: String = ready.model_digest.iter().map(|byte| format!("{byte:02x}")).collect();
    present::json(&json!({
        "window": ready.window,
        "capacity": ready.capacity_tokens,
        "pages": ready.pages,
        "epoch": ready.epoch,
        "model_digest": digest,
        "pool_mib": pool::mib(pool.bytes),
        "pool_why": pool.why.to_string(),
    }))
}

/// `asked`, or one for each core.
fn threads(asked: Option<u16>) -> usize {
    asked.map_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get), usize::from)
}

fn stop_on_signal(control: Control) -> Result<(), Failure> {
    let watch = move || {
        // One thread is enough to wait: the engine's own are for computing.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let caught = runtime.doing(Exit::Other, "start a runtime").and_then(|runtime| {
            runtime.block_on(async {
                Signals::catch()?.next().await;
                Ok(())
            })
        });
        if let Err(failure) = caught {
            tracing::error!(%failure, "signals cannot be caught; only a kill ends this engine");
            return;
        }
        control.stop();
    };
    spawn("signals", watch)
}

fn stop_when_stdin_closes(control: Control) -> Result<(), Failure> {
    let watch = move || {
        // Nothing is expected; what comes is let go.
        let ended = io::copy(&mut io::stdin().lock(), &mut io::sink());
        tracing::debug!(?ended, "standard input has closed");
        control.stop();
    };
    spawn("stdin", watch)
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(body);
    // It ends with the process.
    started.map(drop).doing(Exit::Other, "start a thread")
}
