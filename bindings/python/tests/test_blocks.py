# SPDX-License-Identifier: Apache-2.0
"""kvmm.Blocks, with a class of the shape of vLLM's; and kvmm.vllm where vLLM is installed."""
import dataclasses
import gc
import random
import sys
from typing import Any

import pytest

import kvmm


@dataclasses.dataclass(slots=True)
class Block:
    block_id: int
    ref_cnt: int = 0
    _block_hash: bytes | None = None
    _block_hash_num_tokens: int | None = None
    next_free_block: Any = None


def digest(n):
    return n.to_bytes(4, "big") * 8


@pytest.fixture
def world():
    pool = kvmm.Pool(32, null_block=True, key_bytes=0, digests=True, order_as_put=True)
    table = [Block(i) for i in range(32)]
    blocks = kvmm.Blocks(pool, table)
    yield pool, table, blocks
    pool.validate()
    del blocks
    pool.close()


def test_blocks_come_with_one_reference_and_go_with_the_last(world):
    pool, table, blocks = world
    named = []
    got = blocks.take(4, named)
    assert named == [] and all(b is table[b.block_id] and b.ref_cnt == 1 for b in got)
    blocks.touch(got)
    assert blocks.put(got) is None and pool.available == 27
    assert blocks.put(got) is None and pool.available == 31
    with pytest.raises(kvmm.NoSpace):
        blocks.take(32)
    assert pool.available == 31


def test_references_are_counted_past_numbers_that_the_interpreter_keeps(world):
    pool, table, blocks = world
    got = blocks.take(3)
    for n in range(2, 400):
        blocks.touch(got)
        assert [b.ref_cnt for b in got] == [n] * 3
    for n in range(398, -1, -1):
        got[1].ref_cnt = int(str(n + 1))          # another object than the one before
        assert pool.available == 28 and blocks.put(got) is None
        assert [b.ref_cnt for b in got] == [n] * 3
    assert pool.available == 31


def test_a_block_that_shows_no_id_of_its_own_is_none(world):
    pool, table, blocks = world
    got = blocks.take(2)
    for wrong in (got[1].block_id, -got[1].block_id, 1 << 40, None, "1", 1.0, True):
        got[0].block_id, own = wrong, got[0].block_id
        with pytest.raises(ValueError):
            blocks.touch(got)
        assert blocks.put(got) == got
        got[0].block_id = own
    assert [b.ref_cnt for b in got] == [1, 1] and pool.available == 29


def test_without_memory_blocks_are_named_and_shown_or_neither(world):
    testcapi = pytest.importorskip("_testcapi")
    pool, table, blocks = world
    hashes = [digest(i) for i in range(4)]
    got = blocks.take(4)
    outcomes = set()
    for n in range(60):
        try:
            testcapi.set_nomemory(n, n + 1)
            named = blocks.cache(got, hashes, 0, 4, 5, 16)
        except MemoryError:
            named = False
        finally:
            testcapi.remove_mem_hooks()
        assert all((b._block_hash is not None) == named for b in got)
        assert len(blocks.hits(hashes, 5, 9)) == (4 if named else 0)
        outcomes.add(named)
        if named:
            break
    assert outcomes == {False, True}


def test_full_blocks_get_vllms_names(world):
    pool, table, blocks = world
    got = blocks.take(3)
    hashes = [digest(i) for i in range(4)]
    assert blocks.cache(got, hashes, 1, 3, 5, 16)
    assert got[0]._block_hash is None
    assert got[2]._block_hash == hashes[2] + (5).to_bytes(4, "big")
    assert got[2]._block_hash_num_tokens == 48
    assert blocks.hits(hashes[1:], 5, 9) == got[1:]
    assert blocks.hits(hashes[1:], 5, 1) == got[1:2]
    assert blocks.hits(hashes[1:], 4, 9) == []
    assert not blocks.cache(got, hashes, 0, 3, 5, 16)          # two have names: the long way
    assert got[0]._block_hash is None and blocks.nr_named == 2
    assert not blocks.cache([table[0]], hashes, 0, 1, 0, 16)   # the null block
    with pytest.raises(ValueError):
        blocks.cache(got, hashes, 2, 1, 0, 16)
    with pytest.raises(ValueError):
        blocks.cache(got[:1], [], 0, 1, 0, 16)
    assert pool.info([got[0].block_id])[0]["state"] == kvmm.PRIVATE


class Listed(list):
    def __iter__(self):
        return reversed(list(super().__iter__()))


@pytest.mark.parametrize("form", [list, tuple, iter, reversed, Listed, lambda l: (b for b in l)])
def test_blocks_are_given_back_in_the_order_in_which_they_are_yielded(world, form):
    pool, table, blocks = world
    got = blocks.take(31)
    blocks.cache(got, [digest(i) for i in range(31)], 0, 31, 0, 16)
    order = list(form(got))
    assert blocks.put(form(got)) is None and pool.available == 31
    assert blocks.hits([digest(i) for i in range(31)], 0, 31) == got
    for left in range(30, 0, -1):       # of these, the last is evicted last
        blocks.take(1)
        assert sum(b._block_hash is not None for b in got) == left
        assert order[-1]._block_hash is not None
    foreign = [got[0], Block(got[1].block_id), got[2]]
    with pytest.raises(ValueError):
        blocks.touch(form(foreign))
    refs = [b.ref_cnt for b in table]
    assert list(map(id, blocks.put(form(foreign)))) == list(map(id, form(foreign)))
    assert [b.ref_cnt for b in table] == refs


def test_of_an_iterator_what_is_left_is_given_back(world):
    pool, table, blocks = world
    got = blocks.take(6)
    blocks.cache(got, [digest(i) for i in range(6)], 0, 6, 0, 16)
    left = reversed(got)
    assert next(left) is got[5] and next(left) is got[4]
    assert blocks.put(left) is None and [b.ref_cnt for b in got] == [0, 0, 0, 0, 1, 1]
    blocks.touch(got[:4])
    shorter = got.copy()
    left = reversed(shorter)
    del shorter[2:]                     # reversed() of a list that is shorter now has no more
    assert blocks.put(left) is None and [b.ref_cnt for b in got] == [1] * 6
    ended = reversed(got)
    assert len(list(ended)) == 6
    assert blocks.put(ended) is None and blocks.put(reversed([])) is None
    assert [b.ref_cnt for b in got] == [1] * 6


def test_names_that_are_no_digests_are_looked_up_among_them(world):
    pool, table, blocks = world

    class Name(bytes):
        pass

    names = [digest(0), Name(digest(1)), b"short", digest(3), b"x" * 16, digest(5), b"y" * 40]
    got = blocks.take(7)
    assert blocks.cache(got, names, 0, 7, 0, 16)
    assert blocks.hits(names, 0, 9) == blocks.hits(tuple(names), 0, 9) == got
    for i, name in enumerate(names):
        assert blocks.hits([*names[:i], digest(99), *names[i + 1:]], 0, 9) == got[:i]
        for wrong in (name.hex(), None, bytearray(name)):
            with pytest.raises(TypeError):
                blocks.hits([*names[:i], wrong], 0, 9)


def test_a_name_is_found_if_it_is_in_every_group_that_is_asked(world):
    pool, table, blocks = world
    one, other = blocks.take(2)
    blocks.cache([one], [digest(1)], 0, 1, 0, 16)
    blocks.cache([other], [digest(1)], 0, 1, 3, 16)
    assert blocks.cached(digest(1), [0]) == blocks.cached(digest(1), (0,)) == [one]
    assert blocks.cached(digest(1), [3, 0, 3]) == [other, one, other]
    assert blocks.cached(digest(1), [0, 1]) is blocks.cached(digest(2), [0]) is None
    assert blocks.cached(digest(1), []) == [] and one.ref_cnt == other.ref_cnt == 1
    for name, groups in ((None, [0]), ("name", [0]), (digest(1), 0), (digest(1), ["0"])):
        with pytest.raises(TypeError):
            blocks.cached(name, groups)
    with pytest.raises(OverflowError):
        blocks.cached(digest(1), [0, 1 << 16])


def test_a_pool_that_ends_while_it_is_looked_into_says_so():
    pool = kvmm.Pool(4, null_block=True, key_bytes=0, digests=True)
    blocks = kvmm.Blocks(pool, [Block(i) for i in range(4)])

    class Closes:
        def __index__(self):
            pool.close()
            return 0

    with pytest.raises(ValueError):
        blocks.cached(digest(1), [Closes()])


def test_the_null_block_has_no_references(world):
    pool, table, blocks = world
    blocks.touch([table[0], table[0]])
    assert blocks.put([table[0]]) is None and table[0].ref_cnt == 0 and pool.available == 31


def test_a_cached_block_comes_back_once_though_it_is_named_twice(world):
    pool, table, blocks = world
    got = blocks.take(1)
    blocks.cache(got, [digest(1)], 0, 1, 0, 16)
    blocks.put(got)
    blocks.touch(got + got)
    assert got[0].ref_cnt == 2 and pool.available == 30
    assert blocks.put(got) is None and blocks.put(got) is None and pool.available == 31


def test_the_first_that_is_put_is_evicted_first(world):
    pool, table, blocks = world
    got = blocks.take(31)
    hashes = [digest(i) for i in range(31)]
    blocks.cache(got, hashes, 0, 31, 0, 16)
    blocks.put(list(reversed(got)))
    named = []
    new = blocks.take(3, named)
    assert sorted(b.block_id for b in named) == sorted(b.block_id for b in new)
    assert {blocks.forgotten(b)[:32] for b in named} == set(hashes[-3:])
    assert blocks.hits(hashes, 0, 31) == got[:28] and blocks.nr_named == 28
    assert all(b._block_hash is None and b._block_hash_num_tokens is None for b in new)


def test_names_of_blocks_handed_out_are_forgotten_unless_the_caller_wants_to_see_them(world):
    pool, table, blocks = world
    got = blocks.take(31)
    blocks.cache(got, [digest(i) for i in range(31)], 0, 31, 0, 16)
    blocks.put(got)
    new = blocks.take(3)
    assert all(b._block_hash is None and b._block_hash_num_tokens is None for b in new)
    assert blocks.nr_named == 28
    with pytest.raises(TypeError):
        blocks.take(1, ())
    with pytest.raises(TypeError):
        blocks.take()
    assert pool.available == 28


def test_blocks_of_others_are_left_to_the_caller(world):
    pool, table, blocks = world
    got = blocks.take(1)
    mixed = [*got, Block(3)]
    assert blocks.put(iter(mixed)) == mixed and got[0].ref_cnt == 1
    assert blocks.put([other := object()]) == [other]
    with pytest.raises(ValueError):
        blocks.touch([Block(3)])
    with pytest.raises(TypeError):
        blocks.put(3)
    assert blocks.put(tuple(got)) is None and got[0].ref_cnt == 0


def test_a_class_without_slots_is_refused(world):
    class Loose:
        def __init__(self, block_id):
            self.block_id, self.ref_cnt = block_id, 0
            self._block_hash = self._block_hash_num_tokens = None
    with kvmm.Pool(4) as pool:
        with pytest.raises(TypeError):
            kvmm.Blocks(pool, [Loose(i) for i in range(4)])
        with pytest.raises(TypeError):
            kvmm.Blocks(pool, [Block(i + 1) for i in range(4)])
        with pytest.raises(ValueError):
            kvmm.Blocks(pool, [Block(0)])
        with pytest.raises(AttributeError):
            kvmm.Blocks(pool, [object() for i in range(4)])


def test_random_lives_leave_no_references_behind(world):
    pool, table, blocks = world
    rng = random.Random(3)
    names = [digest(i) for i in range(64)]
    name_refs = [sys.getrefcount(n) for n in names]
    held = []
    for _ in range(3000):
        if rng.random() < 0.5 and pool.available > 4:
            named = rng.choice(([], None))
            got = blocks.take(rng.randrange(1, 4), named)
            for block in named or ():
                blocks.forgotten(block)
            first = rng.randrange(60)
            blocks.cache(got, names[first:first + len(got)], 0, len(got), 0, 16)
            held.append(got)
        elif held:
            assert blocks.put(held.pop(rng.randrange(len(held)))) is None
    for got in held:
        blocks.put(got)
    assert all(b.ref_cnt == 0 for b in table) and pool.available == 31
    del held, got, named
    gc.collect()
    assert [sys.getrefcount(n) for n in names] == name_refs
    assert sys.getrefcount(None) > 0


def test_additional_config_reaches_the_pool(monkeypatch):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    from types import SimpleNamespace

    from vllm.v1.core import kv_cache_coordinator
    from vllm.v1.core.sched.scheduler import Scheduler

    from kvmm.vllm import KvmmScheduler

    def constructed(self, vllm_config):
        self.pool = kv_cache_coordinator.BlockPool(8, True, 16)
    monkeypatch.setattr(Scheduler, "__init__", constructed)
    stock = kv_cache_coordinator.BlockPool
    for config, blocks in ({}, 7), ({"kvmm": {"tenants": 1}}, None), ({"kvmm": None}, 7):
        config = SimpleNamespace(additional_config=config)
        if blocks is None:
            with pytest.raises(TypeError):
                KvmmScheduler(config)
        else:
            assert KvmmScheduler(config).pool.kvmm.available == blocks
        assert kv_cache_coordinator.BlockPool is stock


def test_requests_are_given_blocks_ahead_as_far_as_they_can_become():
    pytest.importorskip("vllm", reason="vLLM is not installed")
    from types import SimpleNamespace

    from kvmm.vllm.scheduler import ahead
    room, calls = 0, []

    def allocate(request, new, num_new_computed_tokens=0, num_lookahead_tokens=0, **_):
        calls.append(num_lookahead_tokens)
        nr = request.num_computed_tokens + num_new_computed_tokens + new + num_lookahead_tokens
        return nr if nr <= room else None

    ask = ahead(allocate, 64)
    new = SimpleNamespace(num_computed_tokens=0, num_prompt_tokens=100, max_tokens=60)
    old = SimpleNamespace(num_computed_tokens=127, num_prompt_tokens=100, max_tokens=60)
    room = 1000
    assert ask(new, 68, num_new_computed_tokens=32) == 128      # the prompt, and some of the answer
    assert ask(old, 1) == 128 and ask(old, 2) == 160            # no more than it asked for in all
    assert ask(old, 1, num_lookahead_tokens=70) == 198          # vLLM wanted more
    assert ask(new, 4, num_new_computed_tokens=32, num_external_computed_tokens=64) == 36
    room = 110
    calls.clear()
    assert ask(new, 100) == 100 and calls == [28, 0]            # or what there is
    room = 90
    assert ask(new, 100) is None


def test_vllms_pool_and_ours_have_the_same_hits():
    pytest.importorskip("vllm", reason="vLLM is not installed")
    import types

    from vllm.v1.core.block_pool import BlockPool

    from kvmm.vllm import KvmmBlockPool
    rng = random.Random(5)
    stock = BlockPool(512, True, 16)
    ours = KvmmBlockPool(512, True, 16)
    for step in range(300):
        chain = [digest(step // 3 * 100 + i) for i in range(rng.randrange(1, 24))]
        hits = []
        for pool in (stock, ours):
            found = []
            for name in chain:
                block = pool.get_cached_block(name, [0])
                if not block:
                    break
                found += block
            pool.touch(found)
            new = pool.get_new_blocks(len(chain) - len(found))
            request = types.SimpleNamespace(block_hashes=chain)
            pool.cache_full_blocks(request, found + new, len(found), len(chain), 16, 0)
            pool.free_blocks(reversed(found + new))
            hits.append(len(found))
            assert pool.get_num_free_blocks() == 511
        assert hits[0] == hits[1]
    assert ours.reset_prefix_cache() and not ours.get_cached_block(chain[0], [0])
