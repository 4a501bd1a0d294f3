# SPDX-License-Identifier: Apache-2.0
"""A plug-in for pytest: every RadixCache that SGLang makes is kvmm's. For sglang_selftest only."""
from sglang.srt.mem_cache import radix_cache

from .sglang_radix import KvmmRadixCache

radix_cache.RadixCache = KvmmRadixCache
