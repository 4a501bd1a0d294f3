# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found,import-untyped", allow-subclassing-any
"""A tier of vLLM's below its CPU offload: a store of kvmm's, which survives the process.

    "kv_connector_extra_config": {"spec_name": "TieringOffloadingSpec", "secondary_tiers": [
        {"type": "KvmmSecondaryTier", "module_path": "kvmm.vllm.tier",
         "path": "/var/cache/kv", "max_bytes": 107374182400}]}

A chunk is a record, all ranks' parts of it included. Its name is vLLM's offload key (hash and
group), and the layout is what vLLM's file tier puts into the name of its folder.
"""
from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from vllm.v1.kv_offload.base import (Locality, LookupResult, Medium, OffloadingEvent,
                                     RequestOffloadingContext)
from vllm.v1.kv_offload.file_mapper import FileMapper
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager

from ..store import Store, Worker


def layout_of(spec: Any, chunk_bytes: int) -> str:
    """All that makes bytes of equal offload keys differ."""
    mapper = FileMapper.from_offloading_spec("", spec, blocks_per_file=spec.blocks_per_chunk)
    return f"{sorted(mapper.get_run_config().items())} {chunk_bytes}"


class KvmmSecondaryTier(SecondaryTierManager):
    """Chunks on disk. Loads and stores have a thread each, so that no load waits for a store.

    primary_kv_view: vLLM's CPU cache, C-contiguous, of shape (chunks, bytes of a chunk).
    path: folder of the store; each data-parallel engine has one of its own in it.
    max_bytes: most bytes of its file; the oldest records go for new ones.
    layout: said too if something else makes bytes differ, as quantised weights do.
    enable_kv_events: report stored chunks, where vLLM's events are on.
    Context: one thread at a time, as vLLM calls it. The constructor raises kvmm.Error if the store
    cannot be opened; afterwards a failure of the disk is a failed job or a miss, counted in
    store.counts.
    """

    medium: ClassVar[Medium] = Medium.STORAGE

    def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str,
                 path: str = "", max_bytes: int = 16 << 30, layout: str = "",
                 enable_kv_events: bool = False, locality: str | None = "LOCAL",
                 backpressure_detector: Any = None) -> None:
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        if not path:
            raise ValueError("the tier's configuration has no path for the store")
        self.locality = Locality(locality) if locality is not None else None
        parallel = getattr(offloading_spec.config, "parallel", None)
        engine = int(getattr(parallel, "data_parallel_index", 0) or 0)
        self.store = Store(os.path.join(path, f"dp-{engine}"), int(max_bytes),
                           f"vllm {layout} {layout_of(offloading_spec, self.block_size_bytes)}")
        self._chunks = primary_kv_view.cast("B")
        self._loads, self._stores = Worker("kvmm-load"), Worker("kvmm-store")
        self._storing: dict[bytes, int] = {}    # keys of stores under way: how often
        self._refused: set[bytes] = set()       # keys that could not be loaded, until stored again
        self._jobs: dict[int, tuple[list[bytes], bool]] = {}   # keys; it is a load
        self._over: deque[tuple[int, list[bytes], float]] = deque()     # from the workers
        wanted = enable_kv_events and offloading_spec.kv_events_config.enable_kv_cache_events
        self._events: list[Any] | None = [] if wanted else None

    def lookup(self, key: bytes, req_context: Any) -> Any:
        """HIT, MISS, or RETRY while it is being stored. Asks the index in memory only."""
        if key in self._storing:
            return LookupResult.RETRY
        if key in self._refused or not self.store.exists(key):
            return LookupResult.MISS
        return LookupResult.HIT

    def submit_store(self, job_metadata: Any) -> None:
        """Begins to write chunks. The job is a success if all can be read then."""
        self._begin(job_metadata, False, self._stores, self.store.put)
        for key in job_metadata.keys:
            self._storing[key] = self._storing.get(key, 0) + 1

    def submit_load(self, job_metadata: Any) -> None:
        """Begins to read chunks. Those that could be read are kept even if others could not."""
        self._begin(job_metadata, True, self._loads, self.store.get_into)

    def _begin(self, job: Any, is_load: bool, worker: Worker,
               copy: Callable[[bytes, memoryview], bool]) -> None:
        keys, bytes_each, over = list(job.keys), self.block_size_bytes, self._over
        chunks, ids, job_id = self._chunks, [int(i) for i in job.chunk_ids], job.job_id

        def transfer() -> None:
            begun, done = time.monotonic(), []
            for key, i in zip(keys, ids):
                if copy(key, chunks[i * bytes_each:(i + 1) * bytes_each]):
                    done.append(key)
            over.append((job_id, done, time.monotonic() - begun))

        self._jobs[job_id] = keys, is_load
        if not worker.submit(transfer):
            over.append((job_id, [], 0.0))

    def get_finished_jobs(self) -> Iterable[Any]:
        """Results of jobs that are over since the last call; seconds and bytes of each."""
        results = []
        while self._over:
            job_id, done, seconds = self._over.popleft()
            keys, is_load = self._jobs.pop(job_id)
            if is_load:
                self._refused.update(set(keys).difference(done))
            else:
                self._stored(keys, done)
            success = len(done) == len(keys)
            results.append(JobResult(
                job_id=job_id, success=success, transfer_time=seconds,
                successful_keys=tuple(done) if is_load and done and not success else None,
                transfer_bytes=len(done) * self.block_size_bytes))
        return results

    def _stored(self, keys: list[bytes], done: list[bytes]) -> None:
        for key in keys:
            self._storing[key] -= 1
            if not self._storing[key]:
                del self._storing[key]
        self._refused.difference_update(done)
        if self._events is not None and done:
            self._events.append(OffloadingEvent(
                keys=done, medium=self.medium, removed=False, locality=self.locality))

    def take_events(self) -> Iterable[Any]:
        """Chunks stored since the last call. The store's own evictions are not reported."""
        events = self._events or []
        if self._events:
            self._events = []
        return events

    def on_new_request(self, req_context: Any) -> Any:
        """Chunks are offloaded as they come."""
        return RequestOffloadingContext()

    def drain_jobs(self) -> None:
        """Waits for all jobs: no memory of vLLM's is touched afterwards, and all have a result."""
        self._loads.drain()
        self._stores.drain()

    def shutdown(self) -> None:
        """Does what was submitted, ends the threads, closes the store, lets go of vLLM's memory."""
        self._loads.close()
        self._stores.close()
        self.store.close()
        self._chunks.release()
