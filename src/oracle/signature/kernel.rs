//! Names a crash by the kernel's log.
//!
//! A line names the file, the place in it, and the processor's objection; no more. The name from a line
//! and the name from a core of the same crash agree.

use super::frames::{bare_module, is_library};
use crate::model::{Crash, Signal, class};
use crate::tells::bare_name;

/// A crash as a line of the kernel's log tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Logged {
    pub(super) signal: Signal,
    pub(super) class: &'static str,
    pub(super) place: Place,
    /// The function there, where that is known.
    pub(super) function: Option<String>,
}

/// Where it crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In no file.
    Nowhere,
    /// In a file, at this offset.
    File(String, u64),
    /// In a file; older kernels say no offset, so only the place within a page is known.
    Page(String, u64),
}

const NULL: &str = "null";
/// Every other page that was not there or not to be used so: whether the processor finds the
/// page missing or protected depends on whether it was touched before, so a core cannot
/// tell, and both go by one name.
const WILD: &str = "wild";
const GENERAL: &str = "general protection";
const OPCODE: &str = "invalid opcode";
const DIVIDE: &str = "divide error";
const INT3: &str = "int3";

/// The bits of an address that are the same in the file and in memory.
const IN_PAGE: u64 = 0xfff;

/// How near to zero an address is an offset from nothing.
const NEAR_ZERO: u64 = 64 * 1024;

/// Objections that the log names itself: the text, the signal, the class.
const TRAPS: [(&str, i32, &str); 5] = [
    ("] general protection fault ip:", 11, GENERAL),
    ("] trap invalid opcode ip:", 4, OPCODE),
    ("] trap divide error ip:", 8, DIVIDE),
    ("] trap int3 ip:", 5, INT3),
    ("] trap stack segment ip:", 7, GENERAL),
];

/// Reads a line.
pub(super) fn read(line: &str) -> Option<Logged> {
    if let Some((_, rest)) = line.split_once("]: segfault at ") {
        let address = hex(rest)?;
        let ip = hex(rest.split_once(" ip ")?.1)?;
        let null = address.cast_signed().unsigned_abs() < NEAR_ZERO;
        let place = match place(rest, ip) {
            _ if address == ip => Place::Nowhere,
            // The kernel leaves the file out where it cannot take a lock at once.
            Place::Nowhere => return None,
            place => place,
        };
        return Some(Logged {
            signal: Signal::SEGV,
            class: if null { NULL } else { WILD },
            place,
            function: None,
        });
    }
    let (rest, signal, class) = TRAPS.iter().find_map(|(text, signal, class)| {
        let (_, rest) = line.split_once(text)?;
        Some((rest, *signal, *class))
    })?;
    // `general protection fault` has the word `trap` before it in some kernels.
    Some(Logged {
        signal: Signal(signal),
        class,
        place: place(rest, hex(rest)?),
        function: None,
    })
}

/// Returns the file that a line names, and the place of the crash in it.
pub fn place_in_file(line: &str) -> Option<(String, u64)> {
    match read(line)?.place {
        Place::File(module, offset) => Some((module, offset)),
        Place::Nowhere | Place::Page(..) => None,
    }
}

/// Reads the hexadecimal number that a text begins with.
fn hex(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit());
    u64::from_str_radix(&text[..end.unwrap_or(text.len())], 16).ok()
}

/// `… in boom[1179,55d0c6a00000+1000]`, and in older kernels `… in boom[55d0c6a00000+1000]`.
///
/// The name of a file may hold blanks and brackets: it begins after the first ` in `, since
/// there are only numbers before, and ends before the last range of addresses.
fn place(rest: &str, ip: u64) -> Place {
    let found = rest.split_once(" in ").and_then(|(_, place)| {
        place.rmatch_indices('[').find_map(|(at, _)| {
            let (range, _) = place[at + 1..].split_once(']')?;
            let (offset, addresses) = match range.split_once(',') {
                Some((offset, addresses)) => (Some(whole_hex(offset)?), addresses),
                None => (None, range),
            };
            let (start, size) = addresses.split_once('+')?;
            whole_hex(start)?;
            whole_hex(size)?;
            Some((bare_module(&place[..at]), offset))
        })
    });
    match found {
        None => Place::Nowhere,
        Some((module, Some(offset))) => Place::File(module, offset),
        Some((module, None)) => Place::Page(module, ip & IN_PAGE),
    }
}

/// Reads a text that is a hexadecimal number and nothing else.
fn whole_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Returns what the kernel would have said of a crash that a core tells of; nothing of those
/// that it says nothing of.
pub(super) fn of_crash(crash: &Crash) -> Option<Logged> {
    let outside = [class::NULL_CALL, class::DATA_CALL, class::WILD_CALL];
    let frame = crash.frames.first();
    let module = frame.and_then(|frame| frame.module.as_deref());
    Some(Logged {
        signal: crash.signal?,
        class: coarse(&crash.fault.class)?,
        place: match (module, crash.place) {
            (Some(module), Some(place)) if !outside.contains(&crash.fault.class.as_str()) => {
                Place::File(bare_module(module), place)
            }
            _ => Place::Nowhere,
        },
        function: None,
    })
}

fn coarse(class: &str) -> Option<&'static str> {
    Some(match class {
        class::NULL | class::NULL_CALL => NULL,
        class::STACK_OVERFLOW
        | class::READ_ONLY
        | class::GUARD
        | class::PROTECTED
        | class::WILD
        | class::DATA_CALL
        | class::WILD_CALL => WILD,
        class::GARBAGE
        | class::GARBAGE_CALL
        | class::MISALIGNED
        | class::PRIVILEGED
        | class::GENERAL => GENERAL,
        class::DELIBERATE | class::NO_CODE | class::ILLEGAL => OPCODE,
        class::DIVISION_BY_ZERO | class::DIVISION_OVERFLOW | class::DIVISION => DIVIDE,
        class::BREAKPOINT => INT3,
        class if class.starts_with(class::NEEDS) => OPCODE,
        _ => return None,
    })
}

impl Logged {
    /// What ids are made of: first with all that is known, then with what older kernels know.
    pub(super) fn texts(&self) -> Vec<String> {
        let text = |place: &str| format!("{} | {} | {place}", self.signal, self.class);
        let page =
            |module: &str, offset: u64| text(&format!("{module}~0x{:03x}", offset & IN_PAGE));
        match &self.place {
            Place::Nowhere => vec![text("?")],
            Place::File(module, offset) => {
                vec![
                    text(&format!("{module}+0x{offset:x}")),
                    page(module, *offset),
                ]
            }
            Place::Page(module, offset) => vec![page(module, *offset)],
        }
    }

    /// Wider names, as in `stack`: of a library.
    pub(super) fn families(&self) -> Vec<String> {
        match &self.place {
            Place::File(module, _) | Place::Page(module, _) if is_library(module) => {
                vec![format!("{} in {module}", self.signal)]
            }
            _ => Vec::new(),
        }
    }

    /// The same for people.
    pub(super) fn words(&self) -> String {
        let class = match self.class {
            NULL => ", null pointer,",
            GENERAL => ", garbage pointer,",
            DIVIDE => ", division,",
            _ => "",
        };
        let place = match &self.place {
            Place::Nowhere => "outside of any file".to_owned(),
            Place::File(module, offset) => match &self.function {
                Some(function) => format!("in {} at {module}+0x{offset:x}", bare_name(function)),
                None => format!("at {module}+0x{offset:x}"),
            },
            Place::Page(module, _) => format!("in {module}"),
        };
        format!("{}{class} {place} (kernel log)", self.signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> String {
        read(line).unwrap().words()
    }

    #[test]
    fn every_form_of_line_is_read() {
        let new = "boom[77]: segfault at 10 ip 000055d0c6a01179 sp 00007ffd0 error 4 in boom[1179,55d0c6a00000+1000] likely on CPU 1 (core 1, socket 0)";
        assert_eq!(
            words(new),
            "SIGSEGV, null pointer, at boom+0x1179 (kernel log)"
        );
        let old = "boom[77]: segfault at 12345678 ip 000055d0c6a01179 sp 00007ffd0 error 6 in boom[55d0c6a01000+1000]";
        assert_eq!(words(old), "SIGSEGV in boom (kernel log)");
        let call = "boom[77]: segfault at 0 ip 0000000000000000 sp 00007ffd0 error 14";
        assert_eq!(
            words(call),
            "SIGSEGV, null pointer, outside of any file (kernel log)"
        );
        let opcode = "traps: boom[77] trap invalid opcode ip:55d0c6a0150c sp:7ffd0 error:0 in libx.so.1[150c,55d0c6a00000+1000]";
        assert_eq!(words(opcode), "SIGILL at libx.so+0x150c (kernel log)");
        let divide = "traps: boom[77] trap divide error ip:55d0c6a0150c sp:7ffd0 error:0 in boom[150c,55d0c6a00000+1000]";
        assert_eq!(
            words(divide),
            "SIGFPE, division, at boom+0x150c (kernel log)"
        );
        let general = "traps: boom[77] general protection fault ip:55d0c6a0150c sp:7ffd0 error:0 in boom[150c,55d0c6a00000+1000]";
        assert_eq!(
            words(general),
            "SIGSEGV, garbage pointer, at boom+0x150c (kernel log)"
        );
        let below = "boom[77]: segfault at fffffffffffffff8 ip 000055d0c6a01179 sp 00007ffd0 error 5 in boom[1179,55d0c6a00000+1000]";
        assert_eq!(read(below).unwrap().class, NULL);
    }

    #[test]
    fn the_name_of_a_file_may_hold_brackets_and_blanks() {
        for name in ["test[param-1]", "a b", "x in y", "cr\u{1b}[31m"] {
            let line = format!(
                "{name}[77]: segfault at 10 ip 000055d0c6a01179 sp 00007ffd0 error 4 in {name}[1179,55d0c6a00000+1000] likely on CPU 1 (core 1, socket 0)"
            );
            assert_eq!(
                words(&line),
                format!("SIGSEGV, null pointer, at {name}+0x1179 (kernel log)")
            );
        }
    }

    #[test]
    fn old_and_new_kernels_agree_where_they_can() {
        let new = read(
            "b[7]: segfault at 10 ip 000055d0c6a01179 sp 0 error 4 in b[1179,55d0c6a01000+1000]",
        );
        let old =
            read("b[7]: segfault at 10 ip 000055d0c6a01179 sp 0 error 4 in b[55d0c6a01000+1000]");
        assert_eq!(new.unwrap().texts()[1], old.unwrap().texts()[0]);
    }

    #[test]
    fn other_lines_tell_of_no_crash() {
        for line in [
            "",
            "Out of memory: Killed process 7 (x)",
            "b[7]: segfault at zz",
            "Code: 8b 07",
            "]: segfault at 10 ip",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
