//! provoke: numbers for bugs that only happen sometimes.
//!
//! For this crate's own tests and examples; no promise of stability before 1.0.
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
//! | module | charter | may use | crates |
//! | --- | --- | --- | --- |
//! | `untrusted` | text from outside, made safe to show | | shlex |
//! | `model` | the nouns: what is run, what was seen, what it means | | serde, schemars |
//! | `sys` | the operating system; the only unsafe code but the victim's | untrusted | libc, rustix, procfs, serde, serde_json, thiserror |
//! | `autopsy` | what a core file says | model, sys, untrusted | object, gimli, addr2line, iced_x86, rustc_demangle, cpp_demangle, thiserror |
//! | `survey` | where trials run: the facts that may make a difference | model, sys | object, regex, schemars, serde, serde_json |
//! | `doctor` | what this machine can capture, and what to change | survey, sys, untrusted | serde, serde_json |
//! | `tells` | what programs say when they give up | model | |
//! | `oracle` | judges an observation, and names the failure | model, tells | |
//! | `scenario` | what the user asks for, from flags or a file, made into a plan | model, untrusted | serde, serde_json, schemars, toml, annotate_snippets, jiff, regex, shlex, strsim, thiserror |
//! | `source` | the pieces of a source file that can be left out | model | tree_sitter, tree_sitter_c, tree_sitter_cpp, tree_sitter_javascript, tree_sitter_julia, tree_sitter_python, tree_sitter_r, tree_sitter_rust, tree_sitter_typescript, similar, thiserror |
//! | `prepare` | makes what a variant needs before its trials | model, source, untrusted | object, ring, thiserror |
//! | `packages` | which versions of a package there are, and how an environment with one is made | untrusted | serde_json, strsim, thiserror |
//! | `slot` | the small process that runs trials, one at a time | model, tells, sys, untrusted | serde, serde_json, regex, rustix |
//! | `state` | what is known: the fold of the events | model | hdrhistogram, provoke_stats |
//! | `policy` | what to run next, and what it all means | model, state | provoke_stats, schemars, serde |
//! | `load` | puts HTTP load on a service, and records what became of it | model, sys, untrusted | csv, hdrhistogram, http_body_util, httparse, hyper, hyper_util, regex, ring, rustix, rustls, rustls_native_certs, serde_json, thiserror, tokio, tokio_rustls |
//! | `exec` | runs one trial and cannot fail | model, sys, autopsy, slot, oracle, prepare, load, untrusted | http_body_util, hyper, hyper_util, tokio, serde_json, rustix |
//! | `driver` | the one loop | model, state, policy, exec, oracle | tokio |
//! | `store` | the folder of a run, and its journal | model, sys, state, untrusted | serde, serde_json, regex, rustix, jiff, thiserror |
//! | `report` | what a run says, in every format | model, tells, oracle, state, policy, store, survey, untrusted | csv, jiff, provoke_stats, quick_junit, schemars, serde, serde_json, thiserror |
//! | `term` | what a person sees | model, oracle, state, policy, report, survey, doctor, untrusted | console, indicatif, provoke_stats |
//! | `victim` | a program that misbehaves on demand | | clap, jiff, libc, rustix |
//! | `cli` | one file a command | all | clap, clap_complete, clap_mangen, anyhow, console, flate2, provoke_stats, serde, serde_json, tar, tokio, jiff, shlex |
//!
//! A test compares this table with the code. The statistics are the crate `provoke_stats`: counts in, numbers out.

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
pub mod tells;
pub mod term;
pub mod untrusted;
pub mod victim;

#[cfg(test)]
#[path = "../tests/needs.rs"]
#[expect(dead_code, reason = "unit tests need less than integration tests")]
mod needs;
