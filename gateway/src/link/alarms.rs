//! The alarms of an engine, each counted and handed on once, however many sessions tell it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use wire::{Alarm, Cause};

use super::session::Ended;
use crate::fault::{Fault, seeded};
use crate::meter::Meter;

/// Alarms that wait to be recorded, at most: four times what a session is told of the past. The last place is the fuse's.
pub(crate) const ALARMS_MAX: usize = 4 * wire::WITHDRAWN_KEPT;
/// Alarms of one life of an engine that are heard, at most, and one more that says that it is unsound. Any beyond is neither
/// counted nor handed on: an engine that makes them up fills neither memory nor disk, and moves the counter no further.
const HEARD_MAX: usize = 65_536;

/// What was heard of the engine that was connected last.
///
/// Each life has a count of its own, so an engine that also makes up lives gets more counted and recorded. A life takes a
/// session, and [`super::session`] pauses before each; and the recorder has few places of the audit log at once, so that no
/// request is refused for it. Both slow such an engine down and nothing stops it; each of its sessions is in the audit log.
pub(super) struct Heard {
    alarms: mpsc::Sender<Alarm>,
    meter: Arc<Meter>,
    epoch: u64,
    /// Of this life, those counted, and whether each was handed on: one that found no place is, when it is told again.
    numbers: BTreeMap<u32, bool>,
    /// Whether it was said that alarms are lost, since the last that was not.
    is_loss_said: bool,
}

impl Heard {
    /// Nothing was heard yet; alarms are counted in `meter` and handed on to `alarms`.
    pub(super) fn new(alarms: mpsc::Sender<Alarm>, meter: Arc<Meter>) -> Self {
        Self { alarms, meter, epoch: 0, numbers: BTreeMap::new(), is_loss_said: false }
    }

    /// Takes an alarm from a session of `epoch`.
    ///
    /// # Errors
    /// An alarm of another life than the session's has no place in it.
    pub(super) fn hand_on(&mut self, epoch: u64, alarm: Alarm) -> Result<(), Ended> {
        if alarm.epoch != epoch {
            return Err(Ended::Unexpected);
        }
        if self.epoch != epoch {
            (self.epoch, self.is_loss_said) = (epoch, false);
            self.numbers.clear();
        }
        let is_fuse = matches!(alarm.cause, Cause::Unsound(_));
        let known = self.numbers.get(&alarm.number).copied();
        match known.filter(|_| !seeded(Fault::AlarmAgain)) {
            Some(true) => return Ok(()),
            Some(false) => {}
            None if self.numbers.len() >= HEARD_MAX.saturating_add(usize::from(is_fuse)) => {
                self.say_loss(alarm);
                return Ok(());
            }
            None => {
                // Here, where nothing waits for a disk: one that is stuck must not hold up what wakes somebody.
                Meter::add(&self.meter.engine_alarms);
                tell(alarm);
            }
        }
        // This is the only sender, so what is free now is still free below.
        let has_place = is_fuse || self.alarms.capacity() > 1;
        let is_handed_on = has_place && self.alarms.try_send(alarm).is_ok();
        self.numbers.insert(alarm.number, is_handed_on);
        if is_handed_on {
            self.is_loss_said = false;
        } else {
            self.say_loss(alarm);
        }
        Ok(())
    }

    /// Once, and not for each: what is lost may be made up.
    fn say_loss(&mut self, Alarm { number, epoch, .. }: Alarm) {
        if !std::mem::replace(&mut self.is_loss_said, true) {
            let heard = self.numbers.len();
            tracing::error!(
                epoch,
                number,
                heard,
                "alarms of the engine are not recorded: too many came, or wait"
            );
        }
    }
}

fn tell(Alarm { number, epoch, cause }: Alarm) {
    match cause {
        Cause::Unsound(why) => tracing::error!(
            alarm = "unsound",
            epoch,
            number,
            ?why,
            "the engine found itself unsound: it admits nothing more and drains"
        ),
        Cause::Withdrawn { page, generation, last } => tracing::error!(
            alarm = "withdrawn",
            epoch,
            number,
            page,
            generation,
            last_tag = last,
            "a page of the engine was not blank after its wipe and is withdrawn for good"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::record_alarms;
    use std::future::pending;
    use wire::Unsound;

    fn alarm(epoch: u64, number: u32) -> Alarm {
        Alarm { number, epoch, cause: Cause::Unsound(Unsound::Read) }
    }

    fn page(epoch: u64, number: u32) -> Alarm {
        Alarm { number, epoch, cause: Cause::Withdrawn { page: 0, generation: 0, last: None } }
    }

    fn counted(heard: &Heard) -> u64 {
        Meter::get(&heard.meter.engine_alarms)
    }

    #[test]
    fn each_is_counted_and_handed_on_once_in_a_life() {
        let (sender, mut alarms) = mpsc::channel(8);
        let mut heard = Heard::new(sender, Arc::default());
        // Three sessions of one life, and one of another.
        for (epoch, number) in [(0, 0), (0, 1), (0, 0), (0, 1), (0, 2), (0, 2), (9, 0), (9, 0)] {
            assert!(heard.hand_on(epoch, alarm(epoch, number)).is_ok());
        }
        let mut handed = vec![];
        while let Ok(alarm) = alarms.try_recv() {
            handed.push((alarm.epoch, alarm.number));
        }
        assert_eq!(handed, [(0, 0), (0, 1), (0, 2), (9, 0)]);
        assert_eq!(counted(&heard), 4);
    }

    #[test]
    fn one_of_another_life_is_refused_and_forgets_nothing() {
        let (sender, mut alarms) = mpsc::channel(8);
        let mut heard = Heard::new(sender, Arc::default());
        assert!(heard.hand_on(4, alarm(4, 0)).is_ok());
        assert!(matches!(heard.hand_on(4, alarm(5, 0)), Err(Ended::Unexpected)));
        assert!(heard.hand_on(4, alarm(4, 0)).is_ok());
        assert_eq!(alarms.try_recv(), Ok(alarm(4, 0)));
        assert!(alarms.try_recv().is_err());
    }

    #[test]
    fn one_that_finds_no_place_is_handed_on_when_it_is_told_again() {
        let (sender, mut alarms) = mpsc::channel(1);
        let mut heard = Heard::new(sender, Arc::default());
        for number in 0..2 {
            assert!(heard.hand_on(4, alarm(4, number)).is_ok());
        }
        assert_eq!(alarms.try_recv(), Ok(alarm(4, 0)));
        assert!(alarms.try_recv().is_err());
        for number in 0..2 {
            assert!(heard.hand_on(4, alarm(4, number)).is_ok());
        }
        assert_eq!(alarms.try_recv(), Ok(alarm(4, 1)));
    }

    #[test]
    fn one_that_a_later_one_overtook_is_handed_on_when_it_is_told_again() {
        let (sender, mut alarms) = mpsc::channel(1);
        let mut heard = Heard::new(sender, Arc::default());
        // The second finds no place, the third does.
        assert!(heard.hand_on(4, alarm(4, 0)).is_ok());
        assert!(heard.hand_on(4, alarm(4, 1)).is_ok());
        assert_eq!(alarms.try_recv(), Ok(alarm(4, 0)));
        assert!(heard.hand_on(4, alarm(4, 2)).is_ok());
        assert_eq!(alarms.try_recv(), Ok(alarm(4, 2)));
        for number in 0..3 {
            assert!(heard.hand_on(4, alarm(4, number)).is_ok());
        }
        assert_eq!(alarms.try_recv(), Ok(alarm(4, 1)));
        assert!(alarms.try_recv().is_err());
    }

    #[test]
    fn one_that_finds_no_place_is_counted_once_however_often_it_is_told() {
        let (sender, mut alarms) = mpsc::channel(2);
        let mut heard = Heard::new(sender, Arc::default());
        // The second page finds no place in the first three sessions, and one in the fourth.
        for session in 0..4 {
            for number in 0..2 {
                assert!(heard.hand_on(4, page(4, number)).is_ok());
            }
            assert_eq!(counted(&heard), 2);
            assert_eq!(heard.alarms.capacity(), 1);
            if session == 2 {
                assert_eq!(alarms.try_recv(), Ok(page(4, 0)));
            }
        }
        assert_eq!(alarms.try_recv(), Ok(page(4, 1)));
        assert!(alarms.try_recv().is_err());
    }

    #[test]
    fn only_so_many_of_a_life_are_counted_and_handed_on() {
        let (sender, mut alarms) = mpsc::channel(2);
        let mut heard = Heard::new(sender, Arc::default());
        let mut handed = 0;
        // In both sessions the same, and more than are heard.
        for number in (0..70_000).chain(0..70_000) {
            assert!(heard.hand_on(4, page(4, number)).is_ok());
            handed += usize::from(alarms.try_recv().is_ok());
        }
        assert_eq!(handed, HEARD_MAX);
        assert_eq!(counted(&heard), 65_536);
        // A fuse that blows after all these is still heard of; a second is made up.
        for (number, is_heard) in [(70_000, true), (70_001, false)] {
            assert!(heard.hand_on(4, alarm(4, number)).is_ok());
            assert_eq!(alarms.try_recv().is_ok(), is_heard);
        }
        assert_eq!(counted(&heard), 65_537);
    }

    /// The recorder waits for the first for ever; what comes behind it is counted all the same.
    #[tokio::test]
    async fn a_disk_that_is_stuck_holds_up_no_count() {
        let (sender, alarms) = mpsc::channel(8);
        let mut heard = Heard::new(sender, Arc::default());
        let recorder = tokio::spawn(record_alarms(|_| Ok(pending()), alarms));
        assert!(heard.hand_on(4, page(4, 0)).is_ok());
        while heard.alarms.capacity() < 8 {
            tokio::task::yield_now().await;
        }
        for alarm in [page(4, 1), alarm(4, 2)] {
            assert!(heard.hand_on(4, alarm).is_ok());
        }
        tokio::task::yield_now().await;
        assert_eq!(heard.alarms.capacity(), 6, "nobody takes them");
        assert_eq!(counted(&heard), 3);
        recorder.abort();
    }

    /// It is told to an open session once: one that a full channel refused would wait for the next session.
    #[test]
    fn the_last_place_is_the_fuses() {
        let (sender, mut alarms) = mpsc::channel(3);
        let mut heard = Heard::new(sender, Arc::default());
        for number in 0..5 {
            assert!(heard.hand_on(4, page(4, number)).is_ok());
        }
        assert!(heard.hand_on(4, alarm(4, 5)).is_ok());
        let mut handed = vec![];
        while let Ok(alarm) = alarms.try_recv() {
            handed.push(alarm.number);
        }
        assert_eq!(handed, [0, 1, 5]);
    }
}
