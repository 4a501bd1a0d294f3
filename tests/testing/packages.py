#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What debian/ says, beside what "make install" installs.

usage: packages.py ROOT		where it was installed, with libdir of a multi-arch folder
Each installed file belongs to one package, each pattern has files, and packages, versions and what is
needed to build are those of the tree. Prints what is not so; exit code 1 then.
"""
import fnmatch
import glob
import os
import re
import sys

SRC = os.environ["KVMM_SRCTREE"]
BY_SETUP = "usr/lib/python3"	# installed by the Python package's own
wrong = []


def text(path):
    with open(os.path.join(SRC, path)) as file:
        return file.read()


def expect(what, have, want):
    if have != want:
        wrong.append(f"{what}: {have}, not {want}")


def files_of(root):
    return sorted(os.path.relpath(os.path.join(where, name), root)
                  for where, _, names in os.walk(root) for name in names)


def field(name, source):
    return re.search(rf"^{name}: ((?:.*)(?:\n .*)*)", source, re.M).group(1)


control = text("debian/control")
packages = re.findall(r"^Package: (.*)", control, re.M)
version = re.search(r"^VERSION\s*:= (.*)", text("Makefile"), re.M).group(1)
soname = re.search(r"^SONAME\s*:= (.*)", text("Makefile"), re.M).group(1)
expect("packages", packages, ["lib" + "kvmm" + soname.rsplit(".", 1)[1], "libkvmm-dev", "kvmm-tools",
                              "python3-kvmm", "kvmm-doc"])
expect("version in debian/changelog", re.match(r"kvmm \((.*)\)", text("debian/changelog")).group(1), version)
expect("newest in CHANGELOG.md", re.search(r"^## (.*)", text("CHANGELOG.md"), re.M).group(1), version)
expect("lists of files", sorted(glob.glob("*.install", root_dir=SRC + "/debian")),
       sorted(p + ".install" for p in packages))

needed = set(re.split(r"[\s,]+", re.sub(r"\(.*?\)", "", field("Build-Depends", control))))
build = re.search(r'^build="(.*)"', text("scripts/deps"), re.M).group(1).split()
implied = {"gcc", "make", "libc6-dev", "binutils", "python3",	# by build-essential and python3-dev
           "liburing-dev"}					# of no use to the build by default
expect("missing in Build-Depends", set(build) - implied - needed, set())

nodes = set(re.findall(r"^(KVMM\w*(?:\.\d+)?) \{", text("scripts/kvmm.map"), re.M))
expect("versions of symbols", set(re.findall(r"\(symver\)(\S+)", text(f"debian/{packages[0]}.symbols"))), nodes)

owners = {path: [] for path in files_of(sys.argv[1]) if path.startswith("usr/")}
for package in packages:
    for pattern in text(f"debian/{package}.install").split():
        mine = [p for p in owners if fnmatch.fnmatch(p, pattern) or fnmatch.fnmatch(p, pattern + "/*")]
        if not mine and pattern != BY_SETUP:
            wrong.append(f"{package}: there is no {pattern}")
        for path in mine:
            owners[path].append(package)
for path, of in owners.items():
    if len(of) != 1:
        wrong.append(f"{path} is in {of or 'no package'}")
expect("files", len(owners) > 100, True)
print("\n".join(wrong))
sys.exit(bool(wrong))
