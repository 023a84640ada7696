//! The body of a request, whole, under a size and two clocks.

use bytes::{Bytes, BytesMut};
use pingora::proxy::Session;
use policies::Policy;
use tokio::time::timeout;

use crate::answer::{Count, Denied};

/// Reads the body. After an error the connection is not used again: where the next request would begin is not known.
pub(super) async fn whole(session: &mut Session, policy: &Policy) -> Result<Bytes, Denied> {
    let bytes_max = policy.body_bytes_max();
    let said = session.get_header(http::header::CONTENT_LENGTH);
    let said = said.and_then(|value| value.to_str().ok()?.trim().parse::<usize>().ok());
    if let Some(said) = said.filter(|&said| said > bytes_max) {
        return Err(Denied::BodyTooLarge { bytes: Count::Exactly(said), bytes_max });
    }
    if session.get_header_bytes(http::header::EXPECT).eq_ignore_ascii_case(b"100-continue") {
        session.write_continue_response().await.map_err(|_| Denied::BrokenBody)?;
    }
    session.set_read_timeout(Some(policy.body_idle_ms()));
    let limit = policy.body_timeout_ms();
    let slow = Denied::TooSlow { limit_ms: limit.as_millis() };
    let read = async {
        let mut body = BytesMut::with_capacity(said.unwrap_or(0));
        while let Some(part) = session.read_request_body().await.map_err(|error| broken(&error, policy))? {
            if part.len() > bytes_max.saturating_sub(body.len()) {
                let came = body.len().saturating_add(part.len());
                return Err(Denied::BodyTooLarge { bytes: Count::AtLeast(came), bytes_max });
            }
            body.extend_from_slice(&part);
        }
        Ok(body.freeze())
    };
    let body = timeout(limit, read).await.unwrap_or(Err(slow));
    if body.is_err() {
        session.set_keepalive(None);
        // Nor is the rest of it waited for.
        session.as_downstream_mut().set_close_on_response_before_downstream_finish(true);
    }
    body
}

fn broken(error: &pingora::Error, policy: &Policy) -> Denied {
    if *error.etype() == pingora::ErrorType::ReadTimedout {
        return Denied::TooSlow { limit_ms: policy.body_idle_ms().as_millis() };
    }
    Denied::BrokenBody
}
