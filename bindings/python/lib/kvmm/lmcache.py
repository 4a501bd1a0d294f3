# SPDX-License-Identifier: Apache-2.0
"""LMCache's native L2 plug-in on a store of kvmm's, which survives the process.

    --l2-adapter '{"type": "native_plugin", "module_path": "kvmm.lmcache",
                   "class_name": "KvmmConnector",
                   "adapter_params": {"path": "/var/cache/kv", "max_bytes": 107374182400}}'

LMCache's keys name model, rank, group and salt, so that one store serves all of them. There is no
submit_batch_delete: the store is bounded by itself, and drops its oldest segment.
"""
from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .store import Store, Worker

Completion = tuple[int, bool, str, list[bool] | None]


class KvmmConnector:
    """Batches go to one worker thread; event_fd is readable when completions can be drained.

    path: the store's folder; one process has it open at a time.
    max_bytes: most bytes of its file.
    layout: anything beside LMCache's keys that makes bytes differ, as of its version.
    Context: any thread. Nothing but the constructor raises (kvmm.Error).
    """

    def __init__(self, path: str, max_bytes: int, layout: str = "") -> None:
        self.store = Store(path, max_bytes, "lmcache " + layout)
        self._event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()           # guards all below
        self._next = 1
        self._over: list[Completion] = []
        self._closed = False
        self._worker = Worker("kvmm-lmcache")

    def event_fd(self) -> int:
        """The descriptor, an eventfd: the connector's until close()."""
        return self._event_fd

    def submit_batch_get(self, keys: Sequence[str], buffers: Sequence[Any]) -> int:
        """Reads len(keys) records, each into its writable buffer. Buffers are borrowed until the
        completion, which says for each key whether all of its buffer was filled; ok: all were."""
        return self._submit(lambda: [self.store.get_into(key, out)
                                     for key, out in zip(keys, buffers)], keys, buffers)

    def submit_batch_set(self, keys: Sequence[str], buffers: Sequence[Any]) -> int:
        """Writes len(keys) records; buffers are borrowed until the completion. ok: all are
        there."""
        return self._submit(lambda: [self.store.put(key, data)
                                     for key, data in zip(keys, buffers)], keys, buffers)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        """Looks len(keys) names up. ok is True: the completion says which of them are there."""
        return self._submit(lambda: [self.store.exists(key) for key in keys], keys, None)

    def _submit(self, ask: Callable[[], list[bool]], keys: Sequence[str],
                buffers: Sequence[Any] | None) -> int:
        with self._lock:
            future, self._next = self._next, self._next + 1

        def job() -> None:
            try:
                each = ask()
            except Exception as error:          # no buffer, no string: this batch fails, no other
                self._complete((future, False, str(error), [False] * len(keys)))
                return
            ok = buffers is None or all(each)
            self._complete((future, ok, "" if ok else "not every key is there", each))

        if buffers is not None and len(buffers) != len(keys):
            self._complete((future, False, f"{len(buffers)} buffers for {len(keys)} keys",
                            [False] * len(keys)))
        elif not self._worker.submit(job):
            self._complete((future, False, "the connector is closed", [False] * len(keys)))
        return future

    def _complete(self, completion: Completion) -> None:
        with self._lock:
            self._over.append(completion)
            if not self._closed:
                os.eventfd_write(self._event_fd, 1)

    def drain_completions(self) -> list[Completion]:
        """(future, ok, error, one bool for each key) of batches that are over, oldest first."""
        with self._lock:
            if not self._closed:
                try:
                    os.eventfd_read(self._event_fd)
                except BlockingIOError:
                    pass
            over, self._over = self._over, []
            return over

    def close(self) -> None:
        """Does what was submitted, ends the thread, and closes store and descriptor."""
        self._worker.close()
        self.store.close()
        with self._lock:
            if not self._closed:
                os.close(self._event_fd)
            self._closed = True
