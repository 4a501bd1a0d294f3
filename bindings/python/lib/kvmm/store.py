# SPDX-License-Identifier: Apache-2.0
"""What the plug-ins of engines have in common: a store whose failures are misses, and a worker.

Nothing here raises once it is built. A full disk, an I/O error, or a store that was closed is a
miss, and Store.counts says how often that was so.
"""
from __future__ import annotations

import hashlib
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import kvmm

_T = TypeVar("_T")


def name_of(key: bytes | str) -> bytes:
    """The name on disk of an engine's key: as it is if it is bytes of 8 to 64, else its hash."""
    if isinstance(key, str):
        return hashlib.blake2b(key.encode(), digest_size=32, person=b"kvmm name").digest()
    return key if 8 <= len(key) <= 64 else hashlib.blake2b(key, digest_size=32).digest()


class Store:
    """kvmm.Disk for engines: any thread may call anything at any time, clear and close included.

    path: the store's folder, made with those above it; one process has it open at a time.
    max_bytes: most bytes of its file.
    layout: all that makes bytes of equal keys differ: model, data type, shapes, rank. Records of
    another layout are never returned.
    Raises kvmm.Error if it cannot be opened, which is at the start of the engine.
    """

    def __init__(self, path: str, max_bytes: int, layout: str) -> None:
        self._path, self._max_bytes = path, max_bytes
        self._layout = hashlib.blake2b(layout.encode(), digest_size=16).digest()
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self._disk: kvmm.Disk | None = self._open(False)
        self._users = 0
        self._closed = False
        self._idle = threading.Condition()      # guards _disk, _users and counts
        self._swap = threading.Lock()           # held by clear and close, taken before _idle
        self.last_error: str | None = None
        self.counts = {"hits": 0, "misses": 0, "stored": 0, "present": 0, "errors": 0}

    def _open(self, reset: bool) -> kvmm.Disk:
        return kvmm.Disk(self._path, self._max_bytes, self._layout, reset)

    def _with_disk(self, call: Callable[[kvmm.Disk], _T], default: _T) -> _T:
        """call's result, or default where that failed; the error is counted."""
        with self._idle:
            disk = self._disk
            self._users += disk is not None
        if disk is None:
            return default
        try:
            return call(disk)
        except Exception as error:              # an engine's loop must not end by a cache
            self.fail(error)
            return default
        finally:
            with self._idle:
                self._users -= 1
                self._idle.notify_all()

    def fail(self, error: Exception) -> None:
        """Counts an error of a plug-in's own."""
        with self._idle:
            self.counts["errors"] += 1
            self.last_error = f"{type(error).__name__}: {error}"

    def _count(self, what: str) -> None:
        with self._idle:
            self.counts[what] += 1

    def put(self, key: bytes | str, data: Any) -> bool:
        """Writes a record and waits. data: a C-contiguous buffer. True: it can be read now."""
        new = self._with_disk(lambda disk: disk.put(name_of(key), data), None)
        if new is not None:
            self._count("stored" if new else "present")
        return new is not None

    def get_into(self, key: bytes | str, out: Any) -> bool:
        """Reads a record into out, a writable C-contiguous buffer of exactly its bytes. False:
        there is none, or none of that length, and what out has is undefined."""
        room = memoryview(out).nbytes
        hit = self._with_disk(lambda disk: disk.get_into(name_of(key), out), -1) == room
        self._count("hits" if hit else "misses")
        return hit

    def exists(self, key: bytes | str) -> bool:
        """Whether a record of that name can be read; only the index in memory is asked."""
        return self._with_disk(lambda disk: disk.exists(name_of(key)), False)

    def sync(self) -> bool:
        """Waits until records put so far survive a loss of power."""
        def sync(disk: kvmm.Disk) -> bool:
            disk.sync()
            return True
        return self._with_disk(sync, False)

    def _take_away(self) -> None:
        with self._idle:
            disk, self._disk = self._disk, None
            while self._users:
                self._idle.wait()
        if disk is not None:
            disk.close()

    def clear(self) -> bool:
        """Forgets all records for good. False: it could not; every look-up misses from then on."""
        with self._swap:
            if self._closed:
                return False
            self._take_away()
            try:
                disk = self._open(True)
            except Exception as error:
                self.fail(error)
                return False
            with self._idle:
                self._disk = disk
            return True

    def close(self) -> None:
        """Waits for calls under way; later ones miss. Records are there after the next opening."""
        with self._swap:
            self._closed = True
            self._take_away()


class Worker:
    """One thread that does jobs in their order. A job must not raise."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open = True
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job                             # buffers of its are let go of here

    def submit(self, job: Callable[[], None]) -> bool:
        """False: the worker is closed, and the job will not be done."""
        with self._lock:
            if self._open:
                self._jobs.put(job)
            return self._open

    def drain(self) -> None:
        """Waits until all jobs submitted so far are done."""
        done = threading.Event()
        if self.submit(done.set):
            done.wait()

    def close(self) -> None:
        """Does what was submitted, and ends the thread."""
        with self._lock:
            if self._open:
                self._jobs.put(None)
            self._open = False
        self._thread.join()
