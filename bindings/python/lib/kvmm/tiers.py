# SPDX-License-Identifier: Apache-2.0
"""Host memory and a disk below an engine that has no tiers of kvmm's under its own blocks."""
from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import kvmm

from .store import Store, Worker


class Tiers:
    """Blocks in host memory by name, and a store of them on disk. Any thread may call.

    host_bytes: of the pool, whole blocks of block_bytes; the pool's policy says which go.
    path, max_bytes, layout: of the store (kvmm.store.Store); without path there is none.
    counts: blocks saved, not saved for want of room, found in host memory, found on disk.
    """

    def __init__(self, host_bytes: int, block_bytes: int, path: str, max_bytes: int,
                 layout: str) -> None:
        if host_bytes < block_bytes:
            raise ValueError(f"host_bytes: {host_bytes}, but a block has {block_bytes}")
        self.block_bytes = block_bytes
        self.pool = kvmm.Pool(host_bytes // block_bytes, key_bytes=0, digests=True,
                              block_bytes=block_bytes, order_as_put=True)
        self.store = Store(path, max_bytes, layout) if path else None
        self.counts = {"saved": 0, "no_room": 0, "host": 0, "disk": 0}
        self._writer = Worker("kvmm-disk") if path else None
        self._lock = threading.Lock()           # a name is not looked for and filled by two
        atexit.register(self.close)

    def missing(self, keys: Sequence[bytes]) -> list[int]:
        """Which of keys, by index, are not in host memory."""
        return [i for i, key in enumerate(keys) if not self.pool.peek([key])]

    def save(self, keys: Sequence[bytes], blocks: Any) -> None:
        """Copies blocks, a C-contiguous buffer of block_bytes each: as many as have room."""
        with self._lock:
            nr = min(len(keys), self.pool.available)
            ids = self._fill(keys[:nr], blocks)
            self.counts["saved"] += nr
            self.counts["no_room"] += len(keys) - nr
        if self._writer is None or not self._writer.submit(lambda: self._write(ids, keys)):
            self.pool.put(ids)

    def _fill(self, keys: Sequence[bytes], blocks: Any) -> list[int]:
        """Blocks with names and content, and a reference on each."""
        if not keys:
            return []
        ids = self.pool.alloc(len(keys))
        for block_id, content in zip(ids, self._each(blocks)):
            self.pool.write(block_id, content)
        return self.pool.register(ids, keys)

    def _each(self, blocks: Any) -> Iterator[memoryview]:
        view, size = memoryview(blocks).cast("B"), self.block_bytes
        return (view[i:i + size] for i in range(0, len(view), size))

    def _write(self, ids: list[int], keys: Sequence[bytes]) -> None:
        """Host memory to disk, in the writer's thread. Blocks are held until they are written."""
        content = bytearray(self.block_bytes)
        for block_id, key in zip(ids[::-1], keys[:len(ids)][::-1]):
            if self.store and not self.store.exists(key):
                self.pool.read_into(block_id, content)
                self.store.put(key, content)
            self.pool.put([block_id])

    def hold(self, keys: Sequence[bytes]) -> list[int]:
        """The longest prefix of keys that there is, in host memory, with a reference on each."""
        held: list[int] = []
        with self._lock:
            while len(held) < len(keys):
                found = self.pool.find(keys[len(held):])
                self.counts["host"] += len(found)
                if not found:
                    found = self._read(keys[len(held)])
                    self.counts["disk"] += len(found)
                if not found:
                    break
                held += found
        return held

    def _read(self, key: bytes) -> list[int]:
        content = bytearray(self.block_bytes)
        if (self.store is None or not self.pool.available or not self.store.exists(key) or
                not self.store.get_into(key, content)):
            return []
        return self._fill([key], content)

    def load(self, ids: list[int], out: Any) -> None:
        """Copies held blocks into out, a buffer as that of save(); they are let go of."""
        for block_id, content in zip(ids, self._each(out)):
            self.pool.read_into(block_id, content)
        self.pool.put(ids)

    def reset(self) -> bool:
        """Forgets all blocks, on disk too. False: some are held, or the disk failed."""
        if self._writer:
            self._writer.drain()
        with self._lock:
            try:
                self.pool.reset()
            except kvmm.Busy:
                return False
            return self.store is None or self.store.clear()

    def close(self) -> None:
        """Ends what is under way: all that was saved is on disk then."""
        atexit.unregister(self.close)
        if self._writer and self.store:
            self._writer.close()
            self.store.sync()
            self.store.close()
