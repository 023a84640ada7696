//! Our own accept loop in front of Pingora: it caps connections, reads each head under a deadline, and drains at the end.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use pingora::apps::HttpServerApp;
use pingora::protocols::http::ServerSession;
use pingora::protocols::{GetSocketDigest, SocketDigest, Stream};
use pingora::proxy::{HttpProxy, http_proxy};
use pingora::server::configuration::ServerConf;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::head::{Arrived, BadHead, HeadBounds, arrive};
use super::phases::{Phases, Role};
use crate::house::House;
use crate::meter::Meter;
use crate::openai::{ErrorBody, error_json};

/// An address that is bound and not yet served.
pub(crate) struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

/// A listener that is served.
pub(crate) struct Listening {
    house: Arc<House>,
    proxy: Arc<HttpProxy<Phases>>,
    socket: TcpListener,
    connections: JoinSet<()>,
    addresses: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Listener {
    pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn serve(self, house: Arc<House>, role: Role) -> Listening {
        let phases = Phases { house: Arc::clone(&house), role };
        let proxy = Arc::new(http_proxy(&Arc::new(ServerConf::default()), phases));
        let addresses = Arc::default();
        Listening { house, proxy, socket: self.socket, connections: JoinSet::new(), addresses }
    }
}

impl Listening {
    /// Accepts until told to stop, then waits until each connection has ended.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let stopped = stop.clone();
        loop {
            tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, peer)) => self.connect(stream, peer.ip(), &stopped),
                    // Out of file descriptors, or a client that left at once: others may still come.
                    Err(error) => {
                        tracing::warn!(%error, "a connection was not accepted");
                        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                    }
                },
                Some(_) = self.connections.join_next() => {}
                () = told(&mut stop) => break,
            }
        }
        drop(self.socket);
        while self.connections.join_next().await.is_some() {}
    }

    fn connect(&mut self, stream: TcpStream, address: IpAddr, stop: &watch::Receiver<bool>) {
        let Some(seat) = Seat::take(&self.house, &self.addresses, address) else {
            tracing::warn!("a connection was refused: there are as many as the policy allows");
            return;
        };
        let (house, proxy, stop) = (Arc::clone(&self.house), Arc::clone(&self.proxy), stop.clone());
        self.connections.spawn(async move {
            talk(&house, &proxy, stream, stop).await;
            drop(seat);
        });
    }
}

/// A connection's place among those that the policy allows; given back on drop.
struct Seat {
    house: Arc<House>,
    addresses: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Seat {
    fn take(
        house: &Arc<House>,
        addresses: &Arc<Mutex<HashMap<IpAddr, usize>>>,
        address: IpAddr,
    ) -> Option<Self> {
        let mut held = addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = held.values().sum();
        let own = held.get(&address).copied().unwrap_or(0);
        if total >= house.policy.connections_max() || own >= house.policy.connections_per_address_max() {
            return None;
        }
        held.insert(address, own.saturating_add(1));
        drop(held);
        Meter::add(&house.meter.connections);
        Some(Self { house: Arc::clone(house), addresses: Arc::clone(addresses), address })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut held = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.address) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                held.remove(&self.address);
            }
        }
        Meter::sub(&self.house.meter.connections);
    }
}

/// Serves one connection, request after request.
async fn talk(
    house: &House,
    proxy: &Arc<HttpProxy<Phases>>,
    stream: TcpStream,
    mut stop: watch::Receiver<bool>,
) {
    // Events are small and must go out as they come.
    let _best_effort = stream.set_nodelay(true);
    // Without it Pingora does not know who is at the other end.
    let socket = SocketDigest::from_raw_fd(stream.as_raw_fd());
    let mut stream: pingora::protocols::l4::stream::Stream = stream.into();
    stream.set_socket_digest(socket);
    let mut stream: Stream = Box::new(stream);
    let mut settings = None;
    let bounds = HeadBounds {
        bytes_max: house.policy.head_bytes_max(),
        timeout: house.policy.head_timeout_ms(),
        idle: house.policy.idle_timeout_ms(),
    };
    loop {
        let arrived = tokio::select! {
            arrived = arrive(&mut stream, bounds) => arrived,
            // A connection that waits for its next request has nothing to finish.
            () = told(&mut stop) => return,
        };
        let head = match arrived {
            Arrived::Head(head) => head,
            Arrived::Nothing => return,
            Arrived::Refused(bad) => return refuse(&mut stream, bad).await,
        };
        let Some(next) = serve_one(proxy, stream, head, settings.take(), &stop).await else { return };
        (stream, settings) = next.consume();
    }
}

async fn serve_one(
    proxy: &Arc<HttpProxy<Phases>>,
    stream: Stream,
    head: BytesMut,
    settings: Option<pingora::apps::HttpPersistentSettings>,
    stop: &watch::Receiver<bool>,
) -> Option<pingora::apps::ReusedHttpStream> {
    let mut session = ServerSession::new_http1(stream);
    session.set_keepalive(Some(60));
    if let Some(settings) = settings {
        settings.apply_to_session(&mut session);
    }
    session.set_pipelined_prefix(head);
    proxy.process_new_http(session, stop).await
}

/// Waits until the listener is to stop; a sender that is gone says the same.
async fn told(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

/// Answers a head that Pingora never saw, and ends the connection.
async fn refuse(stream: &mut Stream, bad: BadHead) {
    let (line, code, message) = match bad {
        BadHead::TooLarge { bytes_max } => (
            "431 Request Header Fields Too Large",
            "request_too_large",
            format!("The request's head is too large: at most {bytes_max} bytes are allowed."),
        ),
        BadHead::TooSlow { limit_ms } => (
            "408 Request Timeout",
            "request_timeout",
            format!("The request's head did not arrive within {limit_ms} ms."),
        ),
        BadHead::Framing { why } => {
            ("400 Bad Request", "invalid_request", format!("The request's head cannot be trusted: {why}."))
        }
    };
    let kind = "invalid_request_error";
    let body = error_json(&ErrorBody { message: &message, kind, param: None, code: Some(code) });
    let request = uuid::Uuid::now_v7();
    let head = format!(
        "HTTP/1.1 {line}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nx-request-id: {request}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let answer = [head.as_bytes(), &body].concat();
    // A client that does not wait for its refusal misses it.
    if stream.write_all(&answer).await.is_ok() {
        let _closed = stream.shutdown().await;
    }
}
