//! Breadth first over distinct states: each is reached by replaying its shortest history, until no new one
//! appears.

use super::{Broken, Op, Scale, World};
use std::collections::HashSet;

/// What a search saw.
#[derive(Debug)]
pub struct Seen {
    pub states: usize,
    pub edges: u64,
    pub depth: u32,
    pub reads: u64,
}

/// What a search found.
#[derive(Debug)]
pub struct Found {
    pub broken: Broken,
    pub history: Vec<Op>,
    pub states: usize,
}

/// Every state that can be reached.
pub fn explore(scale: Scale) -> Result<Seen, Found> {
    let ops = Op::all(scale);
    let mut names = HashSet::from([World::new(scale).name()]);
    let mut frontier: Vec<Vec<u8>> = vec![vec![]];
    let mut seen = Seen { states: 1, edges: 0, depth: 0, reads: 0 };
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for history in &frontier {
            let mut at = replay(scale, &ops, history);
            for (&op, number) in ops.iter().zip(0..) {
                let longer = || [history.as_slice(), &[number]].concat();
                let found = |broken| {
                    let history = longer().into_iter().map(|op| ops[op as usize]).collect();
                    Found { broken, history, states: seen.states }
                };
                let reads = at.reads;
                if !at.apply(op).map_err(found)? {
                    // The world is as it was, and good for the next.
                    continue;
                }
                at.check().map_err(found)?;
                seen.edges += 1;
                seen.reads += at.reads - reads;
                if names.insert(at.name()) {
                    at.end().map_err(found)?;
                    next.push(longer());
                    seen.states += 1;
                }
                at = replay(scale, &ops, history);
            }
        }
        seen.depth += u32::from(!next.is_empty());
        frontier = next;
    }
    Ok(seen)
}

fn replay(scale: Scale, ops: &[Op], history: &[u8]) -> World {
    let mut world = World::new(scale);
    for &op in history {
        // A broken edge ended the search when it was first walked.
        world.apply(ops[op as usize]).unwrap();
    }
    world
}
