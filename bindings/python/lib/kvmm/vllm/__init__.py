# SPDX-License-Identifier: Apache-2.0
"""vLLM on kvmm: blocks, order of eviction, and runs are kvmm's; scheduling and tables stay vLLM's.

    llm = LLM(model, scheduler_cls="kvmm.vllm.KvmmScheduler")

KvmmAsyncScheduler is the same for async scheduling. Supported: vLLM 0.32 and 0.33;
"python -m kvmm.vllm.drift" compares an installed version with what this was written for.
"""
from typing import Any

SUPPORTED = ("0.32", "0.33")

__all__ = ["SUPPORTED", "KvmmAsyncScheduler", "KvmmBlockPool", "KvmmScheduler", "register"]


def register() -> None:
    """Entry point of vllm.general_plugins: nothing is changed until scheduler_cls asks for it."""


def __getattr__(name: str) -> Any:
    if name == "KvmmBlockPool":
        from .pool import KvmmBlockPool
        return KvmmBlockPool
    if name in ("KvmmScheduler", "KvmmAsyncScheduler"):
        from . import scheduler
        return getattr(scheduler, name)
    raise AttributeError(name)
