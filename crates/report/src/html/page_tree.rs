//! Parses a page for tests: its elements, their attributes and its text.

use html5ever::tendril::TendrilSink as _;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};

/// An element of a page.
pub(crate) struct PageElement {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
    /// The text inside.
    pub(crate) text: String,
    /// The anchor of the section around it; empty outside of sections.
    pub(crate) section: String,
}

/// Parses a page; panics if it is not well-formed. Returns its elements in their order.
pub(crate) fn parse_page(page: &str) -> Vec<PageElement> {
    let dom = parse_document(RcDom::default(), ParseOpts::default()).one(page);
    let errors = dom.errors.borrow();
    assert!(errors.is_empty(), "{errors:#?}");
    let mut elements = Vec::new();
    add_elements(&dom.document, "", &mut elements);
    elements
}

fn add_elements(node: &Handle, section: &str, elements: &mut Vec<PageElement>) {
    let mut section = section.to_owned();
    if let NodeData::Element { name, attrs, .. } = &node.data {
        let attributes: Vec<(String, String)> = attrs
            .borrow()
            .iter()
            .map(|attribute| {
                (
                    attribute.name.local.to_string(),
                    attribute.value.to_string(),
                )
            })
            .collect();
        let name = name.local.to_string();
        if name == "section" {
            let id = attributes.iter().find(|(name, _)| name == "id");
            section = id.map_or_else(String::new, |(_, id)| id.clone());
        }
        elements.push(PageElement {
            name,
            attributes,
            text: text_of(node),
            section: section.clone(),
        });
    }
    for child in node.children.borrow().iter() {
        add_elements(child, &section, elements);
    }
}

fn text_of(node: &Handle) -> String {
    if let NodeData::Text { contents } = &node.data {
        return contents.borrow().to_string();
    }
    let children = node.children.borrow();
    let text: String = children.iter().map(text_of).collect();
    match &node.data {
        // Cells of a row, and labels of a picture, are not one word.
        NodeData::Element { name, .. } if ["td", "th", "text"].contains(&&*name.local) => {
            text + " "
        }
        _ => text,
    }
}

/// Returns the visible text of a page, a line for each heading, paragraph, row or item.
pub(crate) fn text_lines(page: &str) -> String {
    let elements = parse_page(page);
    let blocks = [
        "h1",
        "h2",
        "h3",
        "p",
        "li",
        "dt",
        "dd",
        "tr",
        "pre",
        "summary",
        "figcaption",
    ];
    let mut lines = String::new();
    for element in elements
        .iter()
        .filter(|element| blocks.contains(&element.name.as_str()))
    {
        let line: Vec<&str> = element.text.split_whitespace().collect();
        // An element inside of another one has the same text.
        if lines.ends_with(&format!("\n{}\n", line.join(" "))) {
            continue;
        }
        if element.name == "h2" {
            lines.push('\n');
        }
        lines.push_str(&line.join(" "));
        lines.push('\n');
    }
    lines
}

/// Elements that a page may contain.
const ELEMENTS: [&str; 44] = [
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "a",
    "main",
    "header",
    "section",
    "h1",
    "h2",
    "h3",
    "p",
    "ul",
    "li",
    "dl",
    "dt",
    "dd",
    "div",
    "span",
    "strong",
    "code",
    "pre",
    "details",
    "summary",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "figure",
    "figcaption",
    "svg",
    "line",
    "rect",
    "circle",
    "path",
    "text",
    "g",
    "caption",
    "footer",
    "ol",
];

/// Attributes that an element of a page may have.
const ATTRIBUTES: [&str; 37] = [
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "id",
    "class",
    "href",
    "scope",
    "tabindex",
    "role",
    "aria-label",
    "aria-labelledby",
    "aria-hidden",
    "open",
    "width",
    "height",
    "viewBox",
    "preserveAspectRatio",
    "x",
    "y",
    "x1",
    "x2",
    "y1",
    "y2",
    "cx",
    "cy",
    "r",
    "d",
    "dx",
    "dy",
    "text-anchor",
    "vector-effect",
    "colspan",
    "rowspan",
    "points",
    "transform",
];

/// Panics if a page has elements or attributes that could load or run anything.
pub(crate) fn assert_harmless(page: &str) -> Vec<PageElement> {
    let elements = parse_page(page);
    for element in &elements {
        assert!(
            ELEMENTS.contains(&element.name.as_str()),
            "<{}>",
            element.name
        );
        for (name, value) in &element.attributes {
            assert!(
                ATTRIBUTES.contains(&name.as_str()),
                "{name} of <{}>",
                element.name
            );
            assert!(name != "href" || value.starts_with('#'), "{value}");
        }
    }
    let count = |name: &str| {
        elements
            .iter()
            .filter(|element| element.name == name)
            .count()
    };
    assert_eq!(
        (count("h1"), count("style"), count("title"), count("main")),
        (1, 1, 1, 1)
    );
    elements
}
