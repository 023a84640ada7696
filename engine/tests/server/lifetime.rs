//! How a server comes and goes.

use crate::{
    common::{config, name, prompt, submit},
    gateway::{Gateway, Outcome, Server, device, folder, server_config},
};
use engine::{
    core::{Ended, EngineConfig, EngineStartError},
    server::{ServerError, run},
};
use isolation::{admit::CapacityMismatch, units::Tokens};
use std::{
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
};
use wire::{Ending, Failed};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Starts where nothing may come of it.
fn refused(socket: &Path, engine: EngineConfig) -> Outcome {
    let not_ready = |_: &engine::server::Ready| panic!("it started");
    run(server_config(socket, engine), || Ok(device(8)), not_ready)
}

#[test]
fn the_socket_is_for_its_owner_and_goes_with_the_server() {
    let server = Server::start();
    let socket = server.socket.clone();
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    server.stop().unwrap();
    assert!(!socket.exists());
}

#[test]
fn a_stop_ends_what_runs_with_a_word() {
    let server = Server::with(1200, |_| {});
    let mut gateway = Gateway::open(&server);
    gateway.submit(submit(1, 1, prompt(0, 8), 1500));
    gateway.status_when(|status| status.running == 1);
    let stopping = server.control.clone();
    stopping.stop();
    gateway.settle();
    let ended = gateway.reader.transcripts()[&name(1)].ended.clone();
    assert_eq!(ended, Some(Ended::Admitted(Ending::Failed(Failed::ShuttingDown))));
    assert_eq!(gateway.hear(), None);
    server.stop().unwrap();
}

#[test]
fn a_live_socket_is_refused_and_a_stale_one_replaced() {
    let server = Server::start();
    let live = refused(&server.socket, config());
    assert!(matches!(&live, Err(ServerError::Live { socket }) if *socket == server.socket), "{live:?}");
    assert_eq!(Gateway::open(&server).status().running, 0, "the live one goes on");

    // A listener that is dropped leaves its socket behind, as a process that dies does.
    let folder = folder();
    let stale = folder.path().join("engine.sock");
    drop(UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    let control = engine::server::Control::new();
    let mut again = server_config(&stale, config());
    again.control = control.clone();
    let outcome: Outcome = run(again, || Ok(device(8)), |_| control.stop());
    outcome.unwrap();
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("engine.sock");
    std::fs::write(&path, "mine").unwrap();
    let outcome = refused(&path, config());
    assert!(matches!(outcome, Err(ServerError::NotASocket { .. })), "{outcome:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn a_folder_that_others_may_enter_is_refused() {
    let folder = folder();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = refused(&folder.path().join("engine.sock"), config());
    assert!(matches!(outcome, Err(ServerError::OpenFolder { mode: 0o755, .. })), "{outcome:?}");
}

#[test]
fn a_window_above_the_pool_is_refused_with_both_numbers() {
    let folder = folder();
    let much = EngineConfig { advertised_window: Some(Tokens::new(33)), ..config() };
    let socket = folder.path().join("engine.sock");
    let outcome = refused(&socket, much);
    let mismatch = CapacityMismatch { advertised: Tokens::new(33), holds: Tokens::new(32) };
    let Err(ServerError::Engine(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error, EngineStartError::Capacity(mismatch));
    assert_eq!(error.to_string(), "a window of 33 tokens is advertised, the pool holds 32");
    assert!(!socket.exists());
}
