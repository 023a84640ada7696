//! What a session may do, and what ends it.

use crate::{
    common::{config, name, oracle, prompt, submit},
    gateway::{Gateway, Server, key},
};
use engine::core::{Ended, EngineConfig};
use isolation::units::{Pages, Tokens};
use std::{io::Write, num::NonZeroU32};
use wire::{Ending, GatewayHello, PROTOCOL, Refusal, ToEngine, ToGateway, WireKey};

#[test]
fn sequences_of_two_sessions_run_together() {
    let server = Server::start();
    let mut gateways = [Gateway::open(&server), Gateway::open(&server)];
    let submits: Vec<_> =
        (0..12).map(|i| submit(i, u64::from(i % 3), prompt(i % 2, 4 + i), 1 + i % 5)).collect();
    for (i, submit) in submits.iter().enumerate() {
        gateways[i % 2].submit(submit.clone());
    }
    for gateway in &mut gateways {
        gateway.settle();
    }
    for (i, submit) in submits.iter().enumerate() {
        assert_eq!(gateways[i % 2].reader.transcripts()[&submit.request].tokens, oracle(submit));
    }
    let hello = gateways[0].hello.as_ref().unwrap();
    assert_ne!(hello.session, gateways[1].hello.as_ref().unwrap().session);
    assert_eq!((hello.window, hello.epoch), (120, server.ready.epoch));
    assert_eq!((server.ready.capacity_tokens, server.ready.pages), (120, 30));
}

#[test]
fn another_protocol_is_told_ours_and_let_go() {
    let server = Server::start();
    let mut gateway = Gateway::silent(&server);
    gateway.say(&ToEngine::Hello(GatewayHello { protocol: PROTOCOL + 1 }));
    let Some(ToGateway::Hello(hello)) = gateway.hear() else { panic!("no hello") };
    assert_eq!(hello.protocol, PROTOCOL);
    assert_eq!(gateway.hear(), None);
}

#[test]
fn who_does_not_greet_or_greets_twice_is_let_go() {
    // Five come, and a place is free a moment after its stream is cut.
    let server = Server::with(30, |c| c.sessions_max = NonZeroU32::new(5).unwrap());
    let mut gateway = Gateway::silent(&server);
    gateway.say(&ToEngine::Status);
    assert_eq!(gateway.hear(), None);
    let mut gateway = Gateway::open(&server);
    gateway.say(&ToEngine::Hello(GatewayHello { protocol: PROTOCOL }));
    assert_eq!(gateway.hear(), None);
    for garbage in [&[0xff; 64][..], &[1, 0, 0, 0, 99]] {
        let mut gateway = Gateway::silent(&server);
        gateway.stream.write_all(garbage).unwrap();
        assert_eq!(gateway.hear(), None);
    }
    assert_eq!(Gateway::open(&server).status().running, 0);
}

#[test]
fn a_submission_is_believed_once_and_by_its_ticket_alone() {
    let server = Server::start();
    let mut gateway = Gateway::open(&server);
    let good = gateway.seal(submit(1, 1, prompt(0, 5), 2));
    let mut forged = gateway.seal(submit(2, 1, prompt(0, 5), 2));
    forged.prompt.push(1);
    let session = gateway.hello.as_ref().unwrap().session;
    let other_key = gateway.seal(submit(3, 1, prompt(0, 5), 2)).seal(&WireKey::new([8; 32]), &session);
    let other_session = gateway.seal(submit(4, 1, prompt(0, 5), 2)).seal(&key(), &[0; 16]);
    let mut other_epoch = gateway.seal(submit(5, 1, prompt(0, 5), 2));
    other_epoch.epoch += 1;
    let other_epoch = other_epoch.seal(&key(), &session);
    for bad in [forged, other_key, other_session, other_epoch] {
        let request = bad.request;
        gateway.say(&ToEngine::Submit(Box::new(bad)));
        let refused = ToGateway::Refused { request, refusal: Refusal::NotAuthentic };
        assert_eq!(gateway.hear(), Some(refused));
    }
    gateway.reader.expect(&good);
    gateway.say(&ToEngine::Submit(Box::new(good.clone())));
    gateway.settle();
    gateway.say(&ToEngine::Submit(Box::new(good.clone())));
    let refused = ToGateway::Refused { request: good.request, refusal: Refusal::NotAuthentic };
    assert_eq!(gateway.hear(), Some(refused), "a ticket is good once");
}

/// Slow enough to be caught at it: one token a step, and thousands to come.
fn long(number: u32) -> wire::Submit {
    submit(number, 1, prompt(number, 8), STAMP_LONG)
}

const STAMP_LONG: u32 = 1500;
const LONG_PAGES: u32 = 1200;

#[test]
fn a_gateway_that_leaves_frees_its_pages() {
    let server = Server::with(LONG_PAGES, |c| c.engine.prefix_cache = engine::core::PrefixCache::Off);
    let mut stays = Gateway::open(&server);
    let mut leaves = Gateway::open(&server);
    for number in 0..3 {
        leaves.submit(long(number));
    }
    stays.status_when(|status| status.running > 0 && status.census.leased > 0);
    drop(leaves);
    let status = stays.status_when(|status| status.running == 0 && status.queued == 0);
    assert_eq!(status.census.leased, 0);
    stays.submit(submit(9, 2, prompt(1, 5), 3));
    stays.settle();
}

#[test]
fn a_cancel_ends_its_own_sequence_and_no_other_s() {
    let server = Server::with(LONG_PAGES, |_| {});
    let (mut mine, mut other) = (Gateway::open(&server), Gateway::open(&server));
    mine.submit(long(1));
    mine.status_when(|status| status.running == 1);
    other.say(&ToEngine::Cancel(name(1)));
    assert_eq!(other.status().running, 1, "a stranger's cancel is no cancel");
    mine.say(&ToEngine::Cancel(name(1)));
    mine.settle();
    assert_eq!(mine.reader.transcripts()[&name(1)].ended, Some(Ended::Admitted(Ending::Cancelled)));
    assert_eq!(mine.status().census.leased, 0);
}

#[test]
fn a_gateway_that_does_not_read_is_cut_and_the_others_go_on() {
    let server = Server::with(LONG_PAGES, |c| {
        c.outbox_bytes_max = 64 << 10;
        c.engine = EngineConfig { sequences_max: 8, step_tokens: Tokens::new(64), ..config() };
    });
    let mut reads = Gateway::open(&server);
    let mut deaf = Gateway::open(&server);
    for number in 0..40 {
        let sealed = deaf.seal(submit(number, 1, prompt(number, 5), 600));
        // It may be cut before the last of them.
        let frame = wire::encode(&ToEngine::Submit(Box::new(sealed))).unwrap();
        if deaf.stream.write_all(&frame).is_err() {
            break;
        }
    }
    // Its socket's buffer fills, then its outbox, then it is gone, long before all is computed.
    let status = reads.status_when(|status| status.decoded > 0 && status.running + status.queued == 0);
    assert!(status.decoded < 40 * 600, "{status:?}");
    reads.submit(submit(99, 2, prompt(1, 5), 3));
    reads.settle();
    assert_eq!(reads.reader.transcripts()[&name(99)].tokens, oracle(&submit(99, 2, prompt(1, 5), 3)));
}

#[test]
fn there_are_only_so_many_sessions_at_once() {
    let server = Server::with(30, |c| c.sessions_max = NonZeroU32::new(2).unwrap());
    let (mut first, second) = (Gateway::open(&server), Gateway::open(&server));
    assert_eq!(Gateway::silent(&server).hear(), None);
    drop(second);
    // The place is free as soon as the server has seen the end of the stream.
    let is_let_in = (0..10_000).any(|_| {
        let mut third = Gateway::silent(&server);
        let greeting = wire::encode(&ToEngine::Hello(GatewayHello { protocol: PROTOCOL })).unwrap();
        third.stream.write_all(&greeting).is_ok() && third.hear().is_some()
    });
    assert!(is_let_in);
    assert_eq!(first.status().running, 0);
}

#[test]
fn a_pool_that_shrinks_refuses_over_the_wire() {
    let server = Server::start();
    let mut gateway = Gateway::open(&server);
    server.control.shrink(Pages::new(20));
    gateway.status_when(|status| status.window == 40);
    let leased = gateway.status().census.leased;
    gateway.submit(submit(1, 1, prompt(0, 40), 1));
    gateway.settle();
    let refused = Ended::Refused(Refusal::TooLong { asked: 41, window: 40 });
    assert_eq!(gateway.reader.transcripts()[&name(1)].ended, Some(refused));
    assert_eq!((leased, gateway.status().census.leased), (0, 0));
    gateway.submit(submit(2, 1, prompt(0, 39), 1));
    gateway.settle();
    assert_eq!(gateway.reader.transcripts()[&name(2)].tokens, oracle(&submit(2, 1, prompt(0, 39), 1)));
}
