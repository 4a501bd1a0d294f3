# SPDX-License-Identifier: Apache-2.0
"""SGLang's own tests of its prefix cache, with every RadixCache on kvmm.

usage: python -m kvmm.sglang_selftest TESTS [PYTEST ARGUMENTS]
TESTS is the folder test/registered/unit/mem_cache of SGLang's source, of the version that is
installed. Otherwise as kvmm.vllm.selftest.
"""
from __future__ import annotations

from .vllm.selftest import compare

FILES = (
    "test_radix_cache_unit.py", "test_radix_cache_slru_accuracy.py", "test_radix_force_miss.py",
    "test_decode_radix_lock_ref.py", "test_evict_policy.py", "test_registry.py")

# Test: what it reads that only SGLang's tree has.
PRIVATE = {
    "test_hash_value_storage": "children of the root, a dictionary",
    "test_incremental_transfer_success": "lock_ref, a number in each node",
}

if __name__ == "__main__":
    compare(__doc__, FILES, "kvmm.sglang_plugin", PRIVATE)
