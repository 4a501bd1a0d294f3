# SPDX-License-Identifier: Apache-2.0
"""A plug-in for pytest: every BlockPool that vLLM makes is kvmm's. For selftest only."""
from vllm.v1.core import block_pool, kv_cache_coordinator

from .pool import KvmmBlockPool

block_pool.BlockPool = KvmmBlockPool
kv_cache_coordinator.BlockPool = KvmmBlockPool
