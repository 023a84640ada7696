//! `bulkhead audit witness`: HTTP around a witness, with a bound on all that anybody may take of it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::audit::{LogKey, REQUEST_BYTES_MAX, Witness, WitnessError};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::auditkey;
use crate::cli::WitnessArgs;
use crate::data::{DataDir, write_private};
use crate::exit::{Doing, Exit, Failure};
use crate::present;
use crate::shutdown::Signals;

/// Connections at the same time. One more waits in the system's own line.
const CONNECTIONS_MAX: usize = 64;
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 * 1_024;
/// Lines of a request's head.
const HEAD_LINES_MAX: usize = 64;
/// How long a head may take to arrive.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection may live, all its requests and answers included. Who needs longer connects again.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(60);
/// How long running requests may take to end when the witness does.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn run(data: &DataDir, args: &WitnessArgs) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    let key = args.key.clone().unwrap_or_else(|| data.witness_key());
    let state = args.state.clone().unwrap_or_else(|| data.witness());
    let witness = open(&key, &state, &args.watch)?;
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        let exit = if error.kind() == io::ErrorKind::AddrInUse { Exit::PortTaken } else { Exit::Other };
        Failure::new(exit, format_args!("cannot listen on {}: {error}", args.listen))
    })?;
    let address = listener.local_addr().doing(Exit::Other, "learn the address")?;
    present::line(&format!("listening: http://{address}"))?;
    let router = Router::new()
        .route("/add-checkpoint", post(add_checkpoint))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(Arc::new(witness));
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = signals.next() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((place, stream)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    serve(stream, router).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection is lost");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    // What runs may end; one that is cut was kept before it was answered, or not at all.
    let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
    let _drained = tokio::time::timeout(DRAIN_MAX, places.acquire_many(all)).await;
    Ok(())
}

/// The witness, and its key: what it has cosigned is on the medium before a new key is.
fn open(path: &Path, state: &Path, logs: &[std::path::PathBuf]) -> Result<Witness, Failure> {
    let logs = logs.iter().map(|log| auditkey::read_public(log)).collect::<Result<Vec<_>, _>>()?;
    let kept = auditkey::read_witness_private(path)?;
    if kept.is_some() && !state.join("watched").exists() {
        return Err(Failure::new(
            Exit::Store,
            format_args!(
                "there is a witness's key in {}, and what it has cosigned is not in {}: name the folder by --state or restore it; to forget it, begin with another key",
                path.display(),
                state.display()
            ),
        ));
    }
    let is_new = kept.is_none();
    let key = match kept {
        Some(key) => key,
        None => LogKey::unique_witness("bulkhead.invalid/witness").doing(Exit::Other, "make a key")?,
    };
    let (private, public) = (key.private(), key.public());
    let witness = Witness::open(state, key, logs).map_err(|error| {
        let exit = match error {
            WitnessError::Locked => Exit::Locked,
            WitnessError::Disk(_) | WitnessError::State { .. } | WitnessError::Missing { .. } => Exit::Store,
            WitnessError::Logs { .. } | WitnessError::TwoKeys(_) | WitnessError::Kind => Exit::Usage,
        };
        Failure::new(exit, &error)
    })?;
    let beside = path.with_extension("pub");
    if is_new {
        write_private(path, private.as_bytes())
            .doing(Exit::Store, format_args!("write {}", path.display()))?;
    }
    if is_new || !beside.exists() {
        write_private(&beside, format!("{public}\n").as_bytes())
            .doing(Exit::Store, format_args!("write {}", beside.display()))?;
    }
    present::line(&format!("key: {public}"))?;
    Ok(witness)
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(tokio::sync::OwnedSemaphorePermit, TcpStream)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((place, stream))
}

async fn serve(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEAD_LINES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // How a client's connection ends is its own business.
    let _ended = tokio::time::timeout(CONNECTION_TIME_MAX, connection).await;
}

async fn add_checkpoint(State(witness): State<Arc<Witness>>, body: Bytes) -> Response {
    // It waits for the disk.
    let answer = tokio::task::spawn_blocking(move || witness.add_checkpoint(&body, SystemTime::now())).await;
    let Ok(answer) = answer else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status.is_server_error() {
        tracing::error!(
            "what would be cosigned cannot be kept: look after the disk, and start the witness again"
        );
    }
    (status, [(header::CONTENT_TYPE, answer.content_type)], answer.body).into_response()
}
