# SPDX-License-Identifier: Apache-2.0
"""Schedulers for vLLM's scheduler_cls, whose block pool is kvmm's. Nothing of vLLM is patched for
longer than it takes to construct one.

What vLLM's additional_config has as "kvmm" are arguments of kvmm.Pool, e.g. {"run_window": 64}, and
"ahead": requests are given that many blocks at a time, so that those of an answer lie together, too.
"""
from __future__ import annotations

import functools
import threading
from typing import Any

from vllm.v1.core import kv_cache_coordinator
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from .pool import KvmmBlockPool

_constructing = threading.Lock()


def ahead(allocate: Any, tokens: int) -> Any:
    """KVCacheManager.allocate_slots() up to the next multiple of tokens, but no further than the
    request can become. What others load into is left as long as it is, for they count blocks."""

    def allocate_slots(request: Any, num_new_tokens: int, **named: Any) -> Any:
        if not named.get("num_external_computed_tokens"):
            end = (request.num_computed_tokens + named.get("num_new_computed_tokens", 0) +
                   num_new_tokens)
            most = request.num_prompt_tokens + request.max_tokens
            more = max(min(-(-end // tokens) * tokens, most) - end,
                       named.get("num_lookahead_tokens", 0))
            blocks = allocate(request, num_new_tokens, **{**named, "num_lookahead_tokens": more})
            if blocks is not None:
                return blocks
        return allocate(request, num_new_tokens, **named)

    return allocate_slots


class _OnKvmm:
    def __init__(self, *args: Any, **named: Any):
        config = named["vllm_config"] if "vllm_config" in named else args[0]
        more = getattr(config, "additional_config", None)
        options = dict(more.get("kvmm") or {}) if isinstance(more, dict) else {}
        blocks = options.pop("ahead", 0)
        with _constructing:
            stock = kv_cache_coordinator.BlockPool
            kv_cache_coordinator.BlockPool = functools.partial(KvmmBlockPool, kvmm_options=options)
            try:
                super().__init__(*args, **named)
            finally:
                kv_cache_coordinator.BlockPool = stock
        if blocks:
            manager: Any = getattr(self, "kv_cache_manager")
            manager.allocate_slots = ahead(manager.allocate_slots,
                                           blocks * config.cache_config.block_size)


class KvmmScheduler(_OnKvmm, Scheduler):
    """vLLM's Scheduler with blocks from kvmm."""


class KvmmAsyncScheduler(_OnKvmm, AsyncScheduler):
    """vLLM's AsyncScheduler with blocks from kvmm."""
