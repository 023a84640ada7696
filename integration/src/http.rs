//! A small HTTP/1.1 client that can also say what no well-behaved client says, and stop in the middle.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longest wait for bytes of an answer: a long prompt in a build that is not fully optimised.
const READ_MAX: Duration = Duration::from_secs(120);

/// One connection to a server.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its head.
    pub head: Head,
    /// Its body.
    pub body: Vec<u8>,
}

impl Head {
    /// The first value of a header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn is_chunked(&self) -> bool {
        self.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    }

    fn content_length(&self) -> Option<usize> {
        self.header("content-length")?.parse().ok()
    }
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error} in {:?}: {}", self.head, String::from_utf8_lossy(&self.body))
        })
    }

    /// The status code.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// `error.code` of an error answer; empty where it is null.
    #[must_use]
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Each `data:` of a body of events.
    #[must_use]
    pub fn events(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.body);
        text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }
}

impl Connection {
    /// Connects.
    ///
    /// # Panics
    /// When nobody listens.
    #[must_use]
    pub fn open(address: SocketAddr) -> Self {
        let stream =
            TcpStream::connect(address).unwrap_or_else(|error| panic!("connect to {address}: {error}"));
        stream.set_read_timeout(Some(READ_MAX)).expect("a time-out is set");
        stream.set_nodelay(true).expect("nodelay is set");
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes as they are. An error is the server's right: it may have answered and closed.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends a request with a JSON body.
    ///
    /// # Panics
    /// When the server takes no more bytes.
    pub fn post(&mut self, path: &str, key: &str, body: &[u8]) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: bulkhead\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat()).expect("the server takes the request");
    }

    /// Sends a request without a body.
    ///
    /// # Panics
    /// When the server takes no more bytes.
    pub fn get(&mut self, path: &str, key: Option<&str>) {
        let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        let head = format!("GET {path} HTTP/1.1\r\nhost: bulkhead\r\n{key}\r\n");
        self.send(head.as_bytes()).expect("the server takes the request");
    }

    /// Reads the head of an answer; an error when the connection ended first.
    pub fn head(&mut self) -> io::Result<Head> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status line: {status_line:?}")))?;
        let mut headers = vec![];
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(Head { status, headers });
            }
            let (name, value) = line.split_once(':').ok_or_else(|| io::Error::other(line.clone()))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// Reads a whole answer.
    ///
    /// # Panics
    /// When the connection ends within it.
    #[must_use]
    pub fn answer(&mut self) -> Answer {
        self.try_answer().unwrap_or_else(|error| panic!("no whole answer: {error}"))
    }

    /// Reads a whole answer; an error when the connection ended within it.
    pub fn try_answer(&mut self) -> io::Result<Answer> {
        let head = self.head()?;
        let mut body = vec![];
        if head.is_chunked() {
            while let Some(chunk) = self.chunk()? {
                body.extend(chunk);
            }
        } else if let Some(length) = head.content_length() {
            body.resize(length, 0);
            self.stream.read_exact(&mut body)?;
        } else if head.status != 204 && head.status != 304 {
            self.stream.read_to_end(&mut body)?;
        }
        Ok(Answer { head, body })
    }

    /// The next chunk of a chunked body; `None` after the last.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = self.line()?;
        let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16)
            .map_err(|_| io::Error::other(format!("no chunk size: {size:?}")))?;
        let mut chunk = vec![0; size];
        self.stream.read_exact(&mut chunk)?;
        self.line()?;
        Ok((size > 0).then_some(chunk))
    }

    /// Leaves, as a client does whose user closed the window.
    pub fn hang_up(self) {
        // Already closed is as good.
        drop(self.stream.get_ref().shutdown(Shutdown::Both));
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

/// One request on a connection of its own.
///
/// # Panics
/// When no whole answer comes.
#[must_use]
pub fn post(address: SocketAddr, path: &str, key: &str, body: &Value) -> Answer {
    let mut connection = Connection::open(address);
    connection.post(path, key, body.to_string().as_bytes());
    connection.answer()
}

/// One request on a connection of its own.
///
/// # Panics
/// When no whole answer comes.
#[must_use]
pub fn get(address: SocketAddr, path: &str, key: Option<&str>) -> Answer {
    let mut connection = Connection::open(address);
    connection.get(path, key);
    connection.answer()
}
