//! Keeps the session up: connect, greet, read, write; again after a pause when it ends.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use wire::{Alarm, Decoder, FrameError, GatewayHello, Hello, PROTOCOL, ToEngine, ToGateway};

use super::{Live, OUT_MAX, Shared, alarms::Heard, shares::Shares};
use crate::fault::{Fault, seeded};
use crate::meter::Meter;

/// Pause before the first new attempt, doubled until [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// Longest wait for the engine's hello.
const HELLO_MAX: Duration = Duration::from_secs(5);
/// Longest that one write may take: an engine that does not read is stuck.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// How often the engine is asked for the window that it offers.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest wait for its answer.
const LOOK_MAX: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 64 * 1024;

#[derive(Debug, Error)]
pub(super) enum Ended {
    #[error("the engine cannot be reached: {0}")]
    Io(#[from] std::io::Error),
    #[error("the engine sent {0}")]
    Frame(#[from] FrameError),
    #[error("the engine ended the session")]
    Closed,
    #[error("the engine said no hello within {} s", HELLO_MAX.as_secs())]
    NoHello,
    #[error("the engine speaks protocol {theirs}, this gateway {PROTOCOL}")]
    Protocol { theirs: u16 },
    #[error("the engine does not read")]
    Stuck,
    #[error("the engine said what only a greeting says, or spoke of another life")]
    Unexpected,
}

pub(super) async fn keep(shared: &Shared, alarms: mpsc::Sender<Alarm>, meter: Arc<Meter>) {
    let mut pause = PAUSE_MIN;
    let mut told = false;
    let mut heard = Heard::new(alarms, meter);
    loop {
        match connect(shared).await {
            Ok((stream, decoder, hello)) => {
                tracing::info!(
                    epoch = hello.epoch,
                    build = ?hello.build,
                    window_tokens = hello.window,
                    capacity_tokens = hello.capacity,
                    "an engine is connected"
                );
                (pause, told) = (PAUSE_MIN, false);
                let ended = serve(shared, (stream, decoder), hello, &mut heard).await;
                // Dropping the routes ends each request that waits, at once.
                *shared.live() = None;
                shared.seen.send_replace(None);
                tracing::warn!(reason = %ended, "the engine is gone");
            }
            Err(reason) if !told => {
                tracing::info!(%reason, "waiting for an engine");
                told = true;
            }
            Err(_) => {}
        }
        sleep(pause).await;
        pause = pause.saturating_mul(2).min(PAUSE_MAX);
    }
}

async fn connect(shared: &Shared) -> Result<(UnixStream, Decoder, Hello), Ended> {
    let mut stream = UnixStream::connect(&shared.socket).await?;
    stream.write_all(&wire::encode(&ToEngine::Hello(GatewayHello { protocol: PROTOCOL }))?).await?;
    let mut decoder = Decoder::new();
    let first = timeout(HELLO_MAX, read(&mut stream, &mut decoder)).await.map_err(|_| Ended::NoHello)??;
    let ToGateway::Hello(hello) = first else { return Err(Ended::NoHello) };
    if hello.protocol != PROTOCOL {
        return Err(Ended::Protocol { theirs: hello.protocol });
    }
    Ok((stream, decoder, *hello))
}

async fn read(stream: &mut (impl AsyncReadExt + Unpin), decoder: &mut Decoder) -> Result<ToGateway, Ended> {
    let mut bytes = vec![0; READ_BYTES];
    loop {
        if let Some(frame) = decoder.take()? {
            return Ok(frame);
        }
        let count = stream.read(&mut bytes).await?;
        if count == 0 {
            return Err(Ended::Closed);
        }
        decoder.push(bytes.get(..count).unwrap_or_default());
    }
}

async fn serve(
    shared: &Shared,
    (stream, mut decoder): (UnixStream, Decoder),
    hello: Hello,
    heard: &mut Heard,
) -> Ended {
    let (mut reader, mut writer) = stream.into_split();
    let (out, mut queue) = mpsc::channel::<Vec<u8>>(OUT_MAX);
    *shared.live() = Some(Live {
        window: hello.window,
        hello: hello.clone(),
        serial: 0,
        out,
        routes: HashMap::new(),
        asked: VecDeque::new(),
    });
    let mut shares = Shares::new(&hello);
    // Before anybody can submit: the route to the engine is in order.
    if let Err(ended) = shares.tell(shared) {
        return ended;
    }
    shared.seen.send_replace(Some(hello));
    let write = async {
        while let Some(frame) = queue.recv().await {
            match timeout(WRITE_MAX, writer.write_all(&frame)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Ended::Io(error),
                Err(_) => return Ended::Stuck,
            }
        }
        Ended::Closed
    };
    let listen = async {
        loop {
            match read(&mut reader, &mut decoder).await {
                Ok(frame) => {
                    if let Err(ended) = hand_out(shared, heard, frame) {
                        return ended;
                    }
                }
                Err(ended) => return ended,
            }
        }
    };
    let look = async {
        let mut often = interval(LOOK_EVERY);
        often.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            often.tick().await;
            if let Err(ended) = shares.tell(shared) {
                return ended;
            }
            let asked = shared.live().as_mut().and_then(Live::ask);
            let Some(asked) = asked else { continue };
            if let Ok(Ok(status)) = timeout(LOOK_MAX, asked).await
                && let Some(live) = shared.live().as_mut()
            {
                live.window = status.window;
            }
        }
    };
    tokio::select! {
        ended = write => ended,
        ended = listen => ended,
        ended = look => ended,
    }
}

/// Gives a frame to whoever waits for its request, and an alarm to whoever records it.
fn hand_out(shared: &Shared, heard: &mut Heard, frame: ToGateway) -> Result<(), Ended> {
    let mut guard = shared.live();
    let Some(live) = guard.as_mut() else { return Ok(()) };
    let (request, is_last) = match &frame {
        ToGateway::Refused { request, .. } => (*request, true),
        ToGateway::Evidence { stamp, .. } => (stamp.request, false),
        ToGateway::Delta(delta) => (delta.stamp.request, false),
        ToGateway::End(end) => (end.stamp.request, true),
        ToGateway::Status(status) => {
            if let Some(asked) = live.asked.pop_front() {
                // Whoever asked may have left.
                let _unasked = asked.send(status.clone());
            }
            return Ok(());
        }
        ToGateway::Alarm(alarm) => {
            let epoch = live.hello.epoch;
            // It writes to the log, and no request should wait for that.
            drop(guard);
            return heard.hand_on(epoch, *alarm);
        }
        ToGateway::Hello(_) => return Err(Ended::Unexpected),
    };
    let route = if is_last { live.routes.remove(&request) } else { live.routes.get(&request).cloned() };
    let any = || live.routes.values().next().cloned();
    let route = if seeded(Fault::AnyRoute) { route.or_else(any) } else { route };
    let Some(route) = route else {
        // Cancelled a moment ago, or never asked for: in either case nobody gets it.
        tracing::debug!("a frame for a request that nobody waits for");
        return Ok(());
    };
    if route.try_send(frame).is_err() {
        // Its client does not keep up, or has left. Without any route its receiver ends, and dropping it cancels the rest.
        live.routes.retain(|_, other| !other.same_channel(&route));
        if let Ok(cancel) = wire::encode(&ToEngine::Cancel(request)) {
            let _stuck = live.out.try_send(cancel);
        }
    }
    Ok(())
}
