//! Variables of the environment that change how programs run, and so how often they fail.

/// Variables, and what they do.
const KNOWN: [(&str, &str); 10] = [
    (
        "GLIBC_TUNABLES",
        "the C library works otherwise than it does for others",
    ),
    ("LD_AUDIT", "the loader tells a library what it does"),
    ("LD_PRELOAD", "a library is put before all others"),
    ("MALLOC_ARENA_MAX", "threads share their heaps otherwise"),
    ("MALLOC_CHECK_", "the C library checks its heap"),
    (
        "MALLOC_PERTURB_",
        "the C library fills memory that is given out and taken back",
    ),
    ("PYTHONDEVMODE", "Python checks more than usual"),
    (
        "PYTHONFAULTHANDLER",
        "Python handles its crashes itself, and a core shows that handler",
    ),
    (
        "PYTHONHASHSEED",
        "sets of Python have one order, and not another in each run",
    ),
    ("PYTHONMALLOC", "Python gets its memory otherwise"),
];

/// Returns what a variable does to a run, if it is known to do something.
pub fn influence(name: &str) -> Option<&'static str> {
    if name.ends_with("SAN_OPTIONS") {
        return Some("a sanitizer is told how to work");
    }
    let known = KNOWN.iter().find(|(known, _)| *known == name);
    known.map(|(_, what)| *what)
}
