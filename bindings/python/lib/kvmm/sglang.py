# SPDX-License-Identifier: Apache-2.0
"""SGLang's HiCache storage on a store of kvmm's, which survives the process.

    --enable-hierarchical-cache --hicache-storage-backend dynamic
    --hicache-storage-backend-extra-config '{"backend_name": "kvmm", "module_path": "kvmm.sglang",
        "class_name": "KvmmStorage", "path": "/var/cache/kv", "max_bytes": 107374182400}'

Each rank has a store of its own below path, since one process has a store open at a time. The
interface of pools by name (batch_*_v2, for models with several kinds of state) is not offered.
"""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .store import Store

if TYPE_CHECKING:
    class HiCacheStorage:
        """What both have: the real one where SGLang is installed."""
else:
    try:
        from sglang.srt.mem_cache.hicache_storage import HiCacheStorage
    except ImportError:
        HiCacheStorage = object

RANKS = ("dp_rank", "tp_rank", "pp_rank", "attn_cp_rank", "dcp_rank")
SIZES = ("tp_size", "pp_size", "attn_cp_size", "dcp_size", "tp_lcm_size")
LAYOUT = ("model_name", "is_mla_model", "is_page_first_layout", "should_split_heads")


def _flat(page: Any) -> memoryview:
    """The bytes of a contiguous CPU tensor or buffer."""
    if hasattr(page, "data_ptr"):               # of torch, which has no buffer protocol
        import importlib
        torch = importlib.import_module("torch")
        page = page.detach().reshape(-1).view(torch.uint8).numpy()
    return memoryview(page).cast("B")


class KvmmStorage(HiCacheStorage):
    """Pages by SGLang's hash strings.

    storage_config: HiCacheStorageConfig; its extra_config has path and max_bytes (default 16 GiB).
    A page is a CPU tensor of any shape and type, or a buffer; a record is its bytes, in order.
    Context: any thread, waits for the disk except in exists. After the constructor (kvmm.Error,
    ValueError) nothing raises: a failure is a miss, counted in store.counts.
    """

    def __init__(self, storage_config: Any, kwargs: dict[str, Any] | None = None) -> None:
        extra = getattr(storage_config, "extra_config", None) or {}
        if "path" not in extra:
            raise ValueError("extra_config has no path for the store")
        if getattr(storage_config, "is_mla_model", False) and storage_config.tp_size > 1:
            raise ValueError("ranks of an MLA model share their pages, stores are for one process")
        ranks = [int(getattr(storage_config, name, 0) or 0) for name in RANKS]
        said = [f"{name}={getattr(storage_config, name, None)}" for name in SIZES + LAYOUT]
        self.mem_pool_host: Any = None
        self._kind = ""                         # of the host pool's pages, in front of keys
        self.store = Store(os.path.join(extra["path"], "rank-" + "-".join(map(str, ranks))),
                           int(extra.get("max_bytes", 16 << 30)), f"sglang {ranks} {said}")

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """The host pool that batch_get_v1 and batch_set_v1 copy pages of; borrowed. Pages of
        another data type, order of dimensions or page size are not found from here on."""
        self.mem_pool_host = mem_pool_host
        self._kind = " ".join(str(getattr(mem_pool_host, name, ""))
                              for name in ("dtype", "layout", "page_size")) + " "

    def exists(self, key: str) -> bool:
        """Whether the page can be read; asks the index in memory only."""
        return self.store.exists(self._kind + key)

    def batch_exists(self, keys: Sequence[str], extra_info: Any = None) -> int:
        """How many of the first pages are all there."""
        return next((i for i, key in enumerate(keys) if not self.exists(key)), len(keys))

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        """target_location (default: a page of the host pool's shape) with the page in it; None: a
        miss, and what target_location has is undefined."""
        try:
            if target_location is None:
                target_location = self.mem_pool_host.get_dummy_flat_data_page()
            page = target_location
            contiguous = not hasattr(page, "is_contiguous") or page.is_contiguous()
            if not contiguous:
                page = page.contiguous()
            if not self.store.get_into(self._kind + key, _flat(page)):
                return None
            if not contiguous:
                target_location.copy_(page)
            return target_location
        except Exception as error:              # no host pool, a page that is not in host memory
            self.store.fail(error)
            return None

    def batch_get(self, keys: Sequence[str], target_locations: Sequence[Any] | None = None,
                  target_sizes: Any = None) -> list[Any]:
        """get() of each."""
        places = target_locations or [None] * len(keys)
        return [self.get(key, place) for key, place in zip(keys, places)]

    def set(self, key: str, value: Any = None, target_location: Any = None,
            target_sizes: Any = None) -> bool:
        """Writes a page and waits. True: it can be read from here on."""
        page = target_location if value is None else value
        try:
            if hasattr(page, "contiguous"):
                page = page.contiguous()
            return self.store.put(self._kind + key, _flat(page))
        except Exception as error:              # no page, or one that is not in host memory
            self.store.fail(error)
            return False

    def batch_set(self, keys: Sequence[str], values: Sequence[Any] | None = None,
                  target_locations: Sequence[Any] | None = None, target_sizes: Any = None) -> bool:
        """set() of each, all of them even if one fails. True: all can be read."""
        pages = values if values is not None else target_locations or []
        done = [self.set(key, page) for key, page in zip(keys, pages)]
        return len(done) == len(keys) and all(done)

    def batch_get_v1(self, keys: Sequence[str], host_indices: Any,
                     extra_info: Any = None) -> list[bool]:
        """Pages into the host pool. host_indices: page_size tokens' indices for each key."""
        def load(key: str, index: int) -> bool:
            page = self.get(key)
            if page is not None:
                self.mem_pool_host.set_from_flat_data_page(index, page)
            return page is not None
        return self._each(load, keys, host_indices)

    def batch_set_v1(self, keys: Sequence[str], host_indices: Any,
                     extra_info: Any = None) -> list[bool]:
        """Pages from the host pool. host_indices: as in batch_get_v1."""
        return self._each(lambda key, index: self.set(
            key, self.mem_pool_host.get_data_page(index, flat=True)), keys, host_indices)

    def _each(self, copy: Any, keys: Sequence[str], host_indices: Any) -> list[bool]:
        done: list[bool] = []
        try:
            size = self.mem_pool_host.page_size
            if len(host_indices) != len(keys) * size:
                raise ValueError(f"{len(host_indices)} indices for {len(keys)} pages of {size}")
            for i, key in enumerate(keys):
                done.append(copy(key, int(host_indices[i * size])))
        except Exception as error:
            self.store.fail(error)
        return done + [False] * (len(keys) - len(done))

    def clear(self) -> bool:
        """Forgets all pages of this rank, for good."""
        return self.store.clear()

    def close(self) -> None:
        """Closes the store; later calls miss."""
        self.store.close()
