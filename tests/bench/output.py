#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What kvmm-bench promises of its output: one JSON object a row, these keys, these types; names
that do not exist are refused. Runs in the object tree."""

import json
import math
import re
import subprocess
import sys

BENCH = "tools/kvmm-bench"
KEYS = {"bench": str, "params": dict, "metric": str, "value": (int, float), "min": (int, float),
        "max": (int, float), "unit": str,
        "ref": (str, type(None)), "ref_value": (int, float, type(None)),
        "ratio": (int, float, type(None)), "runs": int, "spread": (int, float)}
passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("failed:", what)


def run(*args):
    return subprocess.run([BENCH, *args], capture_output=True, text=True, timeout=300)


def check_row(name, line):
    row = json.loads(line)
    check(list(row) == list(KEYS), f"{name}: keys {list(row)}")
    check(all(isinstance(row[k], t) for k, t in KEYS.items()), f"{name}: types of {row}")
    check(row["bench"] == name and row["runs"] >= 1 and row["spread"] >= 0, f"{name}: {row}")
    check(row["min"] <= row["value"] <= row["max"], f"{name}: least, median, most of {row}")
    if row["ref_value"] and row["ratio"] is not None:
        ratio = row["value"] / row["ref_value"]
        check(math.isclose(ratio, row["ratio"], rel_tol=0.02, abs_tol=0.002), f"ratio of {row}")


def main():
    names = run("list").stdout.split("\n")
    names = [n.split()[0] for n in names if n.strip()]
    for name in ("alloc-range", "alloc-single", "fragmentation", "compact"):
        check(name in names, f"{name} is listed")

    for name in ("alloc-batch", "compact"):
        out = run("--quick", "--json", name)
        rows = out.stdout.splitlines()
        check(out.returncode == 0 and rows, f"{name}: exit {out.returncode}: {out.stderr}")
        for line in rows:
            check_row(name, line)

    rows = [json.loads(line) for line in run("--quick", "--json", "peers").stdout.splitlines()]
    for row in rows:
        check_row("peers", json.dumps(row))
    for engine, ref in (("kvmm_alloc", "mutex_pair"), ("stack+mutex", "kvmm_alloc"),
                        ("pool", "mutex_pair"), ("offset+mutex", "pool")):
        refs = [r["ref"] for r in rows
                if (r["params"]["engine"], r["metric"]) == (engine, "pair_ns")]
        check(refs == 3 * [ref], f"{engine} at three sizes against {ref}: {refs}")
    refused = [r["value"] for r in rows
               if (r["params"]["engine"], r["metric"]) == ("stack+mutex", "refused")]
    check(refused == 3 * [0], f"a stack refuses nothing that there is: {refused}")
    rows = [json.loads(line) for line in run("--quick", "--json", "memory").stdout.splitlines()]
    for row in rows:
        check_row("memory", json.dumps(row))
    for state, bar in (("ranges", 12), ("cache", 173), ("cache+registry", 471)):
        held = [r["value"] for r in rows if r["metric"] == "allocated" and
                r["params"] == {"state": state, "nr": 1 << 20}]
        check(len(held) == 1 and 0 < held[0] <= bar, f"bytes a block of {state}: {held}")

    check(run("--peers", "list").stdout == run("list").stdout, "--peers list only lists")

    out = run("--quick")
    lines = out.stdout.splitlines()
    check(out.returncode == 0 and not out.stderr and 8 <= len(lines) <= 10, f"without a name: {out}")
    check(re.match(r" +admission of a request of 100 blocks +[0-9.]+ us$", lines[2]), f"asked first: {lines}")
    rows = [json.loads(line) for line in run("--quick", "--json").stdout.splitlines()]
    check([row["metric"] for row in rows] == ["admit_new", "admit_cached", "admit_full", "step", "table", "end",
                                              "host_bytes"], f"and for programs: {rows}")
    for row in rows:
        check_row("request", json.dumps(row))
        check(row["value"] > 0, f"it takes something: {row}")

    for text in (out.stdout, run("list").stdout, run("--quick", "compact").stdout,
                 run("--quick", "fragmentation").stdout):
        longest = max(text.splitlines(), key=len)
        check(len(longest) <= 80, f"80 columns: {longest}")

    for args in (["no-such-bench"], ["--no-such-option"], ["--peers=x"],
                 ["--peers", "no-such-bench"]):
        out = run(*args)
        check(out.returncode == 2 and out.stderr and not out.stdout, f"{args} is refused")

    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
