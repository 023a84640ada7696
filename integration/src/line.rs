//! A line between a server under test and one that it depends on, which a test can cut.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Forwards connections while it is whole. Its threads end with the process.
#[derive(Debug)]
pub struct Line {
    /// Where to connect instead.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    is_whole: AtomicBool,
    /// Both ends of all connections that were made since the last cut.
    ends: Mutex<Vec<TcpStream>>,
}

impl Line {
    /// A line to `to`, whole.
    ///
    /// # Panics
    /// When no port is to be had.
    #[must_use]
    pub fn to(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("the port's address");
        let shared = Arc::new(Shared { is_whole: AtomicBool::new(true), ends: Mutex::default() });
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // One that is not forwarded is closed at once, as by a server that died.
                let _closed = of_thread.forward(client, to);
            }
        });
        Self { address, shared }
    }

    /// Cuts all connections, and lets no other be made.
    pub fn cut(&self) {
        self.shared.is_whole.store(false, Ordering::SeqCst);
        for end in self.shared.ends.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // It may be closed already.
            let _closed = end.shutdown(Shutdown::Both);
        }
    }

    /// Lets connections be made again.
    pub fn heal(&self) {
        self.shared.is_whole.store(true, Ordering::SeqCst);
    }
}

impl Shared {
    fn forward(&self, client: TcpStream, to: SocketAddr) -> io::Result<()> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_whole.load(Ordering::SeqCst) {
            return client.shutdown(Shutdown::Both);
        }
        let server = TcpStream::connect(to)?;
        for (from, to) in [(&client, &server), (&server, &client)] {
            let (from, to) = (from.try_clone()?, to.try_clone()?);
            thread::spawn(move || copy(from, to));
        }
        ends.extend([client, server]);
        Ok(())
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut bytes) {
        if count == 0 || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // The other end may be gone.
    let _closed = to.shutdown(Shutdown::Both);
}
