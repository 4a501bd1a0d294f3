#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-dump record: of an engine that stands still, held against what its socket says; of one that goes
away; and interrupted. Run from the object tree."""
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["KVMM_SRCTREE"], "tests/views"))
from engine import Engine, end, expect, run  # noqa: E402

DUMP = "tools/kvmm-dump"
STATES = {"free": ".", "reserved": ".", "aside": ".", "range": "a", "private": "a", "active": "a",
          "staged": "s", "cached": "c", "claimed": "c", "moving": "m", "limbo": "m", "away": "x",
          "null": "p"}


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def cells_of(text):
    for count, state, owner in re.findall(r"(\d+)([.acpsmx])(\d*)", text):
        yield from [(state, int(owner) if owner else None)] * int(count)


def wanted_cells(rows, names):
    for row in rows:
        state = STATES[row["state"]]
        if state == "a" and "p" in row["flags"]:
            state = "p"
        who = "sequence " + row["seq"] if row["seq"] != "-" else \
            "owner " + row["owner"] if row["owner"] != "-" else None
        yield from [(state, names[who] if who else None)] * int(row["count"])


def check_still(engine):
    file = os.path.join(engine.dir, "still.rec")
    out = run(DUMP, "record", "--pool", "kv", "-i", "0.02", "-n", "5", file)
    expect("recorded without a word", [out.returncode, out.stdout, out.stderr] == [0, "", ""], out.stderr)
    lines = read(file)
    head, samples = lines[0], [line for line in lines if "v" in line]
    names = {line["name"]: line["owner"] for line in lines if "name" in line}
    expect("five moments", len(samples) == 5 == lines[-1]["end"])
    expect("0.02 s between them at least", all(b["x"] - a["x"] >= 20000 or b["x"] % 20000 == 0
                                               for a, b in zip(samples, samples[1:])), samples)
    rows, stat = engine.table("map kv 0 8192 fine"), engine.table("stat kv")[0]
    expect("the map is the engine's", list(cells_of(samples[0]["map"])) == list(wanted_cells(rows, names)))
    expect("owners have names", len(names) > 3 and len(set(names.values())) == len(names), names)
    expect("where nothing changes, nothing is written", {s["map"] for s in samples[1:]} == {"%d=" % head["cells"]})
    col = dict(zip(head["columns"], samples[0]["v"]))
    expect("its numbers", all(col[a] == int(stat[b]) for a, b in [
        ("largest", "largest"), ("free_runs", "runs"), ("cached", "inactive"), ("moved", "moved_blocks")]), col)
    expect("what is held", col["held"] == sum(c[0] in "aps" for c in cells_of(samples[0]["map"])) -
           int(stat["null"]), col)
    expect("its owners, and their runs", col["owners"] == len(names) <= col["owned_runs"], col)
    page = os.path.join(engine.dir, "still.html")
    out = run(DUMP, "report", file, "-o", page)
    expect("a page of it", out.returncode == 0 and not out.stderr, out.stderr)


def recording(engine, *args):
    """One that is under way, and has a few moments in its file."""
    file = os.path.join(engine.dir, "going.rec")
    process = subprocess.Popen([DUMP, "record", "-i", "0.02", *args, file], text=True, stderr=subprocess.PIPE)
    for _ in range(1000):
        if os.path.exists(file) and open(file).read().count("\n") > 5:
            break
        time.sleep(.02)
    return process, file


def check_interrupt(engine):
    process, file = recording(engine)
    process.send_signal(signal.SIGINT)
    expect("an interrupt ends it well", process.wait(20) == 0)
    expect("with its last line", read(file)[-1].get("end", 0) >= 1)


def check_usage(engine):
    for args in [["-i", "0", "x"], ["-i", "x", "x"], ["-n", "-1", "x"], [], ["x", "y"]]:
        expect("bad usage: %s" % args, run(DUMP, "record", *args).returncode == 2)
    out = run(DUMP, "record", "--pool", "nowhere", "/dev/null")
    expect("a pool that is not there", out.returncode == 1 and "nowhere" in out.stderr, out.stderr)
    out = run(DUMP, "record", "-n", "1", os.path.join(engine.dir, "no", "file"))
    expect("a file that cannot be written", out.returncode == 1 and "No such file" in out.stderr, out.stderr)
    out = run(DUMP, "record", "-n", "1", "/dev/full")
    expect("a disk that is full", out.returncode == 1 and out.stderr, out.stderr)


def check_gone():
    for args, code in [(["-n", "100000"], 1), ([], 0)]:
        engine = Engine()
        process, file = recording(engine, *args)
        engine.kill()
        error = process.communicate(timeout=60)[1]
        expect("the engine goes away: %s" % args, process.returncode == code and "kvmm-dump: " in error, error)
        out = run(DUMP, "report", file, "-o", "-")
        expect("what was recorded is good", out.returncode == 0 and not out.stderr, out.stderr)


def main():
    engine = Engine()
    check_still(engine)
    check_interrupt(engine)
    check_usage(engine)
    engine.end()
    check_gone()
    end()


main()
