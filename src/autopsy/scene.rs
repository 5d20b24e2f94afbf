//! Registers, memory and mappings at a fault.

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

/// The memory of a process, as far as it is known.
pub trait Memory {
    /// Fills the buffer from this address on; false when not all of it is known.
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool;
}

/// A part of an address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Mapping {
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
}

/// What is known of a fault before it is explained.
pub struct Scene<'a> {
    /// The signal's number.
    pub signal: i32,
    /// Why it was sent, `si_code`, where that is known.
    pub code: Option<i32>,
    /// The address that was touched, where that is known: `si_addr`, or what the
    /// processor left in CR2.
    pub address: Option<u64>,
    /// The processor's trap number and error code, from a signal frame.
    pub trap: Option<(u64, u64)>,
    /// Who sent the signal, where a process did.
    pub sender: Option<i32>,
    /// Registers at the fault.
    pub registers: Registers,
    /// The memory at the fault.
    pub memory: &'a dyn Memory,
    /// The address space, in order; empty where it is not known.
    pub mappings: &'a [Mapping],
    /// The flags of the processor that ran the program, as `/proc/cpuinfo` spells them;
    /// nothing where they are not known.
    pub processor: Option<&'a std::collections::BTreeSet<String>>,
    /// How many calls deep the stack is, as far as it was followed, and whether it
    /// repeats itself.
    pub depth: u64,
}
