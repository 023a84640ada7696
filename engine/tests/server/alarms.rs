//! What gateways are told of an engine that found something wrong with itself.

use crate::{
    common::{name, no_cache, prompt, submit},
    gateway::{Gateway, Server, device},
};
use engine::{core::Ended, device::stamp::Lie};
use wire::{
    Alarm, Cause, Ending, Failed, GatewayHello, PROTOCOL, ToEngine, ToGateway, Unsound, WITHDRAWN_KEPT,
};

/// Who is greeted is told, who is not is not; who is greeted later is told right after the hello, and each once.
#[test]
fn a_gateway_that_is_greeted_later_hears_the_alarms_of_this_life() {
    let server = Server::on(device(8).lying(Lie::Deny(1)), |_| {});
    let mut first = Gateway::open(&server);
    let mut later = Gateway::silent(&server);
    first.submit(submit(1, 1, prompt(0, 5), 2));
    first.settle();
    let failed = Some(Ended::Admitted(Ending::Failed(Failed::Isolation)));
    assert_eq!(first.reader.transcripts()[&name(1)].ended, failed);
    let alarm = Alarm { number: 0, epoch: server.ready.epoch, cause: Cause::Unsound(Unsound::Read) };
    first.status();
    assert_eq!(first.reader.alarms(), [alarm]);
    later.greet();
    assert_eq!(later.hear(), Some(ToGateway::Alarm(alarm)));
    later.status();
    assert_eq!(later.reader.alarms(), [], "and no more");
    let mut stranger = Gateway::silent(&server);
    stranger.say(&ToEngine::Hello(GatewayHello { protocol: PROTOCOL + 1 }));
    assert!(matches!(stranger.hear(), Some(ToGateway::Hello(_))));
    assert_eq!(stranger.hear(), None, "another protocol is told nothing");
}

/// The alarms that a gateway hears which comes after a fuse has blown.
fn heard_later(server: &Server) -> usize {
    let mut first = Gateway::open(server);
    first.submit(submit(1, 1, prompt(0, 5), 2));
    first.settle();
    first.status();
    assert_eq!(first.reader.alarms().len(), 1, "who is there is told");
    let mut later = Gateway::open(server);
    later.status();
    later.reader.alarms().len()
}

#[test]
fn a_blown_fuse_is_kept_for_who_comes_later() {
    assert_eq!(heard_later(&Server::on(device(8).lying(Lie::Deny(1)), |_| {})), 1);
}

#[cfg(feature = "seeded-faults")]
#[test]
fn an_engine_that_forgets_its_alarms_would_be_noticed() {
    use engine::fault::{Fault, with};
    let forgets = |serve: Box<dyn FnOnce() -> _>| with(Fault::AlarmForgotten, serve);
    assert_eq!(heard_later(&Server::within(device(8).lying(Lie::Deny(1)), |_| {}, forgets)), 0);
}

/// So many pages are kept for who comes later; those beyond are told to who is there.
#[test]
fn only_so_many_pages_are_kept() {
    let (pages, good) = (1_200, 100);
    let server = Server::on(device(pages).lying(Lie::SkipWipe(u64::from(good))), |c| c.engine = no_cache());
    // Its hello is handed over after the engine's first step, which tells what the first wipe found.
    let mut first = Gateway::open(&server);
    let mut later = Gateway::open(&server);
    later.status();
    let numbers: Vec<_> = later.reader.alarms().iter().map(|alarm| alarm.number).collect();
    assert_eq!(numbers, (0..WITHDRAWN_KEPT as u32).collect::<Vec<_>>());
    first.status();
    let before = first.reader.alarms().len();
    // One page, which is withdrawn when it comes back.
    first.submit(submit(1, 7, prompt(0, 2), 2));
    first.settle();
    first.status_when(|status| status.census.withdrawn == pages - good + 1);
    let told = &first.reader.alarms()[before..];
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].number, pages - good);
    assert!(matches!(told[0].cause, Cause::Withdrawn { last: Some(7), .. }), "{told:?}");
}
