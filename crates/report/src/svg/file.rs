//! Writes each picture as a separate file: a heading, and rows with a name, a note and a drawing.

use super::LabelledDrawing;
use crate::page_text::PageText;
use maud::{Markup, PreEscaped, html};
use provoke_words::shorten_text;

/// The colours and the marks of pictures.
const MARK_STYLE: &str = include_str!("marks.css");

/// The further style of a file, which has no page around it.
const FILE_STYLE: &str = "svg { overflow: visible }
text.heading { font-size: 15px; font-weight: 600; fill: var(--ink) }
text.name { font-size: 13px; font-weight: 600; fill: var(--ink) }
text.note { font-size: 13px; fill: var(--muted) }
.paper { fill: var(--paper) }
";

/// Width of a file, in pixels. A reader may scale it.
const WIDTH: usize = 760;
/// Margin on all sides.
const MARGIN: usize = 16;
/// Left end of drawings beside a name and a note.
const DRAWING_LEFT: usize = 360;
/// Height of a heading.
const HEADING: usize = 30;
/// Maximum number of characters of a heading in one line.
const LONGEST_HEADING: usize = 78;
/// Maximum number of characters of a name.
const LONGEST_NAME: usize = 26;

/// A part of a file, below the part before it.
pub(crate) enum PicturePart {
    /// A name and a note beside a drawing of this height.
    Row {
        name: String,
        note: String,
        drawing: Markup,
        height: usize,
    },
    /// A drawing with labels on its left.
    Labelled(LabelledDrawing),
    /// A line of text.
    Note(String),
}

impl PicturePart {
    fn height(&self) -> usize {
        match self {
            Self::Row { height, .. } => *height,
            Self::Labelled(drawing) => drawing.height,
            Self::Note(_) => 22,
        }
    }

    fn draw(&self, top: usize) -> Markup {
        let inner_width = WIDTH - 2 * MARGIN;
        match self {
            Self::Row {
                name,
                note,
                drawing,
                height,
            } => html! {
                text.name x=(MARGIN) y=(top + 14) { (PageText(&shorten_text(name, LONGEST_NAME))) }
                text.note x=(DRAWING_LEFT - 20) y=(top + 14) text-anchor="end" { (PageText(note)) }
                svg x=(DRAWING_LEFT) y=(top) width=(WIDTH - MARGIN - DRAWING_LEFT) height=(height) { (drawing) }
            },
            Self::Labelled(LabelledDrawing {
                label_width,
                height,
                labels,
                drawing,
            }) => html! {
                svg x=(MARGIN) y=(top) width=(label_width) height=(height) { (labels) }
                svg x=(MARGIN + label_width + 8) y=(top) width=(inner_width - label_width - 8) height=(height) { (drawing) }
            },
            Self::Note(text) => {
                html! { text.note x=(MARGIN) y=(top + 16) { (PageText(text)) } }
            }
        }
    }
}

/// Draws a file with a heading; `description` says the same in words.
pub(crate) fn draw_file(heading: &str, description: &str, parts: &[PicturePart]) -> String {
    let content_height: usize = parts.iter().map(PicturePart::height).sum();
    let height = MARGIN + HEADING + content_height + MARGIN;
    let mut top = MARGIN + HEADING;
    let rows = parts.iter().map(|part| {
        let row = part.draw(top);
        top += part.height();
        row
    });
    let rows: Vec<Markup> = rows.collect();
    html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(WIDTH) height=(height) viewBox={ "0 0 " (WIDTH) " " (height) } role="img" {
            title { (PageText(heading)) }
            desc { (PageText(description)) }
            style { (PreEscaped(MARK_STYLE)) (PreEscaped(FILE_STYLE)) }
            rect.paper width="100%" height="100%" {}
            text.heading x=(MARGIN) y=(MARGIN + 12) { (PageText(&shorten_text(heading, LONGEST_HEADING))) }
            @for row in rows { (row) }
        }
    }
    .into_string()
}
