//! The one integration binary; each module is a subject.

mod calibration;
mod golden;
mod loop_and_fold;
