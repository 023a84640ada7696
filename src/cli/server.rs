//! The arguments of the commands that run something.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Where the gateway listens.
#[derive(Clone, Debug, Args)]
pub(crate) struct Listeners {
    /// Where clients connect; port 0 takes a free one and prints it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,
    /// Where metrics and status are read; keep it away from clients
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090")]
    pub(crate) admin: SocketAddr,
    /// Where the Admin API is served, which manages tenants and keys; not served where this is not given
    #[arg(long, value_name = "ADDR")]
    pub(crate) api: Option<SocketAddr>,
    /// Public keys of scanners of secrets, whose signed reports of leaked keys the Admin API believes; JSON, as GitHub publishes its
    /// own. Without it none is believed
    #[arg(long, value_name = "FILE", requires = "api")]
    pub(crate) scanners: Option<PathBuf>,
}

/// How large the engine is.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct EngineSize {
    /// Tokens whose keys and values the pool holds [default: four windows of the model, or what half of the available memory
    /// holds, whichever is less]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pool_tokens: Option<u32>,
    /// Tokens that one request may span, prompt and output together; refused when the pool does not hold as many [default: the
    /// model's own window, or the pool where that is less]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) window: Option<u32>,
    /// Threads that compute [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
}

/// `bulkhead up`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bulkhead up\n  bulkhead up --listen 127.0.0.1:0 --admin 127.0.0.1:0 --data ./demo\n  bulkhead up --pool-tokens 2048 --window 2048"
)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) listeners: Listeners,
    #[command(flatten)]
    pub(crate) size: EngineSize,
    /// Model of the catalog to serve; `bulkhead model list` names them
    #[arg(long, value_name = "NAME", default_value = "smollm2-135m-instruct")]
    pub(crate) model: String,
    /// Take the model from this file instead of fetching it; its SHA-256 must be the catalog's
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Limits to obey; a refused file falls back to the last good one [default: the shipped limits]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
}

/// `bulkhead serve`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bulkhead serve --config /etc/bulkhead.toml --log json")]
pub(crate) struct ServeArgs {
    /// The config file, TOML
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// `bulkhead gateway`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  bulkhead gateway --model model.gguf --engine-socket /run/bulkhead/engine.sock \\\n      --wire-key-file /run/bulkhead/wire.key\n\nEnvironment:\n  BULKHEAD_STORE_URL   a PostgreSQL database of tenants and keys, in place of a file in the data folder\n  BULKHEAD_LIMITS_URL  a Redis server where several gateways count limits together"
)]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    pub(crate) listeners: Listeners,
    /// The model's file; the gateway reads its header: tokenizer, chat template, window
    #[arg(long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// The engine's Unix socket
    #[arg(long, value_name = "PATH")]
    pub(crate) engine_socket: PathBuf,
    /// 32 bytes that gateway and engine share
    #[arg(long, value_name = "FILE")]
    pub(crate) wire_key_file: PathBuf,
    /// Limits to obey; a refused file falls back to the last good one [default: the shipped limits]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
}

/// `bulkhead engine`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  bulkhead engine --model model.gguf --socket /run/bulkhead/engine.sock \\\n      --wire-key-file /run/bulkhead/wire.key --pool-tokens 32768"
)]
pub(crate) struct EngineArgs {
    /// The model's file
    #[arg(long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// The Unix socket to listen on; made with mode 0600
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// 32 bytes that gateway and engine share
    #[arg(long, value_name = "FILE")]
    pub(crate) wire_key_file: PathBuf,
    #[command(flatten)]
    pub(crate) size: EngineSize,
    /// End when standard input closes, so that the engine never outlives the process that started it
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
}
