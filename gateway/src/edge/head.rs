//! The head of a request, read whole under a deadline and a size before Pingora sees it.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout, timeout_at};

const READ_BYTES: usize = 8 * 1024;

/// What arrived on a connection.
pub(super) enum Arrived {
    /// A head, and perhaps the beginning of its body.
    Head(BytesMut),
    /// Nothing more: the client closed, or said nothing for too long.
    Nothing,
    /// A head that is refused; the connection ends after the answer.
    Refused(BadHead),
}

/// Why a head is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BadHead {
    TooLarge { bytes_max: usize },
    TooSlow { limit_ms: u128 },
    Framing { why: &'static str },
}

/// Bounds of a head.
#[derive(Clone, Copy)]
pub(super) struct HeadBounds {
    pub(super) bytes_max: usize,
    /// From its first byte to its last.
    pub(super) timeout: Duration,
    /// For its first byte.
    pub(super) idle: Duration,
}

pub(super) async fn arrive(stream: &mut (impl AsyncRead + Unpin), bounds: HeadBounds) -> Arrived {
    let mut head = BytesMut::with_capacity(READ_BYTES);
    match timeout(bounds.idle, stream.read_buf(&mut head)).await {
        Ok(Ok(count)) if count > 0 => {}
        Ok(Ok(_) | Err(_)) | Err(_) => return Arrived::Nothing,
    }
    let deadline = Instant::now().checked_add(bounds.timeout);
    loop {
        if let Some(end) = end_of_head(&head) {
            if end > bounds.bytes_max {
                return Arrived::Refused(BadHead::TooLarge { bytes_max: bounds.bytes_max });
            }
            let lines = head.get(..end).unwrap_or_default();
            return match framing(lines) {
                Ok(()) => Arrived::Head(head),
                Err(why) => Arrived::Refused(BadHead::Framing { why }),
            };
        }
        if head.len() > bounds.bytes_max {
            return Arrived::Refused(BadHead::TooLarge { bytes_max: bounds.bytes_max });
        }
        head.reserve(READ_BYTES);
        let slow = Arrived::Refused(BadHead::TooSlow { limit_ms: bounds.timeout.as_millis() });
        let Some(deadline) = deadline else { return slow };
        match timeout_at(deadline, stream.read_buf(&mut head)).await {
            Ok(Ok(count)) if count > 0 => {}
            Ok(Ok(_) | Err(_)) => return Arrived::Nothing,
            Err(_) => return slow,
        }
    }
}

/// Bytes up to and with the empty line.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let strict = bytes.windows(4).position(|four| four == b"\r\n\r\n").and_then(|at| at.checked_add(4));
    let lax = bytes.windows(2).position(|two| two == b"\n\n").and_then(|at| at.checked_add(2));
    match (strict, lax) {
        (Some(strict), Some(lax)) => Some(strict.min(lax)),
        (strict, lax) => strict.or(lax),
    }
}

/// Refuses what two parsers could read in two ways: two lengths, two hosts, none at all.
fn framing(head: &[u8]) -> Result<(), &'static str> {
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.next().unwrap_or_default();
    let (mut hosts, mut lengths, mut codings) = (0_u32, 0_u32, 0_u32);
    for line in lines {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let counter = match name.to_ascii_lowercase().as_slice() {
            b"host" => &mut hosts,
            b"content-length" => &mut lengths,
            b"transfer-encoding" => &mut codings,
            _ => continue,
        };
        *counter = counter.saturating_add(1);
    }
    if lengths > 0 && codings > 0 {
        return Err("both Content-Length and Transfer-Encoding are given");
    }
    if lengths > 1 || codings > 1 {
        return Err("Content-Length or Transfer-Encoding is given twice");
    }
    if hosts > 1 || (hosts == 0 && !first.ends_with(b"HTTP/1.0")) {
        return Err("there must be one Host");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: HeadBounds =
        HeadBounds { bytes_max: 1024, timeout: Duration::from_millis(50), idle: Duration::from_secs(5) };

    async fn of(bytes: &[u8]) -> Arrived {
        let (mut client, mut server) = tokio::io::duplex(64 * 1024);
        tokio::io::AsyncWriteExt::write_all(&mut client, bytes).await.unwrap();
        let arrived = arrive(&mut server, BOUNDS).await;
        drop(client);
        arrived
    }

    async fn refused(bytes: &[u8]) -> BadHead {
        let Arrived::Refused(bad) = of(bytes).await else { panic!("not refused") };
        bad
    }

    #[tokio::test]
    async fn a_head_is_taken_with_what_follows_it() {
        let Arrived::Head(head) = of(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n{}").await else {
            panic!("no head")
        };
        assert!(head.ends_with(b"\r\n\r\n{}"));
    }

    #[tokio::test]
    async fn a_large_or_slow_head_is_refused() {
        let long = [b"GET / HTTP/1.1\r\nHost: a\r\nX: ".as_slice(), &[b'x'; 2000], b"\r\n\r\n"].concat();
        assert_eq!(refused(&long).await, BadHead::TooLarge { bytes_max: 1024 });
        assert_eq!(refused(b"GET / HTTP/1.1\r\nHo").await, BadHead::TooSlow { limit_ms: 50 });
    }

    #[tokio::test]
    async fn what_can_be_read_in_two_ways_is_refused() {
        for head in [
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
        ] {
            assert!(matches!(refused(head.as_bytes()).await, BadHead::Framing { .. }), "{head}");
        }
    }

    #[tokio::test]
    async fn a_client_that_says_nothing_gets_nothing() {
        let (client, mut server) = tokio::io::duplex(64);
        drop(client);
        assert!(matches!(arrive(&mut server, BOUNDS).await, Arrived::Nothing));
    }
}
