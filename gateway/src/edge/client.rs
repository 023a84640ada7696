//! Writes answers: whole ones from anywhere, a 200 of a model only with its proofs.

use std::time::Duration;

use bytes::Bytes;
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use tenant::{BudgetWarning, Refusal, Retry, Standing};

use crate::answer::Denied;
use crate::flow::{Body, Client, Gone, Proofs};

/// How long a connection that is severed may take to say so.
const SEVER_MAX: Duration = Duration::from_millis(50);

/// One client, by its session.
pub(super) struct Downstream<'a> {
    pub(super) session: &'a mut Session,
    pub(super) request: uuid::Uuid,
    pub(super) arrived: std::time::Instant,
    /// How the limits that the request met stand, once it met them.
    pub(super) standing: Option<Standing>,
    /// The thresholds that its budgets have passed, as the header says them; empty while there are none.
    pub(super) passed: String,
}

impl Downstream<'_> {
    fn head(&self, status: u16, content_type: &str) -> Result<ResponseHeader, Gone> {
        let mut head = ResponseHeader::build(status, Some(8)).map_err(|_| Gone)?;
        let ms = self.arrived.elapsed().as_millis();
        for (name, value) in [
            ("content-type", content_type.to_owned()),
            ("x-request-id", self.request.to_string()),
            ("openai-processing-ms", ms.to_string()),
        ] {
            head.insert_header(name, value).map_err(|_| Gone)?;
        }
        for (name, value) in self.standing.iter().flat_map(Standing::headers) {
            head.insert_header(name, value).map_err(|_| Gone)?;
        }
        if !self.passed.is_empty() {
            head.insert_header("x-bulkhead-budget-warning", self.passed.as_str()).map_err(|_| Gone)?;
        }
        Ok(head)
    }

    async fn write(&mut self, head: ResponseHeader, body: Bytes) -> Result<(), Gone> {
        self.session.write_response_header(Box::new(head), false).await.map_err(|_| Gone)?;
        self.session.write_response_body(Some(body), true).await.map_err(|_| Gone)
    }

    /// Answers whole, with what is no model's output: health, models, status.
    pub(super) async fn plain(&mut self, status: u16, content_type: &str, body: Vec<u8>) -> Result<(), Gone> {
        let mut head = self.head(status, content_type)?;
        head.insert_header("content-length", body.len().to_string()).map_err(|_| Gone)?;
        self.write(head, body.into()).await
    }

    /// Answers whole, with a denial.
    pub(super) async fn deny(&mut self, denied: &Denied) -> Result<(), Gone> {
        if let Denied::Limit(Refusal::Over(over)) = denied {
            self.standing = Some(over.standing);
        }
        if let Denied::TooManyFailures(_) = denied {
            // Each further try costs a connection.
            self.session.set_keepalive(None);
        }
        let body = denied.json();
        let mut head = self.head(denied.status(), "application/json")?;
        let mut add = |name: &'static str, value: String| head.insert_header(name, value).map_err(|_| Gone);
        add("content-length", body.len().to_string())?;
        add("x-bulkhead-reason", denied.reason().into_owned())?;
        if let Some(seconds) = denied.retry_after_s() {
            add("retry-after", seconds.to_string())?;
        }
        if let Denied::Limit(refusal) = denied {
            match refusal.retry() {
                Retry::After { millis, .. } => add("retry-after-ms", millis.to_string())?,
                // The official clients try a 429 again unless they are told that it is of no use.
                Retry::Useless => add("x-should-retry", "false".to_owned())?,
            }
        }
        if let Denied::Budget(budget) = denied
            && !budget.may_pass_soon()
        {
            add("x-should-retry", "false".to_owned())?;
        }
        if denied.status() == 401 {
            add("www-authenticate", "Bearer".into())?;
        }
        if let Denied::Method { allow } = denied {
            add("allow", (*allow).into())?;
        }
        self.write(head, body.into()).await
    }
}

#[async_trait::async_trait]
impl Client for Downstream<'_> {
    fn met(&mut self, standing: Standing, passed: &[BudgetWarning]) {
        self.standing = Some(standing);
        let said = passed.iter().map(|BudgetWarning { level, unit, period, percent, .. }| {
            format!("{}.budget.{}.{}={percent}", level.name(), unit.name(), period.name())
        });
        self.passed = said.collect::<Vec<_>>().join(", ");
    }

    async fn begin(&mut self, proofs: Proofs, body: Body) -> Result<(), Gone> {
        tracing::debug!(sequences = proofs.len(), "proved");
        let head = match body {
            Body::Events => {
                let mut head = self.head(200, "text/event-stream; charset=utf-8")?;
                head.insert_header("cache-control", "no-cache").map_err(|_| Gone)?;
                head.insert_header("transfer-encoding", "chunked").map_err(|_| Gone)?;
                head
            }
            Body::Json(bytes) => {
                let mut head = self.head(200, "application/json")?;
                head.insert_header("content-length", bytes.to_string()).map_err(|_| Gone)?;
                head
            }
        };
        self.session.write_response_header(Box::new(head), false).await.map_err(|_| Gone)
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), Gone> {
        self.session.write_response_body(Some(bytes), false).await.map_err(|_| Gone)
    }

    async fn end(&mut self) -> Result<(), Gone> {
        self.session.write_response_body(None, true).await.map_err(|_| Gone)
    }

    async fn sever(&mut self) {
        self.session.set_keepalive(None);
        // Pingora ends each body by itself; a socket that takes nothing must not hold that up.
        self.session.set_write_timeout(Some(SEVER_MAX));
        let _closed = tokio::time::timeout(SEVER_MAX, self.session.as_downstream_mut().shutdown()).await;
    }

    async fn gone(&mut self) {
        // The body was read whole, so whatever comes now is the client's leaving, or a next request sent too early, which
        // this connection does not take.
        let _left = self.session.as_downstream_mut().read_body_or_idle(true).await;
        // What was read is lost, so where a next request would begin is not known.
        self.session.set_keepalive(None);
    }
}
