//! A disk in memory that knows what is synced, fails where it is told to, and loses what a crash may lose.

use std::io;
use std::sync::{Arc, Mutex};

use crate::ledger::disk::Disk;

#[derive(Clone, Default)]
pub(crate) struct Medium(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    synced: Vec<u8>,
    unsynced: Vec<u8>,
    staged: Option<Vec<u8>>,
    /// Operations that still succeed.
    fuse: Option<usize>,
}

impl Medium {
    /// After `operations` more, each fails, as on a full or broken disk.
    pub(crate) fn fail_after(&self, operations: usize) {
        self.0.lock().unwrap().fuse = Some(operations);
    }

    /// What a crash leaves: all that was synced, and `choose(n)` of the n bytes that were not.
    pub(crate) fn survivor(&self, choose: &mut dyn FnMut(usize) -> usize) -> Vec<u8> {
        let state = self.0.lock().unwrap();
        let kept = choose(state.unsynced.len() + 1);
        [&state.synced[..], &state.unsynced[..kept]].concat()
    }

    /// All that was synced.
    pub(crate) fn synced(&self) -> Vec<u8> {
        self.0.lock().unwrap().synced.clone()
    }

    fn act(&self, act: impl FnOnce(&mut State)) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        match &mut state.fuse {
            Some(0) => return Err(io::ErrorKind::StorageFull.into()),
            Some(left) => *left -= 1,
            None => {}
        }
        act(&mut state);
        Ok(())
    }
}

impl Disk for Medium {
    fn stage(&mut self) -> io::Result<()> {
        self.act(|state| state.staged = Some(Vec::new()))
    }

    fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        self.act(|state| match &mut state.staged {
            Some(staged) => staged.extend_from_slice(frames),
            None => state.unsynced.extend_from_slice(frames),
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.act(|state| {
            let State { synced, unsynced, .. } = state;
            synced.append(unsynced);
        })
    }

    fn promote(&mut self) -> io::Result<()> {
        self.act(|state| {
            state.synced = state.staged.take().unwrap();
            state.unsynced.clear();
        })
    }
}
