use super::*;
use crate::model::Pieces;
use proptest::prelude::*;
use std::process::{Command, Stdio};

fn found(name: &str, text: impl AsRef<[u8]>, grain: Grain) -> Pieces {
    pieces(Path::new(name), text.as_ref(), grain).unwrap_or_else(|fault| {
        panic!(
            "{name}: {fault}: {}",
            String::from_utf8_lossy(text.as_ref())
        )
    })
}

/// What is left of a text when only these pieces are kept.
fn left(name: &str, text: &str, grain: Grain, kept: &[usize]) -> String {
    let pieces = found(name, text, grain);
    let left = without(text.as_bytes(), &pieces, &|piece| kept.contains(&piece));
    assert_valid(name, &left);
    String::from_utf8(left).unwrap()
}

fn names(name: &str, text: &str, grain: Grain) -> Vec<String> {
    let pieces = found(name, text, grain).pieces.into_iter();
    pieces.map(|piece| piece.text).collect()
}

fn valid(name: &str, text: &[u8]) -> bool {
    let language = Language::of(Path::new(name), text).unwrap();
    find::first_error(&find::parse(language, text).unwrap()).is_none()
}

fn assert_valid(name: &str, text: &[u8]) {
    assert!(
        valid(name, text),
        "{name}: {}",
        String::from_utf8_lossy(text)
    );
}

/// Programs in which much that is difficult stands close together.
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
    return await (yield)

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
fn the_language_is_known_by_the_name_or_by_the_first_line() {
    let of = |name: &str, text: &str| Language::of(Path::new(name), text.as_bytes());
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
fn every_import_is_a_piece_and_nothing_else() {
    for (name, expected) in [(
        "tricky.py",
        "import os, sys  # two|import a as b; import c; x = 1|import c; x = 1|from d import (|import h|import i; import j|import j|import k|from l import *|import m|import n|import o;|import p|import r|import u|import aa|import bb|import dd",
    )] {
        let text = PROGRAMS.iter().find(|(one, _)| *one == name).unwrap().1;
        assert_eq!(names(name, text, Grain::Imports).join("|"), expected);
    }
}

#[test]
fn dump() {
    for (name, text) in PROGRAMS {
        for grain in [Grain::Imports, Grain::Statements] {
            let found = pieces(Path::new(name), text.as_bytes(), grain);
            match found {
                Err(fault) => println!("{name} {grain:?} {fault:?}"),
                Ok(found) => {
                    println!("== {name} {grain:?}");
                    for piece in &found.pieces {
                        println!(
                            "{:?}{}",
                            String::from_utf8_lossy(&text.as_bytes()[piece.span.clone()]),
                            if piece.instead.is_empty() { "" } else { " {}" }
                        );
                    }
                    for shell in &found.shells {
                        println!(
                            "  {:?} {:?} -> {:?}",
                            shell.pieces,
                            text[shell.span.clone()]
                                .chars()
                                .take(40)
                                .collect::<String>(),
                            shell.instead
                        );
                    }
                }
            }
        }
    }
}

fn some() -> impl Strategy<Value = (usize, Vec<bool>)> {
    (
        0..PROGRAMS.len(),
        prop::collection::vec(any::<bool>(), 1..150),
    )
}

proptest! {
    #[test]
    fn what_is_left_is_a_program((program, kept) in some(), crlf: bool, imports: bool) {
        let (name, text) = PROGRAMS[program];
        let text = if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
        let grain = if imports { Grain::Imports } else { Grain::Statements };
        let pieces = found(name, &text, grain);
        let left = without(text.as_bytes(), &pieces, &|piece| kept[piece % kept.len()]);
        prop_assert!(valid(name, &left), "{name}: {}", String::from_utf8_lossy(&left));
    }
}
