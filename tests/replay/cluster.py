#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-replay cluster: does it say what a pencil says, and with one node what mode seq says?

Run from the object tree.
"""
import json
import os
import subprocess
import sys

TOOL = os.environ.get("KVMM_REPLAY", "tools/kvmm-replay")
TRACE = os.path.join(os.environ.get("KVMM_TRACES", "../shared/traces"), "conversation_trace.jsonl")

# Milliseconds and prompt, a letter a block of 64 ms and 512,000 bytes, which take 5,120 us and 80 to
# another node.
SMALL = [(0, "AB"), (0, "AC"), (100, "ABD"), (1000, "ACE")]

# least-loaded: node 0 computes AB until 128 ms. Node 1 fetches A and computes C until 69.2 ms; so it
# gets ABD, fetches B and computes D. At 1 s both are idle, node 0 for longer: it fetches C.
# prefix-aware: for ABD it waits for node 0 instead, which takes until 192 ms, and ACE goes to node 1.
BY_HAND = {
    "least-loaded": {"accesses": 10, "hits": 2, "fetched": 3, "fetched_bytes": 1536000,
                     "sent_most": 2, "requests_most": 2, "events": 8, "rejected": 0,
                     "first_token_us": 83900, "p50_us": 69200, "p99_us": 128000},
    "prefix-aware": {"accesses": 10, "hits": 4, "fetched": 1, "fetched_bytes": 512000,
                     "sent_most": 1, "requests_most": 2, "events": 6, "rejected": 0,
                     "first_token_us": 88300, "p50_us": 69200, "p99_us": 128000},
}

# Of the conversation trace, with 16 nodes of 5,000 blocks.
REAL = {
    "least-loaded": {"accesses": 288500, "hits": 26696, "fetched": 71436, "p50_us": 704000},
    "prefix-aware": {"accesses": 288500, "hits": 98120, "fetched": 5849, "p50_us": 476991},
}

passed = failed = 0


def check(what, holds):
    global passed, failed
    print(f"{'ok  ' if holds else 'FAIL'} {what}", flush=True)
    passed += bool(holds)
    failed += not holds


def call(*args, trace=None):
    return subprocess.run([TOOL, *map(str, args), "--json", "--no-progress"], input=trace,
                          capture_output=True, text=True, timeout=300)


def run(*args, trace=None):
    done = call(*args, trace=trace)
    if done.returncode or done.stderr:
        raise RuntimeError(f"{args}: exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def rows(*args, trace=None):
    return {row["router"]: row for row in run("cluster", *args, trace=trace)["rows"]}


def expect(what, got, want):
    for router, fields in want.items():
        for key, value in fields.items():
            check(f"{what}, {router}: {key} is {value}, not {got[router][key]}",
                  got[router][key] == value)


def check_by_hand():
    trace = "".join(json.dumps({"timestamp": ms, "input_length": 512 * len(word),
                                "output_length": 9, "hash_ids": [ord(c) for c in word]}) + "\n"
                    for ms, word in SMALL)
    link = ["--token-bytes", 1000, "--link-latency", 80, "--link-bandwidth"]
    expect("by hand", rows("--nodes", 2, *link, 100, "-", trace=trace), BY_HAND)
    expect("a link that is slower than computing", rows("--nodes", 2, *link, 1, "-", trace=trace),
           {router: {"hits": 4, "fetched": 0} for router in BY_HAND})
    expect("what is larger than a node", rows("--nodes", 2, "--blocks", 2, *link, 1, "-", trace=trace),
           {"least-loaded": {"rejected": 2, "accesses": 4}})


def check_one_node():
    made_up = ["--blocks", 300, "--generate", "chat:requests=1500,seed=3,span=600"]
    hits = run("seq", *made_up)["hits"]
    check("there are hits", hits > 0)
    expect("one node as seq", rows("--nodes", 1, *made_up),
           {router: {"hits": hits, "fetched": 0} for router in BY_HAND})


check_by_hand()
check_one_node()
check("no node is refused", call("cluster", "--nodes", 0).returncode == 2)
if os.path.exists(TRACE):
    expect("conversation", rows("--nodes", 16, TRACE), REAL)
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
