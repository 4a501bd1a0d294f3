#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands map, snapshot, owners, sequences, holds, prefixes, slabs: of an engine that stands still
and of a busy one. Run from the object tree."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["KVMM_SRCTREE"], "tests/views"))
from engine import Engine, end, expect  # noqa: E402

NR_BLOCKS = 4096


def whole(engine, command, rows, how=""):
    """All rows, asked for in portions."""
    at, all_rows = 0, []
    while at < NR_BLOCKS:
        part = engine.table("%s kv %d %d %s" % (command, at, rows, how))
        if not part:
            expect("%s goes on at %d" % (command, at), False)
            break
        expect("%s: no more rows than wanted" % command, len(part) <= rows, len(part))
        all_rows += part
        at = int(part[-1]["first"]) + int(part[-1]["count"])
    return all_rows


def check_partition(rows, what):
    at = 0
    for row in rows:
        expect("%s: no gap, nothing twice" % what, int(row["first"]) == at, row)
        at += int(row["count"])
    expect("%s: all blocks" % what, at == NR_BLOCKS, at)


def blocks(rows, **want):
    return sum(int(r["count"]) for r in rows if all(r[k] == v for k, v in want.items()))


def still(engine):
    for command, rows, how in (("map", 3, ""), ("map", 1000, "fine"), ("map", 2, "coarse"),
                               ("snapshot", 7, ""), ("snapshot", 16384, "")):
        check_partition(whole(engine, command, rows, how), command + " " + how)
    rows = whole(engine, "map", 1000)
    expect("a sequence", blocks(rows, seq="5", state="range", owner="100") == 200, rows)
    expect("a pinned one", blocks(rows, seq="3", flags="p", pins="1") == 120, rows)
    expect("held", blocks(rows, state="active") == 64, rows)
    expect("cached", blocks(rows, state="cached") == 64, rows)
    expect("private", blocks(rows, state="private") == 4, rows)
    expect("staged", blocks(rows, state="staged") == 2, rows)
    stat = engine.table("stat kv")[0]
    expect("as the statistics say", blocks(rows, state="range") == int(stat["ranges_blocks"]), stat)
    expect("and free ones", blocks(rows, state="free") + blocks(rows, state="aside") ==
           int(stat["free"]), stat)

    rows = whole(engine, "snapshot", 1000)
    named = [r for r in rows if r["key"] != "-"]
    expect("names", len(named) == 130, len(named))
    expect("each is a row", all(r["count"] == "1" for r in named))
    keys = {r["key"] for r in named}
    expect("parents", sum(r["parent"] in keys for r in named) == 128)
    expect("tiers", sum(r["tiers"] == "1" for r in named) == 128)

    owners = {r["owner"]: r for r in engine.table("owners kv")}
    expect("blocks of an owner", owners["200"]["blocks"] == "800", owners)
    expect("pinned ones", owners["100"]["pinned"] == "120", owners)
    expect("holds", owners["300"]["holds"] == "1" and owners["300"]["held"] == "64", owners)
    expect("nobody's", owners["0"]["blocks"] == "134", owners)
    seqs = engine.table("sequences kv 3")
    expect("the largest sequences", [r["seq"] for r in seqs] == ["8", "7", "6"], seqs)
    holds = engine.table("holds kv")
    expect("a hold", holds[0]["text"] == "decode-7" and holds[0]["reason"] == "transfer", holds)
    nodes = engine.table("prefixes kv 47 4")
    expect("prefixes", [n["children"] for n in nodes] == ["3", "1", "1", "1"], nodes)
    slabs = {r["name"]: r for r in engine.table("slabs")}
    expect("slab caches", slabs["window"]["objects"] == "500" and slabs["state"]["slots"] == "33", slabs)


def refused(engine):
    for line in ("map", "map nopool", "map kv x", "map kv 0 0", "map kv 0 99999", "map kv 0 1 finest",
                 "map kv 99999999", "owners kv 0", "owners kv 5000", "sequences kv 1 2", "slabs kv",
                 "snapshot kv -1"):
        head, body = engine.ask(line)
        expect("'%s' is refused, in words" % line, line == "map" and head[0] == "ok" or
               head[0] == "err" and len(body) > 3, (head, body[:80]))
    expect("behind the end there is nothing", engine.table("map kv 4096") == [])


def busy(engine):
    for i in range(30):
        check_partition(whole(engine, "map", 5 + 50 * (i % 7)), "busy map")
        check_partition(whole(engine, "snapshot", 400), "busy snapshot")


for args, looks in (((), (still, refused)), (("busy",), (busy,))):
    engine = Engine(*args)
    for look in looks:
        look(engine)
    engine.end()
end()
