# SPDX-License-Identifier: Apache-2.0
"""vLLM's BlockPool on kvmm.

Blocks stay vLLM's objects, since its managers read ref_cnt and block_hash of them. kvmm has one
reference on each block with ref_cnt > 0, knows every name, and decides which blocks are handed out
and which names go for that. What makes events is inherited.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from vllm.v1.core import block_pool as stock
from vllm.v1.core.kv_cache_utils import (KVCacheBlock, get_block_hash, get_group_id,
                                         resolve_block_hashes)

import kvmm


class FreeBlocks:
    """What vLLM calls its free queue: how many blocks can be had. Their order is kvmm's."""

    def __init__(self, pool: kvmm.Pool):
        self._pool = pool

    @property
    def num_free_blocks(self) -> int:
        return self._pool.available


class Names:
    """What vLLM calls cached_block_hash_to_block: names are looked up in kvmm."""

    def __init__(self, owner: KvmmBlockPool):
        self._owner = owner

    def get_one_block(self, key: bytes) -> KVCacheBlock | None:
        found = self._owner.get_cached_block(get_block_hash(key), [get_group_id(key)])
        return found[0] if found else None

    def contain(self, key: bytes, block_id: int) -> bool:
        block = self._owner.blocks[block_id]
        return key == block.block_hash or key in self._owner.cached_block_hashes_by_block.get(
            block_id, ())

    def insert(self, key: bytes, block: KVCacheBlock) -> None:
        self._owner._name(key, block)

    def pop(self, key: bytes, block_id: int) -> KVCacheBlock | None:
        block = self._owner.blocks[block_id]
        found = self._owner.kvmm.peek([get_block_hash(key)], group=get_group_id(key))
        if found != [block_id]:
            return None
        if block.ref_cnt > 0:
            self._owner.kvmm.unpublish(found)
        else:
            self._owner.kvmm.evict(found)
        return block

    def __len__(self) -> int:
        return self._owner.nr_named


class KvmmBlockPool(stock.BlockPool):
    """A BlockPool whose blocks are kvmm's. Arguments are those of vLLM's; more for kvmm.Pool may be
    given as kvmm_options."""

    def __init__(self, num_gpu_blocks: int, enable_caching: bool, hash_block_size: int,
                 enable_kv_cache_events: bool = False, metrics_collector: Any = None,
                 kvmm_options: dict[str, Any] | None = None, **more: Any):
        super().__init__(1, enable_caching, hash_block_size, enable_kv_cache_events,
                         metrics_collector, **more)
        options: dict[str, Any] = {"order_as_put": True, "key_bytes": 0, "digests": True,
                                   "no_magazines": True, **(kvmm_options or {})}
        self.num_gpu_blocks = num_gpu_blocks
        self.kvmm = kvmm.Pool(num_gpu_blocks, null_block=True, **options)
        more_blocks = (stock.KVCacheBlock(i) for i in range(1, num_gpu_blocks))
        self.blocks = [self.null_block, *more_blocks]
        if hasattr(self.null_block, "pool"):
            for block in self.blocks:
                block.pool = self
        self._fast = kvmm.Blocks(self.kvmm, self.blocks)
        self.free_block_queue = FreeBlocks(self.kvmm)
        self.cached_block_hash_to_block = Names(self)

    # ---- names ----

    def get_cached_block(self, block_hash: Any, kv_cache_group_ids: list[int]) -> Any:
        return self._fast.cached(block_hash, kv_cache_group_ids)

    def find_longest_prefix(self, hashes: Sequence[Any], group: int) -> list[KVCacheBlock]:
        """get_cached_block() of all leading hashes of one group, in one call."""
        found: list[KVCacheBlock] = self._fast.hits(hashes, group, len(hashes))
        return found

    def cache_full_blocks(self, request: Any, blocks: list[KVCacheBlock], num_cached_blocks: int,
                          num_full_blocks: int, block_size: int, kv_cache_group_id: int,
                          block_mask: list[bool] | None = None) -> None:
        if num_cached_blocks >= num_full_blocks:
            return
        if block_mask is None and not self.enable_kv_cache_events:
            hashes = request.block_hashes
            if block_size != self.hash_block_size:
                hashes = resolve_block_hashes(hashes, self.hash_block_size, block_size)
            if self._fast.cache(blocks, hashes, num_cached_blocks, num_full_blocks,
                                kv_cache_group_id, block_size):
                return
        super().cache_full_blocks(request, blocks, num_cached_blocks, num_full_blocks, block_size,
                                  kv_cache_group_id, block_mask)

    def _insert_block_hash(self, block_hash_with_group_id: Any, block: KVCacheBlock,
                           num_tokens: int | None) -> None:
        if self.cached_block_hash_to_block.contain(block_hash_with_group_id, block.block_id):
            return
        self._name(block_hash_with_group_id, block)
        if block.block_hash is None:
            block.set_block_hash(block_hash_with_group_id, num_tokens=num_tokens)
            self._fast.nr_named += 1
        else:
            self.cached_block_hashes_by_block.setdefault(block.block_id, set()).add(
                block_hash_with_group_id)

    def _name(self, key: Any, block: KVCacheBlock) -> None:
        """The first name of a private block, or one more; of a free one, which is then cached."""
        ids, names, group = [block.block_id], [get_block_hash(key)], get_group_id(key)
        if block.ref_cnt > 0:
            if block.block_hash is None:
                self.kvmm.register(ids, names, group=group)
            else:
                self.kvmm.name(ids, names, group=group)
            return
        if block.block_hash is None:
            self.kvmm.take(ids)
            self.kvmm.register(ids, names, group=group)
        else:
            self.kvmm.get(ids, inactive=True)
            self.kvmm.name(ids, names, group=group)
        self.kvmm.put(ids)

    def _forget(self, block: KVCacheBlock) -> list[Any]:
        """The names that kvmm has forgotten of a block."""
        first = self._fast.forgotten(self.blocks[block.block_id])
        if first is None:
            return []
        return [first, *self.cached_block_hashes_by_block.pop(block.block_id, ())]

    def _remove_cached_block_hashes(self, block: KVCacheBlock) -> list[Any]:
        if block.block_hash is None:
            return []
        if block.ref_cnt > 0:
            self.kvmm.unpublish([block.block_id])
        else:
            self.kvmm.evict([block.block_id])
        return self._forget(block)

    # ---- blocks ----

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        collector = self.metrics_collector
        watched = collector or self.enable_kv_cache_events or self.cached_block_hashes_by_block
        named: list[KVCacheBlock] | None = [] if watched else None
        try:
            blocks: list[KVCacheBlock] = self._fast.take(num_blocks, named)
        except (kvmm.NoSpace, OverflowError):
            raise ValueError(f"Cannot get {num_blocks} free blocks from the pool") from None
        if self._reuse_watchers:
            self._notify_reuse(blocks)
        for block in named or ():
            if collector:
                collector.on_block_evicted(block)
            self._emit_block_removed_events(self._forget(block))
        if collector:
            for block in blocks:
                collector.on_block_allocated(block)
        return blocks

    def touch(self, blocks: Sequence[KVCacheBlock]) -> None:
        try:
            self._fast.touch(blocks)
        except kvmm.Stale:                          # a free block without a name comes back as it is
            for block in blocks:
                if not block.ref_cnt and not block.is_null:
                    self._revive(block.block_id)
                block.ref_cnt += not block.is_null
        if self.metrics_collector:
            for block in blocks:
                if not block.is_null:
                    self.metrics_collector.on_block_accessed(block)

    def _revive(self, block_id: int) -> None:
        try:
            self.kvmm.get([block_id], inactive=True)
        except kvmm.Stale:
            self.kvmm.take([block_id])

    def free_blocks(self, ordered_blocks: Iterable[KVCacheBlock]) -> None:
        blocks = self._fast.put(ordered_blocks)
        if blocks is None:
            return
        others: dict[Any, list[KVCacheBlock]] = {}
        for block in blocks:
            pool = getattr(block, "pool", None)
            if pool is not None and pool is not self:
                others.setdefault(pool, []).append(block)
            elif not block.is_null:
                block.ref_cnt -= 1
                if not block.ref_cnt:
                    self.kvmm.put([block.block_id], first_out=True)
        for pool, theirs in others.items():
            pool.free_blocks(theirs)

    def unpin_blocks(self, blocks: Iterable[KVCacheBlock],
                     on_reuse: Callable[[KVCacheBlock], None]) -> None:
        for block in blocks:
            assert block.ref_cnt > 0 and not block.is_null
            block.ref_cnt -= 1
            self._reuse_watchers[block.block_id] = on_reuse
            if not block.ref_cnt:
                self.kvmm.put([block.block_id], park=block.block_hash is None)

    def reset_prefix_cache(self) -> bool:
        held = self.num_gpu_blocks - 1 - self.get_num_free_blocks()
        if held:
            stock.logger.warning("Failed to reset prefix cache because some blocks (%d) are not "
                                 "freed yet", held)
            return False
        self.kvmm.reset()
        self.cached_block_hashes_by_block.clear()
        self._fast.nr_named = 0
        if self._reuse_watchers:
            self._notify_reuse([self.blocks[i] for i in list(self._reuse_watchers)])
        for block in self.blocks:
            block.reset_hash()
        if self.metrics_collector:
            self.metrics_collector.reset()
        if self.enable_kv_cache_events:
            self.kv_event_queue.append(stock.AllBlocksCleared())
        return True

    def get_num_free_blocks(self) -> int:
        return self.kvmm.available

    @property
    def nr_named(self) -> int:
        """Blocks with a name."""
        return self._fast.nr_named
