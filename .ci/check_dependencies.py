#!/usr/bin/env python3
"""Checks the licences of all dependencies, and the oldest compiler that they need."""

import json
import re
import subprocess
import sys

# A program that contains code under these licences may be published under MIT or Apache-2.0.
ALLOWED = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "ISC", "MIT", "NCSA", "Unicode-3.0", "Unlicense", "Zlib"}


def is_allowed(licence):
    """Whether an SPDX expression is met: of alternatives, one is enough. An exception only permits more."""
    names = re.findall(r"[\w.-]+", re.sub(r" WITH [\w-]+", "", licence))
    allowed = [name in ALLOWED for name in names if name not in ("AND", "OR")]
    return any(allowed) if "AND" not in names else all(allowed)


def version(text):
    return [int(part) for part in text.split(".")][:2]


metadata = subprocess.run(["cargo", "metadata", "--locked", "--format-version=1"], check=True, capture_output=True)
packages = json.loads(metadata.stdout)["packages"]
ours = version(next(package for package in packages if package["name"] == "provoke")["rust_version"])
faults = []
for package in packages:
    name = f"{package['name']} {package['version']}"
    licence = package["license"] or ""
    if not (licence and is_allowed(licence)):
        faults.append(f"{name}: the licence `{licence}` is not among the allowed ones")
    if package["rust_version"] and version(package["rust_version"]) > ours:
        faults.append(f"{name} needs Rust {package['rust_version']}, which is newer than the declared `rust-version`")
print(f"{len(packages)} packages, {len(faults)} faults", *faults, sep="\n")
sys.exit(bool(faults))
