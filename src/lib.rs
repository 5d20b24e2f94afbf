//! Library of provoke, which measures, compares and searches bugs that only happen sometimes.
//!
//! The library is for this program's own tests and examples; its interface may change in any version
//! before 1.0.
//!
//! [`model`] defines the types, [`policy`] decides what to run next, and [`driver`] is the loop. The pages in
//! `docs/design` explain the main decisions.
//!
//! ```text
//! flags ────┐                                     ┌─> Journal (events.jsonl)
//! scenario ─┴─> Plan ──> Policy ──┐               ├─> the live line
//!                          ▲      ▼               │
//!                    State ─── driver::drive ──Event──> State (the fold) ──> Report
//!                                 │   ▲
//!                                 ▼   │ Observation ── oracle::judge ── Outcome
//!                              Executor ── slot process ── the program
//! ```
//!
//! | module | purpose | may use | crates |
//! | --- | --- | --- | --- |
//! | `untrusted` | makes text from outside safe to show | | shlex |
//! | `model` | types that all modules share: plans, trials, observations, outcomes | | serde, schemars |
//! | `sys` | the operating system; the only unsafe code of this crate | untrusted | libc, rustix, procfs, serde, serde_json, thiserror |
//! | `autopsy` | analyses core files | model, sys, untrusted | object, gimli, addr2line, iced_x86, rustc_demangle, cpp_demangle, thiserror |
//! | `survey` | records the environment: facts that may change how often a program fails | model, sys | object, regex, schemars, serde, serde_json |
//! | `doctor` | reports what a machine can capture, and what to change | survey, sys, untrusted | serde, serde_json |
//! | `messages` | recognizes crash messages | model | |
//! | `oracle` | judges an observation, and names the failure | model, messages | |
//! | `scenario` | settings from flags or a file, made into a plan | model, untrusted | serde, serde_json, schemars, clap, toml, annotate_snippets, jiff, regex, shlex, strsim, thiserror |
//! | `source` | finds the parts of a source file that can be left out | model | tree_sitter, tree_sitter_c, tree_sitter_cpp, tree_sitter_javascript, tree_sitter_julia, tree_sitter_python, tree_sitter_r, tree_sitter_rust, tree_sitter_typescript, similar, thiserror |
//! | `prepare` | prepares variants before their trials | model, source, untrusted | object, ring, thiserror |
//! | `packages` | lists the versions of a package, and makes environments with one of them | untrusted | serde_json, strsim, thiserror |
//! | `slot` | the small process that runs trials, one at a time | model, messages, sys, untrusted | serde, serde_json, regex, rustix |
//! | `state` | the state of a run: the fold of its events | model | hdrhistogram, provoke_stats |
//! | `policy` | decides which trial to launch next, and when the question is answered | model, state | provoke_stats, schemars, serde |
//! | `load` | puts HTTP load on a service, and records the results | model, sys, untrusted | csv, hdrhistogram, http_body_util, httparse, hyper, hyper_util, regex, ring, rustix, rustls, rustls_native_certs, serde_json, thiserror, tokio, tokio_rustls |
//! | `exec` | runs one trial and cannot fail | model, sys, autopsy, slot, oracle, prepare, load, untrusted | http_body_util, hyper, hyper_util, tokio, serde_json, rustix |
//! | `driver` | the loop that runs all trials | model, state, policy, exec, oracle | tokio |
//! | `store` | the folder of a run, and its journal | model, sys, state, untrusted | serde, serde_json, regex, rustix, jiff, thiserror |
//! | `report` | reports of a run, in every format | model, messages, oracle, state, policy, store, survey, untrusted | csv, jiff, provoke_stats, quick_junit, schemars, serde, serde_json, thiserror |
//! | `term` | output on the terminal | model, oracle, state, policy, report, survey, doctor, untrusted | console, indicatif, provoke_stats |
//! | `cli` | the command line | all | clap, clap_complete, clap_mangen, anyhow, console, flate2, provoke_stats, provoke_victim, serde, serde_json, tar, tokio, jiff, shlex |
//!
//! A test compares this table with the code. `DESIGN.md` lists the files of each module. The statistics are the crate
//! `provoke_stats`; the program that misbehaves in tests is `provoke_victim`.

#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests show names that they made")
)]

pub mod autopsy;
pub mod cli;
pub mod doctor;
pub mod driver;
pub mod exec;
pub mod load;
pub mod messages;
pub mod model;
pub mod oracle;
pub mod packages;
pub mod policy;
pub mod prepare;
pub mod report;
pub mod scenario;
pub mod slot;
pub mod source;
pub mod state;
pub mod store;
pub mod survey;
pub mod sys;
pub mod term;
pub mod untrusted;

#[cfg(test)]
#[path = "../tests/needs.rs"]
#[expect(dead_code, reason = "unit tests need less than integration tests")]
mod needs;
