#!/usr/bin/env python3
"""Draws docs/run.svg, the picture of a terminal in README.md, from a real run.

    docs/terminal.py

Compiles examples/crash.c, and runs `provoke run -n 100 -- ./crash` in a terminal of 80 columns.
`provoke` is taken from PATH. The alternative text in README.md is renewed with the verdict line.
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

COMMAND = "provoke run -n 100 -- ./crash"
PICTURE = REPO / "docs" / "run.svg"
README = REPO / "README.md"
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


def main():
    with tempfile.TemporaryDirectory() as folder:
        source = REPO / "examples" / "crash.c"
        subprocess.run(["cc", "-g", "-o", "crash", source], cwd=folder, check=True)
        env = environment(folder) | {"TERM": "xterm-256color"}
        del env["NO_COLOR"]
        output = output_in_terminal(COMMAND, folder, env=env)
    screen = StyledScreen(COLUMNS)
    screen.write(f"\x1b[2m$\x1b[0m {COMMAND}\n{output}")
    rows = screen.rows
    while not any(letter.strip() for letter, _ in rows[-1]):
        rows.pop()
    texts = ["".join(letter for letter, _ in row).rstrip() for row in rows]
    print("\n".join(texts))
    verdict = next(text for text in texts if re.search(r" of 100 trials: ", text))
    PICTURE.write_text(picture(rows, f"{COMMAND}: {verdict}"))
    readme, count = re.subn(
        r"!\[[^]]*\]\(docs/run\.svg\)", lambda _: f"![{verdict}](docs/run.svg)", README.read_text()
    )
    if count != 1:
        sys.exit("README.md shows docs/run.svg not exactly once")
    README.write_text(readme)


if __name__ == "__main__":
    main()
