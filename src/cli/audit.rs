//! `bulkhead audit`. A log's folder is `--folder`: `--log` is how logs are written, everywhere.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What can be done with audit logs.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check every leaf, hash and signature of the log, and what its records say; needs no running server
    #[command(after_help = VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Print leaves as JSON, one a line, those too that are not signed yet; verifies nothing
    #[command(after_help = SHOW_HELP)]
    Show {
        /// The log's folder [default: audit/ in the data folder]
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
        /// Leaves of this kind alone: boot, engine_seen, alarm, admitted, ended, refused or seal
        #[arg(long, value_name = "KIND", value_parser = ["boot", "engine_seen", "alarm", "admitted", "ended", "refused", "seal"])]
        kind: Option<String>,
        /// Leaves from this index on; the log's first is 0
        #[arg(long, value_name = "INDEX", default_value_t = 0)]
        from: u64,
    },
    /// Print the log's public key, for those who will verify it
    Key,
    /// Ask witnesses to cosign the log's checkpoint, and keep it with their cosignatures
    ///
    /// A witness cosigns only what begins with all that it cosigned before: once it has, nobody can show another history of the log
    /// to those who ask for its cosignature, whoever has the log's key. Needs no running server, and disturbs none. Servers do not
    /// ask by themselves: run this as often as you want it, by a timer.
    #[command(after_help = COSIGN_HELP)]
    Cosign(CosignArgs),
    /// Witness the logs of others: cosign their checkpoints, as long as each log only grows
    ///
    /// Serves POST /add-checkpoint of C2SP's tlog-witness over plain HTTP, until a signal. Run it where whoever runs the logs cannot
    /// touch it. Its state must never be restored from an older copy under the same key: it would cosign a second history.
    #[command(after_help = WITNESS_HELP)]
    Witness(WitnessArgs),
}

/// `bulkhead audit verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The log's folder [default: audit/ in the data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// The log's public key, as you got it when you began to trust the log [default: audit.pub in the data folder, which whoever can
    /// change the log can change too]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Whom you trust, in place of --key: a TOML file with the log's key, the witnesses' keys, and how many of these must have
    /// cosigned (see below)
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub(crate) policy: Option<PathBuf>,
    /// The checkpoint that the witnesses have cosigned [default: the file cosigned in the log's folder]
    #[arg(long, value_name = "FILE", requires = "policy")]
    pub(crate) cosigned: Option<PathBuf>,
    /// A checkpoint of this log that you kept from before: the log must begin with what it held then
    #[arg(long, value_name = "FILE")]
    pub(crate) seen: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `bulkhead audit cosign`.
#[derive(Debug, Args)]
pub(crate) struct CosignArgs {
    /// The log's folder [default: audit/ in the data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// The log's public key [default: audit.pub in the data folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// A witness, as http://host:port or what comes before /add-checkpoint; may be given several times
    #[arg(long, value_name = "URL", required = true)]
    pub(crate) witness: Vec<String>,
    /// The public key of each of them, in the same order
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) witness_key: Vec<PathBuf>,
    /// How many of them must cosign for the result to be kept [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) quorum: Option<NonZeroUsize>,
    /// Where the cosigned checkpoint is written [default: the file cosigned in the log's folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `bulkhead audit witness`.
#[derive(Debug, Args)]
pub(crate) struct WitnessArgs {
    /// Where it listens
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    pub(crate) listen: SocketAddr,
    /// The witness's private key; made if absent. Its public part is printed, and written beside it as .pub [default: witness.key in
    /// the data folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Public keys of the logs that it watches
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) watch: Vec<PathBuf>,
    /// The folder of what it has cosigned; belongs to the key [default: witness/ in the data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

const SHOW_HELP: &str = "\
Examples:
  bulkhead audit show --kind alarm
  bulkhead audit show --from 4711 | head";

const VERIFY_HELP: &str = "\
Examples:
  bulkhead audit verify
  bulkhead audit verify --folder copy/audit --key audit.pub --seen last-month/checkpoint --json
  bulkhead audit verify --folder copy/audit --policy trust.toml

A policy names whom you trust:
  log = \"bulkhead.invalid/5b1c…+8a3f01c2+AT…\"
  witnesses = [\"witness.example/one+…\", \"witness.example/two+…\"]
  quorum = 1

Exit codes:
  0  the log is what was signed, and what it says can have happened
  1  tampered: something in it is not what was signed or cosigned, or cannot have happened
  2  incomplete: something that was signed is missing, or too few witnesses have cosigned
  3  cannot tell: no log, no key, a policy that is refused, or a disk that cannot be read";

const COSIGN_HELP: &str = "\
Examples:
  bulkhead audit cosign --witness http://10.0.0.7:8090 --witness-key one.pub
  bulkhead audit cosign --witness http://10.0.0.7:8090 --witness-key one.pub \\
    --witness http://10.0.0.8:8090 --witness-key two.pub --quorum 1";

const WITNESS_HELP: &str = "\
Example:
  bulkhead audit witness --listen 10.0.0.7:8090 --key witness.key --watch acme.pub globex.pub";
