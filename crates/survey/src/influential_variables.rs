//! Environment variables that change how programs run, and so how often they fail.

/// Variables and their effects.
const KNOWN: [(&str, &str); 10] = [
    ("GLIBC_TUNABLES", "changes glibc tuning"),
    ("LD_AUDIT", "the dynamic loader reports to an audit library"),
    ("LD_PRELOAD", "loads a library before all others"),
    ("MALLOC_ARENA_MAX", "changes the number of malloc arenas"),
    ("MALLOC_CHECK_", "glibc checks its heap"),
    (
        "MALLOC_PERTURB_",
        "glibc fills memory on allocation and on free",
    ),
    ("PYTHONDEVMODE", "Python runs additional checks"),
    (
        "PYTHONFAULTHANDLER",
        "Python handles crashes itself, and cores show its handler",
    ),
    ("PYTHONHASHSEED", "fixes the order of Python sets"),
    ("PYTHONMALLOC", "changes the memory allocator of Python"),
];

/// Returns the effect of a variable on a run, if the variable has a known effect.
pub fn variable_effect(name: &str) -> Option<&'static str> {
    if name.ends_with("SAN_OPTIONS") {
        return Some("configures a sanitizer");
    }
    let entry = KNOWN.iter().find(|(variable, _)| *variable == name);
    entry.map(|(_, effect)| *effect)
}
