# SPDX-License-Identifier: Apache-2.0
"""vLLM on kvmm: blocks, order of eviction, and runs are kvmm's; scheduling and tables stay vLLM's.

    llm = LLM(model)

is all, since vLLM loads the plugin of this package: see register(). scheduler_cls says it in words:
"kvmm.vllm.KvmmScheduler", or KvmmAsyncScheduler for async scheduling. Supported: 0.32 and 0.33;
"python -m kvmm.vllm.drift" compares an installed version with what this was written for.
"""
from typing import Any

SUPPORTED = ("0.32", "0.33")

__all__ = ["SUPPORTED", "KvmmAsyncScheduler", "KvmmBlockPool", "KvmmConnector", "KvmmScheduler",
           "register"]


def register() -> None:
    """Entry point of vllm.general_plugins: a newcomer's vLLM runs on kvmm without a word.

    Where no scheduler_cls is given, vLLM's schedulers are taken from here, and KvmmConnector can be
    named without its module. Nothing happens in versions that are not supported, or twice.
    """
    import vllm
    if not vllm.__version__.startswith(SUPPORTED):
        return
    from vllm.config.scheduler import SchedulerConfig
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    if "KvmmConnector" not in KVConnectorFactory._registry:
        KVConnectorFactory.register_connector("KvmmConnector", "kvmm.vllm.connector",
                                              "KvmmConnector")
    stock = SchedulerConfig.get_scheduler_cls
    if hasattr(stock, "without_kvmm"):
        return

    def get_scheduler_cls(self: Any) -> Any:
        if self.scheduler_cls is not None:
            return stock(self)
        from . import scheduler
        return scheduler.KvmmAsyncScheduler if self.async_scheduling else scheduler.KvmmScheduler

    setattr(get_scheduler_cls, "without_kvmm", stock)
    SchedulerConfig.get_scheduler_cls = get_scheduler_cls


def __getattr__(name: str) -> Any:
    if name == "KvmmBlockPool":
        from .pool import KvmmBlockPool
        return KvmmBlockPool
    if name == "KvmmConnector":
        from .connector import KvmmConnector
        return KvmmConnector
    if name in ("KvmmScheduler", "KvmmAsyncScheduler"):
        from . import scheduler
        return getattr(scheduler, name)
    raise AttributeError(name)
