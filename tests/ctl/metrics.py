#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics against an independent count and independent parsers; rules and dashboard against the table of
families; texts of the kernel against their layouts. Runs in the object tree."""

import json
import os
import re
import subprocess
import sys
import tempfile

SRC = os.environ.get("KVMM_SRCTREE", ".")
RUN = "tests/ctl/metrics_run"
NR_POOLS = 20
passed = failed = 0

# Families that metrics_run holds between bounds only, and why; all others it counts to the last digit.
BOUNDED = {
    "kvmm_metadata_bytes": "what a pool has in lists of other parts is theirs",
    "kvmm_below_thrashing_episodes": "depends on what is remembered of names, which is a guess",
}


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("failed:", what)
    return ok


def run(seed, steps, what="openmetrics"):
    with tempfile.TemporaryDirectory(prefix="kvmm-metrics-") as folder:
        out = subprocess.run([RUN, str(seed), str(steps), folder, what], capture_output=True, text=True,
                             timeout=120)
    check(out.returncode == 0, f"{RUN} {seed} {steps} {what}: {out.returncode}: {out.stderr}")
    head, _, text = out.stdout.partition("---\n")
    return head.splitlines(), text


LINE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (\S+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def unescape(value):
    return re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m.group(1), m.group(1)), value)


def own_parser(text, open_metrics):
    """Strict: one family after the other, TYPE, UNIT, HELP, samples of that family alone, none twice."""
    samples, types, family = {}, {}, None
    lines = text.splitlines()
    if open_metrics and check(lines and lines[-1] == "# EOF", "ends with # EOF"):
        lines.pop()
    for line in lines:
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            check(family not in types, f"{family} twice")
            types[family] = kind
            continue
        if line.startswith("# "):
            word = line.split(" ")
            check(word[1] in ("UNIT", "HELP") and word[2] == family, f"out of place: {line}")
            check(word[1] != "UNIT" or family.endswith("_" + word[3]), f"no suffix: {line}")
            continue
        match = LINE.match(line)
        if not check(match, f"no sample: {line}"):
            continue
        name, labels, number = match.groups()
        base = name
        for suffix in ("_total", "_bucket", "_count", "_sum", "_info"):
            if base not in (family,) and base.endswith(suffix):
                base = base[:-len(suffix)]
        check(base == family, f"{name} in {family}")
        key = (name, frozenset((k, unescape(v)) for k, v in LABEL.findall(labels)))
        check(key not in samples, f"twice: {line}")
        samples[key] = float(number)
    return samples, types


def other_parser(text, open_metrics):
    try:
        if open_metrics:
            from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
        else:
            from prometheus_client.parser import text_string_to_metric_families as parse
    except ImportError:
        return None
    return {(s.name, frozenset(s.labels.items())): float(s.value)
            for family in parse(text) for s in family.samples}


def families():
    rows = [line.split("\t") for line in run(1, 0, "table")[1].splitlines()]
    check(rows[0] == ["#family:s", "type:s", "unit:s", "labels:s", "help:s"], rows[0])
    return {row[0]: row for row in rows[1:]}


EXPECT = re.compile(r'^(expect|between) ([a-z_]+)\{(.*)\} (\S+)(?: (\S+))?$')


def base_of(name):
    return re.sub("_(total|count|info|sum|bucket)$", "", name)


def is_as_expected(line, samples):
    """The family, and whether it is known exactly."""
    what, name, labels, least, most = EXPECT.match(line).groups()
    number = samples.get((name, frozenset((k, unescape(v)) for k, v in LABEL.findall(labels))))
    is_exact, least, most = not most or least == most, float(least), float(most or least)
    check(number is not None and least <= number <= most, f"{line}: {number}")
    return base_of(name), is_exact


def recount(table):
    """Each family is counted once more, and is not 0 everywhere."""
    counted, exact, seen = set(), set(), set()
    for seed in range(1, 7):
        expected, text = run(seed, 50 * seed * seed)
        samples, types = own_parser(text, True)
        other = other_parser(text, True)
        check(other is None or other == samples, "another parser reads the same")
        check(set(types) == set(table), "all families, and no others")
        for line in expected:
            name, is_exact = is_as_expected(line, samples)
            counted.add(name)
            exact |= {name} if is_exact else set()
        seen |= {base_of(name) for (name, _), number in samples.items() if number}
    check(counted == set(table), f"not counted, or not there: {set(table) ^ counted}")
    check(counted - exact == set(BOUNDED), f"between bounds: {(counted - exact) ^ set(BOUNDED)}")
    check(seen == set(table), f"0 in all runs: {set(table) - seen}")


def histograms(samples):
    for family in ("block_lifetime", "block_idle_before_evict", "block_reuse_gap", "block_hit_age",
                   "queue_wait", "make_room", "offload_copy", "load_copy", "disk_read",
                   "tier_hit_age", "tier_evict_age", "disk_hit_age", "disk_evict_age"):
        name = f"kvmm_{family}_seconds"
        rows = {}
        for (sample, labels), number in samples.items():
            if sample == name + "_bucket":
                bound = dict(labels)["le"]
                rows.setdefault(labels - {("le", bound)}, []).append((float(bound), number))
        check(rows, f"{name} has samples")
        for whose, row in rows.items():
            row.sort()
            check(len(row) == 22 and row[-1][0] == float("inf"), f"{name} {whose}: {len(row)} buckets")
            check([n for _, n in row] == sorted(n for _, n in row), f"{name} {whose} is cumulative")
            count = samples.get((name + "_count", whose))
            check(count == row[-1][1], f"{name} {whose}: {count}")
    for way in ("offload", "load"):
        sums = {l: n for (s, l), n in samples.items() if s == f"kvmm_{way}_copy_seconds_sum"}
        totals = {l: n for (s, l), n in samples.items() if s == f"kvmm_{way}_seconds_total"}
        check(sums and sums == totals, f"{way}: histogram and counter add up the same")


def plain_format():
    _, text = run(3, 400, "prometheus")
    samples, types = own_parser(text, False)
    other = other_parser(text, False)
    check(other is None or other == samples, "another parser reads the plain format")
    check("# UNIT" not in text and "# EOF" not in text, "no words of OpenMetrics")
    check(types["kvmm_allocations_total"] == "counter" and types["kvmm_pool_info"] == "gauge", "types")
    histograms(samples)


def names_of(expr):
    return set(re.findall(r"kvmm_[a-z0-9_]+", expr))


def exported(table):
    names = set()
    for name, kind in ((row[0], row[1]) for row in table.values()):
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"],
                    "info": ["_info"]}.get(kind, [""])
        names |= {name + suffix for suffix in suffixes}
    return names


def rules_and_dashboard(table):
    known = exported(table)
    rules = open(f"{SRC}/share/prometheus/kvmm.rules.yml").read()
    used = names_of(rules)
    check(used and used <= known, f"rules: {used - known}")
    records = re.findall(r"record: (\S+)", rules)
    check(all(re.match(r"(vllm|sglang):[a-z_]+$", r) for r in records), "names of rules")
    board = json.load(open(f"{SRC}/share/grafana/kvmm.json"))
    ids = [panel["id"] for panel in board["panels"]]
    check(len(ids) == len(set(ids)) and len(ids) > 15, "panels have ids of their own")
    for panel in board["panels"]:
        used = set().union(*(names_of(target["expr"]) for target in panel["targets"]))
        check(used and used <= known, f"panel {panel['title']}: {used - known}")
        grid = panel["gridPos"]
        check(grid["x"] + grid["w"] <= 24, f"panel {panel['title']} lies outside")


# What lines of vmstat are sums of: a family, and one of its labels.
VMSTAT = {
    "nr_free_pages": "kvmm_free_blocks", "pgalloc_normal": "kvmm_allocated_blocks_total",
    "nr_zone_inactive_file": 'kvmm_state_blocks state inactive',
    "nr_zone_active_file": 'kvmm_state_blocks state active',
    "pgsteal_direct": "kvmm_evicted_blocks_total", "allocstall_normal": "kvmm_reclaim_steps_total step evict",
    "workingset_refault_file": "kvmm_refaulted_blocks_total distance device",
    "compact_stall": "kvmm_reclaim_steps_total step compact",
    "compact_success": "kvmm_reclaim_saves_total step compact",
    "compact_daemon_wake": "kvmm_background_starts_total", "pgmigrate_success": "kvmm_moved_blocks_total",
    "pgmigrate_fail": "kvmm_failed_moves_total", "pswpin": "kvmm_loaded_blocks_total",
    "pswpout": "kvmm_offloaded_blocks_total", "balloon_inflate": "kvmm_shrunk_bytes_total",
    "balloon_deflate": "kvmm_regained_bytes_total", "kvmm_hit": "kvmm_hit_blocks_total",
    "kvmm_miss": "kvmm_missed_blocks_total", "kvmm_registered": "kvmm_registered_blocks_total",
    "kvmm_alloc_fail_nospc": "kvmm_no_space_total", "kvmm_alloc_fail_frag": "kvmm_fragmented_total",
}


def vmstat_is_as_metrics(numbers):
    """A seed does the same in each run, so these are of the same pools."""
    samples, _ = own_parser(run(2, 500)[1], True)
    check(set(numbers) == set(VMSTAT), f"vmstat: {set(numbers) ^ set(VMSTAT)}")
    for line, of in VMSTAT.items():
        family, label = of.split(" ")[0], tuple(of.split(" ")[1:])
        total = sum(n for (name, labels), n in samples.items()
                    if name == family and (not label or label in labels))
        check(int(numbers[line]) == total, f"vmstat {line}: {numbers[line]}, not {total}")


def kernel_texts():
    _, text = run(2, 500, "buddyinfo")
    rows = text.splitlines()
    check(len(rows) == NR_POOLS, f"a line a pool: {rows}")
    for i, row in enumerate(rows):
        check(re.match(rf"^Node {i}, zone +\S+ (?: *\d+ ){{11}}$", row), f"buddyinfo: {row!r}")
    _, text = run(2, 500, "pagetypeinfo")
    check(text.count("Page block order: ") == NR_POOLS == text.count("Number of blocks type"), "pagetypeinfo")
    check(len(re.findall(r"^Node +\d+, zone +\S+, type +\w+ (?: *\d+ ){11}$", text, re.M)) == 3 * NR_POOLS, "pagetypeinfo")
    _, text = run(2, 500, "vmstat")
    check(all(re.match(r"^[a-z_]+ \d+$", line) for line in text.splitlines()), text)
    numbers = dict(line.split(" ") for line in text.splitlines())
    vmstat_is_as_metrics(numbers)
    _, text = run(2, 500, "pressure/memory")
    line = r"avg10=\d+\.\d\d avg60=\d+\.\d\d avg300=\d+\.\d\d total=\d+\n"
    check(re.match(rf"^some {line}full {line}$", text), f"pressure: {text!r}")
    _, text = run(2, 500, "slabinfo")
    check(text.startswith("slabinfo - version: 2.1\n# name "), text)


def page(table):
    """The page of the book is the table that the library says; a unit ends the name; there is help."""
    for name, _, unit, _, text in table.values():
        check(text and (unit == "-" or name.endswith("_" + unit)), f"{name}: unit {unit}, {text!r}")
    made = subprocess.run([f"{SRC}/scripts/metrics-doc", SRC, os.environ.get("CC", "gcc")],
                          stdout=subprocess.PIPE, text=True)
    parts = re.split(r"^By (.*)\n-+\n", made.stdout, flags=re.M)
    seen = {name: [name, kind, labels, text]
            for labels, entries in zip(parts[1::2], parts[2::2])
            for name, kind, text in re.findall(r"^``(\w+)``, (\w+)\n    (.*)\n", entries, re.M)}
    wanted = {name: [name, kind, labels, text] for name, kind, _, labels, text in table.values()}
    wrong = [name for name in {**seen, **wanted} if seen.get(name) != wanted.get(name)]
    check(not wrong, f"scripts/metrics-doc has other rows: {wrong}")


def main():
    table = families()
    recount(table)
    plain_format()
    rules_and_dashboard(table)
    kernel_texts()
    page(table)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
