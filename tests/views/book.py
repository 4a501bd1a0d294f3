#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The book: each page is in the index once, pages and calls that are named are there, calls of the
library have an entry in the reference; where Sphinx is, "make html" has no warning.
Run from the object tree."""
import collections
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
SRCTREE = os.environ["KVMM_SRCTREE"]
sys.path.insert(0, os.path.join(SRCTREE, "tests/views"))
from engine import end, expect  # noqa: E402


def text_of(path):
    with open(os.path.join(SRCTREE, path)) as file:
        return file.read()


def reference():
    """Calls of the reference: how often each has an entry."""
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([SRCTREE + "/scripts/kernel-doc", SRCTREE + "/include", folder])
        expect("the reference is written", made.returncode == 0)
        text = "".join(open(path).read() for path in glob.glob(folder + "/*.rst"))
    return collections.Counter(re.findall(r"^\.\. c:function:: .*?\b(kvmm_\w+)\(", text, re.M))


pages = sorted(os.path.basename(p)[:-4] for p in glob.glob(SRCTREE + "/Documentation/*.rst"))
pages.remove("index")
index = re.findall(r"^   ([\w/-]+)$", text_of("Documentation/index.rst"), re.M)
known = pages + [os.path.relpath(p, SRCTREE + "/Documentation")[:-4]
                 for p in glob.glob(SRCTREE + "/Documentation/*/*.rst")]
expect("the index has each page once", sorted(index) == sorted(known), set(index) ^ set(known))

calls = reference()
exports = re.findall(r"^call (\w+?)(?:_sized)?:", text_of("Documentation/abi.txt"), re.M)
expect("calls are listed", len(exports) > 100, len(exports))
wrong = [c for c in exports if calls[c] != 1]
expect("each call has one entry", not wrong, wrong)

inner = [p for folder in ("include/kv", "research")
         for p in glob.glob("%s/%s/**/*.h" % (SRCTREE, folder), recursive=True)]
inner = "".join(map(text_of, inner))
for page in pages:
    text = text_of("Documentation/%s.rst" % page)
    named = set(re.findall(r"``(kvmm_\w+)\(\)``", text))
    gone = [c for c in named if not calls[c] and c + "(" not in inner]
    expect("%s.rst names calls that are there" % page, not gone, gone)
    gone = [p for p in re.findall(r"(?<![\w/`])([a-z-]+)\.rst\b", text) if p not in pages]
    expect("%s.rst names pages that are there" % page, not gone, gone)



def manual_pages():
    """Of calls: what formats them has nothing to say."""
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([SRCTREE + "/scripts/mkman3", "0.1.0", SRCTREE + "/include", folder])
        man = sorted(glob.glob(folder + "/*"))
        expect("calls have manual pages", made.returncode == 0 and len(man) > 50, man)
        for command in (["groff", "-ww", "-man", "-z", "-Tutf8"], ["mandoc", "-T", "lint", "-W", "warning"]):
            if not shutil.which(command[0]):
                print("manual pages: skipped, no %s" % command[0])
                continue
            out = subprocess.run([*command, *man], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
            wrong = [line for line in out.splitlines() if "missing date" not in line]
            expect("%s takes the manual pages" % command[0], not wrong, wrong[:5])


manual_pages()
if shutil.which(os.environ.get("SPHINX", "sphinx-build")):
    made = subprocess.run(["make", "-f", SRCTREE + "/Makefile", "O=", "html"], capture_output=True,
                          text=True)
    expect("make html has no warning", made.returncode == 0, made.stderr)
    expect("the book has an index", os.path.exists("build/book/html/index.html"))
else:
    print("make html: skipped, no sphinx-build (Debian's python3-sphinx)")
end()
