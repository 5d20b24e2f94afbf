#!/usr/bin/env python3
"""Renews the outputs that Markdown pages quote, by running the commands.

    docs/refresh.py --in FOLDER PAGE...
    docs/refresh.py --check [PAGE...]

With `--check`, no page is changed. The script fails if a quoted output differs from the present one in
more than numbers, times, names of runs and paths, and if a page quotes provoke in a block that cannot
be renewed. Without a page, it checks README.md, docs/*.md and docs/zoo/*.md, four at a time. A page
that differs is checked a second time, alone: a busy machine changes which level or limit is found.

A page is read from top to bottom:

  a fenced block with a language whose first line is `$ COMMAND`
      Each command runs with `sh -c` in a terminal of 80 columns without colour. What the terminal
      shows at the end, without the live line, replaces the lines below the command. A command that
      ends in `\\` continues on the next line.
  <!-- in: NAME -->
      Commands run in FOLDER/NAME from here on. A page may return to a folder that it used before.
      Otherwise the folder must not exist yet.
  <!-- zoo: NAME -->
      Writes the files of a bug of the zoo to a new folder, in which commands run from here on.
  <!-- run: COMMAND -->
      Runs a command whose output is not shown. It must succeed, and may have several lines. `$REPO`
      is this repository.
  <!-- needs: COMMAND -->
      The rest of the page is skipped if this command fails. Without `--check`, the page stays as it was.
  <!-- show: from "TEXT", 12 lines -->
      Of each output in the next block, shows the part that begins with the first line that contains
      TEXT, and at most 12 lines. Both parts are optional. `...` stands for the lines left out.
  <!-- varies: WORD WORD -->
      With `--check`, these words of the next block may be there or not.
  <!-- not renewed: REASON -->
      The next block cannot be renewed.

`provoke` is taken from PATH, so put the build that you want to quote first. A command that ends
with exit code 2 (wrong usage, or a failed build) ends the work on its page, which stays as it was.
"""
import argparse
import concurrent.futures
import fcntl
import os
import pathlib
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time

COLUMNS = 80
ROWS = 1000  # In a terminal that is too short, provoke repeats its answer.
DOCS = pathlib.Path(__file__).resolve().parent
REPO = DOCS.parent
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
UNITS = {"ms", "s", "m", "h", "µs", "KiB", "MiB", "GiB"}
PAGES_AT_A_TIME = 4


class Failed(Exception):
    """A page whose outputs cannot be compared or renewed."""


class Skipped(Exception):
    """A page that this machine cannot renew."""


def environment(folder):
    keep = {
        name: value for name, value in os.environ.items()
        if not name.startswith(("PROVOKE_", "GITHUB_"))  # `provoke` writes more on a CI server
    }
    return keep | {"NO_COLOR": "1", "TERM": "xterm", "REPO": str(REPO), "PWD": str(folder)}


def output_in_terminal(command, folder, columns=COLUMNS, env=None):
    """Runs a command in a terminal, and returns everything that it printed."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    child = subprocess.Popen(
        ["sh", "-c", command], cwd=folder, env=env or environment(folder), start_new_session=True,
        stdin=follower, stdout=follower, stderr=follower,
    )
    os.close(follower)
    output = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # EIO: the last process closed the terminal
            break
        if not piece:
            break
        output += piece
    os.close(leader)
    code = child.wait()
    if code in (2, 126, 127):
        raise Failed(f"exit code {code}: {command}\n{output.decode(errors='replace')}")
    return output.decode(errors="replace")


class Screen:
    """The lines that a terminal shows. A line that the terminal wrapped is one line."""

    def __init__(self, columns):
        self.columns, self.rows, self.continued = columns, [[]], [False]
        self.row = self.column = 0

    def put(self, letter):
        if self.column == self.columns:
            self.go_to(self.row + 1)
            self.continued[self.row] = True
        line = self.rows[self.row]
        line += [self.cell(" ")] * (self.column + 1 - len(line))
        line[self.column] = self.cell(letter)
        self.column += 1

    def cell(self, letter):
        """Returns what a line holds for a letter. Pictures add the style."""
        return letter

    def go_to(self, row):
        self.row, self.column = max(row, 0), 0
        while len(self.rows) <= self.row:
            self.rows.append([])
            self.continued.append(False)

    def control(self, number, letter):
        if letter == "K":
            cleared = self.column if number in ("", "0") else 0
            del self.rows[self.row][cleared:]
            if cleared == 0:
                self.continued[self.row] = False
        elif letter == "A":
            column = self.column
            self.go_to(self.row - int(number or 1))
            self.column = column

    def write(self, text):
        at = 0
        while at < len(text):
            if found := ESCAPE.match(text, at):
                self.control(*found.groups())
                at = found.end()
                continue
            letter = text[at]
            if letter == "\r":
                self.column = 0
            elif letter == "\n":
                self.go_to(self.row + 1)
            elif letter >= " ":
                self.put(letter)
            at += 1

    def lines(self):
        lines = []
        for row, continued in zip(self.rows, self.continued):
            if continued and lines:
                lines[-1] += "".join(row)
            else:
                lines.append("".join(row))
        return "\n".join(line.rstrip() for line in lines).strip("\n").split("\n")


class Part:
    """The part of an output that a page shows."""

    def __init__(self, lines, rule):
        start, count = 0, len(lines)
        if found := re.search(r'from "([^"]+)"', rule):
            matches = [n for n, line in enumerate(lines) if found[1] in line]
            if not matches:
                raise Failed(f"no line contains {found[1]!r}:\n" + "\n".join(lines))
            start = matches[0]
        if found := re.search(r"(\d+) lines?", rule):
            count = int(found[1])
        self.rest = lines[start:]
        self.is_cut = len(self.rest) > count
        before = ["..."] if start else []
        after = ["..."] if self.is_cut else []
        self.lines = before + self.rest[:count] + after


def words(lines):
    """Returns the words of an output that are the same in each run: without numbers, times and paths."""
    text = re.sub(r"\b(explain|replay|confirm|report|resume|--baseline|--held)\s+[0-9a-f]{4}\b", r"\1", "\n".join(lines))
    text = re.sub(r"(?<!\w)[\w.~…-]*/[\w./…-]*", " ", text)
    found = set()
    for word in text.split():
        word = word.strip(".,:;()`'\"")
        if word in UNITS or not re.search("[A-Za-z]", word) or re.search("[0-9…]", word):
            continue
        found.add(word.removesuffix("s"))
    return found


def differences(quoted, part, varying):
    """Compares a quoted output with the present one. Of a part, more than the page shows may be there."""
    old, new = words(quoted), words(part.lines)
    gone = old - words(part.rest) - varying
    added = set() if part.is_cut else new - old - varying
    return [f"  - {' '.join(sorted(gone))}"] * bool(gone) + [f"  + {' '.join(sorted(added))}"] * bool(added)


def commands(block):
    """Returns the commands of a block with their quoted outputs, each as the lines of the page."""
    found, lines = [], iter(block)
    for line in lines:
        if line.startswith("$ "):
            command = [line]
            while command[-1].endswith("\\"):
                command.append(next(lines))
            found.append((command, []))
        else:
            found[-1][1].append(line)
    return found


def folder_of(base, name, used):
    """Returns the folder in which the next commands of a page run."""
    folder = base / name
    if folder not in used:
        if folder.exists():
            raise Failed(f"{folder} exists: remove it, or choose another folder with --in")
        folder.mkdir(parents=True)
        used.add(folder)
    return folder


def run_hidden(kind, command, folder):
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL,
        capture_output=True, text=True,
    )
    if done.returncode and kind == "needs":
        raise Skipped(command)
    if done.returncode:
        raise Failed(f"exit code {done.returncode}: {command}\n{done.stdout}{done.stderr}")


def renewed(page, base, differing):
    """Returns the text of a page with new outputs, and adds how they differ from the quoted ones."""
    folder, used, rule, varying, excused, result = base, set(), "", set(), False, []
    lines = iter(page.read_text().splitlines())
    for line in lines:
        result.append(line)
        while line.startswith("<!-- ") and not line.endswith("-->"):
            result.append(next(lines))
            line += "\n" + result[-1]
        if found := re.fullmatch(r"<!-- (in|zoo|run|needs|show|varies|not renewed):\s(.*?)\s*-->", line, re.DOTALL):
            kind, value = found.groups()
            if kind == "in":
                folder = folder_of(base, value, used)
            elif kind == "zoo":
                folder = base / f"zoo-{value}"
                run_hidden(kind, f"provoke zoo {value} -o {shlex.quote(str(folder))}", base)
            elif kind == "show":
                rule = value
            elif kind == "varies":
                varying = words([value])
            elif kind == "not renewed":
                excused = True
            else:
                run_hidden(kind, value, folder)
        elif re.match(r"    \$ provoke |```$", line):
            if line == "```":
                block = list(iter(lambda: next(lines), "```"))
                result += block + ["```"]
                line = block[0] if block else ""
            if line.strip().startswith("$ provoke ") and not excused:
                differing.append(f"{page}: cannot be renewed: {line.strip()}")
            excused = False
        elif line.startswith("```"):
            block = list(iter(lambda: next(lines), "```"))
            if not block or not block[0].startswith("$ "):
                result += block + ["```"]
                continue
            for command, quoted in commands(block):
                text = "\n".join(command)[2:]
                began = time.monotonic()
                screen = Screen(COLUMNS)
                screen.write(output_in_terminal(text, folder))
                print(f"{page}: {time.monotonic() - began:.0f} s: {text}", flush=True)
                part = Part(screen.lines(), rule)
                result += command + [line for line in part.lines if line or part.lines != [""]]
                if found := differences(quoted, part, varying):
                    differing += [f"{page}: {text}", *found]
            result.append("```")
            rule, varying = "", set()
    return "\n".join(result) + "\n"


def renew(pages, base):
    for page in pages:
        try:
            text = renewed(page, base, [])
        except Skipped as needed:
            print(f"{page}: skipped, because this failed: {needed}")
            continue
        page.write_text(text)


def differences_of(page, base):
    """Returns the differences between the quoted outputs of a page and the present ones."""
    differing = []
    try:
        renewed(page, base, differing)
    except Skipped as needed:
        print(f"{page}: the rest is skipped, because this failed: {needed}")
    except Failed as failure:
        differing.append(f"{page}: {failure}")
    return differing


def check(pages, base):
    """Returns the differences that pages have twice: while others run, and alone."""
    together, alone = base / "together", base / "alone"
    together.mkdir()
    alone.mkdir()
    with concurrent.futures.ThreadPoolExecutor(PAGES_AT_A_TIME) as pool:
        found = dict(zip(pages, pool.map(lambda page: differences_of(page, together), pages)))
    differing = []
    for page, lines in found.items():
        if lines:
            print("\n".join(lines))
            print(f"{page}: checked a second time, alone")
            differing += differences_of(page, alone)
    return differing


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--in", dest="folder", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("pages", nargs="*", type=pathlib.Path, metavar="PAGE")
    arguments = parser.parse_args()
    if arguments.check:
        pages = arguments.pages or [REPO / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("zoo/*.md"))]
        with tempfile.TemporaryDirectory(prefix="provoke-docs-") as folder:
            differing = check(pages, pathlib.Path(folder))
        print("\n".join(differing))
        sys.exit(1 if differing else 0)
    if not arguments.folder or not arguments.pages:
        parser.error("name a folder with --in, and the pages to renew")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    try:
        renew(arguments.pages, arguments.folder.resolve())
    except Failed as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()
