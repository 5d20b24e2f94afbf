//! Suggests corrections of mistyped names and command lines.

mod command_line;
mod failure_kinds;
mod flags;
mod message;
mod misplaced_flags;
mod misplaced_values;
mod missing_run;
mod refusal;
mod stored_runs;

pub use command_line::{command_as_text, file_of_flag, retyped_line, shell_line};
pub use message::{closing_hint, plain_message};
pub use misplaced_flags::refuse_misplaced_flags;
pub use misplaced_values::{candidates_as_program, variants_as_program};
pub use missing_run::with_run;
pub use refusal::explain_refusal;
pub use stored_runs::{WordKind, programs_as_runs, run_as_command, runs_as_programs};
