//! Names a crash by the kernel log.
//!
//! A line contains only the file, the offset in it, and the CPU's report. The name from a line and
//! the name from a core of the same crash agree.

use super::frames::{bare_module, is_library};
use provoke_messages::bare_name;
use provoke_model::{Crash, Frame, Signal, fault_class};

/// A crash in a line of the kernel log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoggedCrash {
    pub(super) signal: Signal,
    pub(super) class: &'static str,
    pub(super) location: CrashLocation,
    /// Function and source line at the offset, if they are known.
    pub(super) function: Option<Frame>,
}

/// Place of a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CrashLocation {
    /// Outside of any file.
    Nowhere,
    /// File and offset.
    File(String, u64),
    /// File and offset within a page: older kernels do not report the offset in the file.
    Page(String, u64),
}

const NULL: &str = "null";
/// Any other page that is missing or does not allow the access.
///
/// The CPU reports a page as missing or as protected depending on whether it was accessed before. A
/// core does not contain that, so both cases have one name.
const WILD: &str = "wild";
const GENERAL: &str = "general protection";
const OPCODE: &str = "invalid opcode";
const DIVIDE: &str = "divide error";
const INT3: &str = "int3";

/// Bits of an address that are the same in the file and in memory.
const IN_PAGE: u64 = 0xfff;

/// Limit below which an address is an offset from a null pointer.
const NEAR_ZERO: u64 = 64 * 1024;

/// Traps that the log names: text, signal, class.
const TRAPS: [(&str, i32, &str); 5] = [
    ("] general protection fault ip:", 11, GENERAL),
    ("] trap invalid opcode ip:", 4, OPCODE),
    ("] trap divide error ip:", 8, DIVIDE),
    ("] trap int3 ip:", 5, INT3),
    ("] trap stack segment ip:", 7, GENERAL),
];

/// Parses a line.
pub(super) fn read_line(line: &str) -> Option<LoggedCrash> {
    if let Some((_, rest)) = line.split_once("]: segfault at ") {
        let address = leading_hex(rest)?;
        let ip = leading_hex(rest.split_once(" ip ")?.1)?;
        let null = address.cast_signed().unsigned_abs() < NEAR_ZERO;
        let location = match parse_place(rest, ip) {
            _ if address == ip => CrashLocation::Nowhere,
            // The kernel omits the file if it cannot take a lock immediately.
            CrashLocation::Nowhere => return None,
            location => location,
        };
        return Some(LoggedCrash {
            signal: Signal::SEGV,
            class: if null { NULL } else { WILD },
            location,
            function: None,
        });
    }
    let (rest, signal, class) = TRAPS.iter().find_map(|(text, signal, class)| {
        let (_, rest) = line.split_once(text)?;
        Some((rest, *signal, *class))
    })?;
    // Some kernels write `trap` before `general protection fault`.
    Some(LoggedCrash {
        signal: Signal(signal),
        class,
        location: parse_place(rest, leading_hex(rest)?),
        function: None,
    })
}

/// Returns the file in a line, and the offset of the crash in it.
pub fn place_in_file(line: &str) -> Option<(String, u64)> {
    match read_line(line)?.location {
        CrashLocation::File(module, offset) => Some((module, offset)),
        CrashLocation::Nowhere | CrashLocation::Page(..) => None,
    }
}

/// Parses the hexadecimal number at the start of a text.
fn leading_hex(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit());
    u64::from_str_radix(&text[..end.unwrap_or(text.len())], 16).ok()
}

/// Parses `… in boom[1179,55d0c6a00000+1000]`, or `… in boom[55d0c6a00000+1000]` of older kernels.
///
/// A file name may contain spaces and brackets. It begins after the first ` in `, because only
/// numbers precede it, and ends before the last range of addresses.
fn parse_place(rest: &str, ip: u64) -> CrashLocation {
    let module_and_offset = rest.split_once(" in ").and_then(|(_, location)| {
        location.rmatch_indices('[').find_map(|(position, _)| {
            let (range, _) = location[position + 1..].split_once(']')?;
            let (offset, addresses) = match range.split_once(',') {
                Some((offset, addresses)) => (Some(whole_hex(offset)?), addresses),
                None => (None, range),
            };
            let (start, size) = addresses.split_once('+')?;
            whole_hex(start)?;
            whole_hex(size)?;
            Some((bare_module(&location[..position]), offset))
        })
    });
    match module_and_offset {
        None => CrashLocation::Nowhere,
        Some((module, Some(offset))) => CrashLocation::File(module, offset),
        Some((module, None)) => CrashLocation::Page(module, ip & IN_PAGE),
    }
}

/// Parses a text that is completely a hexadecimal number.
fn whole_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Returns the kernel's report of a crash that is known from a core; `None` for crashes that the
/// kernel does not report.
pub(super) fn of_crash(crash: &Crash) -> Option<LoggedCrash> {
    let outside = [
        fault_class::NULL_CALL,
        fault_class::DATA_CALL,
        fault_class::WILD_CALL,
    ];
    let frame = crash.frames.first();
    let module = frame.and_then(|frame| frame.module.as_deref());
    Some(LoggedCrash {
        signal: crash.signal?,
        class: coarse_class(&crash.fault.class)?,
        location: match (module, crash.place) {
            (Some(module), Some(offset)) if !outside.contains(&crash.fault.class.as_str()) => {
                CrashLocation::File(bare_module(module), offset)
            }
            _ => CrashLocation::Nowhere,
        },
        function: None,
    })
}

fn coarse_class(class: &str) -> Option<&'static str> {
    Some(match class {
        fault_class::NULL | fault_class::NULL_CALL => NULL,
        fault_class::STACK_OVERFLOW
        | fault_class::READ_ONLY
        | fault_class::GUARD
        | fault_class::PROTECTED
        | fault_class::WILD
        | fault_class::DATA_CALL
        | fault_class::WILD_CALL => WILD,
        fault_class::GARBAGE
        | fault_class::GARBAGE_CALL
        | fault_class::MISALIGNED
        | fault_class::PRIVILEGED
        | fault_class::GENERAL => GENERAL,
        fault_class::DELIBERATE | fault_class::NO_CODE | fault_class::ILLEGAL => OPCODE,
        fault_class::DIVISION_BY_ZERO | fault_class::DIVISION_OVERFLOW | fault_class::DIVISION => {
            DIVIDE
        }
        fault_class::BREAKPOINT => INT3,
        class if class.starts_with(fault_class::NEEDS) => OPCODE,
        _ => return None,
    })
}

impl LoggedCrash {
    /// Returns the texts for ids: first with all facts, then with the facts of older kernels.
    pub(super) fn id_texts(&self) -> Vec<String> {
        let text = |location: &str| format!("{} | {} | {location}", self.signal, self.class);
        let page =
            |module: &str, offset: u64| text(&format!("{module}~0x{:03x}", offset & IN_PAGE));
        match &self.location {
            CrashLocation::Nowhere => vec![text("?")],
            CrashLocation::File(module, offset) => {
                vec![
                    text(&format!("{module}+0x{offset:x}")),
                    page(module, *offset),
                ]
            }
            CrashLocation::Page(module, offset) => vec![page(module, *offset)],
        }
    }

    /// Returns the wider names, as in `stack`: one for a library.
    pub(super) fn family_titles(&self) -> Vec<String> {
        match &self.location {
            CrashLocation::File(module, _) | CrashLocation::Page(module, _)
                if is_library(module) =>
            {
                vec![format!("{} in {module}", self.signal)]
            }
            _ => Vec::new(),
        }
    }

    fn function_name(&self) -> Option<&str> {
        self.function.as_ref()?.function.as_deref()
    }

    /// Returns the title.
    pub(super) fn in_words(&self) -> String {
        let class = match self.class {
            NULL => ", null pointer,",
            GENERAL => ", garbage pointer,",
            DIVIDE => ", division,",
            _ => "",
        };
        let location = match &self.location {
            CrashLocation::Nowhere => "outside of any file".to_owned(),
            CrashLocation::File(module, offset) => match self.function_name() {
                Some(function) => format!("in {} at {module}+0x{offset:x}", bare_name(function)),
                None => format!("at {module}+0x{offset:x}"),
            },
            CrashLocation::Page(module, _) => format!("in {module}"),
        };
        format!("{}{class} {location} (kernel log)", self.signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe_line(line: &str) -> String {
        read_line(line).unwrap().in_words()
    }

    #[test]
    fn every_form_of_kernel_line_is_parsed() {
        let new = "boom[77]: segfault at 10 ip 000055d0c6a01179 sp 00007ffd0 error 4 in boom[1179,55d0c6a00000+1000] likely on CPU 1 (core 1, socket 0)";
        assert_eq!(
            describe_line(new),
            "SIGSEGV, null pointer, at boom+0x1179 (kernel log)"
        );
        let old = "boom[77]: segfault at 12345678 ip 000055d0c6a01179 sp 00007ffd0 error 6 in boom[55d0c6a01000+1000]";
        assert_eq!(describe_line(old), "SIGSEGV in boom (kernel log)");
        let call = "boom[77]: segfault at 0 ip 0000000000000000 sp 00007ffd0 error 14";
        assert_eq!(
            describe_line(call),
            "SIGSEGV, null pointer, outside of any file (kernel log)"
        );
        let opcode = "traps: boom[77] trap invalid opcode ip:55d0c6a0150c sp:7ffd0 error:0 in libx.so.1[150c,55d0c6a00000+1000]";
        assert_eq!(
            describe_line(opcode),
            "SIGILL at libx.so+0x150c (kernel log)"
        );
        let divide = "traps: boom[77] trap divide error ip:55d0c6a0150c sp:7ffd0 error:0 in boom[150c,55d0c6a00000+1000]";
        assert_eq!(
            describe_line(divide),
            "SIGFPE, division, at boom+0x150c (kernel log)"
        );
        let general = "traps: boom[77] general protection fault ip:55d0c6a0150c sp:7ffd0 error:0 in boom[150c,55d0c6a00000+1000]";
        assert_eq!(
            describe_line(general),
            "SIGSEGV, garbage pointer, at boom+0x150c (kernel log)"
        );
        let below = "boom[77]: segfault at fffffffffffffff8 ip 000055d0c6a01179 sp 00007ffd0 error 5 in boom[1179,55d0c6a00000+1000]";
        assert_eq!(read_line(below).unwrap().class, NULL);
    }

    #[test]
    fn program_names_may_contain_brackets_and_spaces() {
        for name in ["test[param-1]", "a b", "x in y", "cr\u{1b}[31m"] {
            let line = format!(
                "{name}[77]: segfault at 10 ip 000055d0c6a01179 sp 00007ffd0 error 4 in {name}[1179,55d0c6a00000+1000] likely on CPU 1 (core 1, socket 0)"
            );
            assert_eq!(
                describe_line(&line),
                format!("SIGSEGV, null pointer, at {name}+0x1179 (kernel log)")
            );
        }
    }

    #[test]
    fn lines_of_old_and_new_kernels_share_an_id() {
        let new = read_line(
            "b[7]: segfault at 10 ip 000055d0c6a01179 sp 0 error 4 in b[1179,55d0c6a01000+1000]",
        );
        let old = read_line(
            "b[7]: segfault at 10 ip 000055d0c6a01179 sp 0 error 4 in b[55d0c6a01000+1000]",
        );
        assert_eq!(new.unwrap().id_texts()[1], old.unwrap().id_texts()[0]);
    }

    #[test]
    fn lines_without_a_crash_are_ignored() {
        for line in [
            "",
            "Out of memory: Killed process 7 (x)",
            "b[7]: segfault at zz",
            "Code: 8b 07",
            "]: segfault at 10 ip",
        ] {
            assert_eq!(read_line(line), None, "{line}");
        }
    }
}
