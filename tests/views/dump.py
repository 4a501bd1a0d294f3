#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-dump snapshot, show, pickle, graphviz: of an engine, and of a file. The pickle is looked at opcode by
opcode, and as PyTorch's memory_viz walks through it; the graph as dot, if there is one, and by its lines.
Run from the object tree."""
import json
import os
import pickle
import pickletools
import re
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["KVMM_SRCTREE"], "tests/views"))
from engine import Engine, end, expect, run  # noqa: E402

DUMP = "tools/kvmm-dump"
OPCODES = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEMS", "APPENDS", "BINUNICODE", "BININT",
           "BININT1", "LONG1", "STOP"}


def check_text(text):
    """The format, as Documentation/tools.rst has it."""
    lines = text.split("\n")
    expect("first line", lines[0] == "# kvmm-snapshot 1", lines[0])
    head = next(i for i, line in enumerate(lines) if line.startswith("#first\t"))
    facts = dict(line.split("\t") for line in lines[1:head])
    expect("the pool", facts["pool"] == "kv" and facts["blocks"] == "4096", facts)
    names = lines[head][1:].split("\t")
    rows = [line.split("\t") for line in lines[head + 1:-2]]
    expect("fields", all(len(row) == len(names) for row in rows))
    expect("the last line", lines[-2:] == ["end\t%d" % len(rows), ""], lines[-2:])


def check_pickle(data):
    seen = {op.name for op, arg, pos in pickletools.genops(data)}
    expect("opcodes", seen <= OPCODES, seen - OPCODES)
    expect("protocol 2", data[:2] == b"\x80\x02")
    viz = pickle.loads(data)
    expect("what there is", set(viz) == {"segments", "device_traces"}, set(viz))
    segment, = viz["segments"]
    for name in ("device", "address", "total_size", "allocated_size", "active_size", "requested_size",
                 "stream"):
        expect("segment." + name, isinstance(segment[name], int), segment.get(name))
    expect("segment_type", segment["segment_type"] in ("large", "small"))
    expect("frames", segment["frames"] == [])
    expect("its size", segment["total_size"] == 4096 * 4096, segment["total_size"])
    at, allocated, active = segment["address"], 0, 0
    for block in segment["blocks"]:
        expect("blocks follow one another", block["address"] == at, block)
        expect("a state", block["state"] in ("active_allocated", "active_pending_free", "inactive"),
               block)
        expect("frames", all(set(f) == {"filename", "line", "name"} for f in block["frames"]))
        at += block["size"]
        allocated += block["size"] * (block["state"] == "active_allocated")
        active += block["size"] * (block["state"] != "inactive")
        expect("requested", block["requested_size"] <= block["size"], block)
    expect("up to the end", at == segment["address"] + segment["total_size"], at)
    expect("allocated", segment["allocated_size"] == allocated == (1440 + 4 + 2 + 64) * 4096, allocated)
    expect("active", segment["active_size"] == active == allocated + 64 * 4096, active)
    trace, = viz["device_traces"]
    for event in trace:
        expect("an event", set(event) == {"action", "addr", "size", "stream", "time_us", "frames"},
               event)
    times = [event["time_us"] for event in trace]
    expect("in order of time", times == sorted(times))
    expect("actions", {e["action"] for e in trace} == {"alloc", "snapshot"} and
           trace[-1]["action"] == "snapshot")
    expect("a date", 1.7e15 < times[-1] < 1e16, times[-1])
    expect("what was allocated is there", sum(e["size"] for e in trace) == active)


def check_graph(text):
    box = re.compile(r'\tn\d+ \[label="([^"]*)", fillcolor="#[0-9a-f]{6}", penwidth=\d+\];')
    arrow = re.compile(r"\t[np]\d+ -> n\d+( \[style=dashed\])?;")
    point = re.compile(r"\tp\d+ \[shape=point, style=dashed\];")
    lines = text.splitlines()
    expect("a graph", lines[0] == "digraph prefixes {" and lines[-1] == "}", lines[:1])
    for line in lines[6:-1]:
        expect("a line of dot", box.fullmatch(line) or arrow.fullmatch(line) or point.fullmatch(line),
               line)
    return [box.fullmatch(line).group(1) for line in lines if box.fullmatch(line)], \
        [line for line in lines if arrow.fullmatch(line)]


engine = Engine()
file = os.path.join(engine.dir, "a.snap")
out = run(DUMP, "snapshot", "--pool", "kv")
expect("a snapshot", out.returncode == 0 and not out.stderr, out.stderr)
check_text(out.stdout)
out = run(DUMP, "snapshot", "-o", file)
expect("into a file", out.returncode == 0 and not out.stdout, out.stderr)
again = run(DUMP, "snapshot", "--from", file)
expect("read and written it is the same", again.stdout == open(file).read())

out = run(DUMP, "show", "--from", file)
expect("a page", re.search(r"^range +1440 +8 ", out.stdout, re.M) and
       re.search(r"^200 +800 ", out.stdout, re.M), out.stdout)

shown = json.loads(run(DUMP, "show", "--json", "--from", file).stdout)
expect("the same for programs", shown["states"]["range"] == {"blocks": 1440, "rows": 8} and shown["blocks"] == 4096 and
       sum(s["blocks"] for s in shown["states"].values()) == 4096 and shown["owners"][0]["owner"] == 200 and
       [s["blocks"] for s in shown["sequences"]] == [320, 280, 240, 200, 160, 120, 80, 40], shown)
check_pickle(run(DUMP, "pickle", "--from", file, text=False).stdout)
check_pickle(run(DUMP, "pickle", text=False).stdout)

boxes, arrows = check_graph(run(DUMP, "graphviz", "--from", file).stdout)
expect("stretches", len(boxes) == 5 and len(arrows) == 4, boxes)
expect("the shared one", any("blocks 0 to 47\\nactive, 1 refs\\ntiers 0x1" in b for b in boxes), boxes)
boxes, arrows = check_graph(run(DUMP, "graphviz", "--all").stdout)
expect("each block", len(boxes) == 130 and len(arrows) == 129, (len(boxes), len(arrows)))
if shutil.which("dot"):
    dot = os.path.join(engine.dir, "a.dot")
    run(DUMP, "graphviz", "-o", dot)
    svg = run("dot", "-Tsvg", dot)
    expect("dot takes it", svg.returncode == 0 and "</svg>" in svg.stdout, svg.stderr)
    os.unlink(dot)

text = open(file).read()
for what, bad in (("cut short", text[:-9]), ("a run less", re.sub(r"\n1440\t[^\n]*", "", text)),
                  ("another version", text.replace("snapshot 1", "snapshot 2")),
                  ("a state that is none", text.replace("\trange\t", "\trang\t")),
                  ("more behind the end", text + "x\n"), ("empty", ""), ("no text", "\0" * 99)):
    with open(file + ".bad", "w") as bad_file:
        bad_file.write(bad)
    out = run(DUMP, "show", "--from", file + ".bad")
    expect(what + " is refused", out.returncode == 1 and "a.snap.bad: " in out.stderr, out)
os.unlink(file + ".bad")

out = run(DUMP, "show", "--pool", "none")
expect("no such pool", out.returncode == 1 and "none" in out.stderr, out)
out = run(DUMP, "show", "--from", file, "--pool", "kv")
expect("a file has no pools", out.returncode == 2, out)
out = run(DUMP, "pickle", "--from", file, "-o", "/dev/full")
expect("a full disk", out.returncode == 1 and "/dev/full" in out.stderr, out)
os.unlink(file)
engine.end()

os.mkdir(engine.dir)
out = run(DUMP, "snapshot")
expect("no engine", out.returncode == 1 and "no engine" in out.stderr, out)
os.rmdir(engine.dir)
end()
