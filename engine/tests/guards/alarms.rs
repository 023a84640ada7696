//! What the engine finds wrong with itself is told, whatever it is, once, and of the tenant whose bytes may be left.

use crate::{
    common::{EPOCH, PAGE, no_cache, prompt, submit},
    rig::{Held, World, hold, row},
    watch::Act,
};
use engine::{
    core::{Blown, Fuse},
    device::{DeviceFault, stamp::Lie},
};
use wire::{Alarm, Cause, Unsound};

row!(
    what_is_found_wrong_is_told,
    control_what_is_found_wrong_is_told,
    told,
    [Loss::Engine(AlarmUnsaid) => "told of a page that kept its bytes: []"]
);

row!(
    a_blown_fuse_is_told,
    control_a_blown_fuse_is_told,
    blown,
    [Loss::Engine(AlarmUnsaid) => "told of a blown fuse: []"]
);

/// One page fails the wipe at the start, and one that of tenant 7 does not come back: both leave the pool, and both are told.
fn told() -> Held {
    let mut world = World::lying(8, no_cache(), Lie::SkipWipe(7))?;
    world.send(&submit(1, 7, prompt(0, PAGE - 1), 1))?;
    world.settle()?;
    let withdrawn = world.engine.status().census.withdrawn;
    hold(withdrawn == 2, || format!("{withdrawn} pages were withdrawn"))?;
    let tell = |number, page, generation, last| Alarm {
        number,
        epoch: EPOCH,
        cause: Cause::Withdrawn { page, generation, last },
    };
    let (expected, alarms) = ([tell(0, 7, 0, None), tell(1, 6, 1, Some(7))], world.alarms());
    hold(alarms == expected, || format!("told of a page that kept its bytes: {alarms:?}"))
}

/// A step is denied a page: the engine trusts itself no more, and says so.
fn blown() -> Held {
    let mut world = World::new(8, no_cache())?;
    world.act(1, Act::Deny(DeviceFault::Denied(kernels::Denied::Owner { page: 0 })));
    world.send(&submit(1, 7, prompt(0, 5), 2))?;
    world.settle()?;
    let fuse = world.engine.fuse();
    hold(matches!(fuse, Fuse::Blown(Blown::Read(_))), || format!("a denied page: {fuse:?}"))?;
    let expected = [Alarm { number: 0, epoch: EPOCH, cause: Cause::Unsound(Unsound::Read) }];
    let alarms = world.alarms();
    hold(alarms == expected, || format!("told of a blown fuse: {alarms:?}"))
}
