//! Who waits for pages: first come, first served within a tenant, and the tenants take turns. Knows no page.
//!
//! Whose turn it is keeps it until there are pages for its next. Others are served meanwhile from what is theirs by right, if
//! the first wants more than its own right, and so often at most; then from their floors alone.

use crate::core::sequence::Waiting;
use isolation::tag::TenantTag;
use std::collections::VecDeque;
use wire::RequestId;

/// The waiting line. Its length is bounded by the engine, which counts before it pushes.
#[derive(Default)]
pub(super) struct Queue {
    /// The tenants that wait, whose turn it is first; none of their lines is empty.
    lines: VecDeque<(TenantTag, VecDeque<Waiting>)>,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.lines.iter().map(|(_, line)| line.len()).sum()
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        let tag = waiting.tag();
        match self.lines.iter_mut().find(|(other, _)| *other == tag) {
            Some((_, line)) => line.push_back(waiting),
            None => self.lines.push_back((tag, VecDeque::from([waiting]))),
        }
    }

    /// Puts one that ran already in front of its tenant's line.
    pub(super) fn push_front(&mut self, waiting: Waiting) {
        let tag = waiting.tag();
        match self.lines.iter_mut().find(|(other, _)| *other == tag) {
            Some((_, line)) => line.push_front(waiting),
            None => self.lines.push_back((tag, VecDeque::from([waiting]))),
        }
    }

    /// The tenants that wait, whose turn it is first.
    pub(super) fn turns(&self) -> Vec<TenantTag> {
        self.lines.iter().map(|(tag, _)| *tag).collect()
    }

    /// The tenant of each that waits.
    pub(super) fn tags(&self) -> impl Iterator<Item = TenantTag> {
        self.lines.iter().flat_map(|(tag, line)| line.iter().map(|_| *tag))
    }

    /// Takes the newest of a tenant of which nothing was answered yet.
    pub(super) fn take_newest_fresh(&mut self, tag: TenantTag) -> Option<Waiting> {
        let (_, line) = self.lines.iter_mut().find(|(other, _)| *other == tag)?;
        let place = line.iter().rposition(Waiting::is_fresh)?;
        let taken = line.remove(place);
        self.lines.retain(|(_, line)| !line.is_empty());
        taken
    }

    /// Who is next of a tenant.
    pub(super) fn head(&self, tag: TenantTag) -> Option<&Waiting> {
        self.lines.iter().find(|(other, _)| *other == tag).and_then(|(_, line)| line.front())
    }

    /// Takes who is next of a tenant, which goes to the end.
    pub(super) fn pop(&mut self, tag: TenantTag) -> Option<Waiting> {
        let place = self.lines.iter().position(|(other, _)| *other == tag)?;
        let (tag, mut line) = self.lines.remove(place)?;
        let waiting = line.pop_front();
        if !line.is_empty() {
            self.lines.push_back((tag, line));
        }
        waiting
    }

    /// Takes note that another was served before a tenant's next.
    pub(super) fn overtake(&mut self, tag: TenantTag) {
        let line = self.lines.iter_mut().find(|(other, _)| *other == tag);
        if let Some(waiting) = line.and_then(|(_, line)| line.front_mut()) {
            waiting.overtake();
        }
    }

    /// Takes all for whom `leaves` holds, in order.
    pub(super) fn take_where(&mut self, mut leaves: impl FnMut(&Waiting) -> bool) -> Vec<Waiting> {
        let mut taken = Vec::new();
        for (_, line) in &mut self.lines {
            let (gone, kept): (VecDeque<_>, VecDeque<_>) = line.drain(..).partition(&mut leaves);
            taken.extend(gone);
            *line = kept;
        }
        self.lines.retain(|(_, line)| !line.is_empty());
        taken
    }

    pub(super) fn holds(&self, request: RequestId) -> bool {
        self.lines.iter().flat_map(|(_, line)| line).any(|waiting| waiting.request() == request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::sequence::tests::waiting;

    fn names(queue: &mut Queue) -> Vec<u8> {
        let next = |queue: &mut Queue| queue.turns().first().and_then(|tag| queue.pop(*tag));
        std::iter::from_fn(|| next(queue)).map(|w| w.request()[0]).collect()
    }

    #[test]
    fn tenants_take_turns_and_keep_their_order() {
        let mut queue = Queue::default();
        for (tag, name) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (2, 21)] {
            queue.push(waiting(tag, name));
        }
        assert_eq!(queue.len(), 6);
        let head = |tag| queue.head(TenantTag::new(tag)).map(|w| w.request()[0]);
        assert_eq!([1, 2, 3, 4].map(head), [Some(10), Some(20), Some(30), None]);
        assert_eq!(names(&mut queue), [10, 20, 30, 11, 21, 12]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn who_ran_already_is_first_of_its_tenant() {
        let mut queue = Queue::default();
        queue.push(waiting(1, 10));
        queue.push(waiting(2, 20));
        queue.push_front(waiting(1, 9));
        queue.push_front(waiting(3, 30));
        assert_eq!(names(&mut queue), [9, 20, 30, 10]);
    }

    #[test]
    fn who_leaves_leaves_no_gap() {
        let mut queue = Queue::default();
        for (tag, name) in [(1, 10), (1, 11), (2, 20)] {
            queue.push(waiting(tag, name));
        }
        let gone = queue.take_where(|w| w.request()[0] != 11);
        assert_eq!(gone.iter().map(|w| w.request()[0]).collect::<Vec<_>>(), [10, 20]);
        assert!(queue.holds([11; 16]) && !queue.holds([20; 16]));
        assert_eq!(names(&mut queue), [11]);
    }
}
