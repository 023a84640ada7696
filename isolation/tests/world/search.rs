//! Breadth first over distinct states: each is reached by replaying its shortest history, until no new one appears.

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
                let edge = step(&mut at, op, || replay(scale, &ops, history)).map_err(|broken| Found {
                    broken,
                    history: longer().into_iter().map(|op| ops[op as usize]).collect(),
                    states: names.len(),
                })?;
                let Some((name, reads)) = edge else { continue };
                seen.edges += 1;
                seen.reads += reads;
                if names.insert(name) {
                    next.push(longer());
                }
            }
        }
        seen.depth += u32::from(!next.is_empty());
        frontier = next;
    }
    seen.states = names.len();
    Ok(seen)
}

/// Where `op` leads, and how much it read; `None` where it cannot happen, which leaves the world as it was. Otherwise the
/// world is spent, and `again` makes another.
fn step(at: &mut World, op: Op, again: impl FnOnce() -> World) -> Result<Option<(u64, u64)>, Broken> {
    let reads = at.reads;
    if !at.apply(op)? {
        return Ok(None);
    }
    at.check()?;
    let mut spent = std::mem::replace(at, again());
    let seen = (spent.name(), spent.reads - reads);
    spent.end()?;
    Ok(Some(seen))
}

fn replay(scale: Scale, ops: &[Op], history: &[u8]) -> World {
    let mut world = World::new(scale);
    for &op in history {
        // A broken edge ended the search when it was first walked.
        world.apply(ops[op as usize]).unwrap();
    }
    world
}
