//! The listener: one address, and a bound on all that a client may take of it.

use core::future::Future;
use core::num::NonZeroU32;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router, middleware};
use http::header;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tenant::{Directory, Failures, Store};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::asker::Peer;
use crate::document::routes_and_document;
use crate::house::House;
use crate::leaks::REPORTS_PER_SECOND_MAX;
use crate::pace::Pace;
use crate::patient::Patient;
use crate::problem::{Kind, Problem};
use crate::scanners::Scanners;
use crate::seats::{Seat, Seats};
use crate::trace;

/// Bytes of a request's body.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Connections at the same time. One more waits in the system's own line.
pub const CONNECTIONS_MAX: usize = 256;
/// Bytes of a request's head, and of what is read ahead.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Lines of a request's head.
const HEAD_LINES_MAX: usize = 64;
/// How long a head may take to arrive, the wait for the next one of a connection included.
const HEAD_TIME_MAX: Duration = Duration::from_secs(15);
/// How long a connection may live. Who needs longer connects again.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(600);
/// How long running requests may take to end when the server does.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// Pause after a connection that could not be accepted: mostly for want of file descriptors, which others give back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How the Admin API is served.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Keys that do not work which one address may present in a minute.
    pub failures_per_minute: NonZeroU32,
    /// How old what is known of keys may be; beyond it nobody is let in.
    pub keys_age_max: Duration,
    /// How long a client may take to take an answer that it makes wait.
    pub write_time_max: Duration,
    /// Whose signed reports of leaked keys are believed.
    pub scanners: Scanners,
}

/// The Admin API, with its address.
pub struct Api {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    write_time_max: Duration,
    seats: Arc<Seats>,
}

impl Api {
    /// Binds the address. `directory` is who is let in, and must follow `store`.
    ///
    /// # Errors
    /// The address cannot be had.
    pub async fn bind(config: ApiConfig, store: Store, directory: Arc<Directory>) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "the Admin API is open to the network, and has no TLS of its own: keys cross it as they are");
        }
        let house = House {
            store,
            directory,
            failures: Failures::default(),
            failures_per_minute: config.failures_per_minute,
            keys_age_max: config.keys_age_max,
            scanners: config.scanners,
            reports: Pace::new(REPORTS_PER_SECOND_MAX),
            began: Instant::now(),
        };
        let (write_time_max, seats) = (config.write_time_max, Arc::default());
        Ok(Self { listener, address, router: router(house), write_time_max, seats })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`, and then until the running requests have ended, or 10 s.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let (graceful, places) = (GracefulShutdown::new(), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
        let mut shutdown = core::pin::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = accept(&self.listener, &places) => accepted,
            };
            match accepted {
                Ok((place, stream, from)) => self.spawn(&graceful, place, stream, from),
                Err(error) => {
                    tracing::warn!(%error, "a connection to the Admin API is lost");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.listener);
        if tokio::time::timeout(DRAIN_MAX, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests of the Admin API are cut: they did not end in time");
        }
    }

    fn spawn(
        &self,
        graceful: &GracefulShutdown,
        place: OwnedSemaphorePermit,
        stream: TcpStream,
        from: SocketAddr,
    ) {
        let Some(seat) = Seat::take(&self.seats, from.ip()) else {
            tracing::warn!("a connection to the Admin API is refused: its address has as many as it may");
            return;
        };
        let router = self.router.clone().layer(Extension(Peer(from.ip())));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEAD_LINES_MAX)
            .serve_connection(
                TokioIo::new(Patient::new(stream, self.write_time_max)),
                TowerToHyperService::new(router),
            );
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // How a client's connection ends is its own business.
            let _ended = tokio::time::timeout(CONNECTION_TIME_MAX, connection).await;
            drop((place, seat));
        });
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(OwnedSemaphorePermit, TcpStream, SocketAddr)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, from) = listener.accept().await?;
    Ok((place, stream, from))
}

fn router(house: House) -> Router {
    let (routes, document) = routes_and_document();
    // Texts, numbers and lists are always JSON.
    let document: Arc<str> = document.to_json().unwrap_or_default().into();
    routes
        .route("/openapi.json", get(move || described(Arc::clone(&document))))
        .fallback(async || Problem::new(Kind::NotFound, "nothing is served under this path"))
        .method_not_allowed_fallback(async || {
            Problem::new(Kind::MethodNotAllowed, "the header `allow` names the methods of this path")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(trace::around))
        .with_state(Arc::new(house))
}

async fn described(document: Arc<str>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document.as_ref().to_owned()).into_response()
}
