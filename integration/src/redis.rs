//! A Redis server of a test's own, which it can kill and start again.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::wait;

/// From the start of a server to its first connection, at most.
const START_MAX: Duration = Duration::from_secs(20);

/// A server that keeps nothing on disk. Dropped, it is killed.
#[derive(Debug)]
pub struct Redis {
    address: SocketAddr,
    child: Option<Child>,
}

impl Redis {
    /// A server on a free port.
    ///
    /// # Panics
    /// When there is no `redis-server`: a test that needs it must not pass without it.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("the port's address");
        drop(listener);
        let mut server = Self { address, child: None };
        server.again();
        server
    }

    /// Starts it again, with nothing in it.
    ///
    /// # Panics
    /// When it does not start.
    pub fn again(&mut self) {
        let port = self.address.port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("redis-server runs; ./check installs it"));
        wait::until("a Redis server", START_MAX, || TcpStream::connect(self.address).ok());
    }

    /// Kills it, with all that it held.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            let _killed = child.kill();
            let _ended = child.wait();
        }
    }

    /// Its address, as `BULKHEAD_LIMITS_URL` takes it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
