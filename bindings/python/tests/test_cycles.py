# SPDX-License-Identifier: Apache-2.0
"""Cycles of objects, closing, devices, and single records of a store."""
import gc
import weakref

import pytest

import kvmm


class Memory:
    """What an engine keeps beside its pool, and the pool keeps as its memory."""


def key(n):
    return n.to_bytes(8, "little") * 2


def cycle(users):
    memory = Memory()
    memory.pool = kvmm.Pool(16, memory=memory)
    memory.users = [user(memory.pool) for user in users]
    return weakref.ref(memory)


@pytest.mark.parametrize("users", [
    (), (lambda pool: kvmm.Range(pool, 3),), (kvmm.Step,), (kvmm.Events,),
    (lambda pool: kvmm.Sequence(pool, kvmm.Keys(), range(40)),),
    (lambda pool: kvmm.Range(pool, 3), kvmm.Step, kvmm.Events,
     lambda pool: kvmm.Sequence(pool, kvmm.Keys(), range(40)))])
def test_a_pool_in_a_cycle_is_collected_with_what_uses_it(users):
    gone = cycle(users)
    gc.collect()
    assert gone() is None


def test_a_socket_in_a_cycle_is_collected(tmp_path):
    memory = Memory()
    memory.pool = kvmm.Pool(16, memory=memory)
    memory.control = kvmm.Control("engine", str(tmp_path / "run"))
    memory.control.add(memory.pool)
    gone = weakref.ref(memory)
    del memory
    gc.collect()
    assert gone() is None


def test_a_step_open_in_a_cycle_ends():
    memory = Memory()
    memory.pool = kvmm.Pool(16, memory=memory)
    memory.step = kvmm.Step(memory.pool)
    memory.step.__enter__()
    gone = weakref.ref(memory)
    del memory
    gc.collect()
    assert gone() is None


class Block:
    __slots__ = ("block_id", "ref_cnt", "_block_hash", "_block_hash_num_tokens", "__weakref__",
                 "other")

    def __init__(self, block_id):
        self.block_id, self.ref_cnt = block_id, 0
        self._block_hash = self._block_hash_num_tokens = None


def test_blocks_in_a_cycle_are_collected_and_refuse_calls_then():
    pool = kvmm.Pool(4, null_block=True)
    blocks = [Block(i) for i in range(4)]
    table = kvmm.Blocks(pool, blocks)
    blocks[1].other = table
    gone = weakref.ref(blocks[2])
    del blocks, table
    gc.collect()
    assert gone() is None


def test_a_step_is_closed_once_and_then_refuses():
    with kvmm.Pool(16) as pool:
        step = kvmm.Step(pool)
        step.__enter__()
        with pytest.raises(RuntimeError):
            pool.close()
        step.close()
        step.close()
        with pytest.raises(ValueError):
            step.__enter__()
        step.__exit__(None, None, None)


def test_each_context_is_closed_at_its_end_and_again_without_effect(tmp_path):
    with kvmm.Pool(16) as pool:
        for thing in (kvmm.Range(pool, 2), kvmm.Events(pool),
                      kvmm.Sequence(pool, kvmm.Keys(), [1]),
                      kvmm.Control("engine", str(tmp_path / "run")),
                      kvmm.Disk(tmp_path / "store", 64 << 20)):
            with thing as same:
                assert same is thing
            thing.close()
        assert pool.available == 16


def test_a_constructor_that_fails_does_not_keep_its_pool():
    with kvmm.Pool(16) as pool:
        for _ in range(3):
            with pytest.raises(kvmm.Error):
                kvmm.Range(pool, 17)
            with pytest.raises(kvmm.Error):
                kvmm.Sequence(pool, kvmm.Keys(block_tokens=8), [1])
    for kind in (kvmm.Step, kvmm.Events, lambda pool: kvmm.Range(pool, 1),
                 lambda pool: kvmm.Sequence(pool, kvmm.Keys(), [1])):
        with pytest.raises(ValueError):
            kind(pool)


def test_a_record_is_deleted_for_good(tmp_path):
    path = tmp_path / "store"
    with kvmm.Disk(path, 64 << 20) as disk:
        for n in range(3):
            disk.put(key(n), b"x" * 100)
        assert disk.exists(key(1)) and not disk.exists(key(7))
        assert disk.delete(key(1)) is True and disk.delete(key(7)) is False
        assert not disk.exists(key(1))
        assert disk.get_into(key(1), bytearray(4096)) == -1
        assert disk.stat()["nr_records"] == 2
        with pytest.raises(ValueError):
            disk.exists(b"x")
        with pytest.raises(ValueError):
            disk.delete(b"x")
    with kvmm.Disk(path, 64 << 20) as disk:
        assert [disk.exists(key(n)) for n in range(3)] == [True, False, True]
        disk.put(key(1), b"y" * 50)
        assert disk.get_into(key(1), bytearray(4096)) == 50
    for call in (disk.exists, disk.delete):
        with pytest.raises(ValueError):
            call(key(1))
    with pytest.raises(kvmm.Invalid):
        disk.stat()


def test_a_device_says_what_it_has():
    host = kvmm.Device()
    assert (host.name, host.driver, host.stream) == (str(host), "host", 0)
    assert host.total_bytes > 0
    try:
        assert kvmm.Device("cuda:0").driver == "cuda"
    except kvmm.DeviceError as error:
        assert error.why
    with pytest.raises(kvmm.Stale):
        kvmm.Device("nonsense")
    with pytest.raises(AttributeError):
        host.stream = 3


def test_pools_and_steps_take_a_device():
    with kvmm.Pool(8, device=kvmm.Device(), block_bytes=4096) as pool:
        block = pool.alloc(1)
        pool.write(block[0], b"abc")
        out = bytearray(3)
        pool.read_into(block[0], out)
        assert out == b"abc"
        kvmm.Step(pool, stream=kvmm.Device()).close()
    with pytest.raises(TypeError):
        kvmm.Pool(8, name=kvmm.Device())


def test_the_software_device_has_memory():
    try:
        soft = kvmm.Device("soft:0")
    except kvmm.DeviceError as error:
        pytest.skip(error.why)
    assert soft.driver == "soft" and 0 < soft.free_bytes <= soft.total_bytes
    with kvmm.Pool(8, device=soft, block_bytes=2 << 20) as pool:
        block = pool.alloc(1)
        pool.write(block[0], b"abc", offset=5)
        out = bytearray(3)
        pool.read_into(block[0], out, offset=5)
        assert out == b"abc"
