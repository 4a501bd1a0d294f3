# SPDX-License-Identifier: Apache-2.0
"""SGLang's prefix cache on kvmm: against SGLang's own, and against a model that knows each page."""
import random
from array import array
from types import SimpleNamespace

import pytest

pytest.importorskip("sglang.srt.mem_cache.radix_cache")
import torch
from sglang.srt.mem_cache import registry
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey

import kvmm
from kvmm.sglang_radix import BACKENDS, KvmmLruRadixCache, KvmmRadixCache, make, register


class Allocator:
    """Pages that are free or taken, and taken pages are freed once."""

    device = "cpu"

    def __init__(self, pages, page):
        self.size, self.page = pages * page, page
        self.free = set(range(pages))

    def alloc(self, nr):
        return [self.free.pop() for _ in range(nr)]

    def tokens(self, pages):
        return torch.tensor([p * self.page + i for p in pages for i in range(self.page)],
                            dtype=torch.int64)

    def free_segment(self, index, *, start_pos):
        pages = [int(i) // self.page for i in index[::self.page]]
        assert index.tolist() == self.tokens(pages).tolist()
        assert len(set(pages)) == len(pages) and not self.free & set(pages)
        self.free |= set(pages)


def cache_of(kind=KvmmRadixCache, pages=64, page=4, **other):
    params = CacheInitParams(disable=False, req_to_token_pool=None, page_size=page,
                             token_to_kv_pool_allocator=Allocator(pages, page), **other)
    return kind(params)


def key(tokens, **named):
    return RadixKey(array("q", tokens), **named)


def match(cache, tokens, **named):
    found = cache.match_prefix(MatchPrefixParams(key=key(tokens, **named)))
    node = found.last_device_node
    if hasattr(cache, "path_device_indices"):
        return cache.path_device_indices(node).tolist(), node
    return found.device_indices.tolist(), node


def insert(cache, tokens, value):
    return cache.insert(InsertParams(key=key(tokens), value=value)).prefix_len


def test_every_name_space_and_every_bit_of_a_token_counts():
    cache = cache_of(page=1)
    insert(cache, [1, 2, 3], torch.tensor([7, 8, 9]))
    assert match(cache, [1, 2, 3, 4])[0] == [7, 8, 9]
    assert match(cache, [1 + (1 << 32), 2, 3])[0] == []
    assert all(match(cache, [1, 2, 3], extra_key=space)[0] == [] for space in ("", "None"))
    assert match(cache, [2, 3])[0] == [] and match(cache, [])[0] == []


def test_a_prompt_may_be_longer_than_the_cache():
    cache = cache_of(page=1)                # of as many pages as are the least
    insert(cache, range(5), torch.arange(5))
    assert match(cache, range(3000))[0] == [0, 1, 2, 3, 4]
    with pytest.raises(kvmm.NoSpace):
        insert(cache, range(3000), torch.arange(3000))
    assert match(cache, range(9))[0] == [0, 1, 2, 3, 4] and cache.total_size() == 5


@pytest.mark.parametrize("is_eagle", [False, True])
def test_tokens_of_more_than_32_bits_share_the_pages_before_them(is_eagle):
    cache = cache_of(page=2, is_eagle=is_eagle)
    few, far = [1, 2, 3, 4], [5 - (1 << 40), 6, 7, 8]
    places = torch.arange(8) + 20
    insert(cache, [*few, *far, 9][:8 + is_eagle], places)
    for cut in range(9):
        found = match(cache, [*few, *far, 9][:cut + is_eagle])[0]
        assert found == places[:cut // 2 * 2].tolist()
    # The pair of a page's last token and a far one is in that page.
    assert match(cache, [*few, 5, 6, 7, 8, 9])[0] == places[:2 if is_eagle else 4].tolist()
    assert match(cache, [*few, far[0], 6, 7, 0, 9])[0] == places[:6].tolist()
    insert(cache, [*few, 5, 6, 7, 8, 9], torch.arange(8) + 40)
    assert len(match(cache, [*few, 5, 6, 7, 8, 9])[0]) == 8
    assert match(cache, [*few, *far, 9])[0] == places.tolist()


def test_pairs_of_tokens_are_as_many_as_tokens_but_one():
    ours, stock = cache_of(page=2, is_eagle=True), cache_of(RadixCache, page=2, is_eagle=True)
    value = torch.arange(10, 15)
    for cache in ours, stock:
        assert insert(cache, [1, 2, 3, 4, 5], value) == 0
        assert match(cache, [1, 2, 3, 4, 5])[0] == [10, 11, 12, 13]
        assert match(cache, [1, 2, 3, 4, 6])[0] == [10, 11]
        assert match(cache, [1, 2, 4])[0] == []


def test_what_is_locked_is_not_evicted_and_is_counted():
    cache = cache_of(pages=8, page=4)
    allocator = cache.token_to_kv_pool_allocator
    pages = allocator.alloc(6)
    insert(cache, range(16), allocator.tokens(pages[:4]))
    insert(cache, [*range(8), *range(50, 58)], allocator.tokens([0, 0, *pages[4:]]))
    assert cache.total_size() == cache.evictable_size() == 24
    _, node = match(cache, range(12))
    assert cache.inc_lock_ref(node).delta == -12 and cache.inc_lock_ref(node).delta == 0
    assert cache.protected_size() == 12 and cache.evictable_size() == 12
    assert cache.evict(EvictParams(num_tokens=1000)).num_tokens_evicted == 12
    assert len(match(cache, range(16))[0]) == 12 and len(allocator.free) == 5
    assert cache.dec_lock_ref(node).delta == 0 and cache.dec_lock_ref(node).delta == 12
    assert cache.evict(EvictParams(num_tokens=1)).num_tokens_evicted == 4
    assert len(match(cache, range(16))[0]) == 8, "the last page goes first"
    assert cache.inc_lock_ref(cache.root_node).delta == 0
    cache.reset()
    assert cache.total_size() == 0 and match(cache, range(16))[0] == []


def test_more_pages_than_the_allocator_said_push_others_out():
    cache = cache_of(pages=8, page=1)           # 1024 pages at least
    cache.token_to_kv_pool_allocator.free_segment = lambda index, start_pos: freed.extend(
        index.tolist())
    freed = []
    insert(cache, range(1000), torch.arange(1000))
    insert(cache, range(2000, 2100), torch.arange(2000, 2100))
    assert len(freed) == 76 and cache.total_size() == 1024
    _, node = match(cache, range(924))
    cache.inc_lock_ref(node)
    with pytest.raises(kvmm.NoSpace):
        insert(cache, range(5000, 5101), torch.arange(101))
    assert insert(cache, range(5000, 5100), torch.arange(100)) == 0
    cache._pool.validate()


@pytest.mark.parametrize("events", [False, True])
@pytest.mark.parametrize("policy", ["lru", "fifo", "slru"])
def test_random_requests_agree_with_a_model_of_pages(policy, events):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    page, nr = 4, 48
    cache = cache_of(pages=nr, page=page, eviction_policy=policy, enable_kv_cache_events=events)
    allocator = cache.token_to_kv_pool_allocator
    model, locks, known = {}, [], set()         # prefix: page; (node, prefixes); names in events

    def prefixes(tokens):
        return [tuple(tokens[:i]) for i in range(page, len(tokens) + 1, page)]

    for _ in range(1500):
        tokens = [rng.randrange(2) for _ in range(rng.randrange(1, 8) * page + rng.randrange(page))]
        what = rng.randrange(4)
        hit = [p for p in prefixes(tokens) if p in model]
        got, node = match(cache, tokens)
        assert got == allocator.tokens([model[p] for p in hit]).tolist()
        if what == 0 and len(prefixes(tokens)) - len(hit) <= len(allocator.free):
            cache.inc_lock_ref(node)
            fresh = prefixes(tokens)[len(hit):]
            pages = allocator.alloc(len(fresh))
            value = allocator.tokens([model[p] for p in hit] + pages)
            assert insert(cache, tokens, value) == len(hit) * page
            model.update(zip(fresh, pages))
            cache.dec_lock_ref(node)
        elif what == 1 and len(locks) < 3:
            cache.inc_lock_ref(node)
            locks.append((node, hit))
        elif what == 2 and locks:
            cache.dec_lock_ref(locks.pop(rng.randrange(len(locks)))[0])
        elif what == 3:
            held = {p for _, hit in locks for p in hit}
            want = rng.randrange(1, 24)
            nr_evicted = cache.evict(EvictParams(num_tokens=want)).num_tokens_evicted
            assert nr_evicted == min(-(-want // page), len(model) - len(held)) * page
            gone = {p for p, where in model.items() if where in allocator.free}
            assert len(gone) * page == nr_evicted and not gone & held
            model = {p: where for p, where in model.items() if p not in gone}
            assert all(p[:-page] in model for p in model if len(p) > page), "a leaf goes first"
        held = {p for _, hit in locks for p in hit}
        assert cache.total_size() == len(model) * page
        assert cache.protected_size() == len(held) * page
        assert len(allocator.free) + len(model) == nr
        assert sorted(cache.all_values_flatten().tolist()) == sorted(
            allocator.tokens(model.values()).tolist())
        for event in cache.take_events():
            name = type(event).__name__
            if name == "BlockStored":
                assert event.parent_block_hash in known | {None}
                known |= set(event.block_hashes)
            elif name == "BlockRemoved":
                assert set(event.block_hashes) <= known
                known -= set(event.block_hashes)
        assert not events or len(known) == len(model)
    cache._pool.validate()


def test_what_was_used_longest_ago_goes_first_where_that_is_asked_for():
    """Prompts of a page each, in the very order of SGLang's own cache, whatever was used often."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    nr = 1100
    gone = [], []
    caches = [cache_of(kind, pages=nr, page=1) for kind in (KvmmLruRadixCache, RadixCache)]
    for cache, freed in zip(caches, gone):
        allocator = cache.token_to_kv_pool_allocator
        allocator.free = allocator.free_segment = (
            lambda index, freed=freed, **named: freed.extend(index.tolist()))
    free = list(range(nr))
    for _ in range(12 * nr):
        prompt = [min(rng.randrange(3 * nr) for _ in range(3))]
        hits = [match(cache, prompt)[0] for cache in caches]
        assert hits[0] == hits[1]
        if hits[0]:
            continue
        if not free:
            want = rng.randrange(1, 100)
            for cache in caches:
                cache.evict(EvictParams(num_tokens=want))
            assert sorted(gone[0]) == sorted(gone[1]) and len(gone[0]) == want
            free = gone[0].copy()
            for freed in gone:
                freed.clear()
        place = torch.tensor([free.pop()])
        for cache in caches:
            insert(cache, prompt, place)


def test_it_is_a_backend_of_sglangs_registry():
    register()
    register()
    context = SimpleNamespace(is_hybrid_swa=False, is_hybrid_ssm=False,
                              enable_hierarchical_cache=False, params=cache_params(),
                              server_args=SimpleNamespace(schedule_policy="lpm"))
    for name, kind in BACKENDS.items():
        assert type(registry.get_radix_cache_factory(name)(context)) is kind
    context.server_args.schedule_policy = "dfs-weight"
    with pytest.raises(ValueError, match="tree"):
        make(context)
    context.is_hybrid_swa = True
    with pytest.raises(ValueError, match="swa"):
        make(context)
    with pytest.raises(ValueError, match="mru"):
        cache_of(eviction_policy="mru")


def cache_params():
    return CacheInitParams(disable=True, req_to_token_pool=None, page_size=1,
                           token_to_kv_pool_allocator=None)
