//! Determines the phase of the process from its stack: before `main`, in `main`, or at shutdown.

use provoke_model::ProcessPhase;

/// Functions that are on the stack only while a process exits.
const END: [&str; 5] = [
    "__run_exit_handlers",
    "_dl_fini",
    "_dl_call_fini",
    "finalize_modules",
    "exit",
];
const BEGIN: [&str; 3] = ["_dl_init", "call_init", "dl_main"];
const MAIN: [&str; 3] = ["main", "__libc_start_call_main", "start_thread"];

/// Determines the phase from the functions on the stack of the crashed thread.
pub(super) fn phase_of_stack<'a>(functions: impl Iterator<Item = &'a str>) -> ProcessPhase {
    let (mut beginning, mut main) = (false, false);
    for function in functions {
        let function = function.strip_prefix("__GI_").unwrap_or(function);
        if END.contains(&function) || function.starts_with("Py_Finalize") {
            return ProcessPhase::Shutdown;
        }
        beginning |= BEGIN.contains(&function) || function.starts_with("_dl_start");
        main |= MAIN.contains(&function);
    }
    // Constructors also run when `main` loads a library.
    if beginning && !main {
        ProcessPhase::Start
    } else {
        ProcessPhase::Run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phase_is_recognized_by_the_functions_of_the_stack() {
        let phase_of = |functions: &[&str]| phase_of_stack(functions.iter().copied());
        assert_eq!(
            phase_of(&["boom", "main", "__libc_start_call_main"]),
            ProcessPhase::Run
        );
        assert_eq!(
            phase_of(&["at", "__run_exit_handlers", "exit"]),
            ProcessPhase::Shutdown
        );
        assert_eq!(
            phase_of(&["free", "Py_FinalizeEx", "main"]),
            ProcessPhase::Shutdown
        );
        assert_eq!(
            phase_of(&["early", "call_init", "_dl_start_user"]),
            ProcessPhase::Start
        );
        assert_eq!(
            phase_of(&["early", "call_init", "_dl_init", "main"]),
            ProcessPhase::Run
        );
        assert_eq!(phase_of(&[]), ProcessPhase::Run);
    }
}
