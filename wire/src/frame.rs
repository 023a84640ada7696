//! Length-prefixed frames: four bytes of length, little-endian, then the message.

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Bytes of one frame's message at most: a prompt of 1,048,576 ids of five bytes each, and its fields.
pub const FRAME_BYTES_MAX: usize = 6 * 1024 * 1024;

const PREFIX_BYTES: usize = 4;

/// A frame that was not sent or not understood. The session it came on must end.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum FrameError {
    /// The frame is larger than a frame may be.
    #[error("a frame of {bytes} bytes is over the limit of {FRAME_BYTES_MAX}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The bytes are no message of this direction.
    #[error("a frame of {bytes} bytes holds no message of this protocol")]
    Malformed {
        /// Its length.
        bytes: usize,
    },
    /// The message left bytes over.
    #[error("a frame has {bytes} bytes after its message")]
    Trailing {
        /// How many.
        bytes: usize,
    },
}

/// The frame of `message`, its length first.
///
/// # Errors
/// [`FrameError::TooLarge`] when the message is over [`FRAME_BYTES_MAX`].
pub fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, FrameError> {
    let mut frame = postcard::to_extend(message, vec![0; PREFIX_BYTES])
        .map_err(|_| FrameError::Malformed { bytes: 0 })?;
    let bytes = frame.len().saturating_sub(PREFIX_BYTES);
    let length = match u32::try_from(bytes) {
        Ok(length) if bytes <= FRAME_BYTES_MAX => length,
        Ok(_) | Err(_) => return Err(FrameError::TooLarge { bytes }),
    };
    for (place, byte) in frame.iter_mut().zip(length.to_le_bytes()) {
        *place = byte;
    }
    Ok(frame)
}

/// Finds frames in a stream of bytes. Holds at most one frame and what was read after it.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    read: usize,
}

impl Decoder {
    /// An empty decoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read.min(self.buffer.len()));
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, or `None` until more bytes have come.
    ///
    /// # Errors
    /// See [`FrameError`]; the stream cannot be read on after one.
    pub fn take<M: DeserializeOwned>(&mut self) -> Result<Option<M>, FrameError> {
        let waiting = self.buffer.get(self.read..).unwrap_or_default();
        let Some((prefix, rest)) = waiting.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let bytes = usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
        if bytes > FRAME_BYTES_MAX {
            return Err(FrameError::TooLarge { bytes });
        }
        let Some(body) = rest.get(..bytes) else { return Ok(None) };
        let (message, left) = postcard::take_from_bytes(body).map_err(|_| FrameError::Malformed { bytes })?;
        if !left.is_empty() {
            return Err(FrameError::Trailing { bytes: left.len() });
        }
        self.read = self.read.saturating_add(PREFIX_BYTES).saturating_add(bytes);
        Ok(Some(message))
    }

    /// Whether part of a frame has come, so that an end of the stream here is a cut.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.read < self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Delta, Stamp, ToEngine, ToGateway, TokenOut};
    use proptest::prelude::*;

    fn delta(id: u32) -> ToGateway {
        let stamp = Stamp { request: [7; 16], tag: 3, epoch: 9, sequence: 1 };
        ToGateway::Delta(Delta { stamp, tokens: vec![TokenOut { id, logprob: -0.5, top: vec![(id, -0.5)] }] })
    }

    #[test]
    fn a_frame_survives_being_cut_anywhere() {
        let bytes = [encode(&delta(1)).unwrap(), encode(&delta(2)).unwrap()].concat();
        for cut in 0..=bytes.len() {
            let mut decoder = Decoder::new();
            let mut seen = vec![];
            for part in [&bytes[..cut], &bytes[cut..]] {
                decoder.push(part);
                while let Some(message) = decoder.take::<ToGateway>().unwrap() {
                    seen.push(message);
                }
            }
            assert_eq!(seen, [delta(1), delta(2)]);
            assert!(!decoder.is_partial());
        }
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_its_bytes_come() {
        let mut decoder = Decoder::new();
        decoder.push(&u32::MAX.to_le_bytes());
        assert_eq!(decoder.take::<ToEngine>(), Err(FrameError::TooLarge { bytes: 4_294_967_295 }));
    }

    #[test]
    fn bytes_after_the_message_are_refused() {
        let mut frame = encode(&ToEngine::Status).unwrap();
        frame.push(0);
        frame[0] += 1;
        let mut decoder = Decoder::new();
        decoder.push(&frame);
        assert_eq!(decoder.take::<ToEngine>(), Err(FrameError::Trailing { bytes: 1 }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic_or_grow(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut decoder = Decoder::new();
            decoder.push(&bytes);
            let mut found = 0;
            while let Ok(Some(_)) = decoder.take::<ToEngine>() { found += 1; }
            prop_assert!(found <= bytes.len());
            prop_assert!(decoder.buffer.len() <= bytes.len());
        }
    }
}
