# SPDX-License-Identifier: Apache-2.0
"""Compare the installed vLLM with the one that kvmm.vllm was written for.

usage: python -m kvmm.vllm.drift
Prints a line for each difference; exit code 1 if there is any.
"""
from __future__ import annotations

import inspect
import sys

from . import SUPPORTED

# Method of BlockPool: names of its arguments; those that come later may be missing in older ones.
CONTRACT = {
    "__init__": ("num_gpu_blocks enable_caching hash_block_size enable_kv_cache_events "
                 "metrics_collector", "num_hash_lookahead_tokens medium"),
    "get_cached_block": ("block_hash kv_cache_group_ids", ""),
    "cache_full_blocks": ("request blocks num_cached_blocks num_full_blocks block_size "
                          "kv_cache_group_id block_mask", ""),
    "cache_partial_block": ("request block num_tokens kv_cache_group_id block_size "
                            "replace_existing_hashes", ""),
    "emit_cached_block_events": ("request num_cached_blocks block_size kv_cache_group_id", ""),
    "move_block_hashes": ("src_block dst_block", ""),
    "get_new_blocks": ("num_blocks", ""), "touch": ("blocks", ""),
    "free_blocks": ("ordered_blocks", ""), "evict_blocks": ("block_ids", ""),
    "unpin_blocks": ("blocks on_reuse", ""), "is_block_writable": ("block", ""),
    "reset_prefix_cache": ("", ""), "get_num_free_blocks": ("", ""), "get_usage": ("", ""),
    "take_events": ("", ""), "_insert_block_hash": ("block_hash_with_group_id block num_tokens", ""),
    "_remove_cached_block_hashes": ("block", ""), "_emit_block_removed_events": ("block_hashes", ""),
    "_maybe_evict_cached_block": ("block", ""), "_notify_reuse": ("blocks", ""),
}
HELPERS = {"_generate_event_extra_keys", "_lookahead_token_ids", "_build_block_stored_event",
           "_get_partial_block_hash", "_get_partial_block_parent_hash_and_start"}


def differences() -> list[str]:
    import vllm
    from vllm.v1.core import block_pool, kv_cache_coordinator

    found = []
    if not vllm.__version__.startswith(SUPPORTED):
        found.append(f"vLLM {vllm.__version__}: kvmm.vllm knows {', '.join(SUPPORTED)}")
    methods = dict(inspect.getmembers(block_pool.BlockPool, inspect.isfunction))
    for name, (needed, later) in CONTRACT.items():
        method = methods.pop(name, None)
        if method is None:
            found.append(f"BlockPool.{name}() is gone")
            continue
        have = list(inspect.signature(method).parameters)[1:]
        known = needed.split() + later.split()
        if have[:len(needed.split())] != needed.split():
            found.append(f"BlockPool.{name}({', '.join(have)}): expected ({needed})")
        found += [f"BlockPool.{name}() has a new argument '{extra}'" for extra in have
                  if extra not in known]
    found += [f"BlockPool.{name}() is new" for name in sorted(set(methods) - HELPERS)]
    source = inspect.getsource(kv_cache_coordinator)
    if source.count("BlockPool(") != 1:
        found.append("the coordinator makes pools in "
                     f"{source.count('BlockPool(')} places, not in one")
    fields = set(block_pool.KVCacheBlock.__dataclass_fields__)
    missing = {"block_id", "ref_cnt", "_block_hash", "is_null"} - fields
    found += [f"KVCacheBlock.{name} is gone" for name in sorted(missing)]
    return found


if __name__ == "__main__":
    lines = differences()
    print("\n".join(lines) or "no differences")
    sys.exit(bool(lines))
