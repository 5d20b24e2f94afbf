use super::super::fault_context::{FaultContext, MappedRange, MemoryReader, Registers};
use super::explain_fault;
use provoke_model::Fault;
use std::collections::BTreeSet;

const CODE: u64 = 0x40_1000;
const STACK: u64 = 0x7ffd_0000_0000;

/// Known memory, in ranges by address.
struct KnownMemory(Vec<(u64, Vec<u8>)>);

impl MemoryReader for KnownMemory {
    fn read_memory(&self, address: u64, buffer: &mut [u8]) -> bool {
        self.0.iter().any(|(start, bytes)| {
            let from = address
                .checked_sub(*start)
                .and_then(|from| usize::try_from(from).ok());
            let part = from.and_then(|from| bytes.get(from..from + buffer.len()));
            part.is_some_and(|part| {
                buffer.copy_from_slice(part);
                true
            })
        })
    }
}

/// A fault to explain.
struct Case {
    signal: i32,
    code: Option<i32>,
    address: Option<u64>,
    trap: Option<(u64, u64)>,
    registers: Registers,
    memory_ranges: Vec<(u64, Vec<u8>)>,
    flags: Option<BTreeSet<String>>,
    depth: u64,
    mapped: bool,
}

/// Returns the case of a signal at an instruction.
fn case(signal: i32, code: i32, instruction: &[u8]) -> Case {
    let mut page = instruction.to_vec();
    page.resize(64, 0x90);
    Case {
        signal,
        code: Some(code),
        address: None,
        trap: None,
        registers: Registers {
            rip: CODE,
            rsp: STACK + 0x8000,
            ..Registers::default()
        },
        memory_ranges: vec![(CODE, page)],
        flags: None,
        depth: 3,
        mapped: true,
    }
}

impl Case {
    fn at(mut self, address: u64) -> Self {
        self.address = Some(address);
        self
    }

    fn with(mut self, set: impl FnOnce(&mut Registers)) -> Self {
        set(&mut self.registers);
        self
    }

    fn explain(&self) -> Fault {
        let area = |start, end, access: &str| MappedRange {
            start,
            end,
            readable: access.contains('r'),
            writable: access.contains('w'),
            executable: access.contains('x'),
        };
        let mappings = [
            area(CODE, CODE + 0x1000, "rx"),
            area(0x40_2000, 0x40_3000, "r"),
            area(0x40_3000, 0x40_4000, "rw"),
            area(STACK - 0x1000, STACK, ""),
            area(STACK, STACK + 0x10000, "rw"),
            area(0x7000_0000_0000, 0x7000_0000_1000, ""),
        ];
        explain_fault(&FaultContext {
            signal: self.signal,
            code: self.code,
            address: self.address,
            trap: self.trap,
            sender: Some(77),
            registers: self.registers,
            memory: &KnownMemory(self.memory_ranges.clone()),
            mappings: if self.mapped { &mappings } else { &[] },
            processor: self.flags.as_ref(),
            depth: self.depth,
        })
    }

    /// Explains the fault, and formats it as in the output.
    fn describe(&self) -> String {
        let fault = self.explain();
        let instruction = fault.instruction.unwrap_or_default();
        format!("{} | {} | {instruction}", fault.class, fault.detail)
    }

    /// Returns the same fault as recorded in the frame of a handler: the trap, but no `si_code`.
    fn in_frame(mut self, trap: u64, error: u64) -> Self {
        self.code = Some(-6);
        self.trap = Some((trap, error));
        self
    }
}

const LOAD: &[u8] = &[0x8b, 0x47, 0x10]; // mov eax, [rdi+0x10]
const STORE: &[u8] = &[0x89, 0x47, 0x10]; // mov [rdi+0x10], eax
const CALL_RAX: &[u8] = &[0xff, 0xd0];
const MOVAPS: &[u8] = &[0x0f, 0x28, 0x07]; // movaps xmm0, [rdi]
const VPADDD: &[u8] = &[0xc5, 0xfd, 0xfe, 0x06]; // vpaddd ymm0, ymm0, [rsi]
const XOP: &[u8] = &[0x8f, 0xe9, 0x78, 0x81, 0xc1]; // vfrczpd xmm0, xmm1
const FMA4: &[u8] = &[0xc4, 0xe3, 0xf9, 0x69, 0xc2, 0x10]; // vfmaddpd
const IDIV: &[u8] = &[0xf7, 0xf9]; // idiv ecx

#[test]
fn a_null_pointer_is_reported_with_its_offset() {
    insta::assert_snapshot!(case(11, 1, LOAD).at(0x10).describe(), @"null pointer | offset 0x10: a field of an object whose pointer is null | mov eax, [rdi+0x10]");
    insta::assert_snapshot!(case(11, 1, LOAD).at(0).describe(), @"null pointer | offset 0: the pointer itself is null | mov eax, [rdi+0x10]");
    insta::assert_snapshot!(case(11, 1, LOAD).at(0x5000).describe(), @"null pointer | offset 0x5000: an element of an array whose pointer is null, or a field of a large object | mov eax, [rdi+0x10]");
    insta::assert_snapshot!(case(11, 1, LOAD).at(u64::MAX - 7).describe(), @"null pointer | offset -0x8: memory before an object whose pointer is null | mov eax, [rdi+0x10]");
}

#[test]
fn a_call_through_null_is_not_a_read() {
    let call = |address| case(11, 1, &[]).at(address).with(|r| r.rip = address);
    insta::assert_snapshot!(call(0).describe(), @"call through a null pointer | a function pointer is null, or a weak symbol was not linked |");
    insta::assert_snapshot!(call(0x18).describe(), @"call through a null pointer | a function pointer holds 0x18: read from a missing or damaged table |");
}

#[test]
fn a_wild_pointer_is_reported_with_the_text_that_it_holds() {
    insta::assert_snapshot!(case(11, 1, LOAD).at(0x1234_5678).describe(), @"wild pointer | nothing is mapped at 0x12345678: a dangling or damaged pointer | mov eax, [rdi+0x10]");
    let text = u64::from_le_bytes(*b"hello\0\0\0");
    insta::assert_snapshot!(case(11, 1, LOAD).at(text).describe(), @"wild pointer | nothing is mapped at 0x6f6c6c6568: a dangling or damaged pointer; the pointer holds the text `hello` | mov eax, [rdi+0x10]");
    let jump = case(11, 1, &[])
        .at(0x1234_5678)
        .with(|r| r.rip = 0x1234_5678);
    insta::assert_snapshot!(jump.describe(), @"jump to nowhere | nothing is mapped at 0x12345678: a damaged function pointer or return address |");
}

#[test]
fn a_protection_fault_is_classified_by_the_mapping_at_the_address() {
    insta::assert_snapshot!(case(11, 2, STORE).at(0x40_2010).with(|r| r.rdi = 0x40_2000).describe(), @"write to read-only memory | constants, code, or a file that is mapped for reading | mov [rdi+0x10], eax");
    insta::assert_snapshot!(case(11, 2, LOAD).at(0x7000_0000_0010).describe(), @"guard page | reserved memory that must not be accessed: past the end of a stack or a buffer | mov eax, [rdi+0x10]");
    insta::assert_snapshot!(case(11, 2, &[]).at(0x40_3000).with(|r| r.rip = 0x40_3000).describe(), @"jump into data | 0x403000 is mapped, but not as code: a damaged function pointer or return address |");
    insta::assert_snapshot!(case(11, 2, LOAD).at(0x40_3010).describe(), @"protected memory | the memory is accessible now: another thread changed the mapping, or a protection key forbids the access | mov eax, [rdi+0x10]");
}

#[test]
fn a_stack_overflow_is_recognized_by_the_stack_pointer() {
    let push = |below: u64| {
        case(11, 1, &[0x53])
            .at(STACK - 8 - below)
            .with(|r| r.rsp = STACK)
    };
    let mut deep = push(0);
    deep.depth = 2038;
    insta::assert_snapshot!(deep.describe(), @"stack overflow | the calls are 2038 deep: recursion | push rbx");
    insta::assert_snapshot!(push(0x10000).describe(), @"stack overflow | a large local variable, or a small stack | push rbx");
    let mut unmapped = push(0x10000);
    unmapped.mapped = false;
    assert_eq!(unmapped.explain().class, "stack overflow");
}

#[test]
fn a_non_canonical_address_is_taken_from_the_registers() {
    let load = case(11, 128, LOAD)
        .at(0)
        .with(|r| r.rdi = 0xdead_beef_dead_beef);
    insta::assert_snapshot!(load.describe(), @"garbage pointer | 0xdeadbeefdeadbeff cannot be an address | mov eax, [rdi+0x10]");
    assert_eq!(load.explain().address, Some(0xdead_beef_dead_beff));
    let call = case(11, 128, CALL_RAX).with(|r| r.rax = u64::from_le_bytes(*b"overflow"));
    insta::assert_snapshot!(call.describe(), @"jump through a garbage pointer | 0x776f6c667265766f cannot be an address; the pointer holds the text `overflow` | call rax");
    let mut ret = case(11, 128, &[0xc3]);
    ret.memory_ranges.push((STACK + 0x8000, vec![0x41; 8]));
    insta::assert_snapshot!(ret.describe(), @"jump through a garbage pointer | 0x4141414141414141 cannot be an address; the pointer holds the text `AAAAAAAA` | ret");
}

#[test]
fn a_general_protection_fault_is_classified_by_its_instruction() {
    insta::assert_snapshot!(case(11, 128, MOVAPS).with(|r| r.rdi = 0x40_3008).describe(), @"misaligned access | 0x403008 is not aligned as the instruction requires | movaps xmm0, [rdi]");
    insta::assert_snapshot!(case(11, 128, &[0xf4]).describe(), @"privileged instruction | only the kernel may execute it: perhaps a jump into data | hlt");
    insta::assert_snapshot!(case(11, 128, &[0x90]).describe(), @"general protection fault | the CPU does not report the reason | nop");
}

#[test]
fn a_handler_frame_gives_the_same_class_as_the_signal() {
    let same = |direct: Case, frame: Case| {
        let (direct, frame) = (direct.explain(), frame.explain());
        assert_eq!((direct.class, direct.detail), (frame.class, frame.detail));
    };
    same(
        case(11, 1, LOAD).at(0x10),
        case(11, 1, LOAD).at(0x10).in_frame(14, 4),
    );
    let store = || case(11, 2, STORE).at(0x40_2010).with(|r| r.rdi = 0x40_2000);
    same(store(), store().in_frame(14, 7));
    let wild = || case(11, 128, LOAD).with(|r| r.rdi = 0xdead_beef_dead_beef);
    same(wild(), wild().in_frame(13, 0));
    same(
        case(4, 2, &[0x0f, 0x0b]),
        case(4, 2, &[0x0f, 0x0b]).in_frame(6, 0),
    );
    same(case(8, 1, IDIV), case(8, 1, IDIV).in_frame(0, 0));
    let data = || case(11, 2, &[]).at(0x40_3000).with(|r| r.rip = 0x40_3000);
    same(data(), data().in_frame(14, 0x15));
    let call = || case(11, 1, &[]).at(0).with(|r| r.rip = 0);
    same(call(), call().in_frame(14, 0x14));
}

#[test]
fn a_missing_fault_address_is_computed_from_the_registers() {
    let mut load = case(11, 0, LOAD);
    load.code = None;
    assert_eq!(load.explain().class, "null pointer");
    assert_eq!(load.explain().address, Some(0x10));
    let load = load.with(|r| r.rdi = 0xdead_beef_dead_beef);
    assert_eq!(load.explain().class, "garbage pointer");
}

/// Returns an illegal instruction on a CPU with these flags and the flags of every 64-bit CPU.
fn illegal_instruction_on(instruction: &[u8], flags: &str) -> Case {
    let mut case = case(4, 2, instruction);
    case.flags = Some(flags.split(' ').map(str::to_owned).collect());
    case
}

#[test]
fn an_illegal_instruction_is_checked_against_the_cpu_features() {
    insta::assert_snapshot!(illegal_instruction_on(VPADDD, "avx").describe(), @"needs AVX2 | vpaddd needs AVX2; this CPU lacks it | vpaddd ymm0, ymm0, [rsi]");
    assert_eq!(
        illegal_instruction_on(VPADDD, "avx")
            .explain()
            .lacks
            .as_deref(),
        Some("AVX2")
    );
    insta::assert_snapshot!(illegal_instruction_on(XOP, "avx avx2").describe(), @"needs XOP | vfrczpd needs XOP; this CPU lacks it | vfrczpd xmm0, xmm1");
    insta::assert_snapshot!(illegal_instruction_on(FMA4, "avx avx2").describe(), @"needs FMA4 | vfmaddpd needs FMA4; this CPU lacks it | vfmaddpd xmm0, xmm0, xmm1, xmm2");
    insta::assert_snapshot!(illegal_instruction_on(VPADDD, "avx avx2").describe(), @"illegal instruction | it needs AVX2, which this CPU has: an invalid form of it, or an emulator or the system forbids it | vpaddd ymm0, ymm0, [rsi]");
    insta::assert_snapshot!(case(4, 2, VPADDD).describe(), @"needs AVX2 | vpaddd needs AVX2 (cannot check) | vpaddd ymm0, ymm0, [rsi]");
    assert_eq!(case(4, 2, VPADDD).explain().lacks, None);
    insta::assert_snapshot!(illegal_instruction_on(&[0x0f, 0xc7, 0xf0], "sse4_2").describe(), @"needs RDRAND | rdrand needs RDRAND; this CPU lacks it | rdrand eax");
}

#[test]
fn a_deliberate_trap_needs_no_cpu_feature() {
    insta::assert_snapshot!(illegal_instruction_on(&[0x0f, 0x0b], "pni").describe(), @"deliberate trap | the compiler or a library placed it there, in unreachable code or after a failed check; the CPU is not the cause | ud2");
    assert_eq!(
        illegal_instruction_on(&[0x0f, 0x0b], "pni").explain().lacks,
        None
    );
}

#[test]
fn bytes_that_are_not_an_instruction_are_shown() {
    insta::assert_snapshot!(illegal_instruction_on(&[0x06, 0xff, 0xff], "avx avx2").describe(), @"not an instruction | jumped into data, or the code is damaged: 06 ff ff 90 90 90 90 90 |");
    let mut unread = case(4, 2, &[]);
    unread.memory_ranges.clear();
    insta::assert_snapshot!(unread.describe(), @"illegal instruction | the code could not be read |");
}

#[test]
fn an_instruction_at_the_end_of_a_page_is_read() {
    let mut last = case(4, 2, &[]).with(|r| r.rip = CODE + 0xffe);
    last.memory_ranges = vec![(CODE + 0xff0, [vec![0x90; 14], vec![0x0f, 0x0b]].concat())];
    assert_eq!(last.explain().class, "deliberate trap");
}

#[test]
fn division_by_zero_and_division_overflow_are_distinguished() {
    insta::assert_snapshot!(case(8, 1, IDIV).describe(), @"division by zero | the divisor is 0 | idiv ecx");
    let minus = case(8, 1, IDIV).with(|r| r.rcx = 0xffff_ffff);
    insta::assert_snapshot!(minus.describe(), @"division overflow | the divisor is not 0, but the quotient does not fit: the smallest number divided by -1 | idiv ecx");
    // The divisor is only the lower half of the register.
    let half = case(8, 1, IDIV).with(|r| r.rcx = 0x1_0000_0000);
    assert_eq!(half.explain().class, "division by zero");
    let mut memory = case(8, 1, &[0xf7, 0x3f]).with(|r| r.rdi = 0x40_3000); // idiv dword ptr [rdi]
    assert_eq!(memory.explain().class, "division by zero or overflow");
    memory.memory_ranges.push((0x40_3000, vec![0; 4]));
    assert_eq!(memory.explain().class, "division by zero");
    insta::assert_snapshot!(case(8, 7, &[0x90]).describe(), @"floating point exception | invalid operation | nop");
}

#[test]
fn the_instruction_of_a_breakpoint_is_one_byte_before_rip() {
    let int3 = case(5, 128, &[0xcc]).with(|r| r.rip += 1);
    insta::assert_snapshot!(int3.describe(), @"breakpoint | int3: a failed check of the program, or a breakpoint without a debugger | int3");
    insta::assert_snapshot!(case(5, 2, &[0x90]).describe(), @"trap | a debugger trap without a debugger | nop");
}

#[test]
fn a_bus_error_is_attributed_to_a_file_an_address_or_the_hardware() {
    insta::assert_snapshot!(case(7, 2, LOAD).at(0x40_3010).describe(), @"mapped file cut short | the file behind this memory was truncated or could not be read, or shared memory or the disk is full | mov eax, [rdi+0x10]");
    insta::assert_snapshot!(case(7, 1, LOAD).at(0x40_3011).describe(), @"misaligned access | 0x403011 is not aligned as the instruction requires | mov eax, [rdi+0x10]");
    insta::assert_snapshot!(case(7, 4, LOAD).describe(), @"hardware memory error | the hardware reported a memory error: the program is not the cause | mov eax, [rdi+0x10]");
    let frame = case(7, 2, LOAD).at(0x40_3010).in_frame(14, 4);
    assert_eq!(frame.explain().class, "mapped file cut short");
}

#[test]
fn a_sent_signal_is_not_a_fault() {
    let sent = case(11, 0, LOAD);
    insta::assert_snapshot!(sent.describe(), @"sent by a process | kill() or a similar call, not an instruction that faulted |");
    assert_eq!(sent.explain().sender, Some(77));
    insta::assert_snapshot!(case(11, -6, LOAD).describe(), @"raised by the program | raise() or a similar call; or a signal handler of the program caught the fault and raised it again |");
    insta::assert_snapshot!(case(6, -6, LOAD).describe(), @"aborted itself |  |");
    assert_eq!(case(6, 0, LOAD).explain().class, "sent by a process");
    assert_eq!(case(11, 1, LOAD).at(0).explain().sender, None);
}

#[test]
fn a_forbidden_system_call_is_reported_with_its_number() {
    insta::assert_snapshot!(case(31, 1, &[0x90]).with(|r| r.rax = 101).describe(), @"forbidden system call | system call 101: forbidden by a filter (seccomp) | nop");
}
