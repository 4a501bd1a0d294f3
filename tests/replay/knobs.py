#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-replay --config: each key that there is changes a run, or is refused.

Run from the object tree.
"""
import os
import re
import subprocess
import sys
import tempfile

TOOL = os.environ.get("KVMM_REPLAY", "tools/kvmm-replay")

# A block has 512 * 1000 bytes. Host and disk are short, and links slow, so that all of it matters.
BASE = {"host_blocks": "200", "disk_bytes": "204800000", "write": "through",
        "host_up_bandwidth": "1GB/s", "host_down_bandwidth": "1GB/s"}
RUN = ["seq", "--blocks", "150", "--token-bytes", "1000", "--generate",
       "chat:requests=500,seed=4", "--json", "--no-progress"]

# A value that makes a difference, and what must be so for it to.
USED = {
    "host_bytes": ("51200000", {"host_blocks": None, "disk_bytes": None}),
    "host_blocks": ("100", {}),
    "host_policy": ("lfu", {}),
    "host_down_latency": ("50ms", {}),
    "host_down_bandwidth": ("20MB/s", {}),
    "host_up_latency": ("30ms", {}),
    "host_up_bandwidth": ("100MB/s", {}),
    "max_units": ("50", {}),
    "min_units": ("201", {}),
    "max_down": ("2", {}),
    "max_up": ("3", {}),
    "batch_blocks": ("1", {"host_up_latency": "1ms"}),
    "write": ("selective", {}),
    "touches": ("3", {"write": "selective"}),
    "high": ("30%", {"write": "threshold"}),
    "low": ("10%", {"write": "threshold"}),
    "step_blocks": ("1", {}),
    "step_bytes": ("512000", {}),
    "min_load": ("6", {}),
    "adapt": ("no", {"write": "selective", "touches": "1"}),
    "reload_time": ("50s", {}),
    "recompute_time": ("1us", {}),
    "load_latency": ("50ms", {"recompute_time": "100us"}),
    "load_bandwidth": ("1MB/s", {"recompute_time": "100us"}),
    "disk_bytes": ("51200000", {}),
    "disk_high": ("0%", {"host_blocks": "20000"}),
    "disk_max_put": ("1", {}),
    "disk_max_get": ("1", {}),
}
REFUSED = {
    "host_name": "kv", "host_device": "host", "host_block_bytes": "4096", "host_chunk_bytes": "1MiB",
    "host_numa_node": "0", "layout_id": "0x12", "complete": "yes", "verify_every": "1",
    "disk_path": "/tmp/kv", "disk_segment_bytes": "1MiB", "disk_depth": "8", "disk_create": "yes",
    "disk_buffered": "yes", "disk_io": "poll", "remote_address": "10.0.0.7:6379",
    "remote_model": "m", "remote_user": "u", "remote_password": "p", "remote_deadline": "9ms",
    "remote_ttl_s": "9",
}

passed = failed = 0


def check(what, holds):
    global passed, failed
    print(f"{'ok  ' if holds else 'FAIL'} {what}", flush=True)
    passed += bool(holds)
    failed += not holds


def run(folder, settings):
    path = os.path.join(folder, "conf")
    with open(path, "w") as conf:
        for key, value in settings.items():
            if value is not None:
                print(key, "=", value, file=conf)
    return subprocess.run([TOOL, *RUN, "--config", path], capture_output=True, text=True, timeout=100)


def keys_of_the_page():
    """The table of keys in Documentation/tiers.rst."""
    page = open(os.path.join(os.environ.get("KVMM_SRCTREE", "."), "Documentation/tiers.rst")).read()
    table = page[page.index("\nkey   "):]
    return re.findall(r"^``(\w+)``", table[:table.index("\n\n")], re.M)


def main():
    check(f"{len(USED)} keys are of use, {len(REFUSED)} are refused: all that the page has",
          sorted([*USED, *REFUSED]) == sorted(keys_of_the_page()))
    with tempfile.TemporaryDirectory() as folder:
        for key, (value, more) in USED.items():
            without, with_it = run(folder, {**BASE, **more}), run(folder, {**BASE, **more, key: value})
            check(f"{key} = {value} changes the run", without.returncode == 0 and
                  with_it.returncode == 0 and without.stdout != with_it.stdout)
        for key, value in REFUSED.items():
            done = run(folder, {**BASE, key: value})
            check(f"{key} is refused: {done.stderr.strip().splitlines()[0][-60:] if done.stderr else ''}",
                  done.returncode == 2 and f"{key} is of no use in a replay: " in done.stderr)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
