# SPDX-License-Identifier: Apache-2.0
"""SGLang's prefix cache with its index, references and order of eviction in a pool of kvmm's.

    --radix-cache-backend kvmm          (this package is a plug-in that SGLang finds by itself)
    --radix-cache-backend kvmm-lru      the same, evicting in the order that SGLang's name says

There is no tree: a page of tokens is a block, found by a name that depends on all tokens before it.
A match is one look-up of all names, a lock one reference on each page, and evict() takes pages
without one in the order of kvmm's policy, never before the pages that follow them. The memory stays
SGLang's allocator's. Written for 0.5.17.
"""
from __future__ import annotations

import hashlib
import time
from array import array
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy
import torch

import kvmm

if TYPE_CHECKING:
    class RadixCache:
        """SGLang's: what turns requests into keys and values stays its own."""

        def __init__(self, params: Any) -> None: ...
        def reset(self) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
        page_size: int

    DecLockRefResult: Any
    EvictResult: Any
    IncLockRefResult: Any
    InsertResult: Any
    MatchResult: Any
    TreeNode: Any
else:
    from sglang.srt.mem_cache.base_prefix_cache import (
        DecLockRefResult, EvictResult, IncLockRefResult, InsertResult, MatchResult)
    from sglang.srt.mem_cache.radix_cache import RadixCache, TreeNode

_NAME = 16
_MIN_PAGES = 1024
Ids = numpy.ndarray[Any, numpy.dtype[numpy.int32]]
_NONE: Ids = numpy.empty(0, dtype=numpy.int32)


class Prefix:
    """The pages of a match in order, as SGLang's node: valid until an eviction unless locked."""

    __slots__ = ("ids",)

    def __init__(self, ids: Ids) -> None:
        self.ids = ids


class KvmmRadixCache(RadixCache):
    """RadixCache's contract; root_node is its own and has no children.

    Its eviction_policy is one of POLICIES (ValueError); priorities are not looked at. insert()
    raises kvmm.NoSpace if more pages are locked than the allocator has. Context: one thread.
    """

    # SGLang's name of an order of eviction: kvmm's. SGLang says "lru" where no order was asked for,
    # so that is kvmm's default, which counts uses as well.
    POLICIES = {"lru": "default", "fifo": "fifo", "lfu": "multilru", "slru": "multilru"}

    def reset(self) -> None:
        super().reset()
        policy = self.POLICIES.get("lru" if self.disable else self.eviction_policy)
        if policy is None:
            raise ValueError(f"kvmm has no order of eviction like {self.eviction_policy}")
        size = getattr(self.token_to_kv_pool_allocator, "size", 0)
        nr = max(size // self.page_size if isinstance(size, int) else 1 << 17, _MIN_PAGES)
        self._pool = kvmm.Pool(nr, policy=policy, no_magazines=True)
        # Pages that are not cached are held, so that whatever alloc() returns was evicted.
        self._spare: Ids = numpy.empty(nr, dtype=numpy.int32)
        self._nr_spare = self._pool.alloc(nr, out=self._spare)
        self._room = numpy.empty_like(self._spare)      # for what is found
        self._slots = torch.empty((nr, self.page_size), dtype=torch.int64, device=self.device)
        # A row for each page, which numpy moves as a whole.
        self._row = numpy.dtype(("V", self.page_size * 8))
        self._host = (self._slots.numpy().view(self._row).reshape(-1)
                      if self.device.type == "cpu" else None)
        self._keys: dict[tuple[Any, ...], kvmm.Keys] = {}
        self._nodes: dict[int, tuple[int, Any]] = {}    # with events: position, TreeNode

    def _names(self, key: Any) -> bytes:
        """Names of a key's full pages. Of bigrams both tokens are named."""
        words, nr = key.token_ids, len(key)
        if key.is_bigram or nr < len(words):
            words = numpy.asarray(words, dtype=numpy.int64)[:nr + key.is_bigram]
        if key.is_bigram:
            words = numpy.stack((words[:-1], words[1:]), axis=1).reshape(-1)
        space = (key.extra_key, getattr(key, "cache_salt", None), key.is_bigram)
        try:
            return self._keys_of(space, 1).of(words)
        except OverflowError:                   # from the first page on with more than 32 bits
            words, page = numpy.asarray(words, dtype=numpy.int64), self.page_size << key.is_bigram
            first = int(numpy.argmax((words < 0) | (words >= 1 << 32))) // page * page
            names = self._keys_of(space, 1).of(words[:first])
            return names + self._keys_of(space, 2).of(words[first:].view(numpy.int32),
                                                      parent=names[-_NAME:] or None)

    def _keys_of(self, space: tuple[Any, ...], width: int) -> kvmm.Keys:
        """How pages of a name space are named, with so many words for each token."""
        keys = self._keys.get((space, width))
        if keys is None:
            if len(self._keys) >= 4096:         # salts of single requests
                self._keys.clear()
            seed = hashlib.blake2b(repr((space, width)).encode(), digest_size=32).digest()
            keys = self._keys[space, width] = kvmm.Keys(
                algo="local", block_tokens=(self.page_size << space[-1]) * width, salt=seed)
        return keys

    def _key(self, key: Any) -> Any:
        return key.maybe_to_bigram_view(self.is_eagle)[0]

    def _hits(self, names: bytes, asked: bool) -> Ids:
        """The longest cached prefix, which is used now. The order of eviction learns from what is
        asked for, also in vain, and not a second time when that is inserted."""
        look, use = ((self._pool.find, self._pool.put) if asked else
                     (self._pool.peek, self._pool.touch))
        nr = look(names[:_NAME * len(self._room)], out=self._room) if names else 0
        if not nr:
            return _NONE
        ids = self._room[:nr].copy()
        use(ids)
        return ids

    def match_prefix(self, params: Any) -> Any:
        ids = _NONE if self.disable else self._hits(self._names(self._key(params.key)), True)
        if not len(ids):
            return self._empty_match_result
        node = Prefix(ids)
        found: dict[str, Any] = {"device_indices": self.path_device_indices(node)}
        if "device_prefix_len" in MatchResult._fields:
            found = {"device_prefix_len": len(ids) * self.page_size}
        return MatchResult(last_device_node=node, last_host_node=node, best_match_node=node,
                           **found)

    def touch_prefix(self, key: Any) -> None:
        if not self.disable:
            self._hits(self._names(self._key(key)), False)

    def path_device_indices(self, node: Any) -> Any:
        ids = self._ids(node)
        if self._host is not None:
            return torch.from_numpy(self._host.take(ids).view(numpy.int64))
        return self._slots[torch.from_numpy(ids).to(self.device)].reshape(-1)

    def _ids(self, node: Any) -> Ids:
        return node.ids if isinstance(node, Prefix) else _NONE

    def insert(self, params: Any) -> Any:
        if self.disable:
            return InsertResult(prefix_len=0)
        key, value = self._key(params.key), params.value
        if value is None:                       # of SGLang's own tests: tokens are their places
            value = torch.tensor(list(key.token_ids[:len(key)]), dtype=torch.int64)
        names = self._names(key)
        ids = self._hits(names, False)
        hit, nr = len(ids), len(names) // _NAME
        if hit < nr:
            if self._host is not None:
                value = value.numpy()
            added = self._add(names, hit, value[hit * self.page_size:nr * self.page_size])
            ids = numpy.concatenate((ids, added)) if hit else added
            if self._events_on():
                self._stored(key, ids.tolist(), hit)
        return InsertResult(prefix_len=hit * self.page_size,
                            last_device_node=Prefix(ids) if nr else self.root_node)

    def _add(self, names: bytes, hit: int, value: Any) -> Ids:
        nr = len(names) // _NAME - hit
        if nr > self._nr_spare:                 # of an allocator that has more than it said
            hits = self._pool.peek(names)
            self._pool.get(hits, inactive=True)
            try:
                self._evict(nr - self._nr_spare)
            finally:
                self._pool.put(hits)
        ids = self._spare[self._nr_spare - nr:self._nr_spare].copy()
        parent = names[(hit - 1) * _NAME:hit * _NAME] if hit else None
        self._pool.register(ids, names[hit * _NAME:], position=hit, parent=parent, out=ids)
        self._nr_spare -= nr
        self._pool.put(ids)
        if self._host is not None:
            self._host.put(ids, numpy.ascontiguousarray(value, numpy.int64).view(self._row))
        else:
            self._slots[torch.from_numpy(ids).to(self.device)] = value.to(self._slots).reshape(
                nr, self.page_size)
        return ids

    def evict(self, params: Any) -> Any:
        nr = 0
        if not self.disable:
            start = time.perf_counter()
            pages = -(-params.num_tokens // self.page_size)
            nr = self._evict(min(pages, self._pool.available)) * self.page_size
            self.update_eviction_metrics(nr, start)
        return EvictResult(num_tokens_evicted=nr)

    def _evict(self, nr: int) -> int:
        if nr <= 0:
            return 0
        ids = self._spare[self._nr_spare:self._nr_spare + nr]
        self._pool.alloc(nr, out=ids)
        self._nr_spare += nr
        self.token_to_kv_pool_allocator.free_segment(
            self.path_device_indices(Prefix(ids)), start_pos=0)
        if self._events_on():
            self._removed(ids.tolist())
        return nr

    def inc_lock_ref(self, node: Any) -> Any:
        return IncLockRefResult(delta=self._refer(self._pool.get, node, inactive=True))

    def dec_lock_ref(self, node: Any, params: Any = None) -> Any:
        return DecLockRefResult(delta=self._refer(self._pool.put, node))

    def _refer(self, change: Any, node: Any, **named: bool) -> int:
        """Changes references; returns by how many tokens more can be evicted."""
        before, ids = self._pool.available, self._ids(node)
        if len(ids):
            change(ids, **named)
        return (self._pool.available - before) * self.page_size

    def evictable_size(self) -> int:
        return self._pool.available * self.page_size

    def protected_size(self) -> int:
        return self.total_size() - self.evictable_size()

    def total_size(self) -> int:
        return (self._pool.nr_blocks - self._nr_spare) * self.page_size

    def all_values_flatten(self) -> Any:
        ids: Ids = numpy.arange(self._pool.nr_blocks, dtype=numpy.int32)
        return self.path_device_indices(
            Prefix(numpy.setdiff1d(ids, self._spare[:self._nr_spare], assume_unique=True)))

    def pretty_print(self) -> None:
        print(f"#tokens: {self.total_size()} {self._pool.stat()}")

    # ---- events: SGLang's own, with one of its nodes for each page ----

    def _events_on(self) -> bool:
        if hasattr(self, "kv_events"):
            return bool(self.kv_events.enabled)
        return bool(self.enable_kv_cache_events)

    def _record(self, what: str, node: Any) -> None:
        if hasattr(self, "kv_events"):
            getattr(self.kv_events, f"record_{what}")(node)
        else:
            getattr(self, f"_record_{what}_event")(node)

    def _stored(self, key: Any, ids: Sequence[int], hit: int) -> None:
        parent = self._nodes[ids[hit - 1]][1] if hit else self.root_node
        for i in range(hit, len(ids)):
            node = TreeNode()
            self._nodes[ids[i]] = i, node
            node.key, node.parent = key[i * self.page_size:(i + 1) * self.page_size], parent
            self._record("store", node)
            parent = node

    def _removed(self, ids: Sequence[int]) -> None:
        """One event for each name space, pages before those that follow them."""
        spaces: dict[tuple[Any, ...], list[Any]] = {}
        for _, node in sorted((self._nodes.pop(i) for i in ids), key=lambda pair: pair[0]):
            space = node.key.extra_key, getattr(node.key, "cache_salt", None)
            spaces.setdefault(space, []).append(node)
        for nodes in spaces.values():
            gone = TreeNode()
            gone.key, gone.parent = nodes[0].key, nodes[0].parent
            gone.key.token_ids = array("q", bytes(8 * (
                len(nodes) * self.page_size + gone.key.is_bigram)))
            for name in ("hash_value", "event_hash_value"):
                if getattr(nodes[0], name, None) is not None:
                    setattr(gone, name, [h for node in nodes for h in getattr(node, name)])
            self._record("remove", gone)


class KvmmLruRadixCache(KvmmRadixCache):
    """KvmmRadixCache that evicts what was used longest ago where SGLang says "lru"."""

    POLICIES = {**KvmmRadixCache.POLICIES, "lru": "lru"}


BACKENDS = {"kvmm": KvmmRadixCache, "kvmm-lru": KvmmLruRadixCache}


def make(context: Any, kind: type[KvmmRadixCache] = KvmmRadixCache) -> KvmmRadixCache:
    """The cache for SGLang's TreeCacheBuildContext. ValueError: it has no part in such a model."""
    for name in ("is_hybrid_swa", "is_hybrid_ssm", "enable_hierarchical_cache"):
        if getattr(context, name, False):
            raise ValueError(f"--radix-cache-backend kvmm: {name} is not supported")
    if getattr(context.server_args, "schedule_policy", "") == "dfs-weight":
        raise ValueError("--schedule-policy dfs-weight walks a tree, which kvmm's cache has not")
    return kind(context.params)


def register() -> None:
    """Entry point of SGLang's plug-ins: makes BACKENDS names for --radix-cache-backend."""
    from sglang.srt.mem_cache import registry
    for name, kind in BACKENDS.items():
        if registry.get_radix_cache_factory(name) is None:
            registry.register_radix_cache_backend(name, partial(make, kind=kind))
