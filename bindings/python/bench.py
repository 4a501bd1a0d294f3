#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm beside vLLM's own block pool, in one process, in turns.

usage: bench.py [--blocks N] [--rounds N]
A row is get + cache + free of batches in a full cache, where each block that is handed out evicts
one; and 85 look-ups, touch and free. Nanoseconds a block, least of the rounds, and the ratio. Rows
of lru have vLLM's own order of eviction, the others kvmm's, which counts uses as well.
Needs vLLM beside kvmm.
"""
import argparse
import array
import hashlib
import itertools
import sys
import time
import types

import kvmm

BARS = {"class": {1: 0.7, 16: 0.25, 85: 0.2, "find": 0.08},
        "ids": {1: 0.2, 16: 0.08, 85: 0.06, "find": 0.08}}


def digests(nr, salt):
    return [hashlib.sha256(b"%d.%d" % (salt, i)).digest() for i in range(nr)]


class ByClass:
    """vLLM's class API, of either pool."""

    def __init__(self, pool):
        self.pool = pool

    def cycle(self, hashes):
        pool, nr = self.pool, len(hashes)
        blocks = pool.get_new_blocks(nr)
        request = types.SimpleNamespace(block_hashes=hashes)
        pool.cache_full_blocks(request, blocks, 0, nr, 16, 0)
        pool.free_blocks(reversed(blocks))

    def find(self, hashes):
        pool = self.pool
        fast = getattr(pool, "find_longest_prefix", None)
        if fast:
            found = fast(hashes, 0)
        else:
            found = []
            for name in hashes:
                hit = pool.get_cached_block(name, [0])
                if not hit:
                    break
                found += hit
        pool.touch(found)
        pool.free_blocks(reversed(found))
        return len(found)


class ById:
    """kvmm.Pool alone: ids in an array, names in one buffer."""

    def __init__(self, blocks, policy="default"):
        self.pool = kvmm.Pool(blocks, policy=policy, null_block=True, key_bytes=32, digests=True,
                              order_as_put=True, no_magazines=True)
        self.room = {nr: array.array("i", bytes(4 * nr)) for nr in (1, 16, 85)}

    def cycle(self, names):
        nr = len(names) // 32
        ids = self.room[nr]
        self.pool.alloc(nr, out=ids)
        self.pool.register(ids, names, out=ids)
        self.pool.put(ids)

    def find(self, names):
        ids = self.room[len(names) // 32]
        found = self.pool.find(names, out=ids)
        self.pool.put(ids if found == len(ids) else ids[:found])
        return found


def timed(call, inputs):
    start = time.perf_counter_ns()
    for one in inputs:
        call(one)
    return time.perf_counter_ns() - start


def main():
    from vllm.v1.core.block_pool import BlockPool

    from kvmm.vllm import KvmmBlockPool
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=4097)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    stock = ByClass(BlockPool(options.blocks, True, 16))
    lru = KvmmBlockPool(options.blocks, True, 16, kvmm_options={"policy": "lru"})
    ours = {"class": ByClass(KvmmBlockPool(options.blocks, True, 16)), "class, lru": ByClass(lru),
            "ids": ById(options.blocks), "ids, lru": ById(options.blocks, "lru")}
    salt = itertools.count()
    met = True
    print(f"{'':28}{'vLLM':>8}{'kvmm':>8}{'ratio':>8}{'bar':>6}")
    for nr in (1, 16, 85):
        calls = 4 * options.blocks // nr
        best = {}
        for _ in range(options.rounds):
            names = digests(calls * nr, next(salt))
            lists = [names[i:i + nr] for i in range(0, calls * nr, nr)]
            joined = [b"".join(part) for part in lists]
            for kind, pool in (("stock", stock), *ours.items()):
                spent = timed(pool.cycle, joined if kind.startswith("ids") else lists)
                best[kind] = min(best.get(kind, spent), spent)
        for kind in ours:
            met &= row(kind, f"get+cache+free {nr}", nr, best, calls * nr)
    best = {}
    for _ in range(options.rounds):
        names = digests(85, next(salt))
        for kind, pool in (("stock", stock), *ours.items()):
            given = b"".join(names) if kind.startswith("ids") else names
            pool.cycle(given)
            assert pool.find(given) == 85
            spent = timed(pool.find, [given] * 200)
            best[kind] = min(best.get(kind, spent), spent)
    for kind in ours:
        met &= row(kind, "find+touch+free 85", "find", best, 200 * 85)
    sys.exit(not met)


def row(kind, work, bar, best, blocks):
    bar = BARS[kind.split(",")[0]][bar]
    ratio = best[kind] / best["stock"]
    print(f"{kind + ': ' + work:28}{best['stock'] / blocks:8.0f}{best[kind] / blocks:8.0f}{ratio:8.3f}"
          f"{bar:6.2f}{'' if ratio <= bar else '  above the bar'}")
    return ratio <= bar


main()
