//! Decodes the tables of a Python code object: lines, and handlers of exceptions.
//!
//! The tables address code units of two bytes.

/// The format of a table of lines.
#[derive(Clone, Copy, Debug)]
pub(super) enum LineTable {
    /// `co_lnotab`, until 3.9.
    Increments,
    /// `co_linetable` of 3.10.
    Ranges,
    /// `co_linetable` of 3.11 and later.
    Locations,
}

impl LineTable {
    /// Returns the line of a code unit.
    ///
    /// Before its first instruction, a call is at the first line.
    pub(super) fn line_of_unit(self, table: &[u8], first_line: u32, unit: i64) -> Option<u32> {
        match self {
            Self::Increments => line_from_increments(table, first_line, unit),
            Self::Ranges => line_from_ranges(table, first_line, unit),
            Self::Locations => line_from_locations(table, first_line, unit),
        }
    }
}

/// Reads pairs of the bytes of instructions and the lines from one line to the next.
fn line_from_increments(table: &[u8], first_line: u32, unit: i64) -> Option<u32> {
    let (mut line, mut start) = (i64::from(first_line), 0);
    for pair in table.chunks_exact(2) {
        start += i64::from(pair[0]);
        if unit.saturating_mul(2) < start {
            break;
        }
        line += i64::from(pair[1].cast_signed());
    }
    u32::try_from(line).ok()
}

/// Reads pairs of the bytes of the instructions of a line, and its distance from the line before.
fn line_from_ranges(table: &[u8], first_line: u32, unit: i64) -> Option<u32> {
    /// These instructions have no line; the line before them counts.
    const NO_LINE: i8 = -128;
    let (mut line, mut end) = (i64::from(first_line), 0);
    for pair in table.chunks_exact(2) {
        if unit < 0 {
            break;
        }
        let delta = pair[1].cast_signed();
        line += i64::from(if delta == NO_LINE { 0 } else { delta });
        end += i64::from(pair[0]);
        if unit.saturating_mul(2) < end {
            return u32::try_from(line).ok();
        }
    }
    (unit < 0).then_some(first_line)
}

/// Reads entries of various kinds, each for up to eight code units.
fn line_from_locations(table: &[u8], first_line: u32, unit: i64) -> Option<u32> {
    let mut bytes = table.iter().copied();
    let (mut line, mut start) = (i64::from(first_line), 0);
    while let Some(head) = bytes.next() {
        let kind = head >> 3 & 15;
        let end = start + i64::from(head & 7) + 1;
        let delta = match kind {
            0..=9 => {
                bytes.next()?;
                0
            }
            10..=12 => {
                bytes.nth(1)?;
                i64::from(kind) - 10
            }
            13 => read_signed(&mut bytes)?,
            14 => {
                let delta = read_signed(&mut bytes)?;
                for _ in 0..3 {
                    read_number(&mut bytes)?;
                }
                delta
            }
            // These instructions have no line; the line before them counts.
            _ => 0,
        };
        line = line.checked_add(delta)?;
        if unit < end {
            return u32::try_from(line).ok();
        }
        start = end;
    }
    None
}

/// Reads a number of six bits for each byte, the lowest first.
fn read_number(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut number = 0;
    for shift in (0..36).step_by(6) {
        let byte = bytes.next()?;
        number |= i64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(number);
        }
    }
    None
}

/// Reads a number whose lowest bit is the sign.
fn read_signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let number = read_number(bytes)?;
    let magnitude = number >> 1;
    Some(if number & 1 == 0 {
        magnitude
    } else {
        -magnitude
    })
}

/// Returns the number of values on the stack that the handler of a code unit needs, from `co_exceptiontable`.
pub(super) fn depth_of_handler(table: &[u8], unit: i64) -> Option<u64> {
    let mut bytes = table.iter().copied();
    while let Some(start) = read_handler_number(&mut bytes) {
        let size = read_handler_number(&mut bytes)?;
        let _target = read_handler_number(&mut bytes)?;
        let depth = read_handler_number(&mut bytes)? >> 1;
        if (start..start + size).contains(&unit) {
            return u64::try_from(depth).ok();
        }
    }
    None
}

/// Reads a number of six bits for each byte, the highest first.
fn read_handler_number(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut number = 0;
    for _ in 0..6 {
        let byte = bytes.next()?;
        number = number << 6 | i64::from(byte & 63);
        if byte & 64 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables that CPython 3.11.7 makes of
    ///
    /// ```python
    /// def transfer():
    ///     with accounts:
    ///         time.sleep(.05)
    ///         with journal:
    ///             pass
    /// ```
    ///
    /// at line 6, with `transfer.__code__.co_linetable.hex()`.
    const LINES: &str = "8000dd0911f000030511f000030511dd080c8f0a8a0a9033890f8c0f880fdd0d14f000010911f000010911d80c10f003010911f000010911f000010911f100010911f400010911f000010911f000010911f000010911f000010911f000010911f000010911f8f8f8f000010911f000010911f000010911f000010911f005030511f000030511f000030511f100030511f400030511f000030511f000030511f000030511f000030511f000030511f000030511f8f8f8f000030511f000030511f000030511f000030511f000030511f000030511";
    const HANDLERS: &str = "8822411003aa013805ac0c411003b8043c09bc03411003bf013c09c10003411003c11004411407c11701411407";
    /// Each line with the first unit that `dis.findlinestarts` gives for it.
    const STARTS: [(i64, u32); 7] = [(0, 6), (1, 7), (9, 8), (35, 9), (43, 10), (44, 9), (67, 7)];

    fn bytes(hex: &str) -> Vec<u8> {
        let byte = |start| u8::from_str_radix(&hex[start..start + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    }

    /// The tables that CPython 3.9 and 3.10 make of
    ///
    /// ```python
    /// def transfer():
    ///     with accounts:
    ///         time.sleep(
    ///             .05)
    ///         for _ in ():
    ///             pass
    ///     return (
    ///         1)
    /// ```
    ///
    /// at line 6.
    const LINES_3_9: &str = "00010601040102ff04020801200202ff";
    const STARTS_3_9: [(i64, u32); 8] = [
        (0, 7),
        (3, 8),
        (5, 9),
        (6, 8),
        (8, 10),
        (12, 11),
        (28, 13),
        (29, 12),
    ];
    const LINES_3_10: &str = "06010401020104ff0802020102ff0afd020604ff10fb020604ff";
    const STARTS_3_10: [(i64, u32); 13] = [
        (0, 7),
        (3, 8),
        (5, 9),
        (6, 8),
        (8, 10),
        (12, 11),
        (13, 10),
        (14, 7),
        (19, 13),
        (20, 12),
        (22, 7),
        (30, 13),
        (31, 12),
    ];

    #[test]
    fn lines_are_those_of_the_interpreter() {
        let versions = [
            (LineTable::Increments, LINES_3_9, &STARTS_3_9[..]),
            (LineTable::Ranges, LINES_3_10, &STARTS_3_10),
            (LineTable::Locations, LINES, &STARTS),
        ];
        for (format, table, starts) in versions {
            let line = |unit| format.line_of_unit(&bytes(table), 6, unit);
            for (unit, expected) in starts {
                assert_eq!(line(*unit), Some(*expected), "{format:?} {unit}");
            }
            for pair in starts.windows(2) {
                let (last, expected) = (pair[1].0 - 1, pair[0].1);
                assert_eq!(line(last), Some(expected), "{format:?} {last}");
            }
            assert_eq!(line(-1), Some(6), "{format:?}");
        }
        for (format, table) in [
            (LineTable::Ranges, LINES_3_10),
            (LineTable::Locations, LINES),
        ] {
            assert_eq!(format.line_of_unit(&bytes(table), 6, 10_000), None);
        }
    }

    #[test]
    fn instructions_without_a_line_are_at_the_line_before() {
        let table = [2, 1, 4, 0x80, 2, 1];
        let lines = [0, 1, 2, 3].map(|unit| LineTable::Ranges.line_of_unit(&table, 6, unit));
        assert_eq!(lines, [Some(7), Some(7), Some(7), Some(8)]);
    }

    #[test]
    fn a_handler_needs_the_values_that_the_disassembler_lists() {
        // The ranges of `dis.dis`, in code units: before the first `with`, in it, before the second, and in that.
        for (unit, depth) in [
            (7, None),
            (8, Some(1)),
            (41, Some(1)),
            (42, Some(2)),
            (43, None),
            (44, Some(1)),
            (56, Some(4)),
            (92, None),
        ] {
            assert_eq!(depth_of_handler(&bytes(HANDLERS), unit), depth, "{unit}");
        }
    }

    #[test]
    fn cut_tables_are_not_read_beyond_their_end() {
        for format in [
            LineTable::Increments,
            LineTable::Ranges,
            LineTable::Locations,
        ] {
            for end in 0..LINES.len() / 2 {
                format.line_of_unit(&bytes(LINES)[..end], 6, 10_000);
            }
        }
        for end in 0..HANDLERS.len() / 2 {
            depth_of_handler(&bytes(HANDLERS)[..end], 10_000);
        }
        assert_eq!(
            LineTable::Locations.line_of_unit(&[0xff; 64], 6, 10_000),
            None
        );
        assert_eq!(depth_of_handler(&[0xff; 64], 3), None);
    }
}
