//! Recognizes import statements.

use super::Language;
use tree_sitter::Node;

/// Functions of R that load a package.
const ATTACH: &[&str] = &["library", "require", "requireNamespace", "loadNamespace"];
/// Functions of R that suppress the messages of another one.
const QUIET: &[&str] = &[
    "suppressPackageStartupMessages",
    "suppressMessages",
    "suppressWarnings",
    "invisible",
];

/// Returns whether a statement is an import.
pub(super) fn is_import(language: Language, statement: Node<'_>, text: &[u8]) -> bool {
    let kind = statement.kind();
    match language {
        // `from __future__` is not included: it changes the language, and must stay first.
        Language::Python => matches!(kind, "import_statement" | "import_from_statement"),
        Language::JavaScript | Language::TypeScript | Language::Tsx => match kind {
            "import_statement" => true,
            "export_statement" => statement.child_by_field_name("source").is_some(),
            "expression_statement" => named_child(statement, 0)
                .is_some_and(|expression| is_module_expression(expression, text)),
            "lexical_declaration" | "variable_declaration" => {
                let mut cursor = statement.walk();
                statement.named_children(&mut cursor).all(|child| {
                    child.is_extra()
                        || child
                            .child_by_field_name("value")
                            .is_some_and(|value| is_module_expression(value, text))
                })
            }
            _ => false,
        },
        Language::Rust => matches!(kind, "use_declaration" | "extern_crate_declaration"),
        Language::C => kind == "preproc_include",
        // The grammar does not know modules: it parses `import x;` as `x` of the type `import`.
        Language::Cpp => {
            kind == "preproc_include"
                || matches!(kind, "declaration" | "expression_statement")
                    && node_text(statement, text).starts_with(b"import")
                    && node_text(statement, text)
                        .get(b"import".len())
                        .is_some_and(|next| matches!(next, b' ' | b'\t' | b'<'))
        }
        Language::R => only_attaches_package(statement, text),
        Language::Julia => match kind {
            "import_statement" | "using_statement" => true,
            // `@everywhere using X`
            "macrocall_expression" => last_named_child(statement)
                .and_then(last_named_child)
                .is_some_and(|expression| {
                    matches!(expression.kind(), "import_statement" | "using_statement")
                }),
            _ => false,
        },
    }
}

fn node_text<'a>(node: Node<'_>, text: &'a [u8]) -> &'a [u8] {
    text.get(node.byte_range()).unwrap_or_default()
}

fn named_child(node: Node<'_>, index: u32) -> Option<Node<'_>> {
    node.named_child(index)
}

fn last_named_child(node: Node<'_>) -> Option<Node<'_>> {
    let count = u32::try_from(node.named_child_count()).ok()?;
    named_child(node, count.checked_sub(1)?)
}

/// Returns whether an expression of JavaScript is a module, or a part of it.
fn is_module_expression(mut expression: Node<'_>, text: &[u8]) -> bool {
    loop {
        let inner = match expression.kind() {
            "call_expression" => {
                return expression
                    .child_by_field_name("function")
                    .is_some_and(|called| {
                        called.kind() == "import" || node_text(called, text) == b"require"
                    });
            }
            "member_expression" => expression.child_by_field_name("object"),
            "await_expression"
            | "parenthesized_expression"
            | "as_expression"
            | "non_null_expression" => named_child(expression, 0),
            _ => None,
        };
        match inner {
            Some(inner) => expression = inner,
            None => return false,
        }
    }
}

/// Returns whether an expression of R only loads a package.
fn only_attaches_package(mut expression: Node<'_>, text: &[u8]) -> bool {
    while expression.kind() == "call" {
        let called = expression.child_by_field_name("function");
        let name = called.map_or(&[][..], |called| node_text(called, text));
        let name = name.strip_prefix(b"base::").unwrap_or(name);
        if ATTACH.iter().any(|function| function.as_bytes() == name) {
            return true;
        }
        if !QUIET.iter().any(|function| function.as_bytes() == name) {
            return false;
        }
        let inner = expression
            .child_by_field_name("arguments")
            .and_then(|arguments| named_child(arguments, 0))
            .and_then(|argument| argument.child_by_field_name("value"));
        match inner {
            Some(inner) => expression = inner,
            None => return false,
        }
    }
    false
}
