#!/usr/bin/env python3
"""Draws the pictures of terminals in README.md from real runs.

    docs/terminal.py [NAME...]

Runs the command of each picture in a terminal of 80 columns, after its preparations, and writes
docs/NAME.svg. `provoke` is taken from PATH. The alternative text in README.md is renewed with the
line that has the answer.
"""
import html
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from refresh import COLUMNS, REPO, Screen, environment, output_in_terminal

README = REPO / "README.md"
CRASH = REPO / "examples" / "crash.c"
REFCOUNT = REPO / "crates/holds/tests/racy/refcount.c"
# Name, preparations, command, and a part of the line that has the answer.
PICTURES = [
    ("run", f"cc -g -o crash {CRASH}", "provoke run -n 100 -- ./crash", " of 100 trials: "),
    (
        "confirm",
        f"cc -g -o crash {CRASH}; provoke run -n 100 -q -- ./crash\n"
        f"sed 's/first.next = NULL;/;/' {CRASH} > fixed.c; cc -g -o crash fixed.c",
        "provoke confirm -- ./crash",
        "FIXED (",
    ),
    ("hunt", f"cc -g -O1 -pthread -o refcount {REFCOUNT}", "provoke hunt --seed 1 -- ./refcount", "It fails"),
]
LETTER, LINE, MARGIN, BAR = 8, 19, 16, 30  # pixels
STYLE = """
.back { fill: #ffffff; stroke: #d0d7de }
text { font: 13.3px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
  fill: #1f2328; white-space: pre }
.bold { font-weight: 700 }
.dim { fill: #59636e }
.red { fill: #c4232f }
.green { fill: #116329 }
.yellow { fill: #7d4e00 }
.cyan { fill: #0a6170 }
@media (prefers-color-scheme: dark) {
  .back { fill: #0d1117; stroke: #3d444d }
  text { fill: #e6edf3 }
  .dim { fill: #9198a1 }
  .red { fill: #ff7b72 }
  .green { fill: #56d364 }
  .yellow { fill: #e3b341 }
  .cyan { fill: #56d4dd }
}
"""
CLASSES = {"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "36": "cyan"}


class StyledScreen(Screen):
    """A screen whose cells are pairs of a letter and its classes."""

    def __init__(self, columns):
        super().__init__(columns)
        self.style = frozenset()

    def cell(self, letter):
        return letter, self.style

    def control(self, number, letter):
        if letter != "m":
            super().control(number, letter)
            return
        for code in number.split(";"):
            if code in ("", "0"):
                self.style = frozenset()
            elif code in CLASSES:
                self.style |= {CLASSES[code]}
            else:
                sys.exit(f"unknown style: {code}")


def drawn(row, y):
    """Returns a line of the screen as SVG: one element for each piece of one style."""
    pieces, column = [], 0
    for style, cells in itertools.groupby(row, key=lambda cell: cell[1]):
        text = "".join(letter for letter, _ in cells)
        for word in re.finditer(r"\S+(?: \S+)*", text):  # a wide gap is a new element
            x = MARGIN + LETTER * (column + word.start())
            classes = f' class="{" ".join(sorted(style))}"' if style else ""
            width = LETTER * len(word[0])
            pieces.append(
                f'<text{classes} x="{x}" y="{y}" textLength="{width}">{html.escape(word[0])}</text>'
            )
        column += len(text)
    return "".join(pieces)


def picture(rows, title):
    width = 2 * MARGIN + LETTER * COLUMNS
    height = BAR + LINE * len(rows) + MARGIN
    lines = [drawn(row, BAR + LINE * (number + 1) - 6) for number, row in enumerate(rows)]
    dots = "".join(
        f'<circle cx="{MARGIN + 4 + 18 * n}" cy="16" r="5" fill="{colour}"/>'
        for n, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    title = html.escape(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{title}">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n"
        f'<rect class="back" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
        f"{dots}\n" + "\n".join(line for line in lines if line) + "\n</svg>\n"
    )


def draw(name, preparations, command, answer):
    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder) | {"TERM": "xterm-256color"}
        del env["NO_COLOR"]
        subprocess.run(["sh", "-c", preparations], cwd=folder, env=env, check=True)
        output = output_in_terminal(command, folder, env=env)
    screen = StyledScreen(COLUMNS)
    screen.write(f"\x1b[2m$\x1b[0m {command}\n{output}")
    rows = screen.rows
    while not any(letter.strip() for letter, _ in rows[-1]):
        rows.pop()
    texts = ["".join(letter for letter, _ in row).rstrip() for row in rows]
    print("\n".join(texts))
    line = next(text for text in texts if answer in text)
    (REPO / "docs" / f"{name}.svg").write_text(picture(rows, f"{command}: {line}"))
    readme, count = re.subn(
        rf"!\[[^]]*\]\(docs/{name}\.svg\)", lambda _: f"![{line}](docs/{name}.svg)", README.read_text()
    )
    if count != 1:
        sys.exit(f"README.md shows docs/{name}.svg not exactly once")
    README.write_text(readme)


def main():
    wanted = sys.argv[1:]
    for name, *picture_of_command in PICTURES:
        if not wanted or name in wanted:
            draw(name, *picture_of_command)


if __name__ == "__main__":
    main()
