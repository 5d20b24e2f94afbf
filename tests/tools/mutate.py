#!/usr/bin/env python3
"""Changes lines that write text, and lists the changes that the tests of outputs do not notice.

    tests/tools/mutate.py --count 30 --seed 1
    tests/tools/mutate.py --line src/term/suite.rs:107

Each change is compiled next to the original, and `MUTANT=NUMBER` selects it while the program runs. So all changes need one
build, and a change that was missed is tried again with `MUTANT=NUMBER` and one test. Changes that do not compile are left
out. At the end, or when it is interrupted, the script restores the files. Run it in a copy of the working tree to go on
editing meanwhile. Lines with `expect`, `reason`, assertions and constants are left out; equivalent changes are for the reader.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The quick tests first.
NET = ["(test(golden) - test(atlas)) + test(stored_runs) + test(screens::) + test(pages::) + test(live_lines::)", "test(atlas)"]
SOURCES = [
    "crates/report/src/**/*.rs",
    "crates/questions/src/**/*.rs",
    "crates/words/src/document.rs",
    "src/term/**/*.rs",
]
# Plans, policies and folds, which have tests of their own, and files without text.
NOT_TEXT = re.compile(r"tests|page_tree|/plan\.rs|/policy|_policy|/memory|hold_choice|held_trials|points\.rs|man_pages|/style\.rs")
NOT_LINE = re.compile(r"^\s*(#|const|pub const|static|use|pub use|let Some\(\d)|reason =|expect\(|assert|matches!|panic!|concat!")
TOKEN = re.compile(r'//[^\n]*|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\\n]|\\[^\n]+?)\'', re.S)
OTHER = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OPEN, CLOSE = "([{", ")]}"


def blanked(code):
    """Returns the code with spaces in comments, and dots in strings and characters."""
    def blank(found):
        text = found.group(0)
        return " " * len(text) if text[0] == "/" else text[0] + "." * (len(text) - 2) + text[0]
    return TOKEN.sub(blank, code)


def left_end(code, at):
    """Returns where the expression that ends at `at` begins."""
    depth = 0
    while at > 0:
        char = code[at - 1]
        if char in ")]" or (char == "}" and depth):
            depth += 1
        elif char in OPEN and depth:
            depth -= 1
        elif not depth and (char in "([{};,|!" or code[at - 2 : at] in ("&&", "=>", "= ")):
            break
        elif not depth and re.search(r"\b(if|while|return|match|in)\s$", code[:at][-8:]):
            break
        at -= 1
    return at + len(code[at:]) - len(code[at:].lstrip())


def right_end(code, at):
    """Returns where the expression that begins at `at` ends."""
    depth = 0
    while at < len(code):
        char = code[at]
        if not depth and (char in ")]};,{" or code[at : at + 2] in ("&&", "||", "=>")):
            return at - len(code[:at]) + len(code[:at].rstrip())
        depth += (char in OPEN) - (char in CLOSE)
        at += 1
    return at


def closing(code, at):
    """Returns the end of the bracket that opens at `at`."""
    depth = 0
    for end in range(at, len(code)):
        depth += (code[end] in OPEN) - (code[end] in CLOSE)
        if depth == 0:
            return end + 1
    return len(code)


def enclosing_macro(code, at):
    """Returns the span of the formatting macro whose argument is at `at`."""
    depth = 0
    for start in range(at - 1, -1, -1):
        depth += (code[start] in CLOSE) - (code[start] in OPEN)
        if depth < 0:
            found = re.search(r"\b(format|write|writeln)!$", code[:start])
            return found and (found.start(), closing(code, start))
    return None


def changes(text):
    """Yields the possible changes of a file: start, end, replacement of that part, and description."""
    end = re.search(r"#\[cfg\(test\)\]\nmod ", text)
    text = text[: end.start()] if end else text
    code = blanked(text)
    integers = set(re.findall(r"const (\w+): (?:usize|u64|u32|i64) =", code))
    for found in re.finditer(r" (==|!=|<=|>=|<|>) ", code):
        start, end = left_end(code, found.start()), right_end(code, found.end())
        other = text[start : found.start()] + f" {OTHER[found[1]]} " + text[found.end() : end]
        yield found.start(), start, end, other, f"{found[1]} -> {OTHER[found[1]]}"
    for found in re.finditer(r"\.(is_some|is_none|is_empty|any|all|contains|starts_with|is_some_and)\(", code):
        end = closing(code, found.end() - 1)
        if code[end : end + 1] not in (".", "?"):
            start = left_end(code, found.start())
            yield found.start(), start, end, f"!({text[start:end]})", f"not {found[1]}"
    for found in re.finditer(r"(?<![\w.])(?:\d+|[A-Z][A-Z_]+)(?![\w.(:])", code):
        rest = code[found.end() : code.find("\n", found.end())]
        if (found[0].isdigit() or found[0] in integers) and "=>" not in rest and " = " not in rest:
            yield found.start(), found.start(), found.end(), f"{found[0]} + 1", f"{found[0]} -> {found[0]} + 1"
    for found in re.finditer(r'"[^"]*"', code):
        literal = re.sub(r"\{[^{}]*\}", lambda part: "." * len(part[0]), text[found.start() : found.end()])
        words = [word for word in re.finditer(r"(?<!\\)\b[A-Za-z]{3,}", literal)]
        if words and not re.match(r"\s*(=>|\|)", code[found.end() :]):
            word = words[len(words) // 2]
            start, end = enclosing_macro(code, found.start()) or found.span()
            first, last = found.start() + word.start(), found.start() + word.end()
            yield found.start(), start, end, text[start:first] + "mutant" + text[last:end], f"{word[0]} -> mutant"


def choose(options):
    """Returns changes of different lines, by file."""
    lines = {}
    for path in sorted({path for source in SOURCES for path in ROOT.glob(source)}):
        name = str(path.relative_to(ROOT))
        text = path.read_text()
        if NOT_TEXT.search(name) or not re.search(r'format!\(|html!|"\s*,?\)', text):
            continue
        for at, *change in changes(text):
            line = text.count("\n", 0, at) + 1
            if not NOT_LINE.search(text.splitlines()[line - 1]):
                lines.setdefault(f"{name}:{line}", []).append(change)
    chance = random.Random(options.seed)
    picked = options.line or chance.sample(sorted(lines), options.count)
    return [(line, chance.choice(lines[line])) for line in picked if line in lines]


def write_mutants(originals, mutants, left_out):
    for name, text in originals.items():
        limit = len(text)
        own = [(change, number) for number, (line, change) in mutants.items() if line.split(":")[0] == name]
        for (start, end, other, _), number in sorted(own, reverse=True):
            if number in left_out or end > limit:
                left_out.setdefault(number, "it overlaps another change")
                continue
            selected = f'std::env::var_os("MUTANT").is_some_and(|it| it == "{number}")'
            text = f"{text[:start]}(if {selected} {{ {other} }} else {{ {text[start:end]} }}){text[end:]}"
            limit = start
        (ROOT / name).write_text(text)


def build(originals, mutants):
    """Compiles; returns the changes that were left out, with the reasons."""
    left_out = {}
    while True:
        write_mutants(originals, mutants, left_out)
        command = ["cargo", "build", "--message-format=short", "--test", "it", "--bins"]
        built = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        if built.returncode == 0:
            return left_out
        wrong = set(re.findall(r"(?m)^(\S+\.rs:\d+):\d+: error", built.stderr))
        lines = {line: (ROOT / line.split(":")[0]).read_text().splitlines()[int(line.split(":")[1]) - 1] for line in wrong}
        numbers = {int(number) for text in lines.values() for number in re.findall(r'it == "(\d+)"', text)}
        if not numbers - set(left_out):
            sys.exit(built.stderr[-3000:])
        left_out.update((number, "it does not compile") for number in numbers)


def run_net(number, filters):
    environment = {**os.environ, "MUTANT": str(number), "INSTA_UPDATE": "no", "INSTA_FORCE_PASS": "0"}
    for tests in filters:
        command = ["cargo", "nextest", "run", "--test", "it", "--max-fail=1:immediate", "-E", tests]
        result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if result.returncode != 0:
            break
    return result


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--count", type=int, default=30)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--line", action="append", help="change this line, PATH:LINE")
    options.add_argument("--tests", action="append", help="a filter of cargo nextest")
    options.add_argument("--list", action="store_true", help="only list the changes")
    options = options.parse_args()
    mutants = dict(enumerate(choose(options), 1))
    if options.list:
        return [print(number, line, change[-1]) for number, (line, change) in mutants.items()]
    originals = {name: (ROOT / name).read_text() for name in {line.split(":")[0] for line, _ in mutants.values()}}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        left_out = build(originals, mutants)
        unchanged = run_net(0, options.tests or NET)
        if unchanged.returncode != 0:
            sys.exit(f"the tests fail without a change:\n{unchanged.stderr[-3000:]}")
        for number, (line, change) in mutants.items():
            begun = time.monotonic()
            result = left_out.get(number) or ("MISSED" if run_net(number, options.tests or NET).returncode == 0 else "caught")
            print(f"{number:>3} {result} {line}: {change[-1]} ({time.monotonic() - begun:.0f} s)", flush=True)
    finally:
        for name, text in originals.items():
            (ROOT / name).write_text(text)


main()
