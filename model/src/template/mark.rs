//! The marks around untrusted content: put in before rendering, cut out after.

use super::{Message, TemplateError};
use crate::tokenizer::Segment;

// Of Unicode's private use area: no template writes them, no trimming or JSON escaping touches them.
const OPEN: char = '\u{f8f0}';
const OPENED: char = '\u{f8f1}';
const CLOSE: char = '\u{f8f2}';
const CLOSED: char = '\u{f8f3}';

/// A number of 128 bits, drawn afresh for each rendering by whoever calls it.
pub struct Nonce(String);

impl Nonce {
    /// The nonce of these random bytes.
    #[must_use]
    pub fn new(random: [u8; 16]) -> Nonce {
        Nonce(format!("{:032x}", u128::from_be_bytes(random)))
    }

    /// True when `text` holds the nonce: then it was not unknown.
    pub(super) fn is_in(&self, text: &str) -> bool {
        text.contains(&self.0)
    }

    fn opening(&self, place: usize) -> String {
        format!("{OPEN}{}:{place}{OPENED}", self.0)
    }

    fn closing(&self, place: usize) -> String {
        format!("{CLOSE}{}:{place}{CLOSED}", self.0)
    }

    /// The content of message `place` between its marks. Nothing needs none: templates ask whether there is content.
    pub(super) fn mark(&self, place: usize, content: &str) -> String {
        if content.is_empty() {
            return String::new();
        }
        format!("{}{content}{}", self.opening(place), self.closing(place))
    }

    /// Cuts a rendering at the marks. Each opening must be followed by its own closing, and each content must appear.
    pub(super) fn cut(&self, text: &str, messages: &[Message]) -> Result<Vec<Segment>, TemplateError> {
        let mut segments = Vec::new();
        let mut seen = vec![false; messages.len()];
        let opening = format!("{OPEN}{}:", self.0);
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(&opening) {
            self.push(&mut segments, Segment::Trusted, before)?;
            let (place, after) = after.split_once(OPENED).ok_or(TemplateError::Mangled)?;
            let place: usize = place.parse().map_err(|_| TemplateError::Mangled)?;
            *seen.get_mut(place).ok_or(TemplateError::Mangled)? = true;
            let (content, after) = after.split_once(&self.closing(place)).ok_or(TemplateError::Mangled)?;
            self.push(&mut segments, Segment::Untrusted, content)?;
            rest = after;
        }
        self.push(&mut segments, Segment::Trusted, rest)?;
        let dropped =
            messages.iter().zip(seen).position(|(message, seen)| !seen && !message.content.is_empty());
        match dropped {
            Some(message) => Err(TemplateError::Dropped { message }),
            None => Ok(segments),
        }
    }

    /// Appends a piece that holds no mark.
    fn push(
        &self,
        segments: &mut Vec<Segment>,
        kind: fn(String) -> Segment,
        text: &str,
    ) -> Result<(), TemplateError> {
        if self.is_in(text) {
            return Err(TemplateError::Mangled);
        }
        if !text.is_empty() {
            segments.push(kind(text.to_owned()));
        }
        Ok(())
    }
}

/// `trim` applied to a text, or inside its marks when it is one marked content.
///
/// Whoever forges marks gets forged text trimmed, and nothing else: cutting asks for the nonce.
pub(super) fn trim_within(text: &str, trim: fn(&str) -> &str) -> String {
    let marked = || {
        let (opening, rest) = text.strip_prefix(OPEN)?.split_once(OPENED)?;
        let (content, closing) = rest.strip_suffix(CLOSED)?.rsplit_once(CLOSE)?;
        Some(format!("{OPEN}{opening}{OPENED}{}{CLOSE}{closing}{CLOSED}", trim(content)))
    };
    marked().unwrap_or_else(|| trim(text).to_owned())
}
