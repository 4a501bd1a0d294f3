#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-defrag: what it prints, what it returns, what it refuses. Run from the object tree."""
import json
import os
import subprocess
import sys

TOOL = os.environ.get("KVMM_DEFRAG", "tools/kvmm-defrag")
failed = 0


def run(*args):
    return subprocess.run([TOOL, *args], capture_output=True, text=True, timeout=120)


def check(what, ok, more=""):
    global failed
    failed += not ok
    if not ok:
        print("FAIL", what, more)


def obj(*args, code=0):
    done = run(*args, "--json")
    check(f"{args} returns {code}", done.returncode == code, done.stderr)
    return json.loads(done.stdout) if done.stdout else {}




# A plan on ids, twice the same; the moves it lists are all of them.
plan = obj("plan", "--at", "1500", "--moves", "100000")
check("a plan is the same each time", plan == obj("plan", "--at", "1500", "--moves", "100000"))
check("packed: one run", plan["holes_after"] == 1 and plan["holes_before"] > 1, plan)
check("packed: all free blocks in it",
      plan["largest_after"] == plan["size"] - plan["held_after"], plan)
check("nothing is lost", plan["held_before"] == plan["held_after"])
check("rates", plan["rate_ppm_after"] == 0 < plan["rate_ppm_before"], plan)
check("the list is whole", sum(m[3] for m in plan["move_list"]) == plan["moved_blocks"], plan)
check("bytes", plan["moved_bytes"] == plan["moved_blocks"] * 2097152)
check("time", plan["predicted_ns"] == plan["moved_bytes"] * 10**9 // (500000 << 20))
check("no measured times in a plan", "copy_ns" not in plan)
targets = sorted((m[2], m[3]) for m in plan["move_list"])
check("targets do not overlap",
      all(a + n <= b for (a, n), (b, _) in zip(targets, targets[1:])))

# Done with content: as planned.
done = obj("run", "--at", "1500", "--verify", "--moves", "100000")
check("as planned", done["move_list"] == plan["move_list"])
check("the same map", done["map_after"] == plan["map_after"])
check("measured", done["copy_ns"] > 0)

# A goal, a budget, a goal that cannot be reached.
want = plan["largest_before"] + 20
small = obj("plan", "--at", "1500", "--want", str(want))
check("the run is there", small["largest_after"] >= want and small["reached"], small)
check("less than all is moved", 0 < small["moved_blocks"] < plan["moved_blocks"], small)
none = obj("plan", "--at", "1500", "--want", str(want), "--max-blocks", "1", code=1)
check("not reached", not none["reached"] and none["moved_blocks"] == 0, none)
pinned = obj("plan", "--at", "1500", "--pinned", "100", code=0)
check("who is pinned stays", pinned["moved_blocks"] == 0 and not pinned["move_list"], pinned)
full = obj("plan", "--occupancy", "90")
check("at an occupancy", full["held_before"] * 100 >= 90 * full["size"], full)

# The library's goals: what is planned is what is done, and content comes along.
for goal in (("shorten",), ("run", "--want", str(want)),
             ("pageblocks", "--want", "2", "--pageblock", "16")):
    args = ("--at", "1500", "--blocks", "65536", "--max-runs", "4", "--mark", "98",
            "--goal", *goal)
    first = run("plan", *args, "--json")
    planned = json.loads(first.stdout)
    done = obj("run", *args, "--verify", code=first.returncode)
    check(f"{goal}: as planned", all(planned[k] == done[k] for k in
                                     ("moved_blocks", "moves", "saved_extents", "map_before")),
          (planned, done))
    check(f"{goal}: the code says whether it is reached", planned["reached"] == (first.returncode == 0))
    check(f"{goal}: only run moves", planned["map_before"] == planned["map_after"])
    if goal[0] == "shorten":
        check("fewer extents", done["moved_blocks"] > 0 and
              done["extents_after"] == done["extents_before"] - done["saved_extents"] <
              done["extents_before"], done)

# For people: labels, a map of 64 characters, no colours where nobody looks.
text = run("plan", "--at", "1500", "--moves", "2").stdout
check("labels", all(f"\n{word} " in "\n" + text for word in
                    ("trace", "pool", "before", "plan", "moves", "would", "rate")), text)
check("no colours", "\033" not in text)
check("a map", sum(line.count("|") == 2 for line in text.splitlines()) == 2, text)

# watch: a line an interval; with a threshold it moves.
lines = [json.loads(x) for x in run("watch", "--interval", "600", "--json").stdout.splitlines()]
check("lines in order", len(lines) > 3 and
      all(a["time_us"] < b["time_us"] for a, b in zip(lines, lines[1:])), lines[:3])
check("it ends empty", lines and lines[-1]["held"] == 0, lines[-1:])
check("nothing moves unasked", not any(x["moved"] for x in lines))
lines = [json.loads(x) for x in
         run("watch", "--interval", "600", "--threshold", "1", "--json").stdout.splitlines()]
check("it moves", any(x["moved"] for x in lines))
check("and leaves one run", all(x["holes"] == 1 for x in lines if x["moved"]), lines[:3])

# What is refused, and how.
for args, word in (((), "command"), (("undo",), "no command"), (("plan", "a", "b"), "'b'"),
                   (("plan", "--at", "0"), "--at"), (("plan", "--at", "x"), "--at"),
                   (("plan", "--at", "1", "--occupancy", "5"), "not both"),
                   (("plan", "--occupancy", "101"), "--occupancy"),
                   (("plan", "--block-tokens", "65537"), "65536"),
                   (("plan", "--want", "8193"), "8192"), (("plan", "--moves", "13"), "--json"),
                   (("plan", "--device", "host"), "no content"), (("run", "--max-runs", "9"), "9"),
                   (("plan", "--goal", "x", "--want", "3"), "no goal"),
                   (("plan", "--goal", "run"), "--want"), (("watch", "--goal", "shorten"), "plan"),
                   (("plan", "--nonsense"), "nonsense"), (("plan", "/nonexistent"), "No such"),
                   (("run", "--device", "nothing:7"), "nothing:7")):
    bad = run(*args)
    check(f"{args} is refused", bad.returncode == 2 and word in bad.stderr, bad.stderr)
    check(f"{args} prints nothing", not bad.stdout, bad.stdout)
late = run("plan", "--at", "4000000")
check("a point that never comes", late.returncode == 1 and "never" in late.stderr, late.stderr)
check("--help", run("--help").returncode == 0 and "Examples:" in run("--help").stdout)

print("defrag:", "failed" if failed else "all as expected")
sys.exit(failed != 0)
