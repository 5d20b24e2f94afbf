//! Classes of faults, which `autopsy` assigns and `signature` uses.
//!
//! A class is part of a crash signature: if a class changes, the signatures of its bugs change.

/// An access to an address near zero.
pub const NULL: &str = "null pointer";
/// A call to an address near zero.
pub const NULL_CALL: &str = "call through a null pointer";
/// The stack is exhausted.
pub const STACK_OVERFLOW: &str = "stack overflow";
/// A write to memory that is mapped read-only.
pub const READ_ONLY: &str = "write to read-only memory";
/// An access to reserved memory without permissions.
pub const GUARD: &str = "guard page";
/// An access that the permissions of the mapping forbid.
pub const PROTECTED: &str = "protected memory";
/// An access to an unmapped address.
pub const WILD: &str = "wild pointer";
/// A jump to memory that is mapped as data.
pub const DATA_CALL: &str = "jump into data";
/// A jump to an unmapped address.
pub const WILD_CALL: &str = "jump to nowhere";
/// An access to a value that cannot be an address.
pub const GARBAGE: &str = "garbage pointer";
/// A jump to a value that cannot be an address.
pub const GARBAGE_CALL: &str = "jump through a garbage pointer";
/// An access by a vector instruction that requires an address aligned to 16 bytes or more.
pub const MISALIGNED: &str = "misaligned access";
/// An instruction that only the kernel may use.
pub const PRIVILEGED: &str = "privileged instruction";
/// A general protection fault with unknown cause.
pub const GENERAL: &str = "general protection fault";
/// An instruction that always traps.
pub const DELIBERATE: &str = "deliberate trap";
/// Bytes that are not a valid instruction.
pub const NO_CODE: &str = "not an instruction";
/// An illegal instruction with unknown cause.
pub const ILLEGAL: &str = "illegal instruction";
/// Prefix of the class of an instruction that the CPU may not support.
pub const NEEDS: &str = "needs ";
/// A division by zero.
pub const DIVISION_BY_ZERO: &str = "division by zero";
/// A quotient that does not fit.
pub const DIVISION_OVERFLOW: &str = "division overflow";
/// A division error with unknown cause.
pub const DIVISION: &str = "division by zero or overflow";
/// An enabled floating-point exception.
pub const FLOAT: &str = "floating point exception";
/// The breakpoint instruction of debuggers.
pub const BREAKPOINT: &str = "breakpoint";
/// Another debug trap.
pub const TRAP: &str = "trap";
/// A mapped file is shorter than its mapping, or could not be read.
pub const SHORT_FILE: &str = "mapped file cut short";
/// A memory error of the hardware.
pub const HARDWARE: &str = "hardware memory error";
/// A bus error of unknown kind.
pub const BUS: &str = "bus error";
/// A forbidden system call.
pub const SYSTEM_CALL: &str = "forbidden system call";
/// The program aborted.
pub const ABORTED: &str = "aborted itself";
/// A process sent the signal, so it is not a fault.
pub const SENT: &str = "sent by a process";
/// The process sent the signal to itself.
pub const RAISED: &str = "raised by the program";
/// A fault of which only the signal is known.
pub const UNKNOWN: &str = "unknown fault";
