# SPDX-License-Identifier: Apache-2.0
"""Schedulers for vLLM's scheduler_cls, whose block pool is kvmm's. Nothing of vLLM is patched for
longer than it takes to construct one.

What vLLM's additional_config has as "kvmm" are arguments of kvmm.Pool, e.g. {"run_window": 64}.
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


class _OnKvmm:
    def __init__(self, *args: Any, **named: Any):
        config = named["vllm_config"] if "vllm_config" in named else args[0]
        more = getattr(config, "additional_config", None)
        options = more.get("kvmm") if isinstance(more, dict) else None
        with _constructing:
            stock = kv_cache_coordinator.BlockPool
            kv_cache_coordinator.BlockPool = functools.partial(KvmmBlockPool, kvmm_options=options)
            try:
                super().__init__(*args, **named)
            finally:
                kv_cache_coordinator.BlockPool = stock


class KvmmScheduler(_OnKvmm, Scheduler):
    """vLLM's Scheduler with blocks from kvmm."""


class KvmmAsyncScheduler(_OnKvmm, AsyncScheduler):
    """vLLM's AsyncScheduler with blocks from kvmm."""
