//! Picture with labels on its left: two drawings beside each other.

use maud::{Markup, Render, html};

/// A drawing that fits every width, and its labels, which keep their width.
pub(crate) struct LabelledDrawing {
    /// Width of the labels, in pixels.
    pub(crate) label_width: usize,
    /// Height of both, in pixels.
    pub(crate) height: usize,
    /// The elements of the labels.
    pub(crate) labels: Markup,
    /// The drawing, a whole `svg` element.
    pub(crate) drawing: Markup,
}

impl Render for LabelledDrawing {
    fn render_to(&self, buffer: &mut String) {
        let both = html! {
            svg.labels width=(self.label_width) height=(self.height) { (self.labels) }
            (self.drawing)
        };
        buffer.push_str(&both.into_string());
    }
}
