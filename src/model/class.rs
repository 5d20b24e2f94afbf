//! Classes of faults, which `autopsy` assigns and `oracle` uses in signatures.
//!
//! A class is part of the name of a failure: a changed class changes the names of bugs.

/// An address near zero was touched.
pub const NULL: &str = "null pointer";
/// An address near zero was called.
pub const NULL_CALL: &str = "call through a null pointer";
/// The stack was used up.
pub const STACK_OVERFLOW: &str = "stack overflow";
/// A write where only reads are allowed.
pub const READ_ONLY: &str = "write to read-only memory";
/// Memory that is reserved so that nobody touches it.
pub const GUARD: &str = "guard page";
/// Memory that is mapped, and was not to be touched like this.
pub const PROTECTED: &str = "protected memory";
/// Nothing is mapped there.
pub const WILD: &str = "wild pointer";
/// What was to be executed is mapped as data.
pub const DATA_CALL: &str = "jump into data";
/// Nothing is mapped where it went on.
pub const WILD_CALL: &str = "jump to nowhere";
/// What was used as an address cannot be one.
pub const GARBAGE: &str = "garbage pointer";
/// What was jumped to cannot be an address.
pub const GARBAGE_CALL: &str = "jump through a garbage pointer";
/// A vector instruction that wants an address to be a multiple of 16 or more.
pub const MISALIGNED: &str = "misaligned access";
/// An instruction that only the kernel may use.
pub const PRIVILEGED: &str = "privileged instruction";
/// The processor objected, and it is not known to what.
pub const GENERAL: &str = "general protection fault";
/// An instruction that is made to fail.
pub const DELIBERATE: &str = "deliberate trap";
/// Bytes that are no instruction.
pub const NO_CODE: &str = "not an instruction";
/// The processor refused an instruction, and it is not known why.
pub const ILLEGAL: &str = "illegal instruction";
/// What the class of an instruction begins with that not every processor has.
pub const NEEDS: &str = "needs ";
/// The divisor was zero.
pub const DIVISION_BY_ZERO: &str = "division by zero";
/// The quotient does not fit.
pub const DIVISION_OVERFLOW: &str = "division overflow";
/// One of these two.
pub const DIVISION: &str = "division by zero or overflow";
/// A floating point exception that was switched on.
pub const FLOAT: &str = "floating point exception";
/// The instruction of debuggers.
pub const BREAKPOINT: &str = "breakpoint";
/// Another trap of debugging.
pub const TRAP: &str = "trap";
/// A mapped file is shorter than its mapping, or could not be read.
pub const SHORT_FILE: &str = "mapped file cut short";
/// The memory itself is broken.
pub const HARDWARE: &str = "hardware memory error";
/// A bus error of unknown kind.
pub const BUS: &str = "bus error";
/// A system call that is not allowed.
pub const SYSTEM_CALL: &str = "forbidden system call";
/// The program gave up by itself.
pub const ABORTED: &str = "aborted itself";
/// A process sent the signal: no fault.
pub const SENT: &str = "sent by a process";
/// The process sent the signal to itself.
pub const RAISED: &str = "raised by the program";
/// A fault of which only the signal is known.
pub const UNKNOWN: &str = "unknown fault";
