#!/usr/bin/env python3
"""Renews the outputs that Markdown pages quote, by running the commands.

    docs/refresh.py --in FOLDER PAGE...

A page is read from top to bottom:

  a fenced block whose first line is `$ COMMAND`
      Each command runs with `sh -c` in a terminal of 80 columns without colour. What the terminal
      shows at the end, without the live line, replaces the lines below the command. A command that
      ends in `\\` continues on the next line.
  <!-- in: NAME -->
      Commands run in FOLDER/NAME from here on. The folder must not exist yet.
  <!-- run: COMMAND -->
      Runs a command whose output is not shown. It must succeed, and may have several lines. `$REPO`
      is this repository.
  <!-- needs: COMMAND -->
      The page is skipped if this command fails.
  <!-- show: from "TEXT", 12 lines -->
      Of each output in the next block, shows the part that begins with the first line that contains
      TEXT, and at most 12 lines. Both parts are optional. `...` stands for the lines left out.

`provoke` is taken from PATH, so put the build that you want to quote first. A command that ends
with exit code 2 (wrong usage, or a failed build) ends the script, and the page stays as it was.
"""
import argparse
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios
import time

COLUMNS = 80
ROWS = 1000  # In a terminal that is too short, provoke repeats its answer.
REPO = pathlib.Path(__file__).resolve().parent.parent
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


def environment(folder):
    keep = {name: value for name, value in os.environ.items() if not name.startswith("PROVOKE_")}
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
        sys.exit(f"exit code {code}: {command}\n{output.decode(errors='replace')}")
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


def shown(lines, rule):
    """Returns the part of an output that a `show` comment asks for."""
    start, count = 0, len(lines)
    if found := re.search(r'from "([^"]+)"', rule):
        matches = [n for n, line in enumerate(lines) if found[1] in line]
        if not matches:
            sys.exit(f"no line contains {found[1]!r}:\n" + "\n".join(lines))
        start = matches[0]
    if found := re.search(r"(\d+) lines?", rule):
        count = int(found[1])
    part = lines[start:start + count]
    before = ["..."] if start else []
    after = ["..."] if start + count < len(lines) else []
    return before + part + after


def commands(block):
    """Returns the commands of a block, each with its lines as they are in the page."""
    found, lines = [], iter(block)
    for line in lines:
        if line.startswith("$ "):
            command = [line]
            while command[-1].endswith("\\"):
                command.append(next(lines))
            found.append(command)
    return found


class Skipped(Exception):
    pass


def renewed(page, base):
    """Returns the text of a page with new outputs."""
    folder, rule, result = base, "", []
    lines = iter(page.read_text().splitlines())
    for line in lines:
        result.append(line)
        while line.startswith("<!-- ") and not line.endswith("-->"):
            result.append(next(lines))
            line += "\n" + result[-1]
        if found := re.fullmatch(r"<!-- (in|run|needs|show):\s(.*?)\s*-->", line, re.DOTALL):
            kind, value = found.groups()
            if kind == "in":
                folder = base / value
                if folder.exists():
                    sys.exit(f"{folder} exists: remove it, or choose another folder with --in")
                folder.mkdir(parents=True)
            elif kind == "show":
                rule = value
            else:
                done = subprocess.run(
                    ["sh", "-c", value], cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL,
                    capture_output=True, text=True,
                )
                if done.returncode and kind == "needs":
                    raise Skipped(value)
                if done.returncode:
                    sys.exit(f"exit code {done.returncode}: {value}\n{done.stdout}{done.stderr}")
        elif line.startswith("```") and line != "```":
            block = []
            for line in lines:
                if line == "```":
                    break
                block.append(line)
            if not block or not block[0].startswith("$ "):
                result += block + ["```"]
                continue
            for command in commands(block):
                text = "\n".join(command)[2:]
                began = time.monotonic()
                screen = Screen(COLUMNS)
                screen.write(output_in_terminal(text, folder))
                print(f"{page}: {time.monotonic() - began:.0f} s: {text}", flush=True)
                result += command + shown(screen.lines(), rule)
            result.append("```")
            rule = ""
    return "\n".join(result) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--in", dest="folder", required=True, type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("pages", nargs="+", type=pathlib.Path, metavar="PAGE")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for page in arguments.pages:
        try:
            text = renewed(page, arguments.folder.resolve())
        except Skipped as needed:
            print(f"{page}: skipped, because this failed: {needed}")
            continue
        page.write_text(text)


if __name__ == "__main__":
    main()
