//! Suggests the comparison of the old and the new program that shows whether a fix helped.

use provoke_model::{MeasuredBaseline, Text, VariantId};
use provoke_plan::Scenario;
use provoke_state::State;
use provoke_stats::{self as stats, ComparisonLevels, real};
use provoke_words::document::SuggestedCommand;
use provoke_words::names::is_similar_name;
use provoke_words::untrusted::shell_word;
use std::ffi::{OsStr, OsString};

/// Power of the suggested comparison.
const POWER: f64 = 0.8;

/// Suggests comparing the old and the new program, with enough trials to show that the fix halves the failure rate.
pub(super) fn suggest_comparison(
    state: &State,
    base: &MeasuredBaseline,
    alpha: f64,
) -> Option<SuggestedCommand> {
    let (failures, trials) = base.counts_of_all_bugs();
    let rate = real(failures) / real(trials.max(1));
    let levels = ComparisonLevels::with_planned_look(alpha);
    let needed = stats::pairs_to_tell(rate, rate / 2.0, levels, POWER)?;
    // A suite has another program than the one that a fix changes, and `compare` has no flags for a load.
    if state.trials.cases.is_some() || state.trials.load.is_some() {
        return None;
    }
    let line = in_turns(state, Some(base), &format!(" -n {needed}"));
    let old = match renamed_program(Some(base), &main_words(state)) {
        Some(_) => "",
        None => "; OLD: what it was before the fix",
    };
    let remark = format!("enough trials to show that it fails half as often{old}");
    Some(SuggestedCommand::new("did it help?", line).with_remark(remark))
}

/// Returns the words of the command that decides the outcome of a trial.
fn main_words(state: &State) -> Vec<&OsStr> {
    let actors = state.trials.variant_plan(VariantId(0)).actors.iter();
    let commands = actors
        .filter(|actor| actor.role.decides_outcome())
        .map(|actor| &actor.command);
    let words = commands.flatten().skip(state.trials.wrapped as usize);
    words.map(Text::as_os_str).collect()
}

/// Returns the program of the baseline if only its name changed. The arguments of another program are not known; those
/// of a program with a similar name are probably the same.
fn renamed_program<'a>(base: Option<&'a MeasuredBaseline>, words: &[&OsStr]) -> Option<&'a OsStr> {
    let is_renamed = |old: &&OsStr| {
        index_of_changed_file(words) == 0
            && words.first().is_some_and(|new| {
                old != new && is_similar_name(&old.to_string_lossy(), &new.to_string_lossy())
            })
    };
    let old_program = base.and_then(|base| base.program.as_ref());
    old_program.map(Text::as_os_str).filter(is_renamed)
}

/// Returns the command that compares the old and the new program in turns, with further flags. `OLD` stands for the old
/// program, unless its name is similar to that of the new one.
pub(super) fn in_turns(state: &State, base: Option<&MeasuredBaseline>, flags: &str) -> String {
    let words = main_words(state);
    let changed = index_of_changed_file(&words);
    let name = if changed == 0 { "PROGRAM" } else { "FILE" };
    let mut files = OsString::from(format!("{name}="));
    files.push(renamed_program(base, &words).unwrap_or(OsStr::new("OLD")));
    files.push(",");
    files.extend(words.get(changed).copied());
    let shown = words.iter().enumerate().map(|(index, word)| {
        if index == changed {
            format!("'{{{name}}}'")
        } else {
            shell_word(word).into_string()
        }
    });
    let mut line = format!("provoke compare --find different{flags}");
    for flag in Scenario::typed_flags(&state.goal, &state.trials, VariantId(0)) {
        line.push(' ');
        line.push_str(&flag);
    }
    let shown = shown.collect::<Vec<_>>().join(" ");
    format!("{line} -L {} -- {shown}", shell_word(&files).into_string())
}

/// Returns the word of a command that a fix probably changed: a program with a path, or else the first file that it
/// reads, such as a script.
fn index_of_changed_file(words: &[&OsStr]) -> usize {
    let contains = |word: &OsStr, bytes: &[u8]| {
        let mut of_word = word.as_encoded_bytes().iter();
        of_word.any(|byte| bytes.contains(byte))
    };
    let is_file =
        |word: &&OsStr| !word.as_encoded_bytes().starts_with(b"-") && contains(word, b"/.");
    match words.first() {
        Some(program) if !contains(program, b"/") => {
            let mut arguments = words.iter().enumerate().skip(1);
            arguments
                .find(|(_, word)| is_file(word))
                .map_or(0, |(index, _)| index)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changed_file_is_a_program_with_a_path_or_a_script() {
        for (command, changed) in [
            ("./crash job.py", 0),
            ("python3.11 -u job.py --fast", 2),
            ("java -jar build/app.jar", 2),
            ("crash --times 3", 0),
        ] {
            let words: Vec<&OsStr> = command.split(' ').map(OsStr::new).collect();
            assert_eq!(index_of_changed_file(&words), changed, "{command}");
        }
    }
}
