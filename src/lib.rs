//! Library of provoke, which measures, compares and searches bugs that only happen sometimes.
//!
//! The library is for this program's own tests and examples; its interface may change in any version
//! before 1.0.
//!
//! `model` defines the types, `questions` decide what to run next, and `driver` is the loop. The pages in `docs/design`
//! explain the main decisions.
//!
//! ```text
//! flags ────┐                                     ┌─> Journal (events.jsonl)
//! scenario ─┴─> Plan ──> Policy ──┐               ├─> the live line
//!                          ▲      ▼               │
//!                    State ─ driver::drive_run ─Event─> State (the fold) ──> Report
//!                                 │   ▲
//!                                 ▼   │ Observation ─────── judge ─────── Outcome
//!                              Executor ── slot process ── the program
//! ```
//!
//! | crate or module | purpose | uses |
//! | --- | --- | --- |
//! | `words` | makes text from outside safe to show; formats numbers, durations and lists; finds similar names | |
//! | `model` | facts that all crates share: plans, trials, observations, outcomes, events | |
//! | `stats` | mathematics of failures | |
//! | `victim` | a program that misbehaves, for tests | |
//! | `test-needs` | lets a test say what it needs from the machine | |
//! | `sys` | the operating system; the only unsafe code of the program | words |
//! | `messages` | recognizes crash messages in output | model |
//! | `judge` | gives an observation its outcome, and a failure its name | words, model, messages |
//! | `levers` | the conditions that can be set around a trial, one file each | words, model, sys |
//! | `source` | finds the parts of a source file that can be left out | model |
//! | `runners` | test runners: recognizes and prepares them, and reads their reports | words, model, sys |
//! | `autopsy` | analyses core files, and the programs and libraries in them | words, model, sys |
//! | `holds` | holds threads at instructions, to provoke rare schedules | words, model, sys |
//! | `load` | puts HTTP load on a service, and records the results | words, model, sys |
//! | `survey` | records the environment: facts that may change how often a program fails | words, model, stats, sys, levers, autopsy |
//! | `prepare` | prepares variants before their trials | words, model, sys, source |
//! | `packages` | lists the versions of a package, and makes environments with one of them | words |
//! | `transports` | the ways in which hosts are reached, one file each | words, model, sys |
//! | `slot` | the small process that runs trials, one at a time | words, model, sys, messages, levers, holds |
//! | `plan` | settings from flags or a file, made into a plan | words, model, levers, runners, transports |
//! | `state` | the state of a run: the fold of its events | model |
//! | `exec` | what an executor of trials is, and one in virtual time for tests | model, sys |
//! | `local` | runs trials on this machine, and collects what failures leave | words, model, sys, messages, judge, levers, runners, autopsy, load, prepare, slot, exec |
//! | `hosts` | runs trials on other machines, with one worker on each | model, sys, transports, exec, local |
//! | `questions` | chooses the trials of each question, learns from them, and writes its answer | words, model, stats, survey, state |
//! | `driver` | the loop that runs all trials | model, judge, levers, state, exec, questions |
//! | `journal` | the folder of a run, its journal, and the secrets that are masked | words, model, sys, state |
//! | `report` | reports of a run, in every format | words, model, stats, sys, messages, judge, levers, runners, survey, state, questions, journal |
//! | `suggest` | suggests corrections of mistyped command lines | words |
//! | `doctor` | reports what a machine can capture, and what to change | words, model, sys, autopsy, holds, survey |
//! | `experiment` | runs an experiment from its settings to its result; reads and compares stored runs | words, model, stats, sys, judge, levers, source, runners, autopsy, load, survey, prepare, packages, slot, plan, state, exec, local, hosts, questions, driver, journal, report, suggest |
//! | `term` | output on the terminal | words, model, stats, judge, levers, runners, load, survey, plan, state, questions, journal, report, doctor, experiment |
//! | `cli` | the command line | words, model, victim, sys, autopsy, survey, plan, questions, journal, report, suggest, doctor, experiment, term |
//!
//! The first rows are the crates in `crates/`, from below; the last five are the modules of this package. Each uses only
//! what stands above it. A test compares this table with `Cargo.toml` and with the code; `DESIGN.md` lists the files.

pub mod cli;
pub mod doctor;
pub mod experiment;
pub mod suggest;
pub mod term;
pub mod trace;
