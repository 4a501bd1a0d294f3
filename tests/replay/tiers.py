#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-replay with a host tier: the bars, and figures that can be done by hand.

Run from the object tree.
"""
import concurrent.futures
import json
import os
import subprocess
import sys

TOOL = os.environ.get("KVMM_REPLAY", "tools/kvmm-replay")
TRACES = os.environ.get("KVMM_TRACES", "../shared/traces")
CONVERSATION = os.path.join(TRACES, "conversation_trace.jsonl")
OFF = ["--host-blocks", 0]
NO_DISK = ["--disk-blocks", 0]

passed = failed = 0


def check(what, holds):
    global passed, failed
    print(f"{'ok  ' if holds else 'FAIL'} {what}", flush=True)
    passed += bool(holds)
    failed += not holds


def text(*args, trace=None):
    done = subprocess.run([TOOL, *map(str, args), "--json", "--no-progress"], input=trace,
                          capture_output=True, text=True, timeout=300)
    if done.returncode or done.stderr:
        raise RuntimeError(f"{args}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def run(*args, trace=None):
    return json.loads(text(*args, trace=trace))


# ---- one tier: bit for bit as without all of it ----

def row_arguments(row):
    blocks = ["--blocks", row["n"]] if row["n"] else []
    return ["conc" if row["kind"] == "conc" else "seq", "--block-tokens", row["bs"], *blocks,
            "--keys", row["mode"], "--policy", row["policy"]]


def is_exact(row):
    got = run(*row_arguments(row), *OFF, CONVERSATION)
    return all(got.get(key) == want for key, want in row.items())


def check_single_tier():
    for mode in ["seq", "conc"]:
        for policy in ["lru", "lrfu"]:
            args = [mode, "--blocks", 3000, "--policy", policy, "--requests", 3000]
            check(f"{mode} {policy}: no host blocks, the same output", text(*args) == text(*args, *OFF))
    rows = os.path.join(TRACES, "expected.jsonl")
    if not os.path.exists(rows):
        return
    with open(rows) as lines:
        rows = [json.loads(line) for line in lines]
    if os.environ.get("KVMM_TEST_LENGTH") == "short":
        rows = rows[::4]
    rows = [r for r in rows if r["kind"] not in ("frag", "waste") and r["trace"] == "conversation"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        check(f"{len(rows)} reference rows with --host-blocks 0", all(pool.map(is_exact, rows)))


# ---- by hand ----

def small_trace(prompts, answer=0):
    """A prompt is a word, a letter a block; they come 100 s apart."""
    rows = [{"timestamp": at * 100000, "input_length": 512 * len(word), "output_length": answer,
             "hash_ids": [ord(c) for c in word]} for at, word in enumerate(prompts)]
    return "".join(json.dumps(row) + "\n" for row in rows)


# A block is 512 * 1000 bytes: at 512 MB/s a copy of n blocks takes 100 + n * 1000 us.
LINK = ["--token-bytes", 1000, "--transfer-bandwidth", 512, "--transfer-latency", 100]


def small(mode, prompts, *args, answer=0):
    return run(mode, "--blocks", 2, "--host-blocks", 8, *LINK, *args, "-",
               trace=small_trace(prompts, answer))


def check_by_hand():
    for mode in ["seq", "conc"]:
        # AB goes down, CD takes its place, AB comes back in one copy, CD after it in another.
        got = small(mode, ["AB", "CD", "AB", "CD"], "--write-policy", "through")
        want = {"device_hits": 0, "host_hits": 4, "hits": 4, "combined_ppm": 500000,
                "offloads": 4, "offload_bytes": 4 * 512000, "loads": 4,
                "load_bytes": 4 * 512000, "stall_us": 2 * 2100, "latency_us": 2 * 2100,
                "load_ns": 2 * 2100000, "refused_loads": 0}
        check(f"{mode}: latency + bytes / bandwidth, for each copy",
              all(got[key] == value for key, value in want.items()))
    got = small("seq", ["AB", "CD", "AB", "CD"], "--write-policy", "explicit")
    check("nobody asks, nothing goes", got["offloads"] == got["loads"] == got["hits"] == 0)


# And 50 + n * 2000 us from the disk, or to it.
DISK = ["--disk-bandwidth", 256, "--disk-latency", 50]


def check_disk_by_hand():
    for mode in ["seq", "conc"]:
        # Device and host have two blocks each. AB goes down, and on to the disk; CD takes its place
        # in both. A is read at 2050 us, B at 4050; each goes up by itself, in 1100 us.
        args = [mode, "--blocks", 2, "--host-blocks", 2, *LINK, *DISK, "--write-policy", "through", "-"]
        trace = small_trace(["AB", "CD", "AB"])
        got = run(*args, "--disk-blocks", 8, trace=trace)
        want = {"device_hits": 0, "host_hits": 0, "disk_hits": 2, "hits": 2, "combined_ppm": 333333,
                "disk_reads": 2, "disk_read_bytes": 2 * 512000, "disk_read_ns": 2050000 + 4050000,
                "load_ns": 2 * 1100000, "stall_us": 5150, "disk_stall_us": 5150,
                "latency_us": 2 * 1100 + 2050 + 4050, "offloads": 4, "disk_writes": 4,
                "disk_write_bytes": 4 * 512000, "disk_write_ns": 2 * (2050000 + 4050000),
                "host_lost": 0, "disk_dropped": 0, "disk_resident_end": 4, "reloads": 0}
        check(f"{mode}: from the disk: each read behind the one before, then up",
              {key: got[key] for key in want} == want)
        got = run(*args, *NO_DISK, trace=trace)
        check(f"{mode}: without a disk it is gone", got["hits"] == 0 and "disk_hits" not in got)
        # Copies go down by block, in plain order the last of a prompt first: of a disk of three
        # blocks C, F and E are left. C is read, and stays for that, three others having gone, when
        # D comes again.
        got = run(*args, "--run-window", 0, "--disk-blocks", 3,
                  trace=small_trace(["AB", "CD", "EF", "CD"]))
        check(f"{mode}: a full disk forgets what was written first",
              [got[key] for key in ("disk_dropped", "disk_hits", "disk_resident_end")] == [4, 1, 3])
    got = small("seq", ["AB", "CD", "AB", "CD"], "--write-policy", "explicit", "--disk-blocks", 8)
    check("nobody asks, nothing goes to the disk", got["disk_writes"] == got["disk_hits"] == 0)


def check_no_disk():
    for mode in ["seq", "conc"]:
        for policy in ["through", "selective", "back", "threshold"]:
            args = [mode, "--blocks", 1000, "--host-blocks", 4000, "--write-policy", policy,
                    "--requests", 2000]
            check(f"{mode} {policy}: no disk blocks, the same output",
                  text(*args) == text(*args, *NO_DISK, "--disk-bandwidth", 1))
            disk = [*args, "--host-blocks", 1500, "--disk-blocks", 4000]
            once, again = text(*disk), text(*disk)
            row = json.loads(once)
            check(f"{mode} {policy}: with a disk, the same in every run, {row['disk_hits']} disk hits",
                  once == again and
                  row["hits"] == row["device_hits"] + row["host_hits"] + row["disk_hits"])


def check_thrash():
    # In seq a request takes 64 ms for each block it computes. AB is back 128 ms after it went
    # down, less the copy; then CD.
    args = ["seq", ["AB", "CD", "AB", "CD"], "--write-policy", "through"]
    got = small(*args, "--reload-window", 1000)
    check("what is back within the window thrashes",
          got["reloads"] == 4 and got["thrash_ppm"] == 1000000)
    got = small(*args, "--reload-window", 1)
    check("what is back later does not", got["reloads"] == 0 and got["thrash_ppm"] == 0)


# ---- bars ----

def check_bars():
    if not os.path.exists(CONVERSATION):
        print(f"skipped: there is no {CONVERSATION}")
        return
    one = run("seq", "--blocks", 50000, CONVERSATION)
    tiers = ["seq", "--blocks", 5000, "--host-blocks", 45000]
    got = {name: run(*tiers, "--write-policy", name, CONVERSATION)
           for name in ["selective", "through", "back", "threshold"]}
    for name, row in got.items():
        percent = 66 if name == "selective" else 99
        check(f"{name}: {row['hits']} hits of {one['hits']} in one tier, at least {percent} %",
              row["hits"] * 100 >= one["hits"] * percent)
        check(f"{name}: hits of the tiers add up",
              row["hits"] == row["device_hits"] + row["host_hits"])
    few, all_of_it = got["selective"]["offload_bytes"], got["through"]["offload_bytes"]
    check(f"selective: {few} bytes down, at most half of {all_of_it}", few * 2 <= all_of_it)
    check("back writes no more than through", got["back"]["offload_bytes"] <= all_of_it)
    disk = run("seq", "--blocks", 5000, "--host-blocks", 15000, "--disk-blocks", 45000,
               "--write-policy", "through", CONVERSATION)
    check(f"through, 15,000 on the host, 45,000 on disk: {disk['hits']} hits, at least 90 %",
          disk["hits"] * 100 >= one["hits"] * 90)
    again = text(*tiers, "--write-policy", "back", CONVERSATION)
    check("the same in every run", json.loads(again) == got["back"])


def check_bursts():
    """Side by side, requests evict hundreds of blocks between two looks at who is next."""
    if not os.path.exists(CONVERSATION):
        return
    for policy in ["lru", "lrfu"]:
        args = ["conc", "--policy", policy]
        one = run(*args, "--blocks", 50000, CONVERSATION)["hits"]
        got = run(*args, "--blocks", 5000, "--host-blocks", 45000, "--write-policy", "back",
                  CONVERSATION)
        check(f"conc, {policy}, back: {got['hits']} hits of {one} in one tier, at least 99 %",
              got["hits"] * 100 >= one * 99)


def check_disk_bursts():
    """A prompt evicts hundreds of blocks of the host tier at once: all have copies below by then."""
    if not os.path.exists(CONVERSATION):
        return
    for mode in ["seq", "conc"]:
        got = run(mode, "--blocks", 5000, "--host-blocks", 15000, "--disk-blocks", 60000,
                  "--write-policy", "through", CONVERSATION)
        lost, evicted = got["host_lost"], got["host_evictions"]
        check(f"{mode}: {lost} of {evicted} evicted blocks lost above an idle disk, at most 1 in 1000",
              lost * 1000 <= evicted and evicted > 100000)


def main():
    check_single_tier()
    check_by_hand()
    check_disk_by_hand()
    check_no_disk()
    check_thrash()
    check_bars()
    check_bursts()
    if os.environ.get("KVMM_TEST_LENGTH") != "short":
        check_disk_bursts()
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
