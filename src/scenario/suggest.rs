//! Suggests corrections of unknown names.

/// Names from other tools, and their equivalents here. A pair counts only if its second name is a valid one.
const SYNONYMS: [(&str, &str); 85] = [
    ("actors", "actor"),
    ("after-all", "cleanup"),
    ("after-each", "conclude"),
    ("argv", "command"),
    ("before", "prepare"),
    ("before-all", "setup"),
    ("before-each", "prepare"),
    ("c", "copies"),
    ("clear-env", "env-clear"),
    ("clients", "copies"),
    ("cmd", "command"),
    ("combinations", "matrix"),
    ("concurrency", "jobs"),
    ("confidence", "conf"),
    ("cores", "jobs"),
    ("count", "runs"),
    ("d", "duration"),
    ("deadline", "timeout"),
    ("dir", "cwd"),
    ("directory", "cwd"),
    ("e", "env"),
    ("env-vars", "env"),
    ("environment", "env"),
    ("exec", "command"),
    ("exit-codes", "ok"),
    ("expected", "expect"),
    ("failfast", "fail-fast"),
    ("fd", "nofile"),
    ("files", "nofile"),
    ("i", "ok"),
    ("ignore", "skip"),
    ("ignore-failure", "ok"),
    ("input", "stdin"),
    ("interval", "delay"),
    ("iterations", "runs"),
    ("j", "jobs"),
    ("kill-after", "grace"),
    ("limit", "rlimit"),
    ("limits", "rlimit"),
    ("max-failures", "max-fail"),
    ("max-runs", "runs"),
    ("max-time", "duration"),
    ("mem", "as"),
    ("memory", "as"),
    ("n", "runs"),
    ("name", "description"),
    ("number", "runs"),
    ("ok-codes", "ok"),
    ("open-files", "nofile"),
    ("parallel", "jobs"),
    ("parallelism", "jobs"),
    ("parameters", "matrix"),
    ("params", "matrix"),
    ("pause", "delay"),
    ("prefix", "wrap"),
    ("processes", "nproc"),
    ("program", "command"),
    ("ram", "as"),
    ("repeat", "runs"),
    ("repetitions", "runs"),
    ("retries", "runs"),
    ("rlimits", "rlimit"),
    ("run", "command"),
    ("script", "shell"),
    ("signals", "only"),
    ("stop-after", "max-fail"),
    ("stop-on-failure", "fail-fast"),
    ("success-codes", "ok"),
    ("t", "timeout"),
    ("teardown", "cleanup"),
    ("threads", "jobs"),
    ("time-limit", "timeout"),
    ("times", "runs"),
    ("title", "description"),
    ("tmp-dir", "tmp-per-run"),
    ("tmpdir", "tmp-per-run"),
    ("ulimit", "rlimit"),
    ("variants", "variant"),
    ("vars", "env"),
    ("vary", "matrix"),
    ("vmem", "as"),
    ("wait", "delay"),
    ("workdir", "cwd"),
    ("workers", "jobs"),
    ("x", "fail-fast"),
];

/// Returns the intended name: another spelling, or the equivalent of another tool's name.
pub(super) fn known_name<'a>(
    word: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let names: Vec<_> = names.into_iter().collect();
    let plain = plain_spelling(word);
    let same = |wanted: &str| names.iter().find(|name| **name == wanted).copied();
    let others = SYNONYMS.iter().filter(|(other, _)| *other == plain);
    same(&plain).or_else(|| others.into_iter().find_map(|(_, ours)| same(ours)))
}

/// Returns the probably intended name: like `known`, or a name that the word abbreviates or misspells.
pub fn intended_name<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<_> = names.into_iter().collect();
    let plain = plain_spelling(word);
    let begins = |name: &&&str| name.starts_with(&plain) || plain.starts_with(**name);
    let long = |name: &&&str| plain.len() >= 3 && name.len() >= 3;
    let others = SYNONYMS.iter().filter(|(_, ours)| names.contains(ours));
    known_name(word, names.iter().copied())
        .or_else(|| nearest_name(&plain, names.iter().copied()))
        .or_else(|| {
            let other = nearest_name(&plain, others.map(|(other, _)| *other))?;
            known_name(other, names.iter().copied())
        })
        .or_else(|| {
            let mut long = names.iter().filter(long);
            long.find(begins).copied()
        })
}

fn plain_spelling(word: &str) -> String {
    let word = word.trim_start_matches('-').to_ascii_lowercase();
    word.replace(['_', ' '], "-")
}

/// Returns the name with the fewest typing errors, if they are few for its length; of several, one in which letters
/// were only omitted.
pub fn nearest_name<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance =
        |name: &str| strsim::osa_distance(&word.to_ascii_lowercase(), &name.to_ascii_lowercase());
    names
        .map(|name| (distance(name), name))
        .filter(|(slips, name)| *slips <= word.len().max(name.len()) / 3)
        .min_by_key(|(slips, name)| (*slips, !is_left_of(word, name)))
        .map(|(_, name)| name)
}

/// Returns whether a word is a name with some letters omitted.
fn is_left_of(word: &str, name: &str) -> bool {
    let mut letters = name.chars();
    word.chars()
        .all(|letter| letters.any(|other| other == letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 8] = [
        "runs",
        "jobs",
        "fail-fast",
        "max-fail",
        "timeout",
        "env",
        "cwd",
        "description",
    ];

    #[test]
    fn other_spellings_habits_and_slips_are_understood() {
        for (wrote, wanted) in [
            ("fail_fast", "fail-fast"),
            ("FailFast", "fail-fast"),
            ("--runs", "runs"),
            ("count", "runs"),
            ("n", "runs"),
            ("parallel", "jobs"),
            ("paralel", "jobs"),
            ("env-vars", "env"),
            ("ENV_VARS", "env"),
            ("workdir", "cwd"),
            ("tiemout", "timeout"),
            ("timeuot", "timeout"),
            ("max-failures", "max-fail"),
            ("desc", "description"),
            ("envs", "env"),
        ] {
            assert_eq!(intended_name(wrote, NAMES), Some(wanted), "{wrote}");
        }
    }

    #[test]
    fn nothing_is_guessed_from_nothing() {
        for word in ["", "zebra", "ü", "--", "x-y-z", "xy"] {
            assert_eq!(intended_name(word, NAMES), None, "{word}");
        }
    }

    #[test]
    fn synonyms_are_in_order_and_lead_to_names_that_exist() {
        assert!(SYNONYMS.is_sorted());
        let schema = crate::scenario::scenario_schema().to_string();
        for (_, ours) in SYNONYMS {
            assert!(schema.contains(&format!("\"{ours}\":")), "{ours}");
        }
    }
}
