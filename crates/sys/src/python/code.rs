//! Decodes the tables of a Python code object: lines, and handlers of exceptions.
//!
//! The tables address code units of two bytes.

/// Returns the line of a code unit, from `co_linetable`.
pub(super) fn line_of_unit(table: &[u8], first_line: u32, unit: i64) -> Option<u32> {
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
        // Before its first instruction, a call is at the first line.
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

    #[test]
    fn lines_are_those_of_the_interpreter() {
        for (unit, line) in STARTS {
            assert_eq!(line_of_unit(&bytes(LINES), 6, unit), Some(line), "{unit}");
        }
        assert_eq!(line_of_unit(&bytes(LINES), 6, -1), Some(6));
        assert_eq!(line_of_unit(&bytes(LINES), 6, 10_000), None);
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
        for end in 0..LINES.len() / 2 {
            line_of_unit(&bytes(LINES)[..end], 6, 10_000);
        }
        for end in 0..HANDLERS.len() / 2 {
            depth_of_handler(&bytes(HANDLERS)[..end], 10_000);
        }
        assert_eq!(line_of_unit(&[0xff; 64], 6, 10_000), None);
        assert_eq!(depth_of_handler(&[0xff; 64], 3), None);
    }
}
