//! Makes text safe in Markdown: as code, or with escapes.

use provoke_words as words;
use std::fmt::Write as _;

/// Returns text as a code block, fenced by more backticks than it contains in a row.
pub(super) fn fence_code(language: &str, text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!(
        "{fence}{language}\n{}\n{fence}\n",
        words::sanitize_lines(text)
    )
}

/// Returns text as code that is valid in a cell of a table.
pub(super) fn inline_code(text: &str) -> String {
    let text = words::sanitize_line(text);
    if !text.contains(['`', '|', '\\']) && text == text.trim() && !text.is_empty() {
        return format!("`{text}`");
    }
    // Some text cannot be quoted with backticks in every dialect; character references always work.
    let mut code = "<code>".to_owned();
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            let _ = write!(code, "&#{};", u32::from(c));
        } else {
            code.push(c);
        }
    }
    code + "</code>"
}

/// Escapes text so that nothing in it has a meaning in Markdown, in HTML or on a forge.
pub(super) fn escape_markdown(text: &str) -> String {
    let text = words::sanitize_line(text.trim());
    let mut safe = String::with_capacity(text.len());
    let mut previous = ' ';
    for (position, c) in text.char_indices() {
        let next = text[position..].chars().nth(1).unwrap_or(' ');
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '!' | '$' => {
                safe.extend(['\\', c]);
            }
            '-' | '+' | '=' if position == 0 => safe.extend(['\\', c]),
            // `1. ` begins a list.
            '.' | ')'
                if next.is_whitespace()
                    && text[..position].bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                safe.extend(['\\', c]);
            }
            // A mention, an issue, a link: forges recognize these in the text after Markdown is rendered.
            '@' | '#' => {
                safe.push(c);
                safe.push_str("&#8203;");
            }
            ':' if next == '/' => safe.push_str(":&#8203;"),
            '.' if previous.eq_ignore_ascii_case(&'w') => safe.push_str("&#8203;."),
            _ => safe.push(c),
        }
        previous = c;
    }
    safe
}
