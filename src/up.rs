//! `bulkhead up`: from nothing to a demo server that answers.

use std::net::SocketAddr;
use std::time::Duration;

use policies::WindowCap;
use tenant::{Concurrency, Directory, KeyLimits, Store};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use crate::cli::{Common, UpArgs};
use crate::data::{DataDir, read_bounded, write_private};
use crate::exit::{Doing, Exit, Failure};
use crate::serve::{Next, Plan, Running, log_arguments, until_ended};
use crate::{model, present, status, tenants};

/// The tenant that `up` makes.
const TENANT: &str = "demo";
/// Its key's name.
const KEY: &str = "up";
/// From the engine's ready line to `/readyz`, at most: a connection and a handshake.
const READY_MAX: Duration = Duration::from_secs(30);
/// Pause between two looks at `/readyz`.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Bytes of the file that keeps the demo key.
const KEY_FILE_BYTES_MAX: u64 = 1024;

pub(crate) async fn run(common: &Common, args: &UpArgs) -> Result<(), Failure> {
    let data = DataDir::open(common.data.as_deref())?;
    present::line(&format!("data: {}", data.root().display()))?;
    let entry = model::entry(&args.model)?;
    let file = model::pull(&data, entry, args.from.as_deref())?;
    present::line(&format!("model: {}", file.display()))?;
    let store = tenants::open(&data).await?;
    let key = demo_key(&data, &store).await?;
    let plan = Plan {
        listeners: args.listeners.clone(),
        model: file,
        policy: args.policy.clone(),
        size: args.size,
        log: log_arguments(common),
        data,
    };
    let name = args.model.clone();
    until_ended(plan, async |running: Running| {
        announce(&running, &name, &key)?;
        until_ready(running.admin).await?;
        present::line("ready")?;
        Ok(Next::Serve)
    })
    .await
}

/// The key of the demo tenant: the one that was shown before, as long as it works.
async fn demo_key(data: &DataDir, store: &Store) -> Result<Zeroizing<String>, Failure> {
    let path = data.demo_key();
    let kept = read_bounded(&path, KEY_FILE_BYTES_MAX)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map(|text| Zeroizing::new(text.trim().to_owned()));
    if let Some(kept) = kept {
        let directory = Directory::open(store).await.doing(Exit::Store, "read the keys")?;
        if directory.authenticate(&kept, tenants::now()).is_ok() {
            return Ok(kept);
        }
    }
    let found = store.find_tenant(TENANT).await.doing(Exit::Store, "look the demo tenant up")?;
    let tenant = match found {
        Some(tenant) => tenant,
        None => tenants::create_tenant(store, TENANT).await?,
    };
    let limits = KeyLimits { window_cap: WindowCap::Inherit, concurrency: Concurrency::Inherit };
    let (_, key) = tenants::create_key(store, &tenant, KEY, limits).await?;
    write_private(&path, key.as_bytes())
        .doing(Exit::Store, format_args!("keep the demo key in {}", path.display()))?;
    Ok(Zeroizing::new(key))
}

fn announce(running: &Running, model: &str, key: &str) -> Result<(), Failure> {
    let base = format!("http://{}/v1", running.listen);
    let engine = &running.engine;
    present::line(&format!(
        "engine: a request may span {} tokens; the pool holds {} in {} MiB, {}",
        engine.window, engine.capacity, engine.pool_mib, engine.pool_why
    ))?;
    present::line(&format!("admin: http://{}", running.admin))?;
    present::api(running.api)?;
    present::line("")?;
    present::line(&format!("base URL: {base}"))?;
    present::line(&format!("key: {key}"))?;
    present::line(&format!(
        r#"
Try it:

  curl {base}/chat/completions -H "Authorization: Bearer {key}" -H "Content-Type: application/json" \
    -d '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "Why is the sky blue?"}}]}}'

or, after `pip install openai`:

  from openai import OpenAI
  client = OpenAI(base_url="{base}", api_key="{key}")
  stream = client.chat.completions.create(model="{model}", stream=True,
      messages=[{{"role": "user", "content": "Why is the sky blue?"}}])
  for chunk in stream:
      print(chunk.choices[0].delta.content or "", end="", flush=True)
"#
    ))
}

/// Waits until a request would be answered.
pub(crate) async fn until_ready(admin: SocketAddr) -> Result<(), Failure> {
    let start = Instant::now();
    while start.elapsed() < READY_MAX {
        if spawn_blocking(move || status::is_ready(admin)).await.doing(Exit::Other, "ask the gateway")? {
            return Ok(());
        }
        sleep(LOOK_EVERY).await;
    }
    Err(Failure::new(
        Exit::Engine,
        format_args!("the gateway did not reach the engine within {} s", READY_MAX.as_secs()),
    ))
}
