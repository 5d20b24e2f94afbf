//! Library of provoke, which measures, compares and searches bugs that only happen sometimes.
//!
//! The library is for this program's own tests and examples; its interface may change in any version
//! before 1.0.
//!
//! [`model`] defines the types, [`questions`] decide what to run next, and [`driver`] is the loop. The pages in
//! `docs/design` explain the main decisions.
//!
//! ```text
//! flags ────┐                                     ┌─> Journal (events.jsonl)
//! scenario ─┴─> Plan ──> Policy ──┐               ├─> the live line
//!                          ▲      ▼               │
//!                    State ─ driver::drive_run ─Event─> State (the fold) ──> Report
//!                                 │   ▲
//!                                 ▼   │ Observation ── oracle::judge ── Outcome
//!                              Executor ── slot process ── the program
//! ```
//!
//! | module | purpose | may use | crates |
//! | --- | --- | --- | --- |
//! | `untrusted` | makes text from outside safe to show | | shlex |
//! | `model` | types that all modules share: plans, trials, observations, outcomes | | schemars, serde, serde_json |
//! | `sys` | the operating system; the only unsafe code of the program | untrusted | libc, rustix, serde, serde_json, thiserror |
//! | `autopsy` | analyses core files, and the programs and libraries in them | model, sys, untrusted | object, gimli, addr2line, iced_x86, rustc_demangle, cpp_demangle, serde, serde_json, thiserror |
//! | `words` | formats numbers, durations, lists and text from outside | model, untrusted | |
//! | `holds` | holds threads at instructions, to provoke rare schedules | model, sys, untrusted | gimli, iced_x86, object, rustix, serde_json, thiserror |
//! | `suggest` | suggests corrections of mistyped names and command lines | untrusted, words | clap, strsim |
//! | `survey` | records the environment: facts that may change how often a program fails | model, sys, autopsy, words | memchr, provoke_stats, schemars, serde, serde_json |
//! | `doctor` | reports what a machine can capture, and what to change | model, survey, sys, autopsy, holds, untrusted | serde, serde_json |
//! | `messages` | recognizes crash messages | model | |
//! | `signature` | names failures: the same bug has the same name in every trial | model, messages | |
//! | `oracle` | judges an observation | model, messages, signature | |
//! | `scenario` | settings from flags or a file, made into a plan | model, cases, untrusted, suggest | serde, serde_json, clap, toml, annotate_snippets, jiff, regex, shlex, thiserror |
//! | `source` | finds the parts of a source file that can be left out | model | tree_sitter, tree_sitter_c, tree_sitter_cpp, tree_sitter_javascript, tree_sitter_julia, tree_sitter_python, tree_sitter_r, tree_sitter_rust, tree_sitter_typescript, similar, thiserror |
//! | `prepare` | prepares variants before their trials | model, sys, source, untrusted | object, ring, thiserror |
//! | `packages` | lists the versions of a package, and makes environments with one of them | untrusted, suggest | pep440_rs, semver, serde_json, thiserror |
//! | `case_reports` | reads the reports of test runners | model | quick_xml, serde, serde_json |
//! | `cases` | finds the tests of a suite in a trial: prepares the runner, and reads its report | model, case_reports, sys, untrusted | regex, thiserror |
//! | `slot` | the small process that runs trials, one at a time | model, messages, sys, holds, untrusted | regex, rustix, serde, serde_json |
//! | `state` | the state of a run: the fold of its events | model | hdrhistogram |
//! | `questions` | chooses the trials of each question, learns from them, and writes its answer | model, state, survey, untrusted, words | provoke_stats, schemars, serde |
//! | `load` | puts HTTP load on a service, and records the results | model, sys, untrusted | csv, hdrhistogram, http_body_util, httparse, hyper, hyper_util, regex, ring, rustix, rustls, rustls_native_certs, serde_json, thiserror, tokio, tokio_rustls |
//! | `exec` | runs one trial and cannot fail | model, cases, sys, autopsy, messages, signature, slot, oracle, prepare, load, untrusted | http_body_util, hyper, hyper_util, tokio, serde, serde_json, rustix |
//! | `workers` | runs trials on other machines, with one worker on each | model, sys, exec, untrusted | ring, rustix, serde, serde_json, shlex, thiserror, tokio |
//! | `driver` | the loop that runs all trials | model, state, questions, exec, oracle | tokio |
//! | `store` | the folder of a run, and its journal | model, sys, state, questions, untrusted | memchr, serde_json, regex, rustix, jiff, thiserror |
//! | `report` | reports of a run, in every format | model, sys, case_reports, messages, oracle, state, questions, store, survey, untrusted, words | csv, jiff, maud, provoke_stats, quick_xml, ring, serde, serde_json, thiserror |
//! | `experiment` | runs an experiment from its settings to its result; reads and compares stored runs | model, sys, untrusted, words, suggest, autopsy, survey, oracle, scenario, source, prepare, packages, case_reports, slot, state, questions, load, exec, workers, driver, store, report | flate2, jiff, provoke_stats, rustix, serde, serde_json, shlex, tar, thiserror, tokio |
//! | `term` | output on the terminal | model, cases, oracle, scenario, state, questions, load, store, report, experiment, survey, doctor, untrusted, words | clap, clap_mangen, console, indicatif, provoke_stats |
//! | `cli` | the command line | all | clap, clap_complete, provoke_victim, tokio |
//!
//! A test compares this table with the code. `DESIGN.md` lists the files of each module. Most modules are in crates of their
//! own, which compile in parallel, and are re-exported here. The statistics are the crate `provoke_stats`; the program that
//! misbehaves in tests is `provoke_victim`.

pub mod cli;
pub mod doctor;
pub mod experiment;
pub mod term;

pub use provoke_autopsy as autopsy;
pub use provoke_autopsy::messages;
pub use provoke_autopsy::signature;
pub use provoke_cases as case_reports;
pub use provoke_driver as driver;
pub use provoke_exec as exec;
pub use provoke_holds as holds;
pub use provoke_load as load;
pub use provoke_model as model;
pub use provoke_packages as packages;
pub use provoke_prepare as prepare;
pub use provoke_questions as questions;
pub use provoke_questions::oracle;
pub use provoke_questions::state;
pub use provoke_report as report;
pub use provoke_report::store;
pub use provoke_scenario as scenario;
pub use provoke_scenario::cases;
pub use provoke_scenario::suggest;
pub use provoke_slot as slot;
pub use provoke_source as source;
pub use provoke_survey as survey;
pub use provoke_sys as sys;
pub use provoke_sys::untrusted;
pub use provoke_words as words;
pub use provoke_workers as workers;
