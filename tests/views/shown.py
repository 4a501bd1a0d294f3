#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tutorial.rst and howto.rst show happens: each line behind a $ is run, in order, in a folder with samples/ and
tools/, and prints what stands below it; "..." is the rest of a line, or any number of lines. Programs of the tutorial
print the same on "soft:0". README.md has the first one, and names all samples. Run from the object tree."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
SRCTREE = os.environ["KVMM_SRCTREE"]
sys.path.insert(0, os.path.join(SRCTREE, "tests/views"))
from engine import end, expect  # noqa: E402


def text_of(path):
    with open(os.path.join(SRCTREE, path)) as file:
        return file.read()


def pattern_of(lines):
    """Of what is printed: "..." alone is any lines, and what follows it in a line is anything."""
    parts = [".*?" if line == "..." else re.escape(line).replace(r"\.\.\.", "[^\n]*") + "\n" for line in lines]
    return re.compile("".join(parts), re.S)


def commands(page):
    """Each command of a page, and the lines that it prints."""
    for block in re.findall(r"^    \$ .*\n(?:    .*\n)*", text_of("Documentation/" + page), re.M):
        for call in re.split(r"^    \$ ", block, flags=re.M)[1:]:
            line, *below = call.splitlines()
            yield line, [text[4:] for text in below]


def wait_for_socket(folder):
    until = time.monotonic() + 60
    while not glob.glob(folder + "/sockets/*.sock") and time.monotonic() < until:
        time.sleep(0.02)


def run_page(page, device):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("samples", "tools"):
            os.symlink(os.path.abspath(name), os.path.join(folder, name))
        behind = []
        os.environ["KVMM_SOCKET_DIR"] = folder + "/sockets"
        for line, below in commands(page):
            line = line.replace(" host", " " + device)
            if line.endswith(" &"):
                for process in behind:	# one engine at a time
                    process.wait(60)
                behind.append(subprocess.Popen("exec env " + line[:-2], shell=True, cwd=folder, stdout=subprocess.DEVNULL))
                wait_for_socket(folder)
                continue
            out = subprocess.run(["bash", "-c", line], cwd=folder, text=True, capture_output=True, timeout=120)
            wanted = [text.replace('"host"', '"%s"' % device) for text in below]
            expect("%s, %s: %s" % (page, device, line), out.returncode == 0 and pattern_of(wanted).fullmatch(out.stdout),
                   out.stdout + out.stderr)
        for process in behind:
            expect("%s: %s ends" % (page, process.args), process.wait(60) == 0)


for device in ("host", "soft:0"):
    run_page("tutorial.rst", device)
    run_page("howto.rst", device)
steps = glob.glob(SRCTREE + "/samples/tutorial/[0-9]*.c")
shown = re.findall(r"literalinclude:: \.\./(\S+)", text_of("Documentation/tutorial.rst"))
expect("there are ten steps", len(steps) == 10)
for step in steps:
    path = os.path.relpath(step, SRCTREE)
    expect("%s is shown" % path, path in shown)
    expect("%s has at most 60 lines" % path, text_of(path).count("\n") <= 60)
readme = text_of("README.md")
first = text_of("samples/tutorial/01-share.c").split("\n", 1)[1]
expect("README.md has the first step", "```c\n%s```\n" % first in readme)
missing = [s for s in map(os.path.basename, glob.glob(SRCTREE + "/samples/*.c")) if "`%s`" % s not in readme]
expect("README.md names all samples", not missing, missing)
end()
