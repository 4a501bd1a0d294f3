# SPDX-License-Identifier: Apache-2.0
"""transformers' continuous batching with its free sectors and blocks in pools of kvmm's.

    import kvmm.transformers
    kvmm.transformers.use()             # before generate_batch; caches made later are on kvmm

A sector is memory for any of the allocators (one for each kind of attention), which divide it into
blocks of their own. Free ones are handed out lowest first, so that a request's blocks lie in runs;
sharing of prefixes stays transformers'. Written for transformers 5.19.
"""
from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import kvmm


def _taken(nr: int) -> kvmm.Pool:
    """A pool of nr blocks, none of which is free."""
    pool = kvmm.Pool(nr, policy=None, no_magazines=True)
    if nr:
        pool.alloc(nr)
    return pool


class KvmmCachePool:
    """CachePool's contract: sectors for all allocators, and the blocks of those each has.

    num_sectors: that can be allocated; the num_reserved_sectors in front of them never are.
    Numbers of sectors and blocks count the reserved ones, too. Context: one thread. A batch that
    cannot be had raises ValueError, and nothing was taken; a block that is freed twice kvmm.Error.
    """

    def __init__(self, num_sectors: int, num_allocators: int,
                 num_reserved_sectors: int = 2) -> None:
        self.num_sectors = num_sectors
        self.num_allocators = num_allocators
        self.num_reserved_sectors = num_reserved_sectors
        self.blocks_per_sector = [0] * num_allocators
        self.reset()

    def reset(self) -> None:
        """All sectors are free, and no allocator has any."""
        self._sectors = kvmm.Pool(self.num_sectors, policy=None, no_magazines=True)
        self._blocks: list[kvmm.Pool | None] = [None] * self.num_allocators
        self._used: list[dict[int, int]] = [{} for _ in range(self.num_allocators)]
        for index, nr in enumerate(self.blocks_per_sector):
            if nr:
                self.set_blocks_per_sector(index, nr)

    def set_blocks_per_sector(self, index: int, blocks_per_sector: int) -> None:
        """Blocks of an allocator in one sector; before it has any."""
        self.blocks_per_sector[index] = blocks_per_sector
        self._blocks[index] = _taken(self.num_sectors * blocks_per_sector)
        self._used[index] = {}

    def _pool(self, index: int) -> kvmm.Pool:
        pool = self._blocks[index]
        if pool is None:
            raise ValueError(f"allocator {index} has not said how many blocks a sector has")
        return pool

    def _in(self, index: int, sector: int) -> list[int]:
        nr = self.blocks_per_sector[index]
        return list(range(sector * nr, (sector + 1) * nr))

    @property
    def free_sectors(self) -> Sequence[int]:
        """As many as there are; which ones is kvmm's."""
        return range(self._sectors.available)

    @property
    def num_free_sectors(self) -> int:
        """Sectors that no allocator has."""
        return self._sectors.available

    def allocate_sector(self, index: int) -> None:
        """Gives the lowest free sector to an allocator: its blocks are free."""
        try:
            sector, = self._sectors.alloc(1)
        except kvmm.NoSpace:
            raise ValueError("no sector is free") from None
        self._used[index][sector] = 0
        self._pool(index).put(self._in(index, sector))

    def try_to_free_sectors(self) -> None:
        """Takes sectors back that have no block in use."""
        for index, used in enumerate(self._used):
            idle = [sector for sector, nr in used.items() if not nr]
            for sector in idle:
                self._pool(index).take(self._in(index, sector))
                del used[sector]
            if idle:
                self._sectors.put(idle)

    def get_free_blocks(self, index: int, num_blocks: int) -> list[int]:
        """Numbers of the lowest free blocks of an allocator."""
        try:
            blocks = self._pool(index).alloc(num_blocks) if num_blocks else []
        except kvmm.NoSpace:
            raise ValueError(f"{num_blocks} blocks are not free") from None
        return self._count(index, blocks, 1)

    def free_blocks(self, index: int, block_ids: list[int]) -> None:
        """Blocks that get_free_blocks() gave."""
        first = self.num_reserved_sectors * self.blocks_per_sector[index]
        blocks = [block - first for block in block_ids]
        if blocks:
            self._pool(index).put(blocks)
            self._count(index, blocks, -1)

    def _count(self, index: int, blocks: list[int], change: int) -> list[int]:
        nr = self.blocks_per_sector[index]
        for block in blocks:
            self._used[index][block // nr] += change
        return [block + self.num_reserved_sectors * nr for block in blocks]

    def count_free_blocks(self, index: int) -> int:
        """Free blocks in the sectors of an allocator."""
        pool = self._blocks[index]
        return pool.available if pool is not None else 0


def use(on: bool = True) -> None:
    """Caches that transformers makes from here on have their pools of kvmm (or its own again)."""
    package = "transformers.generation.continuous_batching."
    stock: Any = importlib.import_module(package + "cache_allocators.cache_pool")
    for name in ("cache", "offloading_manager"):
        importlib.import_module(package + name).CachePool = (   # type: ignore[attr-defined]
            KvmmCachePool if on else stock.CachePool)
