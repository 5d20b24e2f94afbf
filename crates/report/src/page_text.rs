//! Shows text from outside on an HTML page: without characters that mislead, and with HTML's own characters escaped.

use maud::Render;
use provoke_words as words;

/// Maximum number of characters of a single line.
const LONGEST_LINE: usize = 1000;
/// Maximum number of characters of a text with several lines.
const LONGEST_TEXT: usize = 16 * 1024;

/// A single line of text from outside: a name, a command, a sentence that contains one. Line ends are escaped, too.
///
/// The writer of the page escapes misleading characters in all of the page again.
pub(crate) struct PageText<'a>(pub(crate) &'a str);

impl Render for PageText<'_> {
    fn render_to(&self, buffer: &mut String) {
        let shortened = words::shorten_text(self.0, LONGEST_LINE);
        words::sanitize_line(&shortened).render_to(buffer);
    }
}

/// Text from outside with several lines, such as output.
pub(crate) struct PageLines<'a>(pub(crate) &'a str);

impl Render for PageLines<'_> {
    fn render_to(&self, buffer: &mut String) {
        let shortened = words::shorten_text(self.0, LONGEST_TEXT);
        words::sanitize_lines(&shortened).render_to(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup_or_misleads() {
        let hostile = "</style><script>\"'&\u{202e}\u{200b}\0\x1b[31m\nend";
        insta::assert_snapshot!(PageText(hostile).render().into_string(), @r#"&lt;/style&gt;&lt;script&gt;&quot;'&amp;\u{202e}\u{200b}\u{0}\x1b[31m\nend"#);
        assert!(
            PageLines(hostile)
                .render()
                .into_string()
                .ends_with("m\nend")
        );
    }

    #[test]
    fn long_text_is_cut() {
        let long = "<".repeat(4 << 20);
        assert!(PageText(&long).render().into_string().len() < 5 * LONGEST_LINE);
        assert!(PageLines(&long).render().into_string().len() < 5 * LONGEST_TEXT);
    }
}
