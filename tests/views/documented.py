#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every call of a tool that README.md, Documentation/ and --help show is one the tool understands: its options are
those it has, with values that it takes. It is called as it stands, with --usage behind it. Run from the object tree."""
import glob
import os
import re
import shlex
import sys

sys.dont_write_bytecode = True
SRCTREE = os.environ["KVMM_SRCTREE"]
sys.path.insert(0, os.path.join(SRCTREE, "tests/views"))
from engine import end, expect, run  # noqa: E402

ENDS = {"|", "||", "&&", "&", ";", ">", ">>", "<", "(", ")", "2>"}


def calls(line):
    """Calls of tools in a line of shell."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    call = []
    try:
        for word in [*words, ";"]:
            if word not in ENDS:
                call.append(word)
                continue
            while call and (re.fullmatch(r"\w+=.*", call[0]) or call[0] in ("valgrind", "timeout", "nice", "sudo")):
                call.pop(0)
            if call and re.fullmatch(r"(?:tools/|\./)?kvmm-[a-z]+", call[0]):
                yield call
            call = []
    except ValueError:	# a quotation that goes on in the next line
        return


def shown(path):
    """Lines that are commands: behind a $, or in a block, with a tool as the first word."""
    with open(path) as file:
        text = file.read().replace("\\\n", " ")
    for line in text.splitlines():
        found = re.match(r"(?:\t| {2,})(?:\$ )?((?:\w+=\S+ )*(?:tools/|\./)?kvmm-[a-z]+ .*)", line)
        # What a control socket greets with is no tool. In lists of tools two blanks are between a name and what it does.
        if found and "kvmm-control 1 " not in line and (re.search(r"\$ ", line[:8]) or not re.search(r"kvmm-[a-z]+(?: [a-z]+)?  +\S", line)):
            yield found.group(1)


def check(where, line):
    nr = 0
    for call in calls(line):
        tool = "tools/" + os.path.basename(call[0])
        if not os.path.exists(tool):
            expect("%s: there is %s" % (where, tool), tool in ("tools/kvmm-top", "tools/kvmm-slabtop"), line)
            continue
        out = run(tool, *call[1:], "--usage")
        expect("%s: %s" % (where, " ".join(call)), out.returncode == 0 and out.stdout.startswith("Usage: "), out.stderr)
        nr += 1
    return nr


nr = 0
for path in [SRCTREE + "/README.md", *sorted(glob.glob(SRCTREE + "/Documentation/*.rst"))]:
    for line in shown(path):
        nr += check(os.path.basename(path), line)
expect("the documentation shows calls", nr > 40, nr)
for tool in sorted(glob.glob("tools/kvmm-*")):
    if "." in os.path.basename(tool):
        continue
    for words in ([], ["--live"] if "defrag" in tool else [], *([[c] for c in ("snapshot", "record", "report")] if "dump" in tool else [])):
        text = run(tool, *words, "--help").stdout
        examples = re.search(r"^Examples?:\n((?:  .*\n)+)", text, re.M)
        expect("%s %s has examples" % (tool, words), examples)
        for line in examples.group(1).splitlines():
            expect("%s: '%s' is a call" % (tool, line.strip()), check("--help", line.strip()) > 0)
end()
