//! Asks a server over HTTP, as its clients do, and takes the time on this side.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::procedure::{Caller, Reply, Server};
use crate::exit::{Doing, Exit, Failure};

/// The longest that one answer may take: a long prompt on a slow machine.
const ANSWER_MAX: Duration = Duration::from_secs(600);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// The three keys of an audit; wiped when dropped.
pub(crate) struct Keys {
    /// Whose prompts are cached.
    pub(crate) victim: Zeroizing<String>,
    /// Another of the same tenant.
    pub(crate) same_tenant: Zeroizing<String>,
    /// One of another tenant.
    pub(crate) cross_tenant: Zeroizing<String>,
}

impl Keys {
    const fn of(&self, caller: Caller) -> &Zeroizing<String> {
        match caller {
            Caller::Victim => &self.victim,
            Caller::SameTenant => &self.same_tenant,
            Caller::CrossTenant => &self.cross_tenant,
        }
    }
}

/// A server, and the keys to ask it with.
pub(crate) struct Client {
    agent: ureq::Agent,
    base: String,
    keys: Keys,
    model: Offer,
}

/// What a server offers to all three keys.
#[derive(Clone, Debug)]
struct Offer {
    name: String,
    /// Tokens that a request may span: the narrowest of the three.
    window: u64,
}

impl Client {
    /// Looks at what the server behind `base` (its URL up to `/v1`) offers each key.
    pub(crate) fn connect(base: &str, keys: Keys) -> Result<Self, Failure> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_MAX))
            .http_status_as_error(false)
            .proxy(None)
            .build()
            .into();
        let base = base.trim_end_matches('/').to_owned();
        let mut client = Self { agent, base, keys, model: Offer { name: String::new(), window: u64::MAX } };
        for caller in [Caller::Victim, Caller::SameTenant, Caller::CrossTenant] {
            let offer = client.offer(caller)?;
            let window = client.model.window.min(offer.window);
            client.model = Offer { window, ..offer };
        }
        Ok(client)
    }

    /// The model that is asked.
    pub(crate) fn model(&self) -> &str {
        &self.model.name
    }

    /// Refuses prompts that the server's window does not hold.
    pub(crate) fn must_hold(&self, letters: u32) -> Result<(), Failure> {
        // A letter is a token or two; one more is for the answer.
        let asked = u64::from(letters).saturating_add(1);
        if asked <= self.model.window {
            return Ok(());
        }
        Err(Failure::new(
            Exit::Usage,
            format_args!(
                "prompts of {letters} letters need a window of at least {asked} tokens, {} offers {} to these keys: ask for at most --letters {}, or give the server a larger pool or window",
                self.model.name,
                self.model.window,
                self.model.window.saturating_sub(1)
            ),
        ))
    }

    fn offer(&self, caller: Caller) -> Result<Offer, Failure> {
        let url = format!("{}/models", self.base);
        let call = self.agent.get(&url).header("authorization", &self.bearer(caller)[..]).call();
        let mut answer = call.doing(Exit::Other, format_args!("ask {url}"))?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = body.doing(Exit::Other, format_args!("read the answer of {url}"))?;
        if answer.status() != 200 {
            return Err(refused(answer.status().as_u16(), &body, caller));
        }
        let listing: Value = serde_json::from_str(&body).doing(Exit::Other, "understand the models")?;
        let first = listing.pointer("/data/0");
        let name = first.and_then(|model| model.get("id")).and_then(Value::as_str);
        let window = first.and_then(|model| model.get("context_window")).and_then(Value::as_u64);
        match (name, window) {
            (Some(name), Some(window)) => Ok(Offer { name: name.to_owned(), window }),
            _ => Err(Failure::new(
                Exit::Other,
                format_args!("{url} lists no model with a context_window; an audit needs one"),
            )),
        }
    }

    fn bearer(&self, caller: Caller) -> Zeroizing<String> {
        Zeroizing::new(format!("Bearer {}", self.keys.of(caller).as_str()))
    }
}

impl Server for Client {
    fn ask(&mut self, caller: Caller, prompt: &str) -> Result<Reply, Failure> {
        let body = json!({
            "model": self.model.name, "prompt": prompt, "max_tokens": 1, "temperature": 0,
            "stream": true, "stream_options": { "include_usage": true },
        })
        .to_string();
        let request = self
            .agent
            .post(format!("{}/completions", self.base))
            .header("authorization", &self.bearer(caller)[..])
            .header("content-type", "application/json");
        let mut text = vec![0];
        let start = Instant::now();
        let mut answer = request.send(body.as_bytes()).doing(Exit::Other, "ask the server")?;
        let status = answer.status().as_u16();
        let mut reader = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).reader();
        reader.read_exact(&mut text).doing(Exit::Other, "read the server's answer")?;
        let first_byte = start.elapsed();
        reader.read_to_end(&mut text).doing(Exit::Other, "read the server's answer")?;
        let text = String::from_utf8_lossy(&text);
        if status != 200 {
            return Err(refused(status, &text, caller));
        }
        let (prompt_tokens, cached) = usage(&text)?;
        Ok(Reply { first_byte, prompt_tokens, cached })
    }
}

/// Tokens of the prompt, and those that were cached, from the events of a stream that must have ended well.
fn usage(events: &str) -> Result<(u64, Option<u64>), Failure> {
    let mut usage = None;
    let mut done = false;
    for event in events.lines().filter_map(|line| line.strip_prefix("data: ")) {
        done = event == "[DONE]";
        let event: Value = serde_json::from_str(event).unwrap_or_default();
        usage = event.get("usage").filter(|usage| usage.is_object()).cloned().or(usage);
    }
    let usage = usage.filter(|_| done).unwrap_or_default();
    let Some(prompt) = usage.get("prompt_tokens").and_then(Value::as_u64) else {
        return Err(Failure::new(
            Exit::Other,
            "an answer broke off or told no usage: this audit is of no use; see the server's log",
        ));
    };
    Ok((prompt, usage.pointer("/prompt_tokens_details/cached_tokens").and_then(Value::as_u64)))
}

fn refused(status: u16, body: &str, caller: Caller) -> Failure {
    let error: Value = serde_json::from_str(body).unwrap_or_default();
    let message = error.pointer("/error/message").and_then(Value::as_str).unwrap_or("no message");
    let whose = match caller {
        Caller::Victim => "the victim's key",
        Caller::SameTenant => "the other key of the same tenant",
        Caller::CrossTenant => "the other tenant's key",
    };
    Failure::new(
        Exit::Other,
        format_args!("the server answers {status} to {whose}: {}", crate::present::printable(message)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_from_a_stream_that_ended_well_and_from_no_other() {
        let chunk = "data: {\"choices\":[{\"text\":\"x\"}],\"usage\":null}\n\n";
        let last = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":3}}}\n\n";
        let done = "data: [DONE]\n\n";
        assert_eq!(usage(&[chunk, last, done].concat()).unwrap(), (9, Some(3)));
        let silent = last.replace("cached_tokens", "other");
        assert_eq!(usage(&[chunk, &silent, done].concat()).unwrap(), (9, None));
        let error = "data: {\"error\":{\"message\":\"gone\"}}\n\n";
        for broken in [[chunk, last, ""].concat(), [chunk, done, ""].concat(), [chunk, last, error].concat()]
        {
            assert!(usage(&broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_window_that_is_too_small_is_refused_with_both_numbers() {
        let key = || Zeroizing::new(String::new());
        let client = Client {
            agent: ureq::Agent::new_with_defaults(),
            base: String::new(),
            keys: Keys { victim: key(), same_tenant: key(), cross_tenant: key() },
            model: Offer { name: "m".to_owned(), window: 2048 },
        };
        client.must_hold(2047).unwrap();
        let refused = client.must_hold(5000).unwrap_err();
        assert_eq!(refused.exit(), Exit::Usage);
        let told = refused.to_string();
        assert!(told.contains("5001") && told.contains("2048") && told.contains("--letters 2047"), "{told}");
    }
}
