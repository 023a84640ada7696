//! Bytes of all pages, and wipes that may go wrong.

use super::SIZE;
use isolation::page::{Erase, PageId};

/// What a cell holds that nobody has written or wiped since the machine started.
const NOISE: u8 = 255;

pub struct Memory {
    cells: Vec<[u8; SIZE as usize]>,
    pub next_wipe: Wipe,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Wipe {
    Honest,
    /// Says that it was done.
    Lying,
    /// Says that it was not.
    Failing,
}

impl Memory {
    pub fn new(pages: u32) -> Self {
        Self { cells: vec![[NOISE; SIZE as usize]; pages as usize], next_wipe: Wipe::Honest }
    }

    pub fn cells(&self, page: PageId) -> &[u8] {
        &self.cells[page.index()]
    }

    pub fn cells_at(&self, index: usize) -> &[u8] {
        &self.cells[index]
    }

    pub fn cell(&mut self, page: PageId, position: u32) -> &mut u8 {
        &mut self.cells[page.index()][(position % SIZE) as usize]
    }
}

impl Erase for Memory {
    type Error = ();

    fn erase(&mut self, page: PageId) -> Result<(), ()> {
        match std::mem::replace(&mut self.next_wipe, Wipe::Honest) {
            Wipe::Honest => self.cells[page.index()] = [0; SIZE as usize],
            Wipe::Lying => {}
            Wipe::Failing => return Err(()),
        }
        Ok(())
    }

    fn is_blank(&mut self, page: PageId) -> Result<bool, ()> {
        Ok(self.cells(page).iter().all(|&cell| cell == 0))
    }
}
