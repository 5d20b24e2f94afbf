//! Suggests what to do next about a fault.

use crate::model::class;

/// By what the program said, which is more than the fault itself says.
const BY_KIND: &[(&str, &str)] = &[
    ("double free", HEAP),
    ("bad free", HEAP),
    ("heap corruption", HEAP),
    (
        "overflow",
        "run it once with AddressSanitizer (-fsanitize=address), which names the write.",
    ),
    (
        "c++ terminate",
        "look for a std::thread that goes out of scope without join() or detach().",
    ),
    (
        "pure virtual",
        "look for who still uses the object while its destructor runs, perhaps in another thread.",
    ),
    (
        "node heap",
        "raise --max-old-space-size if the data is that large; if not, something keeps it all.",
    ),
];

const HEAP: &str = "the damage was done before. Run it once with AddressSanitizer (-fsanitize=address) \
                    or valgrind, which stop at the culprit; they change timing, so they may need many trials.";

/// By the class of the fault.
const BY_CLASS: &[(&str, &str)] = &[
    (
        class::NULL,
        "find out who should have made the object, and whether it is used before that or after its end.",
    ),
    (
        class::NULL_CALL,
        "find out who sets the function pointer, and whether it is called before that.",
    ),
    (
        class::STACK_OVERFLOW,
        "look for the end of the recursion that is never reached; a larger stack (ulimit -s) only moves it.",
    ),
    (class::WILD, LIFETIME),
    (class::GARBAGE, LIFETIME),
    (class::DATA_CALL, LIFETIME),
    (class::WILD_CALL, LIFETIME),
    (class::GARBAGE_CALL, LIFETIME),
    (
        class::READ_ONLY,
        "look for a cast that takes away const, and for writes to string literals.",
    ),
    (
        class::SHORT_FILE,
        "look for who truncates or replaces the file meanwhile, and at the free space (df, /dev/shm).",
    ),
    (
        class::HARDWARE,
        "look at the machine's log of hardware errors; try another machine.",
    ),
    (
        class::DELIBERATE,
        "look at the source of the function: a check there failed, or it ends without a return; \
         -fsanitize=undefined says which.",
    ),
    (
        class::SENT,
        "find out who sent it: a watchdog, a scheduler, a test runner.",
    ),
    (
        class::SYSTEM_CALL,
        "look at the filter (seccomp) of the container or the service.",
    ),
    (
        class::MISALIGNED,
        "look for a cast to a type that needs more alignment than the memory has.",
    ),
];

const LIFETIME: &str = "look for an object that was used after its end, or overwritten: AddressSanitizer \
                        (-fsanitize=address) names both.";

/// Returns what to do about a fault of this class, or about what the program said.
pub(super) fn next(fault: &str, kind: Option<&str>) -> Option<&'static str> {
    let of = |table: &[(&str, &'static str)], key: &str| {
        table
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, words)| *words)
    };
    if fault.starts_with(class::NEEDS) {
        return Some(
            "run it on a processor that has this, or build it for older ones (-march=x86-64); a library \
             may need more than the first instruction that failed tells.",
        );
    }
    kind.and_then(|kind| of(BY_KIND, kind))
        .or_else(|| of(BY_CLASS, fault))
}
