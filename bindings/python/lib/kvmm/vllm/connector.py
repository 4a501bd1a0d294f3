# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found,import-untyped", allow-subclassing-any
"""A connector of vLLM's (KVConnectorBase_V1) whose memory is kvmm's: host memory and a disk below.

    --kv-transfer-config '{"kv_connector": "KvmmConnector", "kv_role": "kv_both",
        "kv_connector_extra_config": {"host_bytes": 8589934592,
                                      "path": "/var/cache/kv", "max_bytes": 107374182400}}'

It runs where vLLM's own CPU offload refuses to, on CPUs among others. What a step has computed is
copied into a pool of kvmm's in host memory, and from there to a store on disk by a thread of its
own. What a request finds below is in host memory, and held, before it is promised to the scheduler,
so that no load fails. Scheduler and worker are one process: more ranks than one are refused.
"""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.base import (KVConnectorBase_V1,
                                                               KVConnectorMetadata,
                                                               KVConnectorRole)

from ..tiers import Tiers


# By the engine's id: the worker makes them, and the scheduler of the same process uses them, too.
_tiers: dict[str, Tiers] = {}


@dataclass
class KvmmMetadata(KVConnectorMetadata):
    """What the worker does in a step: copies up before it, and down after it."""

    loads: list[tuple[list[int], list[int]]] = field(default_factory=list)  # held ids, block ids
    saves: dict[bytes, int] = field(default_factory=dict)                   # name: block id


class KvmmConnector(KVConnectorBase_V1):
    """Blocks below vLLM's. Of kv_connector_extra_config it reads:

    host_bytes: host memory for blocks; 4 GiB if not said.
    path: folder of the store on disk, each data-parallel engine has one of its own in it; without
    it there is none, and nothing survives the process.
    max_bytes: most bytes of the store's file; the oldest records go for new ones.
    layout: said too if something else makes bytes of equal tokens differ, as other weights of the
    same name do.
    The constructor raises ValueError for models with several kinds of KV cache and more than one
    process, kvmm.Error if the store cannot be opened; afterwards failures of the disk are misses.
    """

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        if len(kv_cache_config.kv_cache_groups) != 1:
            raise ValueError("KvmmConnector: the model has several kinds of KV cache")
        self._block_tokens = kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size
        self._engine = str(self._kv_transfer_config.engine_id)
        self._caches: list[torch.Tensor] = []
        self._requests: dict[str, Any] = {}
        self._held: dict[str, tuple[int, list[int]]] = {}   # by request: first block, ids below
        self._saved: dict[str, int] = {}                    # by request: blocks offered so far
        self._loads: list[tuple[list[int], list[int]]] = []
        if role == KVConnectorRole.SCHEDULER and self._engine not in _tiers:
            raise ValueError("KvmmConnector: its worker is another process")

    @property
    def tiers(self) -> Tiers:
        return _tiers[self._engine]

    @property
    def requires_kv_delivery(self) -> bool:
        return False

    # ---- worker ----

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        nr = self._kv_cache_config.num_blocks
        for cache in {(c.data_ptr(), c.shape): c for c in kv_caches.values()}.values():
            if cache.shape[0] != nr:
                raise ValueError(f"KvmmConnector: a cache of {tuple(cache.shape)} for {nr} blocks")
            self._caches.append(cache)
        block_bytes = sum(c[0].numel() * c.element_size() for c in self._caches)
        config, extra = self._vllm_config, self._kv_transfer_config.kv_connector_extra_config
        shapes = [(str(c.dtype), tuple(c.shape[1:])) for c in self._caches]
        model, cache = config.model_config, config.cache_config
        engine = config.parallel_config.data_parallel_index
        path = str(extra.get("path", ""))
        _tiers[self._engine] = Tiers(
            int(extra.get("host_bytes", 4 << 30)), block_bytes,
            os.path.join(path, f"dp-{engine}") if path else "",
            int(extra.get("max_bytes", 16 << 30)),
            f"vllm connector {model.model} {model.revision} {model.dtype} {model.quantization} "
            f"{cache.cache_dtype} {cache.prefix_caching_hash_algo} {os.getenv('PYTHONHASHSEED')} "
            f"{self._block_tokens} {shapes} {extra.get('layout', '')}")

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        for held, block_ids in self._get_connector_metadata().loads:
            blocks = torch.empty((len(held), self.tiers.block_bytes), dtype=torch.uint8)
            self.tiers.load(held, blocks.numpy())
            first = 0
            for cache in self._caches:
                size = cache[0].numel() * cache.element_size()
                part = blocks[:, first:first + size].contiguous().view(cache.dtype)
                cache[block_ids] = part.view(len(held), *cache.shape[1:]).to(cache.device)
                first += size

    def wait_for_save(self) -> None:
        saves = self._get_connector_metadata().saves
        keys = list(saves)
        keys = [keys[i] for i in self.tiers.missing(keys)]
        if keys:
            block_ids = [saves[key] for key in keys]
            parts = [cache[block_ids].reshape(len(keys), -1).view(torch.uint8).cpu()
                     for cache in self._caches]
            self.tiers.save(keys, torch.cat(parts, dim=1).numpy())

    def wait_for_layer_load(self, layer_name: str) -> None:
        """All layers are loaded before the step."""

    def save_kv_layer(self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any,
                      **kwargs: Any) -> None:
        """All layers are saved after the step."""

    # ---- scheduler ----

    def on_new_request(self, request: Any) -> None:
        self._requests[request.request_id] = request

    def get_num_new_matched_tokens(self, request: Any,
                                   num_computed_tokens: int) -> tuple[int, bool]:
        """How many tokens behind those computed are below. The last is always computed."""
        self._let_go(request.request_id)
        first = num_computed_tokens // self._block_tokens
        last = (request.num_tokens - 1) // self._block_tokens
        held = self.tiers.hold(request.block_hashes[first:last])
        if held:
            self._held[request.request_id] = first, held
        return len(held) * self._block_tokens, False

    def _let_go(self, request_id: str) -> None:
        _, held = self._held.pop(request_id, (0, []))
        if held:
            self.tiers.pool.put(held)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        first, held = self._held.pop(request.request_id, (0, []))
        nr = num_external_tokens // self._block_tokens
        if held[nr:]:
            self.tiers.pool.put(held[nr:])
        if nr:
            block_ids = blocks.get_block_ids()[0]
            self._loads.append((held[:nr], block_ids[first:first + nr]))

    def build_connector_meta(self, scheduler_output: Any) -> KvmmMetadata:
        meta = KvmmMetadata(loads=self._loads)
        self._loads = []
        for request_id, nr_tokens in scheduler_output.num_scheduled_tokens.items():
            request = self._requests[request_id]
            first = self._saved.get(request_id, 0)
            # Blocks that this step fills; drafts that may be refused have no hashes.
            last = min((request.num_computed_tokens + nr_tokens) // self._block_tokens,
                       len(request.block_hashes))
            if last > first:
                block_ids = self._kv_cache_manager.get_block_ids(request_id)[0]
                meta.saves.update(zip(request.block_hashes[first:last], block_ids[first:last]))
                self._saved[request_id] = last
        return meta

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, None]:
        self._let_go(request.request_id)
        self._requests.pop(request.request_id, None)
        self._saved.pop(request.request_id, None)
        return False, None

    def reset_cache(self) -> bool:
        return self.tiers.reset()

    def shutdown(self) -> None:
        tiers = _tiers.pop(self._engine, None)
        if tiers:
            tiers.close()
