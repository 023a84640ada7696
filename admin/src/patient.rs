//! A stream whose other end has only so long to take what is written to it.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io::{self, IoSlice};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::fault::{Fault, seeded};

/// Fails a write once what was to be written had to wait for this long, counted from where it first had to wait to where all of it
/// was taken: a client that takes a byte now and then is no better than one that takes none.
pub(crate) struct Patient<S> {
    stream: S,
    limit: Duration,
    /// Until when what waits must be gone; none while nothing has to wait.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, until: None }
    }

    fn waited<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if seeded(Fault::WritesUncut) {
            return Poll::Pending;
        }
        let limit = self.limit;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(until.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(cx, bytes) {
            Poll::Ready(written) => Poll::Ready(written),
            Poll::Pending => self.waited(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write_vectored(cx, parts) {
            Poll::Ready(written) => Poll::Ready(written),
            Poll::Pending => self.waited(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Asked for when all that was to be written is.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(flushed) => {
                self.until = None;
                Poll::Ready(flushed)
            }
            Poll::Pending => self.waited(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_shutdown(cx) {
            Poll::Ready(closed) => Poll::Ready(closed),
            Poll::Pending => self.waited(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(200);

    async fn written(writer: &mut Patient<tokio::io::DuplexStream>, bytes: &[u8]) -> io::Result<()> {
        writer.write_all(bytes).await?;
        writer.flush().await
    }

    #[tokio::test]
    async fn who_takes_nothing_is_given_up_and_who_takes_all_is_not() {
        let (here, mut there) = duplex(16);
        let mut writer = Patient::new(here, LIMIT);
        let reading = tokio::spawn(async move {
            let mut all = vec![];
            there.read_to_end(&mut all).await.map(|_| all.len())
        });
        for _ in 0..5 {
            written(&mut writer, &[1; 1_000]).await.unwrap();
            // A pause between two answers is nobody's slowness.
            tokio::time::sleep(LIMIT).await;
        }
        drop(writer);
        assert_eq!(reading.await.unwrap().unwrap(), 5_000);

        let (here, _there) = duplex(16);
        let refused = written(&mut Patient::new(here, LIMIT), &[1; 17]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn who_takes_a_byte_now_and_then_is_given_up_too() {
        let (here, mut there) = duplex(16);
        let dripping = tokio::spawn(async move {
            let mut byte = [0];
            let mut taken = 0_u64;
            while there.read_exact(&mut byte).await.is_ok() {
                taken += 1;
                tokio::time::sleep(LIMIT / 10).await;
            }
            taken
        });
        let mut writer = Patient::new(here, LIMIT);
        let refused = written(&mut writer, &[1; 100_000]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        drop(writer);
        assert!(dripping.await.unwrap() < 1_000);
    }
}
