//! Creates a cgroup for each slot, which limits memory and processes of a trial, counts OOM kills and refused forks, and
//! holds every process of the trial.
//!
//! The slot itself is in the cgroup, so its trials start there: joining has no cost per trial. Only processes with a memory
//! limit move themselves into a group below it, because the slot could not work while the kernel looks for memory.
//! Under cgroup v1, where each controller has its own hierarchy, that needs root; under v2 it needs a parent that passes
//! its controllers on, or [can be made to](DelegatedGroup). Elsewhere there is no such cgroup, and the report says
//! which facts are unknown.

mod cpu_group;
mod delegated_group;
mod event_counter;
mod hierarchy;
mod joining;
mod limits;
mod locked_folder;
mod obstacle;
mod removal;
mod slot_group;
mod trial_group;

pub use cpu_group::remove_cpu_group;
pub use delegated_group::{DelegatedGroup, DelegationObstacle};
pub use hierarchy::{CgroupVersion, memory_limit};
pub(crate) use joining::JOIN_SELF;
pub use limits::{TrialLimits, default_process_limit};
pub use obstacle::CgroupObstacle;
pub use removal::clean_up_after_dead_runs;
pub use slot_group::{SlotGroup, enter_delegated_group};
pub use trial_group::TrialGroup;
