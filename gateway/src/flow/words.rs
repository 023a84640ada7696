//! The engine's words in the house's, and the house's in the contract's.

use isolation::outcome::{Failure, Finish};
use wire::{Ending, Failed, Finished};

use crate::answer::Denied;
use crate::openai;
use crate::record::Ledger;

/// A sequence's end as a finish, with what the engine stated of it in the account; or why the request fails with it.
pub(super) fn completed(
    ending: Ending,
    signed: Option<String>,
    (index, ledger): (usize, &mut Ledger),
) -> Result<Finish, Denied> {
    if let Some(signed) = signed {
        ledger.stated(index, signed);
    }
    match ending {
        Ending::Completed(Finished::Stop) => Ok(Finish::Stop),
        Ending::Completed(Finished::Length) => Ok(Finish::Length),
        // Nobody here cancelled it: whoever did, it is not complete.
        Ending::Cancelled => Err(Denied::Failed(Failure::EngineLost)),
        Ending::Failed(failed) => Err(Denied::Failed(match failed {
            Failed::Device => Failure::Device,
            Failed::NotANumber => Failure::NotANumber,
            Failed::Isolation => Failure::Isolation,
            Failed::ShuttingDown => Failure::ShuttingDown,
            Failed::NoCapacity => Failure::NoCapacity,
        })),
    }
}

/// A finish in the contract's words.
pub(super) fn contract(finish: Finish) -> openai::Finish {
    match finish {
        Finish::Stop => openai::Finish::Stop,
        Finish::Length => openai::Finish::Length,
    }
}

/// How many tokens there are.
pub(super) fn tokens(ids: &[u32]) -> u32 {
    u32::try_from(ids.len()).unwrap_or(u32::MAX)
}
