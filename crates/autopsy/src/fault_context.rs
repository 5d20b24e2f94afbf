//! Registers, memory and mappings at a fault.

pub use provoke_sys::memory::MemoryReader;

/// General registers of an x86-64 thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the processor's")]
pub struct Registers {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub rsp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub flags: u64,
    pub fs_base: u64,
    pub gs_base: u64,
}

/// A mapping of an address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct MappedRange {
    pub start: u64,
    /// First address behind the mapping.
    pub end: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
}

/// Known facts about a fault before it is explained.
pub struct FaultContext<'a> {
    /// Signal number.
    pub signal: i32,
    /// `si_code`, if it is known.
    pub code: Option<i32>,
    /// Accessed address, if it is known: `si_addr`, or the value of CR2.
    pub address: Option<u64>,
    /// CPU's trap number and error code, from a signal frame.
    pub trap: Option<(u64, u64)>,
    /// Process that sent the signal, if a process did.
    pub sender: Option<i32>,
    pub registers: Registers,
    pub memory: &'a dyn MemoryReader,
    /// Mappings in order; empty if they are unknown.
    pub mappings: &'a [MappedRange],
    /// Flags of the CPU that ran the program, as in `/proc/cpuinfo`; `None` if they are unknown.
    pub processor: Option<&'a std::collections::BTreeSet<String>>,
    /// Number of calls on the stack as far as it was unwound, and whether the stack repeats itself.
    pub depth: u64,
}
