//! The step loop: takes what came, steps, and hands frames to their sessions. Never waits for a socket; waits for events
//! only when nothing is left to do.

use crate::{
    core::{Engine, Progress},
    device::Device,
    server::{
        alarms::Kept,
        attest::Attester,
        inbox::{Control, Event, SessionId, Taken, Wait},
        outbox::{Outbox, Put},
    },
};
use ring::rand::{SecureRandom, SystemRandom};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use wire::{
    Alarm, PROTOCOL, Refusal, RequestId, Submit, TicketCheck, ToEngine, ToGateway, WireKey, Witness, encode,
};

/// One gateway, as the loop sees it.
struct Session {
    outbox: Arc<Outbox>,
    /// `None` until its hello is accepted, and for one that speaks another protocol.
    tickets: Option<TicketCheck>,
    /// Frames of this turn, to be handed over at once.
    frames: Vec<u8>,
    /// What it sent and has no end yet; at most as many as the engine takes.
    requests: BTreeSet<RequestId>,
}

/// A live sequence.
struct Owned {
    /// Whose it is.
    session: SessionId,
    /// What was done for it.
    witness: Witness,
}

/// See the module.
pub(super) struct Loop<D> {
    engine: Engine<D>,
    control: Control,
    key: WireKey,
    random: SystemRandom,
    sessions: BTreeMap<SessionId, Session>,
    /// Each live sequence.
    owned: BTreeMap<RequestId, Owned>,
    /// What sessions that come later are told.
    alarms: Kept,
    attester: Attester,
}

impl<D: Device> Loop<D> {
    pub(super) fn new(
        (engine, attester): (Engine<D>, Attester),
        control: Control,
        key: WireKey,
        random: SystemRandom,
    ) -> Self {
        let (sessions, owned, alarms) = (BTreeMap::new(), BTreeMap::new(), Kept::default());
        Self { engine, control, key, random, sessions, owned, alarms, attester }
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self) {
        let mut wait = Wait::Never;
        loop {
            let Taken { events, shrink, stop } = self.control.take(wait);
            for event in events {
                self.hear(event);
            }
            if let Some(pages) = shrink {
                self.engine.shrink(pages);
            }
            if stop {
                self.engine.shut_down();
            }
            wait = match self.step() {
                Progress::Worked => Wait::Never,
                Progress::Idle => Wait::UntilSomething,
            };
            self.hand_over();
            if stop {
                break;
            }
        }
        for session in self.sessions.values() {
            session.outbox.finish();
        }
        // Who comes now finds a closed door: sessions that opened meanwhile are cut.
        for event in self.control.end() {
            match event {
                Event::Opened(_, outbox) => outbox.cut(),
                Event::Said(..) | Event::Closed(_) => {}
            }
        }
        // The process may end when this returns: the last words must be out.
        for session in self.sessions.values() {
            session.outbox.wait_written();
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Opened(id, outbox) => {
                let (frames, requests) = (Vec::new(), BTreeSet::new());
                self.sessions.insert(id, Session { outbox, tickets: None, frames, requests });
            }
            Event::Said(id, ToEngine::Hello(hello)) => self.greet(id, hello.protocol),
            Event::Said(id, ToEngine::Submit(submit)) => self.submit(id, *submit),
            Event::Said(id, ToEngine::Cancel(request)) => {
                if self.owned.get(&request).is_some_and(|owned| owned.session == id) {
                    self.engine.cancel(request);
                }
            }
            Event::Said(id, ToEngine::Status) => {
                let status = self.engine.status();
                if let Some(session) = self.sessions.get_mut(&id).filter(|session| session.tickets.is_some())
                {
                    session.say(&ToGateway::Status(status));
                }
            }
            Event::Said(id, ToEngine::Quotas(quotas)) => {
                if self.sessions.get(&id).is_some_and(|session| session.tickets.is_some()) {
                    self.share(&quotas);
                }
            }
            Event::Closed(id) => self.close(id),
        }
    }

    /// A set of quotas that cannot be kept leaves the one before in force.
    fn share(&mut self, quotas: &[wire::Quota]) {
        match self.engine.set_quotas_in_tokens(quotas) {
            Ok(()) => tracing::info!(tenants = quotas.len(), "memory is shared anew"),
            Err(error) => tracing::error!(%error, "shares of memory are refused; those before stay in force"),
        }
    }

    /// Answers a hello; the first of a session with the right protocol opens it, any other ends it. Who is let in is told the
    /// alarms of before, since what they are about has not passed.
    fn greet(&mut self, id: SessionId, protocol: u16) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let mut fresh = [0; 16];
        if session.tickets.is_some() || self.random.fill(&mut fresh).is_err() {
            tracing::warn!(
                session = id.0,
                "a second hello, or no randomness for a first; the session is cut"
            );
            session.outbox.cut();
            return;
        }
        let hello = self.engine.hello(fresh, self.attester.public());
        let epoch = hello.epoch;
        session.say(&ToGateway::Hello(Box::new(hello)));
        if protocol == PROTOCOL {
            session.tickets = Some(TicketCheck::new(&self.key, fresh, epoch));
            tracing::info!(session = id.0, alarms = self.alarms.iter().count(), "a gateway is here");
            for alarm in self.alarms.iter() {
                session.say(&ToGateway::Alarm(*alarm));
            }
        } else {
            tracing::warn!(session = id.0, protocol, ours = PROTOCOL, "a gateway speaks another protocol");
            session.hand_over();
            session.outbox.finish();
        }
    }

    fn submit(&mut self, id: SessionId, submit: Submit) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(tickets) = &mut session.tickets else { return };
        let (request, witness) = (submit.request, self.attester.witness(&submit));
        let accepted = tickets.accept(&submit).map_err(|error| {
            tracing::warn!(session = id.0, %error, "a submission is not believed");
            Refusal::NotAuthentic
        });
        match accepted.and_then(|()| self.engine.submit(submit)) {
            Ok(()) => {
                session.requests.insert(request);
                self.owned.insert(request, Owned { session: id, witness });
            }
            Err(refusal) => session.say(&ToGateway::Refused { request, refusal }),
        }
    }

    fn close(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        tracing::info!(session = id.0, cancelled = session.requests.len(), "a gateway is gone");
        for request in session.requests {
            self.owned.remove(&request);
            self.engine.cancel(request);
        }
    }

    fn step(&mut self) -> Progress {
        let (owned, sessions, alarms) = (&mut self.owned, &mut self.sessions, &mut self.alarms);
        let attester = &self.attester;
        self.engine.step(&mut |mut frame| {
            let (request, is_last) = match &frame {
                ToGateway::Refused { request, .. } => (*request, true),
                ToGateway::Evidence { stamp, .. } => (stamp.request, false),
                ToGateway::Delta(delta) => (delta.stamp.request, false),
                ToGateway::End(end) => (end.stamp.request, true),
                ToGateway::Alarm(alarm) => return raise(alarms, sessions, *alarm),
                ToGateway::Hello(_) | ToGateway::Status(_) => return,
            };
            // A sequence that nobody owns is of a session that is gone: its frames go nowhere.
            let Some(Owned { session, witness }) = owned.get_mut(&request) else { return };
            attester.attest(witness, &mut frame);
            let session = sessions.get_mut(session);
            if is_last {
                owned.remove(&request);
            }
            let Some(session) = session else { return };
            if is_last {
                session.requests.remove(&request);
            }
            session.say(&frame);
        })
    }

    fn hand_over(&mut self) {
        for session in self.sessions.values_mut() {
            session.hand_over();
        }
    }
}

/// Tells every session that was greeted, and keeps the alarm for those that will be.
fn raise(alarms: &mut Kept, sessions: &mut BTreeMap<SessionId, Session>, alarm: Alarm) {
    alarms.keep(alarm);
    for session in sessions.values_mut().filter(|session| session.tickets.is_some()) {
        session.say(&ToGateway::Alarm(alarm));
    }
}

impl Session {
    fn say(&mut self, frame: &ToGateway) {
        match encode(frame) {
            Ok(bytes) => self.frames.extend_from_slice(&bytes),
            Err(error) => {
                tracing::error!(%error, "a frame could not be made; the session is cut");
                self.outbox.cut();
            }
        }
    }

    fn hand_over(&mut self) {
        if self.frames.is_empty() {
            return;
        }
        match self.outbox.put(&self.frames) {
            // The reading thread will say that a cut session is closed.
            Put::Taken | Put::Cut => self.frames.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use wire::{Cause, Unsound};

    /// One that has said no hello yet must hear the engine's before anything else.
    #[test]
    fn an_alarm_waits_for_the_hello() {
        let (stream, _other) = UnixStream::pair().unwrap();
        let outbox = Arc::new(Outbox::new(stream, 1_024));
        let session = |tickets| Session {
            outbox: Arc::clone(&outbox),
            tickets,
            frames: Vec::new(),
            requests: BTreeSet::new(),
        };
        let greeted = session(Some(TicketCheck::new(&WireKey::new([7; 32]), [0; 16], 3)));
        let mut sessions = BTreeMap::from([(SessionId(1), session(None)), (SessionId(2), greeted)]);
        let alarm = Alarm { number: 0, epoch: 3, cause: Cause::Unsound(Unsound::Read) };
        let mut alarms = Kept::default();
        raise(&mut alarms, &mut sessions, alarm);
        let frames: Vec<_> = sessions.into_values().map(|session| session.frames).collect();
        assert_eq!(frames, [vec![], encode(&ToGateway::Alarm(alarm)).unwrap()]);
        assert!(alarms.iter().eq([&alarm]), "it is told right after the hello");
    }
}
