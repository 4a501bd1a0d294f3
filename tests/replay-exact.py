#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare kvmm-replay with an independent reference, integer by integer.

usage: replay-exact.py [WORD...]
Runs from the object tree. Each row of expected.jsonl in $KVMM_TRACES is one test: the tool is run
with the options that the row stands for, and every key of the row must be in its output with
the same value. With WORDs only rows that contain all of them are run, as in "frag" "buddy".
Without traces the tool's own workload is used, and what must hold between its runs is checked.
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import time

TOOL = os.environ.get("KVMM_REPLAY", "tools/kvmm-replay")
TRACES = os.environ.get("KVMM_TRACES", "../shared/traces")
FILES = {
    "conversation": "conversation_trace.jsonl",
    "azure-conv": "AzureLLMInferenceTrace_conv.csv",
}


def run(*args):
    done = subprocess.run([TOOL, *map(str, args), "--json", "--no-progress"],
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def arguments(row):
    """The command line that a row stands for."""
    kind, tokens = row["kind"], ["--block-tokens", row["bs"]]
    if kind == "waste":
        return ["waste", *tokens]
    if kind == "frag":
        return ["frag", *tokens, "--blocks", row["size"], "--alloc", row["alloc"],
                "--arrivals", row["arrivals"], "--mark", row["mark"],
                "--compact", "slide" if row["compact"] else "off"]
    blocks = ["--blocks", row["n"]] if row["n"] else []
    return ["conc" if kind == "conc" else "seq", *tokens, *blocks,
            "--keys", row["mode"], "--policy", row["policy"]]


def differences(row):
    try:
        got = run(*arguments(row), os.path.join(TRACES, FILES[row["trace"]]))
    except (RuntimeError, OSError) as error:
        return [str(error)]
    return [f"{key}: {got.get(key, 'is missing')}, expected {want}"
            for key, want in row.items() if got.get(key) != want]


def timed(row):
    start = time.monotonic()
    return differences(row), time.monotonic() - start


def name(row):
    return " ".join(str(a) for a in arguments(row)) + " " + row["trace"]


def compare_rows(words):
    with open(os.path.join(TRACES, "expected.jsonl")) as lines:
        rows = [json.loads(line) for line in lines]
    rows = [r for r in rows if all(w in name(r) for w in words)]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for row, (bad, seconds) in zip(rows, pool.map(timed, rows)):
            print(f"{'FAIL' if bad else 'ok  '} {seconds:6.2f} s  {name(row)}")
            print("".join(f"       {line}\n" for line in bad), end="", flush=True)
            failed += bool(bad)
    return len(rows) - failed, failed


def relations():
    """(what must hold, does it) for a workload that the tool makes up."""
    few = ["--requests", 3000, "--seed", 7]
    lru, again = run("seq", *few), run("seq", *few)
    best = run("seq", "--policy", "min", *few)
    bound = run("seq", "--policy", "bound", *few)
    most = run("seq", "--policy", "infinite", *few)
    huge = run("seq", "--blocks", 200000, *few)
    yield "the same seed gives the same run", lru == again
    yield "another seed gives another run", lru["fp"] != run("seq", *few[:3], 8)["fp"]
    yield "lru <= min <= bound <= infinite", \
        lru["hits"] <= best["hits"] <= bound["hits"] <= most["hits"]
    yield "a pool larger than the trace hits like an infinite one", \
        huge["fp"] == most["fp"] and huge["evictions"] == 0
    yield "lru does hit", 0 < lru["hits"] < most["hits"]
    yield "checked content changes nothing", lru["fp"] == run("seq", "--verify", *few)["fp"]

    frag = ["frag", "--blocks", 32768, *few]
    first, packed = run(*frag, "--alloc", "first"), run(*frag, "--compact", "slide")
    runs = run(*frag, "--max-runs", 4)
    yield "every request is admitted", first["admitted"] + first["rejected"] == 3000
    yield "more runs fit more", runs["occupancy_ppm"] >= first["occupancy_ppm"]
    yield "after a slide everything fits", packed["fail_compacted"] == 0 == packed["retries"]
    yield "a slide costs what was foretold", packed["moved_blocks"] == packed["slide_blocks"]
    yield "the bound is one", packed["bound_blocks"] <= packed["slide_blocks"]
    conc = run("conc", "--blocks", 1500, "--verify", *few)
    yield "misses and hits add up", conc["hits"] + conc["misses"] == conc["accesses"]


def check_relations():
    passed = failed = 0
    for what, holds in relations():
        print(f"{'ok  ' if holds else 'FAIL'} {what}")
        passed += bool(holds)
        failed += not holds
    return passed, failed


def main():
    if os.path.exists(os.path.join(TRACES, "expected.jsonl")):
        passed, failed = compare_rows(sys.argv[1:])
    else:
        print(f"no {TRACES}/expected.jsonl: checking made-up workloads instead")
        passed, failed = check_relations()
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
