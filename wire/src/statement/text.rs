//! The one text of a statement's payload: JSON without a blank, its members in one order. Written and read by hand, since a
//! parser of any JSON would take much that is to be refused.

use super::{Statement, StatementError};
use crate::message::Finished;
use std::{fmt::Write, str::FromStr};

const CLAIMS: usize = 24;
const VERSION: &str = "1";

impl Statement {
    /// JSON of the claims, in their one form: digests and words in lower-case hex, counts and finite numbers in the shortest
    /// decimals that read back as the same value, the seed as a decimal text, since JSON's numbers do not hold 64 bits.
    #[must_use]
    pub fn payload(&self) -> String {
        let mut json = String::with_capacity(1_024);
        let mut before = '{';
        for (claim, value) in self.claims() {
            // Writing into a string does not fail.
            let _always = write!(json, "{before}\"{claim}\":{value}");
            before = ',';
        }
        json.push('}');
        json
    }

    /// Each claim by its name, with its value as JSON. No value has a comma in it.
    pub(super) fn claims(&self) -> [(&'static str, String); CLAIMS] {
        [
            ("v", VERSION.to_owned()),
            ("request", hex(&self.request)),
            ("epoch", hex(&self.epoch.to_be_bytes())),
            ("model", hex(&self.model)),
            ("prompt_sha256", hex(&self.prompt_sha256)),
            ("prompt_tokens", self.prompt_tokens.to_string()),
            ("cached", self.cached.to_string()),
            ("written", self.written.to_string()),
            ("attended", self.attended.to_string()),
            ("pages", self.pages.to_string()),
            ("generations", hex(&self.generations.to_be_bytes())),
            ("max_tokens", self.max_tokens.to_string()),
            ("temperature", float(self.temperature)),
            ("top_p", float(self.top_p)),
            ("top_k", self.top_k.to_string()),
            ("min_p", float(self.min_p)),
            ("frequency_penalty", float(self.frequency_penalty)),
            ("presence_penalty", float(self.presence_penalty)),
            ("logit_bias_sha256", hex(&self.logit_bias_sha256)),
            ("stop_sha256", hex(&self.stop_sha256)),
            ("seed", format!("\"{}\"", self.seed)),
            ("finish", format!("\"{}\"", finish(self.finish))),
            ("output_tokens", self.output_tokens.to_string()),
            ("output_sha256", hex(&self.output_sha256)),
        ]
    }

    /// The first number that JSON has no form for.
    pub(super) fn not_finite(&self) -> Option<&'static str> {
        let numbers = [
            ("temperature", self.temperature),
            ("top_p", self.top_p),
            ("min_p", self.min_p),
            ("frequency_penalty", self.frequency_penalty),
            ("presence_penalty", self.presence_penalty),
        ];
        numbers.into_iter().find(|(_, number)| !number.is_finite()).map(|(claim, _)| claim)
    }

    /// The claims of a payload.
    pub(super) fn from_payload(json: &str) -> Result<Self, StatementError> {
        let body = json.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let mut from = Members(body.ok_or(StatementError::Payload)?.split(','));
        if from.value("v")? != VERSION {
            return Err(StatementError::Claim { claim: "v" });
        }
        // In this order, which is the payload's.
        let statement = Self {
            request: from.hex("request")?,
            epoch: u64::from_be_bytes(from.hex("epoch")?),
            model: from.hex("model")?,
            prompt_sha256: from.hex("prompt_sha256")?,
            prompt_tokens: from.number("prompt_tokens")?,
            cached: from.number("cached")?,
            written: from.number("written")?,
            attended: from.number("attended")?,
            pages: from.number("pages")?,
            generations: u64::from_be_bytes(from.hex("generations")?),
            max_tokens: from.number("max_tokens")?,
            temperature: from.number("temperature")?,
            top_p: from.number("top_p")?,
            top_k: from.number("top_k")?,
            min_p: from.number("min_p")?,
            frequency_penalty: from.number("frequency_penalty")?,
            presence_penalty: from.number("presence_penalty")?,
            logit_bias_sha256: from.hex("logit_bias_sha256")?,
            stop_sha256: from.hex("stop_sha256")?,
            seed: from.seed("seed")?,
            finish: from.finish("finish")?,
            output_tokens: from.number("output_tokens")?,
            output_sha256: from.hex("output_sha256")?,
        };
        // What is left over, and each other way to write the same: `007`, `1.50`, `inf`.
        if statement.not_finite().is_some() || statement.payload() != json {
            return Err(StatementError::Payload);
        }
        Ok(statement)
    }
}

/// The members of an object that are still to be read.
struct Members<'a>(std::str::Split<'a, char>);

impl<'a> Members<'a> {
    /// The value of the next member, which must be this one.
    fn value(&mut self, claim: &'static str) -> Result<&'a str, StatementError> {
        let member = self.0.next().and_then(|member| member.strip_prefix('"'));
        let rest = member.and_then(|member| member.strip_prefix(claim));
        rest.and_then(|rest| rest.strip_prefix("\":")).ok_or(StatementError::Claim { claim })
    }

    fn text(&mut self, claim: &'static str) -> Result<&'a str, StatementError> {
        let value = self.value(claim)?.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        value.ok_or(StatementError::Claim { claim })
    }

    fn number<T: FromStr>(&mut self, claim: &'static str) -> Result<T, StatementError> {
        self.value(claim)?.parse().map_err(|_| StatementError::Claim { claim })
    }

    fn seed(&mut self, claim: &'static str) -> Result<u64, StatementError> {
        self.text(claim)?.parse().map_err(|_| StatementError::Claim { claim })
    }

    fn finish(&mut self, claim: &'static str) -> Result<Finished, StatementError> {
        let text = self.text(claim)?;
        let all = [Finished::Stop, Finished::Length];
        all.into_iter().find(|one| finish(*one) == text).ok_or(StatementError::Claim { claim })
    }

    fn hex<const N: usize>(&mut self, claim: &'static str) -> Result<[u8; N], StatementError> {
        let (pairs, rest) = self.text(claim)?.as_bytes().as_chunks::<2>();
        let mut bytes = [0; N];
        if pairs.len() != N || !rest.is_empty() {
            return Err(StatementError::Claim { claim });
        }
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            let digits = std::str::from_utf8(pair).ok();
            let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            *byte = value.ok_or(StatementError::Claim { claim })?;
        }
        Ok(bytes)
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        // Writing into a string does not fail.
        let _always = write!(text, "{byte:02x}");
    }
    text.push('"');
    text
}

/// The shortest decimals that read back as the same value: `0.7`, `1.0`, `1e-6`.
fn float(number: f32) -> String {
    format!("{number:?}")
}

fn finish(finish: Finished) -> &'static str {
    match finish {
        Finished::Stop => "stop",
        Finished::Length => "length",
    }
}
