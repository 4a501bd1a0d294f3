#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tools on a terminal of 80 x 24: no line is longer, and none of what a wide one shows is missing. Run from the
object tree."""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["KVMM_SRCTREE"], "tests/views"))
from engine import Engine, end, expect, run  # noqa: E402
import screen as screens  # noqa: E402

COMMANDS = (
    "stat", "stat pool kv", "stat tiers", "stat pressure", "stat leaks kv", "stat leaks kv 0", "stat classes",
    "stat tenants", "stat devices", "stat devices cuda:7", "stat devices --socket SOCKET", "migrate status",
    "events names",
)


def on_a_terminal(args):
    """What it says there, without colours."""
    screen = screens.Screen(*args, size=(24, 80))
    while screen.process.poll() is None:
        screen.read(0.1)
    while screen.read(0.1):
        pass
    screen.process.stderr.close()
    os.close(screen.master)
    os.close(screen.slave)
    return re.sub(r"\x1b\[[0-9;]*m", "", screen.all.decode()).replace("\r\n", "\n")


def words(text):
    return sorted(set(re.findall(r"[A-Za-z_]{2,}", text)))


def explains(args, text):
    """--help, and so the manual page, has each name of a column; a page of numbers has "families"."""
    tool = args[0]
    names = set(re.findall(r"[A-Za-z_]\w+", "\n".join(text.splitlines()[:2] if args[1:] == [] else text.splitlines()[:1])))
    if "events" in tool:
        names = set(re.findall(r" (\w+)=", text))
    if args[1:2] != ["pool"] and "cuda:7" not in args:
        missing = {name for name in names if not re.search(r"\b%s\b" % name, run(tool, "--help").stdout)}
        expect("%s: each column is explained" % args, names and not missing, missing)


engine = Engine()
for command in COMMANDS:
    tool, *args = command.replace("SOCKET", engine.path).split()
    args = ["tools/kvmm-" + tool, *args]
    wide, narrow = run(*args).stdout, on_a_terminal(args)
    longest = max((len(line) for line in narrow.splitlines()), default=0)
    expect(command + ": something is said", len(narrow) > 20, narrow)
    expect(command + ": lines are no longer than 80", longest <= 80, narrow)
    explains(args, wide)
    if command != "stat":       # which leaves columns away, as many as do not fit
        expect(command + ": all words are there", set(words(wide)) <= set(words(narrow)),
               (set(words(wide)) - set(words(narrow)), narrow))
engine.end()
end()
