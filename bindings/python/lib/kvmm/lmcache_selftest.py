# SPDX-License-Identifier: Apache-2.0
"""LMCache's own tests of the adapter for native connectors, with kvmm's in place of their mock.

usage: python -m kvmm.lmcache_selftest TESTS [PYTEST ARGUMENTS]
TESTS is the folder tests of LMCache's source, of the version that is installed. Otherwise as
kvmm.vllm.selftest.
"""
from __future__ import annotations

from .vllm.selftest import compare

FILES = ("v1/distributed/test_native_connector_l2_adapter.py",)

_DELETE = "keys that are deleted singly: the store is bounded by itself"

# Test: what it needs that kvmm's connector does not offer.
MISSING = dict.fromkeys((
    "test_delete_existing_key", "test_delete_batch", "test_get_usage_after_delete",
    "test_get_usage_store_delete_cycle"), _DELETE)

if __name__ == "__main__":
    compare(__doc__, FILES, "kvmm.lmcache_plugin", MISSING)
