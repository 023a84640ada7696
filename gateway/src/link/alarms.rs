//! The alarms of an engine, each handed on once, however many sessions tell it.

use tokio::sync::mpsc;
use wire::Alarm;

use super::session::Ended;

/// Alarms that wait to be recorded, at most: four times what an engine tells at once.
pub(super) const ALARMS_MAX: usize = 4_096;

/// What has been handed on of the engine that was connected last.
#[derive(Default)]
pub(super) struct Heard {
    epoch: u64,
    /// Those of this life below it are known.
    next: u64,
}

impl Heard {
    /// Takes an alarm from a session of `epoch`.
    ///
    /// # Errors
    /// An alarm of another life than the session's has no place in it.
    pub(super) fn hand_on(
        &mut self,
        epoch: u64,
        alarm: Alarm,
        alarms: &mpsc::Sender<Alarm>,
    ) -> Result<(), Ended> {
        if alarm.epoch != epoch {
            return Err(Ended::Unexpected);
        }
        if self.epoch != epoch {
            *self = Self { epoch, next: 0 };
        }
        let number = u64::from(alarm.number);
        if number < self.next {
            return Ok(());
        }
        if alarms.try_send(alarm).is_err() {
            tracing::error!(?alarm, "an alarm of the engine is not recorded: too many wait");
            return Ok(());
        }
        self.next = number.saturating_add(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Cause, Unsound};

    fn alarm(epoch: u64, number: u32) -> Alarm {
        Alarm { number, epoch, cause: Cause::Unsound(Unsound::Read) }
    }

    #[test]
    fn each_is_handed_on_once_in_a_life() {
        let (sender, mut alarms) = mpsc::channel(8);
        let mut heard = Heard::default();
        // Three sessions of one life, and one of another.
        for (epoch, number) in [(0, 0), (0, 1), (0, 0), (0, 1), (0, 2), (0, 2), (9, 0), (9, 0)] {
            assert!(heard.hand_on(epoch, alarm(epoch, number), &sender).is_ok());
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
        let mut heard = Heard::default();
        assert!(heard.hand_on(4, alarm(4, 0), &sender).is_ok());
        assert!(matches!(heard.hand_on(4, alarm(5, 0), &sender), Err(Ended::Unexpected)));
        assert!(heard.hand_on(4, alarm(4, 0), &sender).is_ok());
        assert_eq!(alarms.try_recv(), Ok(alarm(4, 0)));
        assert!(alarms.try_recv().is_err());
    }

    #[test]
    fn one_that_finds_no_place_is_handed_on_when_it_is_told_again() {
        let (sender, mut alarms) = mpsc::channel(1);
        let mut heard = Heard::default();
        for number in 0..2 {
            assert!(heard.hand_on(4, alarm(4, number), &sender).is_ok());
        }
        assert_eq!(alarms.try_recv(), Ok(alarm(4, 0)));
        assert!(alarms.try_recv().is_err());
        for number in 0..2 {
            assert!(heard.hand_on(4, alarm(4, number), &sender).is_ok());
        }
        assert_eq!(alarms.try_recv(), Ok(alarm(4, 1)));
    }
}
