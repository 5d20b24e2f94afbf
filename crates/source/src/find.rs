//! Finds the imports and the statements of a program.
//!
//! The tree is walked once, without recursion: a sum of ten thousand terms is a tree of that depth. At the end of a
//! statement it is known whether the statement contains others; if not, it is a piece, otherwise a shell around them.

use super::imports::is_import;
use super::language::Syntax;
use super::lines::SourceLines;
use super::{Language, PartSize, SourceError};
use provoke_model::{EnclosingPart, SourceParts};
use std::ops::Range;
use tree_sitter::{Node, Parser, Tree, TreeCursor};

/// Finds the imports or the statements of a program.
pub(super) fn find_pieces(
    language: Language,
    text: &[u8],
    grain: PartSize,
) -> Result<SourceParts, SourceError> {
    let lines = SourceLines::new(text);
    let fault = |position| SourceError::Syntax {
        language,
        line: lines.number_at(position),
        column: lines.column_at(position),
        text: lines.shown_whole(position),
    };
    let tree = parse_tree(language, text).ok_or_else(|| fault(0))?;
    if !(grain == PartSize::Imports && language.has_macros())
        && let Some(position) = first_error(&tree)
    {
        return Err(fault(position));
    }
    let walk = SyntaxWalk {
        language,
        syntax: language.syntax(),
        grain,
        text,
        lines: &lines,
        parts: SourceParts::default(),
        open: Vec::new(),
    };
    Ok(walk.walk_tree(&tree))
}

pub(super) fn parse_tree(language: Language, text: &[u8]) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()?).ok()?;
    parser.parse(text, None)
}

/// Returns the position of the first syntax error.
pub(super) fn first_error(tree: &Tree) -> Option<usize> {
    let root = tree.root_node();
    if !root.has_error() {
        return None;
    }
    let mut position = root.start_byte();
    let mut cursor = tree.walk();
    // Follows the first branch with errors; the last node on it is the closest to the error.
    loop {
        let node = cursor.node();
        if node.is_error() || node.is_missing() {
            position = node.start_byte();
        }
        let mut has_more = cursor.goto_first_child();
        while has_more && !is_erroneous(cursor.node()) {
            has_more = cursor.goto_next_sibling();
        }
        if !has_more {
            return Some(position);
        }
    }
}

fn is_erroneous(node: Node<'_>) -> bool {
    node.has_error() || node.is_missing()
}

/// Fields of a statement that contain a body without braces.
const BODIES: &[&str] = &["body", "consequence", "alternative"];

/// How a node can be left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RemovalKind {
    /// It is a statement in a list.
    Listed,
    /// It is a body without braces, and must be replaced.
    Body,
    /// It is not a statement.
    None,
}

/// An open node between the root and the present position.
struct OpenNode<'t> {
    node: Node<'t>,
    removal: RemovalKind,
    /// Whether its children are statements.
    list: bool,
    /// Start of the text that is removed with it.
    start: usize,
    /// Number of pieces before it.
    first: usize,
    /// The statements in it so far, from the first to the last.
    statements: Option<Range<usize>>,
    /// Whether some of them cannot be left out.
    stays: bool,
    /// Start of the prefix of its next statement.
    prefix: Option<usize>,
}

struct SyntaxWalk<'a, 't> {
    language: Language,
    syntax: &'static Syntax,
    grain: PartSize,
    text: &'a [u8],
    lines: &'a SourceLines<'a>,
    parts: SourceParts,
    open: Vec<OpenNode<'t>>,
}

impl<'t> SyntaxWalk<'_, 't> {
    fn walk_tree(mut self, tree: &'t Tree) -> SourceParts {
        let mut cursor = tree.walk();
        loop {
            self.enter_node(&cursor);
            if cursor.goto_first_child() {
                continue;
            }
            loop {
                self.leave_node();
                if cursor.goto_next_sibling() {
                    break;
                }
                if !cursor.goto_parent() {
                    // The node that was left last is the outermost.
                    self.parts.shells.reverse();
                    return self.parts;
                }
            }
        }
    }

    fn enter_node(&mut self, cursor: &TreeCursor<'t>) {
        let node = cursor.node();
        let field = cursor.field_name();
        let removal = self.classify_node(node, field);
        let mut start = node.start_byte();
        let mut list = self.syntax.lists.contains(&node.kind());
        if let Some(parent) = self.open.last_mut() {
            list |= parent.list && self.syntax.inner_lists.contains(&node.kind());
            if removal == RemovalKind::Listed {
                start = parent.prefix.take().unwrap_or(start);
            } else if parent.list && is_prefix(self.syntax, node) {
                parent.prefix.get_or_insert(start);
            }
        }
        self.open.push(OpenNode {
            node,
            removal,
            list,
            start,
            first: self.parts.pieces.len(),
            statements: None,
            stays: false,
            prefix: None,
        });
    }

    /// Returns whether a node is a statement.
    fn classify_node(&self, node: Node<'_>, field: Option<&str>) -> RemovalKind {
        let Some(parent) = self.open.last() else {
            return RemovalKind::None;
        };
        let Syntax {
            fields,
            others: other_kinds,
            members: (lists, members),
            anywhere,
            prefixes,
            bodies,
            braces,
            ..
        } = self.syntax;
        let kind = node.kind();
        let contains = |names: &[&str], name| names.contains(&name);
        if !node.is_named() || node.is_extra() || self.text.get(node.byte_range()) == Some(b";") {
            return RemovalKind::None;
        }
        if parent.list {
            let apart = field.is_some_and(|field| contains(fields, field));
            let named =
                self.language == Language::Julia && names_something(parent.node, node, self.text);
            if apart || named || contains(other_kinds, kind) || contains(prefixes, kind) {
                return RemovalKind::None;
            }
            return RemovalKind::Listed;
        }
        let above_kind = parent.node.kind();
        if contains(anywhere, kind) || contains(lists, above_kind) && contains(members, kind) {
            return RemovalKind::Listed;
        }
        // In R, the value of a statement inside an expression is used.
        let of_statement = parent.removal != RemovalKind::None || above_kind == "else_clause";
        let body = field.is_none_or(|field| contains(BODIES, field));
        if contains(bodies, above_kind)
            && of_statement
            && body
            && !contains(&[braces, "else_clause"], kind)
        {
            return RemovalKind::Body;
        }
        RemovalKind::None
    }

    fn leave_node(&mut self) {
        let Some(node) = self.open.pop() else { return };
        self.close_list(&node);
        if node.removal == RemovalKind::None {
            return;
        }
        let span = node.start..self.end_of_node(node.node);
        if let Some(parent) = self.open.last_mut() {
            let first = parent
                .statements
                .as_ref()
                .map_or(span.start, |span_of_all| span_of_all.start);
            parent.statements = Some(first..span.end);
        }
        let inside = node.first..self.parts.pieces.len();
        let goes = match self.grain {
            PartSize::Imports => is_import(self.language, node.node, self.text),
            PartSize::Statements | PartSize::Lines => true,
        };
        if !goes {
            if let Some(parent) = self.open.last_mut() {
                parent.stays = true;
            }
            return;
        }
        let end = span.end;
        let (span, instead) = match node.removal {
            RemovalKind::Body => (span, "{}".to_owned()),
            _ => (
                self.lines.expand_statement(span, self.syntax.comment),
                String::new(),
            ),
        };
        if inside.is_empty() {
            let mut part = self.lines.make_piece(span, node.node.start_byte(), end);
            part.instead = instead;
            self.parts.pieces.push(part);
        } else {
            self.push_shell(inside, span, instead);
        }
    }

    /// Adds a shell around pieces. An inner shell around the same pieces is removed with it.
    fn push_shell(&mut self, pieces: Range<usize>, span: Range<usize>, instead: String) {
        let shells = &mut self.parts.shells;
        while shells.last().is_some_and(|inner| inner.pieces == pieces) {
            shells.pop();
        }
        shells.push(EnclosingPart {
            pieces,
            span,
            instead,
        });
    }

    /// Ensures that a list which must not be empty contains something.
    fn close_list(&mut self, list: &OpenNode<'_>) {
        if let Some((kind, instead)) = self.syntax.hollow
            && list.node.kind() == kind
            && !list.stays
            && let Some(span) = &list.statements
        {
            let pieces = list.first..self.parts.pieces.len();
            self.push_shell(pieces, span.clone(), instead.to_owned());
        }
    }

    /// Returns the end of a node, without the line end that some nodes include.
    fn end_of_node(&self, node: Node<'_>) -> usize {
        let node_text = self.text.get(node.byte_range()).unwrap_or_default();
        node.start_byte() + node_text.trim_ascii_end().len()
    }
}

/// Returns whether a node belongs to the statement after it.
fn is_prefix(syntax: &Syntax, node: Node<'_>) -> bool {
    syntax.prefixes.contains(&node.kind())
        // A documentation comment of Rust needs an item to document.
        || node.is_extra() && node.child_by_field_name("outer").is_some()
}

/// Returns whether a node of Julia is the name in `catch e`, or one in `let x, y`: these are on the first line of their
/// construct.
fn names_something(parent: Node<'_>, node: Node<'_>, text: &[u8]) -> bool {
    let text_before = text.get(parent.start_byte()..node.start_byte());
    matches!(parent.kind(), "catch_clause" | "let_statement")
        && text_before.is_some_and(|before| !before.contains(&b'\n') && !before.contains(&b';'))
}
