#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm beside SGLang's prefix caches, in one process, in turns.

usage: bench.py [--pages N] [--rounds N]
Caches are full of requests of 1,360 tokens in pages of 16. Rows: a match of a whole request that is
there, and a new one inserted after as much was evicted. Nanoseconds a page: the median of a round's
calls, least of the rounds.
"C++" is SGLang's tree in C++, built by torch the first time (ninja); "Python" its RadixCache, which
it uses by default; "kvmm" the same class on kvmm, and "kvmm, lru" with SGLang's own order of
eviction, where kvmm's counts uses as well; "ids" kvmm.Pool alone, names made from tokens.
Needs SGLang beside kvmm.
"""
import argparse
import array
import random
import statistics
import sys
import time

import torch
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey

import kvmm
from kvmm.sglang_radix import KvmmLruRadixCache, KvmmRadixCache

PAGE, NR = 16, 85
TOKENS = PAGE * NR


class Allocator:
    """What is freed is of no interest here."""

    device = "cpu"

    def __init__(self, size):
        self.size = size

    def free(self, *index, **more):
        pass

    free_segment = free


class ByClass:
    """SGLang's class API, of either cache."""

    def __init__(self, kind, pages):
        self.cache = kind(CacheInitParams(
            disable=False, req_to_token_pool=None, page_size=PAGE,
            token_to_kv_pool_allocator=Allocator(pages * PAGE)))

    def match(self, tokens):
        found = self.cache.match_prefix(MatchPrefixParams(key=RadixKey(tokens)))
        return len(found.device_indices)

    def insert(self, tokens, value, full):
        if full:
            self.cache.evict(EvictParams(num_tokens=TOKENS))
        self.cache.insert(InsertParams(key=RadixKey(tokens), value=value))


class Cpp:
    def __init__(self, tree):
        self.tree = tree(False, None, PAGE, 0)

    def match(self, tokens):
        return sum(map(len, self.tree.match_prefix(tokens)[0]))

    def insert(self, tokens, value, full):
        if full:
            self.tree.evict(TOKENS)
        self.tree.writing_through(tokens, value)


class ById:
    def __init__(self, pages):
        self.pool = kvmm.Pool(pages, no_magazines=True)
        self.keys = kvmm.Keys(algo="local", block_tokens=PAGE)
        self.ids = array.array("i", bytes(4 * NR))

    def match(self, tokens):
        found = self.pool.find(self.keys.of(tokens), out=self.ids)
        self.pool.put(self.ids[:found])
        return found * PAGE

    def insert(self, tokens, value, full):
        self.pool.alloc(NR, out=self.ids)       # the pool evicts by itself
        self.pool.register(self.ids, self.keys.of(tokens))
        self.pool.put(self.ids)


def contenders(pages):
    """Each with the form in which it takes tokens."""
    long = lambda tokens: array.array("q", tokens)      # noqa: E731
    found = {"Python": (ByClass(RadixCache, pages), long)}
    try:
        from sglang.srt.mem_cache.cpp_radix_tree.radix_tree import RadixTreeCpp
        found["C++"] = Cpp(RadixTreeCpp), list
    except Exception as error:                  # no compiler, no ninja, no headers
        print(f"no C++: {error}", file=sys.stderr)
    return {**found, "kvmm": (ByClass(KvmmRadixCache, pages), long),
            "kvmm, lru": (ByClass(KvmmLruRadixCache, pages), long),
            "ids": (ById(pages), lambda tokens: array.array("i", tokens))}


def spent(call, inputs):
    took = []
    for one in inputs:
        start = time.perf_counter_ns()
        call(*one)
        took.append(time.perf_counter_ns() - start)
    return statistics.median(took)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rng = random.Random(1)
    value = torch.arange(TOKENS, dtype=torch.int64)
    caches = contenders(options.pages)
    fits = options.pages // NR
    best = {}
    for turn in range(options.rounds + 1):      # the first one fills
        new = [[rng.randrange(1 << 17) for _ in range(TOKENS)] for _ in range(fits)]
        for name, (cache, form) in caches.items():
            given = [form(tokens) for tokens in new]
            took = {"insert, evict": spent(cache.insert, [(one, value, turn) for one in given]),
                    "match": spent(cache.match, [(one,) for one in given])}
            assert cache.match(given[-1]) == TOKENS and cache.match(form([1] * TOKENS)) == 0
            for what, ns in took.items() if turn else ():
                best[what, name] = min(best.get((what, name), ns), ns)
    print(f"{'':16}" + "".join(f"{name:>11}" for name in caches))
    for what in "match", "insert, evict":
        print(f"{what:16}" + "".join(f"{best[what, name] / NR:11.0f}" for name in caches))


main()
