//! Supported languages: how each is recognized, and which nodes of its tree are statements.

use std::path::Path;
use tree_sitter::Language as Grammar;

/// A supported language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Python.
    Python,
    /// JavaScript, with JSX.
    JavaScript,
    /// TypeScript.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
    /// Rust.
    Rust,
    /// C.
    C,
    /// C++.
    Cpp,
    /// R.
    R,
    /// Julia.
    Julia,
}

const EXTENSIONS: &[(Language, &[&str])] = &[
    (Language::Python, &["py", "pyi"]),
    (Language::JavaScript, &["js", "mjs", "cjs", "jsx"]),
    (Language::TypeScript, &["ts", "mts", "cts"]),
    (Language::Tsx, &["tsx"]),
    (Language::Rust, &["rs"]),
    (Language::C, &["c", "h"]),
    (Language::Cpp, &["cc", "cpp", "cxx", "hpp", "hh"]),
    (Language::R, &["r", "R"]),
    (Language::Julia, &["jl"]),
];

/// Interpreters in the first line of scripts without an extension.
const INTERPRETERS: &[(Language, &str)] = &[
    (Language::Python, "python"),
    (Language::JavaScript, "node"),
    (Language::R, "Rscript"),
    (Language::Julia, "julia"),
];

/// Returns the known extensions, as text.
pub(super) fn known_extensions() -> String {
    let dotted_extensions: Vec<String> = EXTENSIONS
        .iter()
        .flat_map(|(_, extensions)| *extensions)
        .map(|extension| format!(".{extension}"))
        .collect();
    dotted_extensions.join(", ")
}

impl Language {
    /// Returns the language of a file: by its extension, or without one by its first line.
    pub fn of_file(path: &Path, text: &[u8]) -> Option<Self> {
        match path.extension() {
            Some(extension) => {
                let mut languages = EXTENSIONS.iter();
                let entry = languages.find(|(_, extensions)| {
                    extensions
                        .iter()
                        .any(|known_extension| extension == *known_extension)
                });
                entry.map(|(language, _)| *language)
            }
            None => of_script(text),
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
            Self::TypeScript => "TypeScript",
            Self::Tsx => "TSX",
            Self::Rust => "Rust",
            Self::C => "C",
            Self::Cpp => "C++",
            Self::R => "R",
            Self::Julia => "Julia",
        }
    }

    /// Returns whether the language has macros that may make the source unparsable. A parser that does not expand
    /// macros cannot report the errors of such a file, but still finds the imports.
    pub(super) fn has_macros(self) -> bool {
        matches!(self, Self::C | Self::Cpp)
    }

    #[cfg_attr(
        any(test, all(feature = "cpp", feature = "julia", feature = "typescript")),
        expect(clippy::unnecessary_wraps, reason = "a build may lack languages")
    )]
    /// Returns its grammar; `None` if the program was built without it.
    pub(super) fn grammar(self) -> Option<Grammar> {
        Some(match self {
            Self::Python => tree_sitter_python::LANGUAGE.into(),
            Self::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            #[cfg(any(test, feature = "typescript"))]
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            #[cfg(any(test, feature = "typescript"))]
            Self::Tsx => tree_sitter_typescript::LANGUAGE_TSX.into(),
            Self::Rust => tree_sitter_rust::LANGUAGE.into(),
            Self::C => tree_sitter_c::LANGUAGE.into(),
            #[cfg(any(test, feature = "cpp"))]
            Self::Cpp => tree_sitter_cpp::LANGUAGE.into(),
            Self::R => tree_sitter_r::LANGUAGE.into(),
            #[cfg(any(test, feature = "julia"))]
            Self::Julia => tree_sitter_julia::LANGUAGE.into(),
            // The tables of these languages are large.
            #[cfg(not(any(
                test,
                all(feature = "cpp", feature = "julia", feature = "typescript")
            )))]
            _ => return None,
        })
    }

    pub(super) fn syntax(self) -> &'static Syntax {
        match self {
            Self::Python => &PYTHON,
            Self::JavaScript | Self::TypeScript | Self::Tsx => &JAVASCRIPT,
            Self::Rust => &RUST,
            Self::C | Self::Cpp => &C,
            Self::R => &R,
            Self::Julia => &JULIA,
        }
    }
}

/// Returns the language of a script, by the interpreter in its first line.
fn of_script(text: &[u8]) -> Option<Language> {
    let line = text.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line.strip_prefix(b"#!")?).ok()?;
    let mut words = line
        .split_whitespace()
        .map(|word| word.rsplit('/').next().unwrap_or(word));
    // `env` is followed by the program, possibly after flags and variables.
    let program =
        words.find(|word| *word != "env" && !word.starts_with('-') && !word.contains('='))?;
    let version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
    let mut languages = INTERPRETERS.iter();
    let entry = languages.find(|(_, name)| program.strip_prefix(name).is_some_and(version));
    entry.map(|(language, _)| *language)
}

/// The statements in the syntax tree of a language. The strings are names of its grammar, except those of the source
/// itself in `hollow` and `comment`.
pub(super) struct Syntax {
    /// Nodes that list statements.
    pub(super) lists: &'static [&'static str],
    /// Nodes that list statements if they are in such a list themselves.
    pub(super) inner_lists: &'static [&'static str],
    /// Fields of lists that are not statements.
    pub(super) fields: &'static [&'static str],
    /// Children of lists that are not statements.
    pub(super) others: &'static [&'static str],
    /// Nodes with many kinds of children, and the kinds that are statements.
    pub(super) members: (&'static [&'static str], &'static [&'static str]),
    /// Nodes that are statements anywhere, because they are a separate line.
    pub(super) anywhere: &'static [&'static str],
    /// Nodes that belong to the statement after them in a list.
    pub(super) prefixes: &'static [&'static str],
    /// Nodes whose statements may lack braces, and the braces.
    pub(super) bodies: &'static [&'static str],
    pub(super) braces: &'static str,
    /// The list that must not be empty, and its placeholder.
    pub(super) hollow: Option<(&'static str, &'static str)>,
    /// Start of a comment that ends with its line.
    pub(super) comment: &'static [u8],
}

const NONE: Syntax = Syntax {
    lists: &[],
    inner_lists: &[],
    fields: &[],
    others: &[],
    members: (&[], &[]),
    anywhere: &[],
    prefixes: &[],
    bodies: &[],
    braces: "",
    hollow: None,
    comment: b"#",
};

const PYTHON: Syntax = Syntax {
    lists: &["module", "block"],
    hollow: Some(("block", "pass")),
    ..NONE
};

const JAVASCRIPT: Syntax = Syntax {
    lists: &[
        "program",
        "statement_block",
        "class_body",
        "switch_body",
        "switch_case",
        "switch_default",
    ],
    fields: &["value"],
    others: &["hash_bang_line"],
    prefixes: &["decorator"],
    bodies: &[
        "if_statement",
        "else_clause",
        "for_statement",
        "for_in_statement",
        "while_statement",
        "do_statement",
        "with_statement",
    ],
    braces: "statement_block",
    comment: b"//",
    ..NONE
};

const RUST: Syntax = Syntax {
    lists: &["source_file", "declaration_list", "block"],
    others: &["shebang", "inner_attribute_item", "label"],
    prefixes: &["attribute_item"],
    comment: b"//",
    ..NONE
};

const C: Syntax = Syntax {
    lists: &["translation_unit", "declaration_list", "compound_statement"],
    inner_lists: &[
        "case_statement",
        "preproc_if",
        "preproc_ifdef",
        "preproc_elif",
        "preproc_elifdef",
        "preproc_else",
    ],
    fields: &["name", "condition", "value", "alternative"],
    // A class is removed with the bodies of its functions; its fields are not removed individually.
    members: (
        &["field_declaration_list"],
        &["function_definition", "template_declaration"],
    ),
    anywhere: &["preproc_include"],
    bodies: &[
        "if_statement",
        "else_clause",
        "for_statement",
        "for_range_loop",
        "while_statement",
        "do_statement",
    ],
    braces: "compound_statement",
    comment: b"//",
    ..NONE
};

const R: Syntax = Syntax {
    lists: &["program", "braced_expression"],
    fields: &["open", "close"],
    bodies: &[
        "if_statement",
        "for_statement",
        "while_statement",
        "repeat_statement",
    ],
    braces: "braced_expression",
    ..NONE
};

const JULIA: Syntax = Syntax {
    lists: &[
        "source_file",
        "module_definition",
        "function_definition",
        "macro_definition",
        "compound_statement",
        "quote_statement",
        "let_statement",
        "do_clause",
        "if_statement",
        "elseif_clause",
        "else_clause",
        "for_statement",
        "while_statement",
        "try_statement",
        "catch_clause",
        "finally_clause",
    ],
    fields: &["name", "condition", "alternative"],
    others: &[
        "signature",
        "argument_list",
        "for_binding",
        "let_binding",
        "catch_clause",
        "else_clause",
        "finally_clause",
    ],
    ..NONE
};
