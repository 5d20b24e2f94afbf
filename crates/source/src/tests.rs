use super::*;
use proptest::prelude::*;
use provoke_model::SourceParts;
use provoke_test_needs::{needs, program};
use std::process::{Command, Stdio};

fn parts_of(name: &str, text: impl AsRef<[u8]>, grain: PartSize) -> SourceParts {
    find_pieces(Path::new(name), text.as_ref(), grain).unwrap_or_else(|fault| {
        panic!(
            "{name}: {fault}: {}",
            String::from_utf8_lossy(text.as_ref())
        )
    })
}

/// Returns the text with only these pieces kept.
fn remaining_text(name: &str, text: &str, grain: PartSize, kept: &[usize]) -> String {
    let pieces = parts_of(name, text, grain);
    let left = keep_only(text.as_bytes(), &pieces, &|piece| kept.contains(&piece));
    assert!(
        valid(name, &left) || !valid(name, text.as_bytes()),
        "{name}: {}",
        String::from_utf8_lossy(&left)
    );
    String::from_utf8(left).unwrap()
}

fn names(name: &str, text: &str, grain: PartSize) -> Vec<String> {
    let pieces = parts_of(name, text, grain).pieces.into_iter();
    pieces.map(|piece| piece.text).collect()
}

fn valid(name: &str, text: &[u8]) -> bool {
    let language = Language::of_file(Path::new(name), text).unwrap();
    find::first_error(&find::parse_tree(language, text).unwrap()).is_none()
}

/// Programs that combine many difficult constructs.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "tricky.py",
        r#"#!/usr/bin/env python3
"""What this is."""
from __future__ import annotations
import os, sys  # two
import a as b; import c; x = 1
from d import (
    e,  # one
    f as g,
)
if x: import h
if x: import i; import j
try:
    import k
    from l import *
except ImportError:
    import m
else:
    import n
finally:
    import o;
if TYPE_CHECKING:
    # only for types

    import p
elif x:
    y = 1
else: z = 2; w = 3

@decorated
@twice(lambda: 1)
async def q(u, *, v=1):
    """Docs."""
    import r
    with s as t:
        import u
    await u
    return

class V(W):
    x: int = 1
    def y(self): return 1
    def z(self):
        if 1:
            for i in x:
                while y: break
                else:
                    continue
match x:
    case 1: import aa
    case [a, b] if c:
        pass
text = """
import not_one
"""; import bb
def cc(): ...
import dd"#,
    ),
    (
        "tricky.js",
        r#"#!/usr/bin/env node
'use strict'
import a, { b } from 'a'; import 'c'
import {
  d,
} from "d" // why
export * from 'e';
export { f as g } from 'f'
const h = require('h'), { i } = require("i").j
var k = 1, l = require('l');
require('m');
if (k) require('n'); else if (l) require('o')
else { require('p') }
const q = await import('q')
for (const r of s) t(r)
for (let i = 0; i < 1; i++) for (;;) { break }
do u(); while (v)
outer: while (1) { continue outer }
class W extends X {
  y = 1; static { z() }
  #a() { return () => { b() } }
  get c() { return 1 }
}
switch (a) { case 1: case 2: b(); break; default: c() }
describe('d', () => {
  it('e', async function () { await f() })
});
export default function g() { try { h() } catch { i() } finally { j() } }
export const k2 = x => x ? 1 : 2, l2 = <div>{m}</div>
if (a) {}
;[1].map(n)"#,
    ),
    (
        "tricky.ts",
        r#"import type { A } from "a";
import b = require("b");
export type { C } from "c";
namespace D { export const e = 1; }
declare module "f" { import g from "g"; }
@h() export class I<T> { @j() k(): void {} @l m?: string = 1; n(o: T): void; }
interface P { q: string }
enum R { S, T }
type U = V | W;
abstract class X { abstract y(): void; z(): asserts this is Z { return } }
function aa(this: B): number;
function aa() { const c = <T>(x: T) => { return x as T }; if (c) return 1; }"#,
    ),
    (
        "tricky.tsx",
        "import * as React from 'react';\nconst a = (b: C) => { return <D e={() => { f() }}>{g}</D> }\n",
    ),
    (
        "tricky.rs",
        r#"#!/usr/bin/env run
//! What this is.
#![allow(unused)]
use a::{b, c}; use d;
pub(crate) use e::*; // all

/// Says something.
#[cfg(f)]
#[rustfmt::skip]
use g::h;
extern crate i;
mod j;
mod k { use l; #[test] fn m() { use n; o!(); p! {} } }
/** Much
 * said. */
#[derive(Q)] struct R { s: u8 }
const T: u8 = { use u; 1 };
impl V for W {
    type X = Y;
    /// Goes with it.
    fn z(&self) -> u8 { let a = if b { c } else { d }; let Some(e) = f else { return 1 }; 2 }
}
fn g() -> u8 {
    'h: loop { break 'h; };
    match i { J => { k(); } L if m => n, _ => {} }
    let o = |p| { q(p); r };
    unsafe { s() }
    #[cfg(t)]
    { u(); }
    if v { 1 } else if w { 2 } else { 3 }
}
macro_rules! x { () => { use y; } }
extern "C" { fn z(); static A: u8; }
enum B { C }"#,
    ),
    (
        "tricky.c",
        r#"#ifndef A_H
#define A_H
#include <stdio.h> /* why */
#  include "a.h"
#ifdef B
#include <b.h>
#elif defined(C)
#define D(x) \
    do { x; } while (0)
#else
int e;
#endif
struct F { int g; };
typedef enum { H, I } J;
static const int k = 1; int l;
int m(int n) {
    switch (n) { case 1: case 2: o(); break; default: ; p(); }
    if (n) q(); else if (r) s(); else { t(); }
    for (int i = 0; i < 1; i++) u();
    do v(); while (0);
    goto w;
w:  x();
    { y(); }
#if Z
    z();
#endif
    while (1) ;
    return 0;
};
#endif"#,
    ),
    (
        "tricky.cpp",
        r#"#include <a>
import b;
import <c>;
using namespace d;
namespace e { inline namespace f { int g; } }
class H : public I {
public:
    int j;
    H() : j(1) { k(); }
    ~H() = default;
    template <class T> T l() { return 1; }
#if M
    void n() { o(); }
#endif
};
template <typename P> struct Q { P r; };
extern "C" { int s(); }
auto t = [&](int u) { v(); return [=] { w(); }; };
int main() try { for (auto x : y) z(); throw 1; } catch (...) { if constexpr (a) b(); }
enum class C { D };"#,
    ),
    (
        "tricky.R",
        r#"#!/usr/bin/env Rscript
library(a); require("b")  # why
suppressPackageStartupMessages(library(c))
suppressWarnings(suppressMessages({
  library(d)
  base::requireNamespace("e", quietly = TRUE)
}))
invisible(loadNamespace("f"))
if (g) library(h) else library(i)
if (!require(j)) install.packages("j")
source("k.R")
l <- function(m, n = { o }) {
  for (p in q) r(p)
  while (TRUE) { break }
  repeat s()
  if (t) {
    u
  } else if (v) w else {
    x
  }
  y <- if (z) 1 else 2
  tryCatch({ a }, error = function(e) { b }, finally = c)
}
d |> e() |>
  f(\(x) { x })
function(x) x"#,
    ),
    (
        "tricky.jl",
        r#"#!/usr/bin/env julia
module M
using A, B; import C: d, e # why
import F as G
@everywhere using H
include("i.jl")
"Docs."
function j(k, l=1; m) where {N}
    if k
        using O
    elseif l
        p(); q()
    else
        r
    end
    try
        s
    catch e
        t
    finally
        u
    end
    for i in 1:3, j in 2; v; end
    while w x end
    map(y) do z
        a
    end
    let b = 1, c
        d
    end
    begin e; f end
    try g catch; h end
    return 1
end
k(x) = begin x end
struct L; m::Int; end
macro n(o) quote p end end
const q = x -> (x; x)
@testset "r" begin
    @test s
end
#= a comment =# t = 1 #= and
another =#
function u end
baremodule V end
end"#,
    ),
];

#[test]
fn the_language_is_recognized_by_the_file_name_or_the_first_line() {
    let of = |name: &str, text: &str| Language::of_file(Path::new(name), text.as_bytes());
    for (language, names) in [
        (Language::Python, "a.py a.pyi"),
        (Language::JavaScript, "a.js a.mjs a.cjs a.jsx"),
        (Language::TypeScript, "a.ts a.mts a.cts a.d.ts"),
        (Language::Tsx, "a.tsx"),
        (Language::Rust, "a.rs"),
        (Language::C, "a.c a.h"),
        (Language::Cpp, "a.cc a.cpp a.cxx a.hpp a.hh"),
        (Language::R, "a.r a.R"),
        (Language::Julia, "a.jl"),
    ] {
        for name in names.split(' ') {
            assert_eq!(of(name, ""), Some(language), "{name}");
        }
    }
    for (language, line) in [
        (Some(Language::Python), "#!/usr/bin/env python3\n"),
        (Some(Language::Python), "#! /opt/bin/python3.11 -u\r\n"),
        (Some(Language::JavaScript), "#!/usr/bin/env -S A=b node --x"),
        (Some(Language::R), "#!/usr/bin/Rscript"),
        (Some(Language::Julia), "#!/usr/bin/julia\n"),
        (None, "#!/bin/sh\n"),
        (None, "#!/usr/bin/nodeenv\n"),
        (None, "#!\n"),
        (None, "python\n"),
        (None, ""),
    ] {
        assert_eq!(of("script", line), language, "{line}");
        assert_eq!(of("a.txt", line), None);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn leaving_out_imports_removes_every_import_and_nothing_else() {
    for (name, text, expected) in [
        // Python
        ("a.py", "import a\nimport a.b as c\nx\n", "x\n"),
        (
            "a.py",
            "from a import (\n    b,\n    c as d,\n)\nfrom . import *\nx\n",
            "x\n",
        ),
        (
            "a.py",
            "from __future__ import a\nimport b\n",
            "from __future__ import a\n",
        ),
        ("a.py", "import a; x = 1; import b # c\n", "x = 1;  # c\n"),
        ("a.py", "import a # why\n# stays\nx\n", "# stays\nx\n"),
        (
            "a.py",
            "def f():\n    import a\n    import b\n    # c\n",
            "def f():\n    pass\n    # c\n",
        ),
        (
            "a.py",
            "def f():\n    \"\"\"d\"\"\"\n    import a\n",
            "def f():\n    \"\"\"d\"\"\"\n",
        ),
        ("a.py", "if x: import y", "if x: pass"),
        ("a.py", "if x: import y; import z # c\n", "if x: pass # c\n"),
        (
            "a.py",
            "if x:\n\timport y;\nelse: import z;\n",
            "if x:\n\tpass;\nelse: pass;\n",
        ),
        (
            "a.py",
            "try:\n    import a\nexcept ImportError:\n    a = None\nfinally: import b\n",
            "try:\n    pass\nexcept ImportError:\n    a = None\nfinally: pass\n",
        ),
        ("a.py", "\u{feff}import a\nx\n", "\u{feff}x\n"),
        ("a.py", "x\r\nimport a\r\ny\r\nimport b", "x\r\ny\r\n"),
        (
            "a.py",
            "s = \"\"\"\nimport no\n\"\"\"; import a\n",
            "s = \"\"\"\nimport no\n\"\"\"; \n",
        ),
        // JavaScript
        (
            "a.js",
            "import a from 'a'\nimport {\n  b\n} from 'b'; // c\nimport 'd';x",
            "x",
        ),
        (
            "a.js",
            "export * from 'a';\nexport { b } from 'b'\nexport { c }",
            "export { c }",
        ),
        (
            "a.js",
            "const a = require('a'), { b } = require('b').c;\nlet d\n",
            "let d\n",
        ),
        ("a.js", "var a = require('a'), b = 1", ""),
        (
            "a.js",
            "require('a');\nconst b = await import('b')\nx\n",
            "x\n",
        ),
        (
            "a.js",
            "let a = (await import('a')).b, c = f(require('c'))\nimport 'x'",
            "let a = (await import('a')).b, c = f(require('c'))\n",
        ),
        (
            "a.js",
            "if (x) require('a'); else y()",
            "if (x) {} else y()",
        ),
        (
            "a.js",
            "if (x) y()\nelse require('a')\n",
            "if (x) y()\nelse {}\n",
        ),
        (
            "a.js",
            "function f() { const a = require('a'); return a }",
            "function f() { return a }",
        ),
        // TypeScript
        (
            "a.ts",
            "import type { A } from 'a'\nimport b = require('b');\nlet c: A\n",
            "let c: A\n",
        ),
        (
            "a.ts",
            "declare module 'a' {\n  import b from 'b'\n}\n",
            "declare module 'a' {\n}\n",
        ),
        (
            "a.tsx",
            "import 'a'\nconst x = <a></a>\n",
            "const x = <a></a>\n",
        ),
        // Rust
        (
            "a.rs",
            "use a;\npub use b::{\n    c,\n    d,\n};\nmod e;\n",
            "mod e;\n",
        ),
        (
            "a.rs",
            "#[cfg(a)]\n#[b]\nuse c;\n#[d]\nextern crate e;\nfn f() { use g; h() }",
            "fn f() { h() }",
        ),
        (
            "a.rs",
            "/// Why.\npub use a;\n// stays\nstruct B;\n",
            "// stays\nstruct B;\n",
        ),
        ("a.rs", "m! { use a; }\nuse b;\n", "m! { use a; }\n"),
        // C and C++
        (
            "a.c",
            "#include <a.h>\n  #  include \"b.h\" // c\nint d;\n",
            "int d;\n",
        ),
        (
            "a.c",
            "#ifdef A\n#include <a.h>\n#else\n#include <b.h>\n#endif\n",
            "#ifdef A\n#else\n#endif\n",
        ),
        (
            "a.cpp",
            "#include <a>\r\nimport b;\r\nimport <c>;\r\nusing namespace d;\r\n",
            "using namespace d;\r\n",
        ),
        (
            "a.cpp",
            "#include <a>\nnamespace b C(d) {\n#include <e>\n}\n",
            "namespace b C(d) {\n}\n",
        ),
        // R
        (
            "a.R",
            "library(a); require('b')\nbase::loadNamespace(\"c\")\nd\n",
            "\nd\n",
        ),
        (
            "a.R",
            "suppressPackageStartupMessages(library(a))\nsource('b')\n",
            "source('b')\n",
        ),
        (
            "a.R",
            "suppressWarnings({\n  library(a)\n  library(b)\n})\n",
            "suppressWarnings({\n})\n",
        ),
        (
            "a.R",
            "if (x) library(a) else library(b)\n",
            "if (x) {} else {}\n",
        ),
        (
            "a.R",
            "if (!require(a)) b()\nlibrary(c)\n",
            "if (!require(a)) b()\n",
        ),
        // Julia
        (
            "a.jl",
            "using A, B\nimport C: d, e\ninclude(\"f\")\n",
            "include(\"f\")\n",
        ),
        (
            "a.jl",
            "module A\nusing B; import C\n@everywhere using D\nend\n",
            "module A\n\nend\n",
        ),
        (
            "a.jl",
            "if a\n  using B\nelse import C end\n",
            "if a\nelse end\n",
        ),
    ] {
        if expected.is_empty() {
            let none = find_pieces(Path::new(name), text.as_bytes(), PartSize::Imports);
            assert_eq!(none, Err(SourceError::Nothing(PartSize::Imports)), "{text}");
        } else {
            assert_eq!(
                remaining_text(name, text, PartSize::Imports, &[]),
                expected,
                "{text}"
            );
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn statements_are_left_out_with_empty_enclosing_statements() {
    for (name, text, kept, expected) in [
        (
            "a.py",
            "a\nif b:\n    c\n    d\ne\n",
            &[1][..],
            "if b:\n    c\n",
        ),
        (
            "a.py",
            "if a:\n    b\nelse:\n    c # d\n",
            &[0],
            "if a:\n    b\nelse:\n    pass # d\n",
        ),
        (
            "a.py",
            "@a\n@b\ndef c():\n    'd'\n    for e in f: g\nh\n",
            &[2],
            "h\n",
        ),
        (
            "a.py",
            "class A:\n    def b(self): return 1\n    c = 2\n",
            &[0],
            "class A:\n    def b(self): return 1\n",
        ),
        (
            "a.py",
            "match a:\n    case 1: b\n    case 2: c\n",
            &[1],
            "match a:\n    case 2: c\n",
        ),
        ("a.py", "if a: b; c; d\n", &[1], "if a: c; \n"),
        (
            "a.js",
            "a()\nf(() => {\n  b()\n  c()\n})\n",
            &[1],
            "f(() => {\n  b()\n})\n",
        ),
        (
            "a.js",
            "class A { b = 1; c() { d(); e() } }",
            &[0],
            "class A { b = 1; }",
        ),
        (
            "a.js",
            "switch (a) { case 1: b(); case 2: c() }",
            &[1],
            "switch (a) { case 2: c() }",
        ),
        (
            "a.js",
            "for (;;) if (a) b(); else c()",
            &[1],
            "for (;;) if (a) {} else c()",
        ),
        (
            "a.rs",
            "fn f() -> u8 { g(); 1 }\n#[a]\nfn h() { i!() }\n",
            &[0],
            "fn f() -> u8 { g(); }\n",
        ),
        (
            "a.rs",
            "struct A;\nimpl B for A { fn c() {} fn d() {} }",
            &[2],
            "impl B for A { fn d() {} }",
        ),
        (
            "a.rs",
            "fn f() { match a { B => { c(); } D => { e } } g }",
            &[1],
            "fn f() { match a { B => { } D => { e } } }",
        ),
        (
            "a.c",
            "#ifdef A\n#define B\n#endif\nint main() { if (c) d(); return 0; }\n",
            &[2],
            "int main() { return 0; }\n",
        ),
        (
            "a.c",
            "#if A\nint b;\n#else\nint c;\n#endif\nint d;\n",
            &[0],
            "#if A\nint b;\n#else\n#endif\n",
        ),
        (
            "a.cpp",
            "class A { int a; void b() { c(); } };\nint d;\n",
            &[1],
            "int d;\n",
        ),
        (
            "a.R",
            "f <- function(x) {\n  a; b\n  if (c) d else e\n}\n",
            &[3],
            "f <- function(x) {\n  \n  if (c) {} else e\n}\n",
        ),
        (
            "a.jl",
            "function f(x)\n    a\n    try b catch e; c end\nend\n",
            &[2],
            "function f(x)\n    try catch e; c end\nend\n",
        ),
    ] {
        assert_eq!(
            remaining_text(name, text, PartSize::Statements, kept),
            expected,
            "{text}"
        );
    }
}

#[test]
fn any_file_can_be_divided_into_lines() {
    let text = b"\xef\xbb\xbf\xff one\r\n\r\n \t\n\ntwo\nthree";
    let pieces = parts_of("any", text, PartSize::Lines);
    let lines = pieces
        .pieces
        .iter()
        .map(|one| (one.line, one.last_line, &*one.text));
    let expected = [(1, 1, "\u{fffd} one"), (5, 5, "two"), (6, 6, "three")];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
    let left = |kept: usize| keep_only(text, &pieces, &|piece| piece == kept);
    assert_eq!(left(1), b"\xef\xbb\xbf\r\n \t\n\ntwo\n");
    assert_eq!(left(9), b"\xef\xbb\xbf\r\n \t\n\n");
}

#[test]
fn a_part_has_its_line_numbers_and_its_beginning() {
    let text = format!(
        "x();\n#[a]\nuse b::{{\n    c,\n}};\nlet d = \"{}\";\n",
        "é".repeat(200)
    );
    let pieces = parts_of("a.rs", &text, PartSize::Statements).pieces;
    let positions = pieces
        .iter()
        .map(|one| (one.line, one.last_line, one.text.chars().count()));
    assert_eq!(
        positions.collect::<Vec<_>>(),
        [(1, 1, 4), (3, 5, 8), (6, 6, 101)]
    );
}

#[test]
fn files_without_parts_and_syntax_errors_are_refused() {
    let fault = |name: &str, text: &str| {
        find_pieces(Path::new(name), text.as_bytes(), PartSize::Statements).unwrap_err()
    };
    assert!(fault("a.txt", "x").to_string().contains(".py, .pyi, .js"));
    assert_eq!(
        fault("a.py", "# nothing\n"),
        SourceError::Nothing(PartSize::Statements)
    );
    assert_eq!(
        find_pieces(Path::new("a"), b"\n\n", PartSize::Lines),
        Err(SourceError::Nothing(PartSize::Lines))
    );
    for (name, text, at) in [
        ("a.py", "x = 1\nélan = = 2\n", (2, 8, "élan = = 2")),
        ("a.py", "def f(:\n    pass\n", (1, 7, "def f(:")),
        ("a.rs", "fn f() {\n    g()\n", (1, 1, "fn f() {")),
        ("a.c", "int f() {\n  return 1\n}\n", (2, 11, "return 1")),
        ("a.js", "let a = {;\n", (1, 10, "let a = {;")),
    ] {
        let SourceError::Syntax {
            line,
            column,
            text: shown,
            ..
        } = fault(name, text)
        else {
            panic!("{name}: {text}");
        };
        assert_eq!((line, column, &*shown), at, "{name}: {text}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_unchanged() {
    for (name, text, expected) in [
        (
            "a.py",
            &b"# \xe9\ns = '\xe9'\nimport b\n"[..],
            &b"# \xe9\ns = '\xe9'\n"[..],
        ),
        (
            "a.js",
            b"// \xe9\nlet s = '\xe9'\nimport 'b'\n",
            b"// \xe9\nlet s = '\xe9'\n",
        ),
        (
            "a.ts",
            b"// \xe9\nlet s = `\xe9`\nimport 'b'\n",
            b"// \xe9\nlet s = `\xe9`\n",
        ),
        (
            "a.rs",
            b"// \xe9\nconst S: &str = \"\xe9\";\nuse b;\n",
            b"// \xe9\nconst S: &str = \"\xe9\";\n",
        ),
        (
            "a.c",
            b"/* \xe9 */\nchar *s = \"\xe9\";\n#include <b>\n",
            b"/* \xe9 */\nchar *s = \"\xe9\";\n",
        ),
        (
            "a.cpp",
            b"// \xe9\nauto s = \"\xe9\";\n#include <b>\n",
            b"// \xe9\nauto s = \"\xe9\";\n",
        ),
        (
            "a.R",
            b"# \xe9\ns <- '\xe9'\nlibrary(b)\n",
            b"# \xe9\ns <- '\xe9'\n",
        ),
        (
            "a.jl",
            b"# \xe9\ns = \"\xe9\"\nusing B\n",
            b"# \xe9\ns = \"\xe9\"\n",
        ),
    ] {
        let pieces = parts_of(name, text, PartSize::Imports);
        assert_eq!(keep_only(text, &pieces, &|_| false), expected, "{name}");
    }
}

#[test]
fn a_deep_syntax_tree_does_not_overflow_the_stack() {
    let sum = format!("x = {}1\nimport a\n", "1 + ".repeat(20_000));
    assert_eq!(names("a.py", &sum, PartSize::Imports), ["import a"]);
}

#[test]
fn python_compiles_the_remaining_parts() {
    needs!(program("python3"));
    let (name, text) = PROGRAMS[0];
    let mut programs = Vec::new();
    for grain in [PartSize::Imports, PartSize::Statements] {
        let pieces = parts_of(name, text, grain);
        for seed in 0..40 {
            let left = keep_only(text.as_bytes(), &pieces, &|piece| {
                (piece * 7 + seed * 13 + piece * piece * seed) % 5 < seed % 5
            });
            programs.push(String::from_utf8(left).unwrap());
        }
    }
    let check = "import json, sys\nfor one in json.load(sys.stdin): compile(one, one, 'exec')";
    let mut python = Command::new("python3")
        .args(["-c", check])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    serde_json::to_writer(python.stdin.take().unwrap(), &programs).unwrap();
    assert!(python.wait().unwrap().success());
}

fn any_selection() -> impl Strategy<Value = (usize, Vec<bool>)> {
    (
        0..PROGRAMS.len(),
        prop::collection::vec(any::<bool>(), 1..150),
    )
}

proptest! {
    #[test]
    fn the_remaining_parts_are_a_valid_program((program, kept) in any_selection(), crlf: bool, imports: bool) {
        let (name, text) = PROGRAMS[program];
        let text = if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
        let grain = if imports { PartSize::Imports } else { PartSize::Statements };
        let pieces = parts_of(name, &text, grain);
        let left = keep_only(text.as_bytes(), &pieces, &|piece| kept[piece % kept.len()]);
        prop_assert!(valid(name, &left), "{name}: {}", String::from_utf8_lossy(&left));
    }
}

#[test]
fn a_file_with_all_parts_kept_is_unchanged() {
    for (name, text) in PROGRAMS {
        for grain in [PartSize::Imports, PartSize::Statements, PartSize::Lines] {
            let pieces = parts_of(name, text, grain);
            assert_eq!(
                keep_only(text.as_bytes(), &pieces, &|_| true),
                text.as_bytes()
            );
            let json = serde_json::to_string(&pieces).unwrap();
            assert_eq!(serde_json::from_str::<SourceParts>(&json).unwrap(), pieces);
        }
    }
}

/// Applies a patch with git to a file of this name.
fn apply_with_git(name: &str, old: &[u8], patch: &[u8]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, old).unwrap();
    std::fs::write(folder.path().join("patch"), patch).unwrap();
    let git = Command::new("git")
        .args(["-c", "core.autocrlf=false", "apply", "patch"])
        .current_dir(&folder)
        .env("GIT_CEILING_DIRECTORIES", folder.path())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    git.success().then(|| std::fs::read(&file).unwrap())
}

#[test]
fn equal_texts_have_an_empty_patch() {
    assert_eq!(unified_diff("a", b"b\n", b"b\n"), b"");
}

#[test]
fn a_patch_can_empty_and_fill_a_file() {
    needs!(program("git"));
    let (full, empty) = (b"a\nb", b"");
    for (old, new) in [(&full[..], &empty[..]), (empty, full)] {
        assert_eq!(
            apply_with_git("c", old, &unified_diff("c", old, new)).unwrap(),
            new
        );
    }
}

#[test]
fn a_patch_contains_the_unchanged_bytes_of_lines() {
    let patch = unified_diff("a/b c.py", b"1\r\n\xff\n3", b"1\r\n2");
    let expected = b"--- a/a/b c.py\t\n+++ b/a/b c.py\t\n@@ -1,3 +1,2 @@\n 1\r\n-\xff\n-3\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n";
    assert_eq!(patch, expected, "{}", String::from_utf8_lossy(&patch));
}

#[test]
fn git_applies_a_patch() {
    needs!(program("git"));
    let texts = (
        prop::collection::vec((0..6_usize, any::<bool>()), 1..40),
        any::<bool>(),
        "[a-zé]{1,3}(/[a-z]{1,3} [a-z]{1,3})?",
    );
    proptest!(ProptestConfig::with_cases(48), |((lines, cut, name) in texts)| {
        const LINES: [&[u8]; 6] = [b"a\n", b"b\r\n", b"\xff\xfe\n", b"\n", b"- a\n", b"\\ No\n"];
        let text = |kept: bool| {
            let lines = lines.iter().filter(|(_, one)| kept || *one);
            let text = lines.flat_map(|(line, _)| LINES[*line]).copied();
            text.collect::<Vec<u8>>()
        };
        let (mut old, new) = (text(true), text(false));
        if cut {
            old.pop();
        }
        for (old, new) in [(&old, &new), (&new, &old)] {
            let patch = unified_diff(&name, old, new);
            if !patch.is_empty() {
                let result = apply_with_git(&name, old, &patch);
                prop_assert_eq!(result.as_ref(), Some(new), "{}", String::from_utf8_lossy(&patch));
            }
        }
    });
}
