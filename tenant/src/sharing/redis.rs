//! The shared count in Redis.

use core::fmt;
use core::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, RedisError, Script, cmd, pipe};
use uuid::Uuid;

use super::{CountAway, SharedCount};
use crate::level::{Level, Models};
use crate::rate::{Answer, Report, Scope, Stand};
use crate::secret::Secret;

/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_millis(900);
/// How long what a gateway has in flight counts after it was told last: it tells each second.
const COUNTED: Duration = Duration::from_secs(10);
/// How long a gateway's last report is remembered after that, so that one that comes twice counts once: reports are given up
/// after a minute.
const REMEMBERED: Duration = Duration::from_secs(120);

/// An address names no Redis server.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "not an address of a Redis server: it looks like redis://[user]:[password]@host:6379/0, or rediss:// with TLS"
)]
pub struct BadSharedUrl;

/// A Redis server, as one gateway sees it. Connected when there is something to tell, and again after each error.
pub struct RedisCount {
    client: Client,
    /// This life of this gateway.
    gateway: String,
    script: Script,
    connection: Option<MultiplexedConnection>,
    /// How long what it has in flight counts: [`COUNTED`], and less in a test.
    pub(super) counted: Duration,
}

impl fmt::Debug for RedisCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client knows a password.
        f.debug_struct("RedisCount").field("gateway", &self.gateway).finish_non_exhaustive()
    }
}

impl RedisCount {
    /// The server at `address`, to be asked later.
    ///
    /// # Errors
    /// [`BadSharedUrl`] when `address` is none.
    pub fn new(address: &Secret<String>) -> Result<Self, BadSharedUrl> {
        let client = Client::open(address.expose().as_str()).map_err(|_| BadSharedUrl)?;
        let script = Script::new(include_str!("count.lua"));
        Ok(Self {
            client,
            gateway: Uuid::now_v7().simple().to_string(),
            script,
            connection: None,
            counted: COUNTED,
        })
    }

    pub(super) async fn connected(&mut self) -> Result<MultiplexedConnection, RedisError> {
        if let Some(connection) = &self.connection {
            return Ok(connection.clone());
        }
        // How long an answer may take is the round's to say: then the connection is dropped with all that waits in it.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_MAX)).set_response_timeout(None);
        let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        self.script.prepare_invoke().load_async(&mut connection).await?;
        Ok(self.connection.insert(connection).clone())
    }

    fn round(&self, reports: &[Report]) -> Pipeline {
        let mut round = pipe();
        for report in reports {
            let mut one = cmd("EVALSHA");
            one.arg(self.script.get_hash()).arg(1).arg(key(&report.scope)).arg(&self.gateway);
            one.arg(report.sequence).arg(report.places);
            one.arg(self.counted.as_millis().to_string()).arg(REMEMBERED.as_millis().to_string());
            for rate in [report.requests, report.tokens] {
                one.arg(rate.per_minute).arg(rate.believed).arg(rate.charged).arg(rate.given);
            }
            round.add_command(one);
        }
        round
    }
}

/// Where a scope is counted, in the first format of such a place: one with another format is another place. The ids are no secrets; a name of a model has none but printable characters.
pub(super) fn key(scope: &Scope) -> String {
    let whom = match scope.level {
        Level::Key(id) => format!("key:{id}"),
        Level::Project(id) => format!("project:{id}"),
        Level::Tenant(id) => format!("tenant:{id}"),
    };
    match &scope.models {
        Models::All => format!("bulkhead:limits:1:{whom}:all"),
        Models::One(model) => format!("bulkhead:limits:1:{whom}:model:{}", model.as_str()),
    }
}

impl SharedCount for RedisCount {
    async fn tell(&mut self, reports: &[Report]) -> Result<Vec<Answer>, CountAway> {
        let told = async {
            let mut connection = self.connected().await?;
            // Put back when all went well: a connection that was given up in the midst of an answer is not used again.
            self.connection = None;
            let answers: Vec<Told> = self.round(reports).query_async(&mut connection).await?;
            self.connection = Some(connection);
            Ok(answers)
        };
        let answers = told.await.map_err(|error| away(&error))?;
        if answers.len() != reports.len() {
            return Err(CountAway(format!("{} answers to {} reports", answers.len(), reports.len())));
        }
        Ok(answers.into_iter().map(answer).collect())
    }
}

/// Level and lowest points of requests, those of tokens, requests in flight elsewhere.
type Told = ((u64, u64, u64), (u64, u64, u64), u32);

fn answer((requests, tokens, others): Told) -> Answer {
    let stand = |(level, lowest, since)| Stand { level, lowest, since };
    Answer { requests: stand(requests), tokens: stand(tokens), others }
}

/// What went wrong, without the address and what it holds.
fn away(error: &RedisError) -> CountAway {
    CountAway(error.category().to_owned())
}
