//! Suggests what to do next about a fault.

use provoke_model::fault_class;

/// Advice by crash message, which is more specific than the fault.
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
        "find the code that uses the object while its destructor runs, perhaps in another thread.",
    ),
    (
        "node heap",
        "raise --max-old-space-size if the data is that large; otherwise find what keeps it in memory.",
    ),
];

const HEAP: &str = "the damage happened earlier. Run it with AddressSanitizer (-fsanitize=address) or valgrind, which stop at the cause; they change timing, so they may need many trials.";

/// Advice by class of the fault.
const BY_CLASS: &[(&str, &str)] = &[
    (
        fault_class::NULL,
        "find where the object should be created, and whether it is used before that or after it was destroyed.",
    ),
    (
        fault_class::NULL_CALL,
        "find where the function pointer is set, and whether it is called before that.",
    ),
    (
        fault_class::STACK_OVERFLOW,
        "check the end condition of the recursion; a larger stack (ulimit -s) only delays the crash.",
    ),
    (fault_class::WILD, LIFETIME),
    (fault_class::GARBAGE, LIFETIME),
    (fault_class::DATA_CALL, LIFETIME),
    (fault_class::WILD_CALL, LIFETIME),
    (fault_class::GARBAGE_CALL, LIFETIME),
    (
        fault_class::READ_ONLY,
        "look for a cast that removes const, and for writes to string literals.",
    ),
    (
        fault_class::SHORT_FILE,
        "find what truncates or replaces the file, and check the free space (df, /dev/shm).",
    ),
    (
        fault_class::HARDWARE,
        "check the machine's log of hardware errors; try another machine.",
    ),
    (
        fault_class::DELIBERATE,
        "read the source of the function: a check failed there, or it ends without a return; -fsanitize=undefined shows which.",
    ),
    (
        fault_class::SENT,
        "find what sent it: a watchdog, a scheduler, a test runner.",
    ),
    (
        fault_class::SYSTEM_CALL,
        "check the seccomp filter of the container or the service.",
    ),
    (
        fault_class::MISALIGNED,
        "look for a cast to a type that needs more alignment than the memory has.",
    ),
];

const LIFETIME: &str = "look for an object that was used after it was freed, or overwritten: AddressSanitizer (-fsanitize=address) detects both.";

/// Returns advice for a fault of this class, or for the crash message.
pub(super) fn next_step(fault: &str, kind: Option<&str>) -> Option<&'static str> {
    let lookup = |table: &[(&str, &'static str)], key: &str| {
        table
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, words)| *words)
    };
    if fault.starts_with(fault_class::NEEDS) {
        return Some(
            "run it on a CPU that has this, or build it for older CPUs (-march=x86-64); a library may need more features than the one that failed first.",
        );
    }
    kind.and_then(|kind| lookup(BY_KIND, kind))
        .or_else(|| lookup(BY_CLASS, fault))
}
