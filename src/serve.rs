//! A server: the gateway in this process, the engine as its child.
//!
//! ```text
//! lock the folder ─► fresh wire key ─► bind both ports ─► gateway runs ─► engine starts ─► announced
//!      a signal, or either of them ends ─► the gateway drains ─► the engine's standard input closes ─► done
//! ```

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cli::{Common, EngineSize, Listeners, LogForm, ServeArgs};
use crate::config::Config;
use crate::data::DataDir;
use crate::edge::{self, Edge};
use crate::exit::{Doing, Exit, Failure};
use crate::present;
use crate::shutdown::Signals;
use crate::supervise::{self, Engine, Ready, Start};
use crate::{model, wirekey};

/// All that a server needs to know.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) data: DataDir,
    pub(crate) listeners: Listeners,
    pub(crate) model: PathBuf,
    pub(crate) policy: Option<PathBuf>,
    pub(crate) size: EngineSize,
    /// How the engine logs: as we do.
    pub(crate) log: Vec<OsString>,
}

/// What runs, once it runs.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where clients connect.
    pub(crate) listen: SocketAddr,
    /// Where status and metrics are.
    pub(crate) admin: SocketAddr,
    /// Where the Admin API is, if it is served.
    pub(crate) api: Option<SocketAddr>,
    /// What the engine offers.
    pub(crate) engine: Ready,
}

/// What is to be done once the server runs and that was said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// Go on until a signal comes.
    Serve,
    /// End: whom it was for has what it needs.
    End,
}

/// `bulkhead serve`.
pub(crate) async fn run(common: &Common, args: &ServeArgs) -> Result<(), Failure> {
    let config = Config::read(&args.config)?;
    let data = DataDir::open(common.data.as_deref().or(config.data.as_deref()))?;
    let plan = Plan {
        listeners: config.listeners(),
        model: model::find(&data, &config.model)?,
        policy: config.policy.clone(),
        size: config.size(),
        log: log_arguments(common),
        data,
    };
    until_ended(plan, async |running: Running| {
        tracing::info!(
            listen = %running.listen,
            admin = %running.admin,
            window_tokens = running.engine.window,
            pool_tokens = running.engine.capacity,
            "serving"
        );
        present::line(&format!("base URL: http://{}/v1", running.listen))?;
        present::line(&format!("admin: http://{}", running.admin))?;
        present::api(running.api)?;
        Ok(Next::Serve)
    })
    .await
}

/// The arguments by which a child logs as we do.
pub(crate) fn log_arguments(common: &Common) -> Vec<OsString> {
    let form = match common.log {
        LogForm::Text => "text",
        LogForm::Json => "json",
    };
    let mut arguments = vec!["--log".into(), form.into()];
    if let Some(level) = &common.log_level {
        arguments.extend(["--log-level".into(), level.into()]);
    }
    arguments
}

/// Runs a server until a signal or `announce` ends it, or it cannot go on. `announce` is called once, when the engine is there.
pub(crate) async fn until_ended(
    plan: Plan,
    announce: impl AsyncFnOnce(Running) -> Result<Next, Failure>,
) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    let _lock = plan.data.lock()?;
    let start = engine_start(&plan)?;
    let wire_key = wirekey::make(&plan.data.wire_key())?;
    let gateway = edge::bind(Edge {
        data: &plan.data,
        listeners: plan.listeners.clone(),
        model: &plan.model,
        engine_socket: plan.data.engine_socket()?,
        wire_key,
        policy: plan.policy.as_deref(),
    })
    .await?;
    let (listen, admin, api) = (gateway.listen, gateway.admin, gateway.api);
    let (drain, drained) = oneshot::channel();
    let serving = tokio::spawn(gateway.run(drained));

    let launched = tokio::select! {
        launched = supervise::launch(&start) => launched,
        () = signals.next() => Err(Failure::new(Exit::Other, "ended before the engine was ready")),
    };
    match launched {
        Ok((engine, ready)) => {
            let announced = announce(Running { listen, admin, api, engine: ready });
            let engine = Kept::spawn(start, engine);
            together(engine, serving, announced, &mut signals, drain).await
        }
        Err(failure) => {
            drop(drain);
            serving.await.doing(Exit::Other, "run the gateway")?.and(Err(failure))
        }
    }
}

/// The engine, watched by a task.
struct Kept {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Failure>>,
}

impl Kept {
    fn spawn(start: Start, engine: Engine) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, task: tokio::spawn(supervise::keep(start, engine, stopped)) }
    }

    async fn end(self) -> Result<(), Failure> {
        // Nobody listens any more where the task has ended by itself.
        let _told = self.stop.send(());
        self.task.await.doing(Exit::Engine, "watch the engine")?
    }
}

/// What ended first.
enum First {
    Asked,
    Announced(Result<(), Failure>),
    Gateway(Result<(), Failure>),
    Engine(Result<(), Failure>),
}

async fn together(
    mut engine: Kept,
    mut serving: JoinHandle<Result<(), Failure>>,
    announced: impl Future<Output = Result<Next, Failure>>,
    signals: &mut Signals,
    drain: oneshot::Sender<()>,
) -> Result<(), Failure> {
    let first = {
        let mut announced = pin!(announced);
        let mut waiting = true;
        loop {
            tokio::select! {
                () = signals.next() => break First::Asked,
                said = &mut announced, if waiting => match said {
                    Ok(Next::Serve) => waiting = false,
                    Ok(Next::End) => break First::Announced(Ok(())),
                    Err(failure) => break First::Announced(Err(failure)),
                },
                served = &mut serving => break First::Gateway(served.doing(Exit::Other, "run the gateway")?),
                kept = &mut engine.task => break First::Engine(kept.doing(Exit::Engine, "watch the engine")?),
            }
        }
    };
    // The gateway drains while the engine still answers it.
    match first {
        First::Asked => {
            tracing::info!("draining");
            drop(drain);
            let served = serving.await.doing(Exit::Other, "run the gateway")?;
            served.and(engine.end().await)
        }
        First::Announced(said) => {
            drop(drain);
            let served = serving.await.doing(Exit::Other, "run the gateway")?;
            served.and(engine.end().await).and(said)
        }
        First::Gateway(served) => {
            let ended = engine.end().await;
            served.and(ended).and(Err(Failure::new(Exit::Other, "the gateway ended by itself")))
        }
        First::Engine(kept) => {
            drop(drain);
            let served = serving.await.doing(Exit::Other, "run the gateway")?;
            kept.and(served)
        }
    }
}

fn engine_start(plan: &Plan) -> Result<Start, Failure> {
    let program = std::env::current_exe().doing(Exit::Engine, "find this program, to start the engine")?;
    let mut arguments: Vec<OsString> = vec!["engine".into()];
    let mut pair = |name: &str, value: OsString| arguments.extend([name.into(), value]);
    pair("--model", plan.model.clone().into());
    pair("--socket", plan.data.engine_socket()?.into());
    pair("--wire-key-file", plan.data.wire_key().into());
    pair("--data", plan.data.root().into());
    if let Some(tokens) = plan.size.pool_tokens {
        pair("--pool-tokens", tokens.to_string().into());
    }
    if let Some(tokens) = plan.size.window {
        pair("--window", tokens.to_string().into());
    }
    if let Some(threads) = plan.size.threads {
        pair("--threads", threads.to_string().into());
    }
    arguments.push("--until-stdin-closes".into());
    arguments.extend(plan.log.iter().cloned());
    Ok(Start { program, arguments })
}
