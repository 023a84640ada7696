//! A server for one bench: two tenants with three keys on a data folder that vanishes with it.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};

use ::model::catalog;
use policies::WindowCap;
use tenant::{Concurrency, KeyLimits};
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use super::client::Keys;
use crate::cli::{Common, EngineSize, Listeners, PrefixAuditArgs};
use crate::data::DataDir;
use crate::exit::{Doing, Exit, Failure};
use crate::serve::{Next, Plan, Running, log_arguments, until_ended};
use crate::{model, tenants, up};

/// Prompts that the pool holds: half of it may be cached, and what runs beside needs room as well.
const PROMPTS: u32 = 4;
/// Tokens of the smallest pool.
const POOL_MIN: u32 = 2048;

/// Runs `work` with the server's base URL and keys, and ends the server.
///
/// # Errors
/// Those of `work`; and that it was cut short by a signal.
pub(crate) async fn with_server(
    common: &Common,
    args: &PrefixAuditArgs,
    work: impl FnOnce(String, Keys) -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let models = DataDir::open(common.data.as_deref())?;
    let model = match catalog::find(&args.model) {
        Some(entry) => model::pull(&models, entry, None)?,
        None => model::find(&models, &args.model)?,
    };
    let folder = tempfile::tempdir().doing(Exit::Store, "make a folder for the server")?;
    let data = DataDir::open(Some(folder.path()))?;
    let keys = make_keys(&data).await?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let pool = args.letters.saturating_mul(PROMPTS).max(POOL_MIN);
    let plan = Plan {
        listeners: Listeners { listen: any_port, admin: any_port, api: None, scanners: None },
        model,
        policy: None,
        size: EngineSize {
            pool_tokens: Some(args.pool_tokens.unwrap_or(pool)),
            window: None,
            threads: args.threads,
        },
        log: log_arguments(&quiet(common)),
        data,
    };
    let done = Cell::new(false);
    until_ended(plan, async |running: Running| {
        up::until_ready(running.admin).await?;
        let base = format!("http://{}/v1", running.listen);
        spawn_blocking(move || work(base, keys)).await.doing(Exit::Other, "run the bench")??;
        done.set(true);
        Ok(Next::End)
    })
    .await?;
    if done.get() {
        return Ok(());
    }
    Err(Failure::new(Exit::Other, "it was ended before it was done, and says nothing"))
}

/// The engine tells what goes wrong, and nothing else: what the bench says must not drown.
fn quiet(common: &Common) -> Common {
    let log_level = common.log_level.clone().or_else(|| Some("warn".to_owned()));
    Common { log_level, ..common.clone() }
}

async fn make_keys(data: &DataDir) -> Result<Keys, Failure> {
    let store = tenants::open(data).await?;
    let limits = KeyLimits { window_cap: WindowCap::Inherit, concurrency: Concurrency::Inherit };
    let (victim, other) =
        (tenants::create_tenant(&store, "victim").await?, tenants::create_tenant(&store, "other").await?);
    let (_, one) = tenants::create_key(&store, &victim, "one", limits).await?;
    let (_, two) = tenants::create_key(&store, &victim, "two", limits).await?;
    let (_, cross) = tenants::create_key(&store, &other, "one", limits).await?;
    Ok(Keys {
        victim: Zeroizing::new(one),
        same_tenant: Zeroizing::new(two),
        cross_tenant: Zeroizing::new(cross),
    })
}
