//! The one integration binary; each module is a subject.

mod answers;
mod autopsy;
mod calibration;
mod cli;
mod coverage;
mod damage;
mod golden;
mod layers;
mod load;
mod loop_and_fold;
mod making;
mod packages;
mod ramp;
mod scenarios;
mod slot;
mod victim;
