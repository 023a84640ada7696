//! The alarms of an engine, each handed on once, however many sessions tell it.

use std::collections::BTreeSet;

use tokio::sync::mpsc;
use wire::{Alarm, Cause};

use super::session::Ended;
use crate::fault::{Fault, seeded};

/// Alarms that wait to be recorded, at most: four times what a session is told of the past.
pub(crate) const ALARMS_MAX: usize = 4 * wire::WITHDRAWN_KEPT;
/// Alarms of one life of an engine that are handed on, at most, and one more that says that it is unsound: an engine that makes
/// them up fills neither memory nor disk by them.
const HANDED_ON_MAX: usize = 65_536;

/// What has been handed on of the engine that was connected last.
///
/// Each life has a count of its own, so an engine that also makes up lives gets more recorded. A life takes a session, and
/// [`super::session`] pauses before each; and the recorder has few places of the audit log at once, so that no request is
/// refused for it. Both slow such an engine down and nothing stops it; each of its sessions is in the audit log.
pub(super) struct Heard {
    alarms: mpsc::Sender<Alarm>,
    epoch: u64,
    /// Of this life, those handed on: any that is not in it, since it found no place, is handed on when it is told again.
    numbers: BTreeSet<u32>,
    /// Whether it was said that alarms are lost, since the last that was not.
    is_loss_said: bool,
}

impl Heard {
    /// Nothing was heard yet; alarms are handed on to `alarms`.
    pub(super) fn new(alarms: mpsc::Sender<Alarm>) -> Self {
        Self { alarms, epoch: 0, numbers: BTreeSet::new(), is_loss_said: false }
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
        if self.numbers.contains(&alarm.number) && !seeded(Fault::AlarmAgain) {
            return Ok(());
        }
        let most = match alarm.cause {
            Cause::Withdrawn { .. } => HANDED_ON_MAX,
            Cause::Unsound(_) => HANDED_ON_MAX.saturating_add(1),
        };
        if self.numbers.len() < most && self.alarms.try_send(alarm).is_ok() {
            self.numbers.insert(alarm.number);
            self.is_loss_said = false;
        } else if !self.is_loss_said {
            self.is_loss_said = true;
            let handed_on = self.numbers.len();
            tracing::error!(
                ?alarm,
                handed_on,
                "alarms of the engine are not recorded: too many came, or wait"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Unsound;

    fn alarm(epoch: u64, number: u32) -> Alarm {
        Alarm { number, epoch, cause: Cause::Unsound(Unsound::Read) }
    }

    #[test]
    fn each_is_handed_on_once_in_a_life() {
        let (sender, mut alarms) = mpsc::channel(8);
        let mut heard = Heard::new(sender);
        // Three sessions of one life, and one of another.
        for (epoch, number) in [(0, 0), (0, 1), (0, 0), (0, 1), (0, 2), (0, 2), (9, 0), (9, 0)] {
            assert!(heard.hand_on(epoch, alarm(epoch, number)).is_ok());
        }
        let mut handed = vec![];
        while let Ok(alarm) = alarms.try_recv() {
            handed.push((alarm.epoch, alarm.number));
        }
        assert_eq!(handed, [(0, 0), (0, 1), (0, 2), (9, 0)]);
    }

    #[test]
    fn one_of_another_life_is_refused_and_forgets_nothing() {
        let (sender, mut alarms) = mpsc::channel(8);
        let mut heard = Heard::new(sender);
        assert!(heard.hand_on(4, alarm(4, 0)).is_ok());
        assert!(matches!(heard.hand_on(4, alarm(5, 0)), Err(Ended::Unexpected)));
        assert!(heard.hand_on(4, alarm(4, 0)).is_ok());
        assert_eq!(alarms.try_recv(), Ok(alarm(4, 0)));
        assert!(alarms.try_recv().is_err());
    }

    #[test]
    fn one_that_finds_no_place_is_handed_on_when_it_is_told_again() {
        let (sender, mut alarms) = mpsc::channel(1);
        let mut heard = Heard::new(sender);
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
        let mut heard = Heard::new(sender);
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
    fn only_so_many_of_a_life_are_handed_on() {
        let (sender, mut alarms) = mpsc::channel(1);
        let mut heard = Heard::new(sender);
        let page = |number| Alarm {
            cause: Cause::Withdrawn { page: 0, generation: 0, last: None },
            ..alarm(4, number)
        };
        let mut handed = 0;
        for number in 0..70_000 {
            assert!(heard.hand_on(4, page(number)).is_ok());
            handed += usize::from(alarms.try_recv().is_ok());
        }
        assert_eq!(handed, HANDED_ON_MAX);
        // A fuse that blows after all these is still heard of; a second is made up.
        for (number, is_heard) in [(70_000, true), (70_001, false)] {
            assert!(heard.hand_on(4, alarm(4, number)).is_ok());
            assert_eq!(alarms.try_recv().is_ok(), is_heard);
        }
    }
}
