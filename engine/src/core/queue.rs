//! Who waits for pages: first come, first served within a tenant, and the tenants take turns. Knows no page.
//!
//! The head is never overtaken: who is next stays next until there are pages for it, so that a long request waits for the
//! sequences that run now and for no others.

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

    /// Who is next.
    pub(super) fn head(&self) -> Option<&Waiting> {
        self.lines.front().and_then(|(_, line)| line.front())
    }

    /// Takes who is next; its tenant goes to the end.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let (tag, mut line) = self.lines.pop_front()?;
        let waiting = line.pop_front();
        if !line.is_empty() {
            self.lines.push_back((tag, line));
        }
        waiting
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
        std::iter::from_fn(|| queue.pop()).map(|w| w.request()[0]).collect()
    }

    #[test]
    fn tenants_take_turns_and_keep_their_order() {
        let mut queue = Queue::default();
        for (tag, name) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (2, 21)] {
            queue.push(waiting(tag, name));
        }
        assert_eq!(queue.len(), 6);
        assert_eq!(queue.head().unwrap().request()[0], 10);
        assert_eq!(names(&mut queue), [10, 20, 30, 11, 21, 12]);
        assert_eq!(queue.len(), 0);
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
