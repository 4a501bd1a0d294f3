#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every tool against the toy engine and against a replay in progress, both with tiers, from one table.

Run from the object tree. A row is a call and what must be in its answer: numbers of the pool, names that
other rows have seen, files that other programs read. Numbers of a busy engine are held against bounds
that hold at any moment, and against each other where one answer has both.
"""
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ.get("KVMM_SRCTREE", "."), "tests/ctl"))
from tools import Engine  # noqa: E402

good = bad = 0


class Toy:
    """256 blocks of 4 tokens and 1 KiB; ranges of requests, pages with names, a host tier and a disk."""
    name, pool, blocks, tokens, bytes = "toy", "beside", 256, 4, 1024
    tiers, has_ranges = ("host", "disk"), True

    def __init__(self, folder):
        os.mkdir(folder + "/disk", 0o700)
        self.args = ["samples/toy-engine", "--mode", "beside", "--slow", "300", "--requests", "4096",
                     "--prompts", "64", "--host-tier", "200", "--disk-tier", folder + "/disk"]


class Replay:
    """2000 blocks of ids and 512 tokens; pages with names; tiers are simulated."""
    name, pool, blocks, tokens, bytes = "replay", "replay", 2000, 512, 0
    tiers, has_ranges = ("host",), False

    def __init__(self, folder):
        self.args = ["tools/kvmm-replay", "conc", "--no-progress", "--blocks", str(self.blocks),
                     "--host-blocks", "3000", "--disk-blocks", "5000", "--slow", "300", "--requests",
                     "100000", "--generate", "chat:span=100000"]


def table_of(text):
    """Lines of columns as dictionaries."""
    lines = text.splitlines()
    return [dict(zip(lines[0].split(), line.split())) for line in lines[1:]]


def rows_of(text):
    """A line of JSON each."""
    return [json.loads(line) for line in text.splitlines()]


# ---- what must be in an answer: a function of the engine, its folder and the text each ----

def lines_of_stat(e, folder, text):
    rows = [line.split() for line in text.splitlines() if line.startswith(e.pool + " ")]
    assert len(rows) == 2 and rows[0][8] == "-" and float(rows[1][8]) > 0, rows
    for row in rows:	# free, inactive, active, private, ranges: of one moment nearly
        assert e.blocks * .5 <= sum(map(int, row[1:6])) <= e.blocks * 1.5, row


def json_of_stat(e, folder, text):
    rows = rows_of(text)
    assert len(rows) == 2 and rows[0]["allocs_per_s"] is None and rows[1]["allocs_per_s"] > 0, rows
    assert rows[1]["hit_blocks_per_s"] >= 0, rows


def numbers(e, folder, text):
    row, = json.loads(text)
    assert row["pool"] == e.pool and row["blocks"] == e.blocks and row["block_tokens"] == e.tokens, row
    assert row["block_bytes"] in (e.bytes, row["block_bytes"] if not e.bytes else e.bytes), row
    assert row["allocs"] > 0 and row["hit_blocks"] > 0 and row["registered"] > 0, row
    assert 0 <= row["free"] <= e.blocks and row["active"] <= e.blocks, row
    assert (row["ranges"] > 0) == e.has_ranges or row["ranges_blocks"] == 0, row


def tiers(e, folder, text):
    rows = json.loads(text)
    assert tuple(row["tier"] for row in rows) == e.tiers, rows
    host = rows[0]
    assert host["stored"] > 0 and host["blocks"] > 0 and host["loaded"] >= (host["from_disk"] or 0), host
    assert host["stored_bytes"] >= host["stored"] * e.bytes, host
    for disk in rows[1:]:
        assert disk["blocks"] > 0 and disk["bytes"] == disk["blocks"] * e.bytes, disk


def devices(e, folder, text):
    row, = json.loads(text)
    assert row["pool"] == e.pool and row["device"] == "host" and row["allocator"], row


def pressure(e, folder, text):
    some, full = json.loads(text)
    assert (some["kind"], full["kind"]) == ("some", "full"), (some, full)
    assert some["total_us"] >= full["total_us"] >= 0 and 0 <= some["avg10"] <= 100, (some, full)


def leaks(e, folder, text):
    rows = json.loads(text)
    assert rows and all(row["why"] == "old" and row["age_ms"] >= 1 for row in rows), rows
    kinds = {row["kind"] for row in rows}
    assert kinds <= {"range", "private", "staged", "ref", "pin", "hold"}, kinds
    assert "range" in kinds if e.has_ranges else "private" in kinds, kinds


def metrics(e, folder, text):
    assert text.endswith("# EOF\n"), text[-100:]
    samples = dict(re.findall(r'^(\w+)\{pool="%s",[^}]*?\} (\S+)$' % e.pool, text, re.M))
    assert float(samples["kvmm_capacity_blocks"]) == e.blocks, samples
    assert float(samples["kvmm_allocations_total"]) > 0, samples
    assert float(samples["kvmm_offload_copy_seconds_count"]) > 0, samples
    assert float(samples["kvmm_offloaded_blocks_total"]) > 0, samples


def families(e, folder, text):
    names = {line.split()[0] for line in text.splitlines()}
    assert {"kvmm_hit_blocks", "kvmm_load_copy_seconds", "kvmm_disk_read_seconds"} <= names, text[:300]


def buddyinfo(e, folder, text):
    pieces = re.fullmatch(r"Node 0, zone +%s((?: +\d+){11}) *\n" % e.pool, text)
    assert pieces, text
    assert sum(int(n) << k for k, n in enumerate(pieces.group(1).split())) <= e.blocks, text


def pagetypeinfo(e, folder, text):
    assert re.search(r"^Node +0, zone +%s, type +Movable( +\d+){11}" % e.pool, text, re.M), text


def vmstat(e, folder, text):
    rows = {k: int(v) for k, v in (line.split() for line in text.splitlines())}
    assert rows["nr_free_pages"] <= e.blocks and rows["pgalloc_normal"] > 0, rows


def pressure_text(e, folder, text):
    assert re.fullmatch(r"(some|full) avg10=[\d.]+ avg60=[\d.]+ avg300=[\d.]+ total=\d+\n"
                        r"full avg10=[\d.]+ avg60=[\d.]+ avg300=[\d.]+ total=\d+\n", text), text


def slabinfo(e, folder, text):
    assert text.startswith("slabinfo - version: 2.1\n# name "), text


def proc(e, folder, text):
    files = sorted(os.listdir(folder + "/proc"))
    assert {"buddyinfo", "slabinfo", "vmstat", "pressure"} <= set(files), files
    vmstat(e, folder, open(folder + "/proc/vmstat").read())


def page_of_top(e, folder, text):
    assert text.startswith("kvmm-top - %s: %s" % (e.name, e.pool)), text[:200]
    assert re.search(r"^Blocks +%d total" % e.blocks, text, re.M), text
    cells = "".join(line for line in text.splitlines() if len(line) >= 60 and set(line) <= set(".#PpacmM-"))
    assert len(cells) >= 256 and set(cells) & set("ac") and (e.has_ranges or "#" not in cells), text
    assert re.search(r"^Tier.*host|host", text, re.M | re.I), text


def json_of_top(e, folder, text):
    page = json.loads(text)
    assert page["engine"] == e.name and page["pool"] == e.pool, page
    assert page["stat"][0]["blocks"] == e.blocks, page
    assert sum(row["blocks"] for row in page["owners"]) <= e.blocks, page
    assert not e.has_ranges or {1, 2, 3, 4} & {row["owner"] for row in page["owners"]}, page["owners"]


def page_of_slabtop(e, folder, text):
    assert re.search(r"Caches +: 0$", text, re.M) and "CACHE SIZE" in text, text


def nothing(e, folder, text):
    assert json.loads(text) == [], text


def settings(e, folder, text):
    rows = {row["name"]: row for row in json.loads(text)}
    assert rows["watermark_high"]["value"] == 0 and rows["tier_touches"]["value"] >= 1, rows


def set_one(e, folder, text):
    assert json.loads(text) == [{"name": "background_interval_ms", "before": 60000, "value": 50000}], text


def plan(e, folder, text):
    row, = json.loads(text)
    assert row["extents_before"] - row["extents_after"] == row["saved_extents"] >= 0, row
    assert (row["extents_before"] > 0) == e.has_ranges, row


def run_of_defrag(e, folder, text):
    row, = json.loads(text)
    assert row["goal"] == "run" and row["want"] == 3 and row["state"] == "done", row
    assert row["largest_after"] >= 3 or row["partial"], row


def status_of_defrag(e, folder, text):
    row, = json.loads(text)
    assert (row["state"], row["want"]) in (("none", 0), ("done", 3)) or row["want"] == 3, row


def watch(e, folder, text):
    rows = rows_of(text)
    assert len(rows) == 2 and all(row["free"] <= e.blocks for row in rows), rows
    assert rows[0]["moved_blocks"] <= rows[1]["moved_blocks"], rows


def refused(e, folder, text):
    assert "there is no other pool 'nowhere'" in text, text


def events(e, folder, text):
    rows = rows_of(text)
    assert len(rows) == 400 and {row["kind"] for row in rows} == {"stored", "removed"}, rows
    assert "device" in {row["medium"] for row in rows}, rows
    assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows), rows
    assert all(row["tokens"] == e.tokens for row in rows if row["kind"] == "stored"), rows


def requests(e, folder, text):
    rows = [row for row in rows_of(text) if row["kind"] == "request"]
    assert rows and all(0 <= row["keys"] - row["input"] // e.tokens <= 1 for row in rows), rows


def names(e, folder, text):
    rows = rows_of(text)
    media = {row["medium"] for row in rows}
    assert media == {"device", *e.tiers}, media
    on_device = [row["block"] for row in rows if row["medium"] == "device"]
    assert all(block < e.blocks for block in on_device) and len(on_device) > e.blocks / 10, on_device


def recorded_events(e, folder, text):
    kinds = [line.split("\t")[1] for line in open(folder + "/day.events").read().splitlines()[1:]]
    assert {"request", "request_keys", "request_end", "stored"} <= set(kinds), set(kinds)
    assert e.took > .95, "a second was over after %.3f s" % e.took


def snapshot(e, folder, text):
    lines = open(folder + "/now.snap").read().splitlines()
    facts = dict(line.split("\t", 1) for line in lines[1:7])
    assert (facts["pool"], facts["engine"], facts["blocks"]) == (e.pool, e.name, str(e.blocks)), facts
    below = [line.split("\t")[1].split() for line in lines if line.startswith("below\t")]
    assert {row[0] for row in below} == set(e.tiers), below[:3]
    head = next(i for i, line in enumerate(lines) if line.startswith("#first\t"))
    rows = [dict(zip(lines[head][1:].split("\t"), line.split("\t"))) for line in lines[head + 1:-1]]
    assert sum(int(row["count"]) for row in rows) == e.blocks, len(rows)
    assert all(row["seq"] != "-" for row in rows if row["state"] == "range"), rows


def page_of_show(e, folder, text):
    assert text.startswith("pool %s of %s: %d blocks of " % (e.pool, e.name, e.blocks)), text
    shares = [int(n) for n in re.findall(r"^[a-z]+ +(\d+) +\d+ +[\d.]+", text, re.M)]
    assert sum(shares) >= e.blocks, text


def pickled(e, folder, text):
    with open(folder + "/now.pickle", "rb") as file:
        segment, = pickle.load(file)["segments"]
    assert segment["total_size"] == e.blocks * max(1, e.bytes), segment["total_size"]
    assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"], "a gap"


def wanted_graph(folder):
    """What the snapshot says of each tier: names, and those of them that the device has, too."""
    lines = open(folder + "/now.snap").read().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("#first\t"))
    device = set()
    for line in lines[head + 1:-1]:
        row = dict(zip(lines[head][1:].split("\t"), line.split("\t")))
        device.add((row["tenant"], row["group"], row["layout"], row["key"]))
    below = {}
    for line in lines[:head]:
        if line.startswith("below\t"):
            medium, tenant, group, layout, _, key = line.split("\t")[1].split()
            below.setdefault(medium, set()).add((tenant, group, layout, key))
    return {medium: (len(all_), len(all_ & device)) for medium, all_ in below.items()}


DOT = [r"digraph prefixes \{", r'\tlabel="[^"]*";', r"\trankdir=LR;", r'\tfontname="[^"]*";',
       r"\t(node|edge) \[.*\];", r'\tn\d+ \[label="[^"]*", fillcolor="#[0-9a-f]{6}", penwidth=\d+\];',
       r"\t[np]\d+ -> n\d+( \[style=dashed\])?;", r"\tp\d+ \[shape=point, style=dashed\];",
       r'\tn\d+ -> (host|disk) \[style=dotted, dir=none, label="\d+ of \d+"\];',
       r"\tsubgraph cluster_(host|disk) \{", r'\t\tlabel="(host|disk): \d+ names";',
       r'\t\t(host|disk) \[label="\d+ of them in the device", shape=cylinder, fillcolor="#ffffff"\];',
       r'\t\t(host|disk)\d+ \[label="\d+ only here[^"]*", fillcolor="#d9d9d9"\];', r"\t?\}"]


def graph(e, folder, text):
    boxes = text.count("penwidth=")
    assert 0 < boxes <= 40, boxes
    for line in text.splitlines():
        assert any(re.fullmatch(form, line) for form in DOT), line
    wanted = wanted_graph(folder)
    assert set(wanted) == set(e.tiers), wanted
    for medium, (nr, shared) in wanted.items():
        assert 'label="%s: %d names"' % (medium, nr) in text, (medium, nr)
        assert '\t%s [label="%d of them in the device"' % (medium, shared) in text, (medium, shared)
        drawn = sum(map(int, re.findall(r"-> %s \[.*label=\"(\d+) of" % medium, text)))
        assert 0 < drawn <= shared, (medium, drawn, shared)
        assert sum(map(int, re.findall(r"%s\d+ \[label=\"(\d+) only" % medium, text))) == nr - shared
    if shutil.which("dot"):
        out = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, timeout=60)
        assert out.returncode == 0 and "</svg>" in out.stdout and not out.stderr, out.stderr
    else:
        print("skipped: there is no dot that could draw the graph")


def recording(e, folder, text):
    lines = rows_of(open(folder + "/live.rec").read())
    head, last = lines[0], [line for line in lines if "v" in line][-1]
    columns = dict(zip(head["columns"], last["v"]))
    assert head["blocks"] == e.blocks and lines[-1]["end"] == 6, (head, lines[-1])
    assert columns["offloaded"] > 0 and columns["host_blocks"] > 0, columns
    assert columns["offloaded_bytes"] >= columns["offloaded"] * e.bytes, columns
    assert columns["hits_host"] + columns["hits_disk"] == columns["loaded"] > 0, columns
    assert columns["hits_disk"] > 0 or "disk" not in e.tiers, columns
    owners = head["columns"].index("owners")
    assert (max(line["v"][owners] for line in lines if "v" in line) > 0) == e.has_ranges, columns
    latencies = {line["latency"]: line for line in lines if "latency" in line}
    assert "copies to the host tier took" in latencies, list(latencies)
    for line in latencies.values():
        assert line["n"] == sum(n for _, n in line["buckets"]) > 0 and line["complete"], line


def report(e, folder, text):
    page = open(folder + "/live.html").read()
    assert page.startswith("<!DOCTYPE html>") and '"hits_host"' in page, page[:100]
    assert not re.search(r'(src|href)="?https?:', page), "it wants a network"


def live_trace(e, folder, text):
    said = json.loads(text)
    assert said["requests"] >= 40 and not said["lost_events"] and not said["broken"], said
    assert not said["odd"], said
    for row in rows_of(open(folder + "/live.jsonl").read()):
        assert len(row["hash_ids"]) == -(-row["input_length"] // e.tokens) and row["output_length"] > 0, row


def file_trace(e, folder, text):
    assert json.loads(text)["requests"] > 0, text


def converted(e, folder, text):
    rows = open(folder + "/lengths.csv").read().splitlines()
    with open(folder + "/live.jsonl") as file:
        assert len(rows) - 1 == len(file.read().splitlines()), rows[:3]


def replayed(e, folder, text):
    """The prompts of the toy engine come again, so they are hit again."""
    row = json.loads(text)
    assert row["requests"] >= 40 and row["accesses"] > 0 and row["rejected"] == 0, row
    assert row["hits"] > 0, row


# ---- the table: the tool's arguments, FOLDER and BLOCKS filled in, and what must be in its answer ----

TABLE = [
    ("stat 0.1 2", lines_of_stat), ("stat --json 0.1 2", json_of_stat), ("stat pool --json", numbers),
    ("stat tiers --json", tiers), ("stat devices --json --socket SOCKET", devices),
    ("stat pressure --json", pressure), ("stat leaks POOL 1 --json", leaks), ("stat metrics", metrics),
    ("stat families", families), ("stat buddyinfo", buddyinfo), ("stat pagetypeinfo", pagetypeinfo),
    ("stat vmstat", vmstat), ("stat pressure-text", pressure_text), ("stat slabinfo", slabinfo),
    ("stat proc FOLDER/proc", proc),
    ("top --batch --width 100", page_of_top), ("top --json", json_of_top),
    ("slabtop --once", page_of_slabtop), ("slabtop --json", nothing),
    ("defrag config --live --json", settings),
    ("defrag set --live --json background_interval_ms 50000", set_one),
    ("defrag plan --live --goal shorten --json", plan),
    ("defrag run --live --want 3 --best --json --wait 10", run_of_defrag),
    ("defrag status --live --json", status_of_defrag),
    ("defrag watch --live -n 2 --interval 0.05 --json", watch),
    ("migrate status --json", nothing), ("migrate start nowhere 7", refused),
    ("events tail -n 400 --json", events), ("events tail --what requests --seconds 1 --json", requests),
    ("events names --json", names), ("events record --what requests --seconds 1 FOLDER/day.events", recorded_events),
    ("dump snapshot -o FOLDER/now.snap", snapshot), ("dump show", page_of_show),
    ("dump pickle --from FOLDER/now.snap -o FOLDER/now.pickle", pickled),
    ("dump graphviz --boxes 40 --from FOLDER/now.snap", graph),
    ("dump record --interval 0.1 -n 6 FOLDER/live.rec", recording),
    ("dump report FOLDER/live.rec -o FOLDER/live.html", report),
    ("trace record --requests 80 -o FOLDER/live.jsonl --json", live_trace),
    ("trace record FOLDER/day.events -o FOLDER/day.jsonl --json", file_trace),
    ("trace convert --to lengths --json -o FOLDER/lengths.csv FOLDER/live.jsonl", converted),
    ("replay seq --blocks 4000 --block-tokens TOKENS --json --no-progress FOLDER/live.jsonl", replayed),
]

# These may be told that it cannot be done now: what is in use does not move, and all of it may be.
MAY_FAIL = {plan: "no allowed moves", run_of_defrag: "", refused: ""}


def run_row(e, engine, folder, line, check):
    global good, bad
    words = {"FOLDER": folder, "SOCKET": engine.path, "POOL": e.pool, "TOKENS": str(e.tokens)}
    args = [re.sub("FOLDER|SOCKET|POOL|TOKENS", lambda m: words[m.group(0)], word)
            for word in line.split()]
    error = None
    for _ in range(3):	# a busy engine may have a bad moment; one that is wrong has nothing else
        error = complaint_of(e, engine, folder, args, check)
        if not error:
            good += 1
            return
    bad += 1
    print("failed: %s: kvmm-%s: %.900s" % (e.name, line, error))


def complaint_of(e, engine, folder, args, check):
    begin = time.monotonic()
    out = engine.tool(*args)
    e.took = time.monotonic() - begin
    try:
        if out.returncode and check in MAY_FAIL:
            assert out.returncode == 1 and MAY_FAIL[check] in out.stderr, out
            if check is refused:
                check(e, folder, out.stderr)
        else:
            assert out.returncode == 0 and not out.stderr and check is not refused, out
            check(e, folder, out.stdout)
    except Exception as error:	# of any kind: the answer is not what it should be
        return "%s: %s" % (type(error).__name__, error)
    return None


def wait_until_busy(engine, e):
    """All tiers have something, and prompts have come back from there."""
    end = time.time() + 40
    while time.time() < end and engine.proc.poll() is None:
        out = engine.tool("stat", "tiers", "--json")
        rows = json.loads(out.stdout) if out.returncode == 0 else []
        if len(rows) == len(e.tiers) and rows[0]["loaded"] and all(row["blocks"] for row in rows) and \
                (rows[0]["from_disk"] or len(e.tiers) == 1):
            return
        time.sleep(.05)


def main():
    for kind in (Toy, Replay):
        with tempfile.TemporaryDirectory(prefix="kvmm-all-") as folder:
            e = kind(folder)
            with Engine(e.name + ".sock", *e.args) as engine:
                wait_until_busy(engine, e)
                for line, check in TABLE:
                    run_row(e, engine, folder, line, check)
    print(f"{good} passed, {bad} failed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
