//! Finds out why no cgroup can be created here.

use super::delegated_group::{self, DelegationObstacle};
use super::hierarchy::{CgroupVersion, present_group};
use crate::user;
use rustix::fs::{Access, access};
use rustix::io::Errno;

/// Why no cgroup with a controller can be created here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupObstacle {
    /// No file system of cgroups with this controller is mounted.
    NotMounted,
    /// Version 1 needs root.
    NeedsRoot,
    /// The file system of cgroups is read-only, as in most containers.
    NotWritable,
    /// The cgroup of version 2 around provoke cannot pass on the controller.
    Delegation(DelegationObstacle),
}

impl CgroupObstacle {
    /// Returns what prevents a cgroup with this controller, after one could not be created.
    pub fn find(controller: &str) -> Self {
        let Some((version, group)) = present_group(controller) else {
            return Self::NotMounted;
        };
        let is_read_only = access(&group, Access::WRITE_OK) == Err(Errno::ROFS);
        match version {
            CgroupVersion::One if !user::is_root() => Self::NeedsRoot,
            CgroupVersion::Two if !is_read_only => {
                delegated_group::find_obstacle(&group, controller)
                    .map_or(Self::NotWritable, Self::Delegation)
            }
            _ => Self::NotWritable,
        }
    }

    /// Describes it.
    pub fn describe(self, controller: &str) -> String {
        match self {
            Self::NotMounted => {
                format!("no control groups with the {controller} controller are mounted")
            }
            Self::NeedsRoot => "control groups of version 1 need root".to_owned(),
            Self::NotWritable => "this control group cannot be written".to_owned(),
            Self::Delegation(obstacle) => match obstacle {
                DelegationObstacle::RootGroup => {
                    format!("the root control group does not pass on the {controller} controller")
                }
                DelegationObstacle::NoController => {
                    format!("this control group does not have the {controller} controller")
                }
                DelegationObstacle::OtherUser => {
                    "this control group is not delegated to this user".to_owned()
                }
                DelegationObstacle::OtherProcesses => {
                    "this control group has processes other than provoke".to_owned()
                }
            },
        }
    }

    /// Returns what the user can do about it.
    pub fn way_out(self) -> &'static str {
        match self {
            Self::NotMounted => "mount a control group file system with this controller",
            Self::NeedsRoot => "run provoke as root",
            Self::NotWritable => "mount the control group file system read-write",
            Self::Delegation(DelegationObstacle::RootGroup) => {
                "pass it on: echo +memory +pids +cpu > /sys/fs/cgroup/cgroup.subtree_control"
            }
            // The service manager of the user root often does not run.
            Self::Delegation(_) if user::is_root() => {
                "run provoke in its own group: systemd-run --scope -p Delegate=yes provoke ..."
            }
            Self::Delegation(_) => {
                "run provoke in its own group: systemd-run --user --scope -p Delegate=yes provoke ..."
            }
        }
    }
}
