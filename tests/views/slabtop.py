#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-slabtop: once, as JSON, sorted, and on a terminal. Run from the object tree."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["KVMM_SRCTREE"], "tests/views"))
from engine import Engine, end, expect, run  # noqa: E402
from screen import Screen  # noqa: E402

SLABTOP = "tools/kvmm-slabtop"


def names(*args):
    out = run(SLABTOP, "--once", *args)
    expect("exit code", out.returncode == 0 and not out.stderr, out)
    expect("no colours", "\x1b" not in out.stdout)
    return [line.split()[-1] for line in out.stdout.splitlines()[6:]]


if not os.path.exists(SLABTOP):
    print("no kvmm-slabtop: skipped")
    end()
engine = Engine()
rows = json.loads(run(SLABTOP, "--json").stdout)
caches = {row["name"]: row for row in rows}
expect("numbers", caches["window"]["objects"] == 500 and caches["state"]["held_bytes"] == 165 * 4096, rows)
expect("by objects", names() == ["window", "state"], names())
expect("by name", names("--sort", "n") == ["state", "window"])
expect("by size of objects", names("-s", "s") == ["state", "window"])
expect("by waste", names("-s", "w") == ["window", "state"])
for args in (("-s", "x"), ("-s", "oo"), ("-d", "0"), ("more",), ("--none",)):
    expect("bad usage %s" % (args,), run(SLABTOP, *args).returncode == 2)
out = run(SLABTOP)
expect("no terminal", out.returncode == 1 and "--once" in out.stderr, out)

screen = Screen(SLABTOP, "-d", "0.2")
screen.wait_for("the page", r"OBJS.*^ +500 .*window$.* state$")
screen.press("s")
screen.wait_for("sorted", r"NAME *$\n +33 ")
screen.press("?")
screen.wait_for("help", "sort by waste")
screen.press("?")
screen.wait_for("and back", r"NAME *$\n +33 ")
screen.press("q")
expect("q: nothing is said", screen.end("q", 0) == "")

screen = Screen(SLABTOP, "-d", "0.2")
screen.wait_for("the page", "window")
engine.kill()
err = screen.end("the engine goes away", 1)
expect("that is said", err.startswith("kvmm-slabtop: "), err)
os.unlink(engine.path)
out = run(SLABTOP, "--once")
expect("no engine", out.returncode == 1 and "no engine" in out.stderr, out)
os.rmdir(engine.dir)
end()
