#!/usr/bin/env python3
"""Lists the sentences of answers and reports that no golden output contains.

    ATLAS=/tmp/atlas cargo nextest run --test it -E 'test(atlas)'
    tests/tools/unreached_sentences.py /tmp/atlas
"""

import html
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ["crates/questions/src", "crates/report/src", "src/term"]
OUTPUTS = [ROOT / "tests/it/golden", ROOT / "tests/it/snapshots", *map(Path, sys.argv[1:])]

STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)
NOT_OUTPUT = re.compile(r"expect\(|reason =|assert|panic!|debug_|concat!|Regex::new")


def fixed_parts(literal):
    """Returns the parts of a format string between its arguments."""
    text = re.sub(r"\\\n\s*", "", literal).replace('\\"', '"').replace("\\n", "\n")
    text = text.replace("{{", "\0").replace("}}", "\1")
    parts = re.split(r"\{[^{}]*\}|\n", text)
    return [part.replace("\0", "{").replace("\1", "}").strip() for part in parts]


def sentences(path):
    code = path.read_text()
    code = re.split(r"#\[cfg\(test\)\]\nmod ", code)[0]
    code = re.sub(r"(?m)^\s*//.*$", lambda found: " " * len(found.group(0)), code)
    for found in STRING.finditer(code):
        start = code.rfind("\n", 0, found.start()) + 1
        parts = [part for part in fixed_parts(found.group(1)) if len(part) >= 8]
        if NOT_OUTPUT.search(code[start : found.start()]) or not any(" " in part for part in parts):
            continue
        yield code.count("\n", 0, found.start()) + 1, found.group(1), parts


def normalized(text):
    text = html.unescape(text).replace('\\"', '"')
    return re.sub(r"\s+", " ", text)


def main():
    files = (path for folder in OUTPUTS for path in folder.rglob("*") if path.is_file())
    reached = "\n".join({normalized(path.read_text(errors="replace")) for path in files})
    known = {}
    count = 0
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.rs")):
            if "tests" in path.name or "/html/style" in str(path):
                continue
            for line, literal, parts in sentences(path):
                count += 1
                for part in parts:
                    if part not in known:
                        known[part] = normalized(part) in reached
                if not all(known[part] for part in parts):
                    print(f"{path.relative_to(ROOT)}:{line}: {literal}")
    print(f"{count} sentences", file=sys.stderr)


main()
