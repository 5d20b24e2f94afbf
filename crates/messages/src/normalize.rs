//! Removes from a line the parts that differ from trial to trial.

/// Returns a line without parts that differ between trials: numbers become `N`, hexadecimal numbers
/// `H`, paths their last part, and times are removed.
pub fn normalise_line(line: &str) -> String {
    let words: Vec<String> = line
        .split_whitespace()
        .filter(|word| !is_time(word))
        .skip_while(|word| is_process(word))
        .map(normalise_word)
        .collect();
    words.join(" ")
}

/// Returns whether a word is a time: `2024-01-02T03:04:05.678Z`, `[12:34:56]`, `12:34:56,789`.
fn is_time(word: &str) -> bool {
    let marks = word.matches([':', '-', '/']).count();
    let mut digits = 0;
    let fits = word.chars().all(|c| {
        digits += u32::from(c.is_ascii_digit());
        c.is_ascii_digit() || "-:.,/TZ+[]()".contains(c)
    });
    fits && marks >= 2 && digits >= 5
}

/// Returns whether a word is a process id at the start of a log line: `==1234==`, `[1234]`,
/// `(1234)`.
fn is_process(word: &str) -> bool {
    let inside = word.trim_matches(['=', '[', ']', '(', ')', ':']);
    inside.len() < word.len()
        && word.starts_with(['=', '[', '('])
        && !inside.is_empty()
        && inside.bytes().all(|byte| byte.is_ascii_digit())
}

fn normalise_word(word: &str) -> String {
    let mut normalized = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let length = rest.find(|c| !in_path(c)).unwrap_or(rest.len());
        if length == 0 {
            let c = rest.chars().next().map_or(1, char::len_utf8);
            normalized.push_str(&rest[..c]);
            rest = &rest[c..];
        } else {
            normalized.push_str(&replace_numbers(last_part(&rest[..length])));
            rest = &rest[length..];
        }
    }
    normalized
}

fn in_path(c: char) -> bool {
    c.is_alphanumeric() || "_./+-~@%".contains(c)
}

/// Returns the last part of a path; a random name is replaced with a fixed one.
fn last_part(path: &str) -> &str {
    let (folder, name) = path
        .trim_end_matches('/')
        .rsplit_once('/')
        .unwrap_or(("", path));
    match folder {
        "/tmp" | "/var/tmp" | "/dev/shm" => "TMP",
        _ => name,
    }
}

/// Replaces numbers with `N`, and hexadecimal numbers and UUIDs with `H`.
fn replace_numbers(word: &str) -> String {
    let mut replaced = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(c) = rest.chars().next() {
        let length = if let Some(length) = uuid_length(rest) {
            replaced.push('H');
            length
        } else if c.is_ascii_alphanumeric() {
            let length = rest
                .find(|c: char| !c.is_ascii_alphanumeric())
                .unwrap_or(rest.len());
            replaced.push_str(&replace_number(&rest[..length]));
            length
        } else {
            replaced.push(c);
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    replaced
}

fn replace_number(word: &str) -> String {
    let hex = |text: &str| text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let digit = |text: &str| text.contains(|c: char| c.is_ascii_digit());
    let letter = |text: &str| text.contains(|c: char| c.is_ascii_alphabetic());
    let prefixed = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    if prefixed.is_some_and(|digits| !digits.is_empty() && hex(digits))
        || (word.len() >= 6 && hex(word) && digit(word) && letter(word))
    {
        return "H".to_owned();
    }
    let mut replaced = String::with_capacity(word.len());
    for c in word.chars() {
        if !c.is_ascii_digit() {
            replaced.push(c);
        } else if !replaced.ends_with('N') {
            replaced.push('N');
        }
    }
    replaced
}

/// Returns the length of the UUID at the start of a text.
fn uuid_length(text: &str) -> Option<usize> {
    const LENGTH: usize = 36;
    let bytes = text.as_bytes().get(..LENGTH)?;
    let fits = bytes.iter().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    fits.then_some(LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalizing_removes_what_differs_between_trials() {
        let lines = [
            ("ValueError: 0x7ffe12", "ValueError: H"),
            ("lost 12 of 34567 items", "lost N of N items"),
            ("cannot open /home/me/data/x.csv", "cannot open x.csv"),
            (
                "cannot open '/tmp/tmpab3x': gone",
                "cannot open 'TMP': gone",
            ),
            ("File \"/a/b.py\", line 3", "File \"b.py\", line N"),
            ("2024-01-02T03:04:05.678Z error", "error"),
            ("2024-01-02 03:04:05,678 error", "error"),
            ("[12:34:56] error", "error"),
            ("==1234== error", "error"),
            ("app[1234]: error", "app[N]: error"),
            ("id 123e4567-e89b-12d3-a456-426614174000!", "id H!"),
            ("commit deadbe3f is bad", "commit H is bad"),
            ("the face of a cafe", "the face of a cafe"),
            ("x = -1.5e3", "x = -N.NeN"),
            ("and/or", "or"),
            ("", ""),
            ("gr\u{fc}n \u{1f980}7", "gr\u{fc}n \u{1f980}N"),
        ];
        for (line, plain) in lines {
            assert_eq!(normalise_line(line), plain, "{line}");
        }
    }

    #[test]
    fn normalizing_twice_equals_normalizing_once() {
        for line in ["0x12 a/b 7", "H N TMP", "[1] 12:34:56 x"] {
            assert_eq!(normalise_line(&normalise_line(line)), normalise_line(line));
        }
    }
}
