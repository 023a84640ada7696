//! The engine as a child: started, watched, started again, and never outliving us.
//!
//! ```text
//! launch ──ready──► watch ──died──► pause ──► launch …        STARTS_FAST_MAX short lives in a row: give up
//!                     └─ told to stop: close its standard input, wait, then kill
//! ```
//!
//! Its standard input is a pipe that we hold: it ends when that closes, also when we are killed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::edge::LIMITS_URL;
use crate::exit::{Doing, Exit, Failure};
use crate::tenants::STORE_URL;

/// From the start of the process to its ready line, at most: a model of 100 GB from a disk of 500 MB/s, and half again.
const START_MAX: Duration = Duration::from_secs(300);
/// An engine that lived this long was well; its death starts the count of short lives anew.
const STEADY: Duration = Duration::from_secs(10);
/// Short lives in a row after which we give up.
const STARTS_FAST_MAX: u32 = 5;
/// The first pause before a new start; it doubles with each short life.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// From the close of its standard input to its end, at most; then it is killed.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Bytes of the ready line at most.
const READY_BYTES_MAX: u64 = 4096;

/// How to start the engine.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
}

/// What the engine says when it is ready.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Ready {
    /// Tokens that a request may span.
    pub(crate) window: u32,
    /// Tokens that the measured pool holds.
    pub(crate) capacity: u32,
    /// Memory that they take.
    pub(crate) pool_mib: u64,
    /// Where that size comes from.
    pub(crate) pool_why: String,
}

/// A running engine.
#[derive(Debug)]
pub(crate) struct Engine {
    child: Child,
    // Apart from the child: waiting for a child closes the standard input that it still has.
    stdin: ChildStdin,
    since: Instant,
    // Read no further, yet kept open: the engine must not see a broken pipe.
    _stdout: BufReader<tokio::io::Take<ChildStdout>>,
}

/// Starts the engine and waits until it is ready.
///
/// # Errors
/// The engine's own exit code, where it ended by itself; its message went to standard error.
pub(crate) async fn launch(start: &Start) -> Result<(Engine, Ready), Failure> {
    let mut child = Command::new(&start.program)
        .args(&start.arguments)
        // They hold passwords, and the engine talks to neither.
        .env_remove(STORE_URL)
        .env_remove(LIMITS_URL)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A Ctrl-C at the terminal is ours to pass on: the engine must live while requests drain.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .doing(Exit::Engine, "start the engine")?;
    let since = Instant::now();
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::new(Exit::Engine, "the engine has no standard input or output"));
    };
    let mut stdout = BufReader::new(stdout.take(READY_BYTES_MAX));
    let mut line = String::new();
    match timeout(START_MAX, stdout.read_line(&mut line)).await {
        Err(_) => {
            return Err(Failure::new(
                Exit::Engine,
                format_args!("the engine was not ready after {} s", START_MAX.as_secs()),
            ));
        }
        Ok(Err(error)) => return Err(error).doing(Exit::Engine, "read the engine's ready line"),
        Ok(Ok(0)) => {
            let status = child.wait().await.doing(Exit::Engine, "wait for the engine")?;
            return Err(ended_early(status));
        }
        Ok(Ok(_)) => {}
    }
    let ready = serde_json::from_str(&line).doing(Exit::Engine, "understand the engine's ready line")?;
    Ok((Engine { child, stdin, since, _stdout: stdout }, ready))
}

fn ended_early(status: ExitStatus) -> Failure {
    let exit = status.code().and_then(Exit::from_code).unwrap_or(Exit::Engine);
    Failure::new(exit, format_args!("the engine did not start ({status}); what it said is above"))
}

/// Keeps the engine running until `stop` is sent or dropped, then ends it.
///
/// # Errors
/// [`Exit::Engine`] when it died [`STARTS_FAST_MAX`] times in a row within [`STEADY`].
pub(crate) async fn keep(
    start: Start,
    mut engine: Engine,
    mut stop: oneshot::Receiver<()>,
) -> Result<(), Failure> {
    let mut short_lives: u32 = 0;
    loop {
        let status = tokio::select! {
            status = engine.child.wait() => status.doing(Exit::Engine, "wait for the engine")?,
            _ = &mut stop => return end(engine).await,
        };
        short_lives = if engine.since.elapsed() < STEADY { short_lives.saturating_add(1) } else { 0 };
        tracing::error!(%status, short_lives, "the engine died; requests in flight get an error");
        engine = loop {
            if short_lives >= STARTS_FAST_MAX {
                return Err(Failure::new(
                    Exit::Engine,
                    format_args!(
                        "the engine died {short_lives} times in a row within {} s of its start, {STARTS_FAST_MAX} is the most: see its messages above",
                        STEADY.as_secs()
                    ),
                ));
            }
            tokio::select! {
                () = sleep(pause_after(short_lives)) => {}
                _ = &mut stop => return Ok(()),
            }
            let launched = tokio::select! {
                launched = launch(&start) => launched,
                _ = &mut stop => return Ok(()),
            };
            match launched {
                Ok((engine, ready)) => {
                    tracing::info!(window = ready.window, "the engine is back");
                    break engine;
                }
                Err(failure) => {
                    short_lives = short_lives.saturating_add(1);
                    tracing::error!(%failure, short_lives, "the engine did not start again");
                }
            }
        };
    }
}

fn pause_after(short_lives: u32) -> Duration {
    let doublings = short_lives.saturating_sub(1).min(16);
    PAUSE_MIN.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(PAUSE_MAX)
}

async fn end(engine: Engine) -> Result<(), Failure> {
    let Engine { mut child, stdin, .. } = engine;
    drop(stdin);
    if timeout(STOP_MAX, child.wait()).await.is_err() {
        tracing::warn!(after_s = STOP_MAX.as_secs(), "the engine did not end by itself and is killed");
        child.kill().await.doing(Exit::Engine, "end the engine")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: &str = r#"echo '{"window": 8, "capacity": 16, "pool_mib": 1, "pool_why": "as asked"}'"#;

    fn shell(script: &str) -> Start {
        Start { program: PathBuf::from("/bin/sh"), arguments: vec!["-c".into(), script.into()] }
    }

    #[tokio::test]
    async fn an_engine_lives_until_its_standard_input_is_closed() {
        let start = shell(&format!("{READY}; read line; exit 0"));
        let (engine, ready) = launch(&start).await.unwrap();
        assert_eq!((ready.window, ready.capacity), (8, 16));
        let (stop, stopped) = oneshot::channel();
        let mut kept = tokio::spawn(keep(start, engine, stopped));
        let early = timeout(Duration::from_millis(200), &mut kept).await;
        assert!(early.is_err(), "it ended before it was told to");
        stop.send(()).unwrap();
        timeout(STOP_MAX, kept).await.expect("ends without a kill").unwrap().unwrap();
    }

    #[tokio::test]
    async fn an_engine_that_does_not_start_gives_its_own_code() {
        let failure = launch(&shell("exit 7")).await.unwrap_err();
        assert_eq!(failure.exit(), Exit::Capacity);
        let failure = launch(&shell("kill -9 $$")).await.unwrap_err();
        assert_eq!(failure.exit(), Exit::Engine);
        let failure = launch(&shell("echo no JSON; read line")).await.unwrap_err();
        assert_eq!(failure.exit(), Exit::Engine);
    }

    #[tokio::test]
    async fn an_engine_that_keeps_dying_is_given_up() {
        let start = shell(&format!("{READY}; exit 101"));
        let (engine, _) = launch(&start).await.unwrap();
        let (_stop, stopped) = oneshot::channel();
        let failure = keep(start, engine, stopped).await.unwrap_err();
        assert_eq!(failure.exit(), Exit::Engine);
        assert!(failure.to_string().contains(&STARTS_FAST_MAX.to_string()));
    }

    #[test]
    fn pauses_double_up_to_their_bound() {
        let pauses: Vec<u128> = (1..=8).map(|lives| pause_after(lives).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(pause_after(u32::MAX), PAUSE_MAX);
    }
}
