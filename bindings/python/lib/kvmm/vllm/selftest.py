# SPDX-License-Identifier: Apache-2.0
"""vLLM's own tests of its block pool and its managers, with every pool on kvmm.

usage: python -m kvmm.vllm.selftest TESTS [PYTEST ARGUMENTS]
TESTS is the folder "tests" of vLLM's source, of the version that is installed. Tests that fail on
both are no business of kvmm's; those in PRIVATE look into lists that only vLLM's pool has. Prints
one line at the end; exit code 1 if another test fails on kvmm that passes without.
"""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections.abc import Mapping, Sequence

FILES = (
    "v1/core/test_prefix_caching.py", "v1/core/test_kv_cache_utils.py",
    "v1/core/test_single_type_kv_cache_manager.py", "v1/core/prefix_cache",
    "v1/core/test_kv_sharing.py", "v1/core/test_kv_cache_metrics.py",
    "v1/core/test_deferred_block_free.py", "v1/core/test_prefix_replay.py",
    "v1/core/test_swa_inflight_window_free.py", "v1/core/test_mamba_align_chunk_split.py",
    "v1/core/test_scheduler.py", "v1/core/test_async_scheduler.py")

_LIST = "free_block_queue, a list of blocks"
_MAP = "cached_block_hash_to_block._cache, a dictionary"
_OWN = "KVCacheBlock objects that it makes itself, block 0 among them, as blocks of the pool"

# Test: what it reads that only vLLM's own pool has.
PRIVATE = {
    "test_cache_blocks": _OWN,
    "test_cache_blocks_multi_group": _OWN,
    "test_cache_hit_local_and_external": _LIST,
    "test_cache_hit_local_and_external_three_groups": _LIST,
    "test_cache_hit_local_and_external_three_groups_preempt_and_reallocate": _LIST,
    "test_cache_hit_local_and_external_two_groups_preempt_and_reallocate": _LIST,
    "test_eagle_with_sliding_window": _MAP,
    "test_evict": _LIST,
    "test_maybe_evict_cached_block": _OWN,
    "test_prefill": _LIST,
    "test_prefill_hybrid_model": _LIST,
    "test_prefill_hybrid_model_eagle": _LIST,
    "test_prefill_plp": _LIST,
    "test_swa_free_split_keeps_cached_tail_ahead_of_scratch": _LIST,
    "test_chunked_local_attention_possible_cached_prefix": _MAP,
    "test_sliding_window_possible_cached_prefix": _MAP,
}


def run(tests: str, files: Sequence[str], plugin: str, arguments: Sequence[str]) -> dict[str, str]:
    """Outcome by test, of those of files that are there; plugin: of pytest, or ""."""
    with tempfile.TemporaryDirectory() as room:
        report = os.path.join(room, "report.xml")
        plugins = ["-p", plugin] if plugin else []
        files = [os.path.join(os.path.basename(tests), f) for f in files
                 if os.path.exists(os.path.join(tests, f))]
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugins,
                        "--continue-on-collection-errors", f"--junitxml={report}", *arguments,
                        *files],
                       cwd=os.path.dirname(tests), check=False,
                       stdout=sys.stderr)
        found: dict[str, str] = {}
        for case in xml.parse(report).getroot().iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}".removeprefix("tests.")
            kinds = {child.tag for child in case}
            if found.get(name) != "failed":     # a test's subtests have its name
                found[name] = ("failed" if kinds & {"failure", "error"} else
                               "skipped" if "skipped" in kinds else "passed")
        return found


def compare(usage: str | None, files: Sequence[str], plugin: str,
            listed: Mapping[str, str]) -> None:
    """The program: runs tests without and with plugin, and exits with what came out."""
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]):
        sys.exit(usage)
    tests = os.path.abspath(sys.argv[1])
    stock = run(tests, files, "", sys.argv[2:])
    ours = run(tests, files, plugin, sys.argv[2:])
    good = [name for name, outcome in stock.items() if outcome == "passed"]
    bad = [name for name in good if ours.get(name) != "passed"]
    known = [name for name in bad if name.split("::")[-1].split("[")[0] in listed]
    for name in sorted(set(bad) - set(known)):
        print(f"failed on kvmm: {name}")
    print(f"{len(good)} pass without kvmm, {len(good) - len(bad)} on it, {len(known)} of the "
          f"others are listed with a reason, {len(bad) - len(known)} failed")
    sys.exit(not good or len(bad) > len(known))


if __name__ == "__main__":
    compare(__doc__, FILES, "kvmm.vllm.plugin", PRIVATE)
