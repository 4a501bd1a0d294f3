# SPDX-License-Identifier: Apache-2.0
"""LMCache's native plug-in: the protocol as its adapter drives it, and with the adapter itself."""
import os
import select
import threading
from types import SimpleNamespace

import pytest

from kvmm.lmcache import KvmmConnector

ROOM = 8 << 20


class Adapter:
    """The demultiplexer above a connector: sleeps on its descriptor, and collects by future."""

    def __init__(self, connector):
        self.connector = connector
        self.poll = select.poll()
        self.poll.register(connector.event_fd(), select.POLLIN)
        self.over = {}

    def wait(self, future):
        while future not in self.over:
            assert self.poll.poll(30000), "no completion"
            for number, ok, error, each in self.connector.drain_completions():
                assert number not in self.over
                self.over[number] = ok, error, each
        return self.over.pop(future)


@pytest.fixture
def adapter(tmp_path):
    connector = KvmmConnector(str(tmp_path / "s"), ROOM)
    yield Adapter(connector)
    connector.close()


def key(i):
    return f"org/model@00000000@0@{i:064x}@salt"


def page(i, size=5000):
    return memoryview(bytearray([i % 251]) * size)


def test_what_was_set_exists_and_is_got(adapter):
    connector, keys = adapter.connector, [key(i) for i in range(6)]
    assert adapter.wait(connector.submit_batch_exists(keys)) == (True, "", [False] * 6)
    ok, _, each = adapter.wait(connector.submit_batch_set(keys[:4], [page(i) for i in range(4)]))
    assert ok and each == [True] * 4
    ok, _, each = adapter.wait(connector.submit_batch_exists(keys))
    assert ok and each == [True] * 4 + [False] * 2
    out = [memoryview(bytearray(5000)) for _ in keys]
    ok, error, each = adapter.wait(connector.submit_batch_get(keys, out))
    assert not ok and error and each == [True] * 4 + [False] * 2
    assert out[:4] == [page(i) for i in range(4)]
    assert adapter.wait(connector.submit_batch_get(keys[:2], out[:2]))[0]


def test_the_descriptor_is_readable_only_while_completions_wait(adapter):
    connector = adapter.connector
    assert not adapter.poll.poll(0) and connector.drain_completions() == []
    futures = [connector.submit_batch_exists([key(i)]) for i in range(10)]
    assert len(set(futures)) == 10
    connector._worker.drain()
    assert adapter.poll.poll(0)
    assert [done[0] for done in connector.drain_completions()] == futures
    assert not adapter.poll.poll(0)


def test_a_bad_batch_fails_alone(adapter):
    connector = adapter.connector
    assert adapter.wait(connector.submit_batch_set([key(1)], []))[0] is False
    assert adapter.wait(connector.submit_batch_set([key(1)], [object()]))[0] is False
    assert adapter.wait(connector.submit_batch_get([key(1)], [object()]))[2] == [False]
    assert adapter.wait(connector.submit_batch_get([key(1)], [b"read only"]))[2] == [False]
    assert adapter.wait(connector.submit_batch_exists([])) == (True, "", [])
    assert adapter.wait(connector.submit_batch_set([key(1)], [page(1)]))[0] is True


def test_a_disk_that_fails_is_a_miss(adapter):
    adapter.connector.store.close()
    assert adapter.wait(adapter.connector.submit_batch_set([key(1)], [page(1)]))[0] is False
    assert adapter.wait(adapter.connector.submit_batch_exists([key(1)])) == (True, "", [False])


def test_a_connector_of_the_next_process_hits(tmp_path):
    path = str(tmp_path / "s")
    first = KvmmConnector(path=path, max_bytes=ROOM)
    Adapter(first).wait(first.submit_batch_set([key(1)], [page(1)]))
    first.close()
    second, out = KvmmConnector(path=path, max_bytes=ROOM), memoryview(bytearray(5000))
    assert Adapter(second).wait(second.submit_batch_get([key(1)], [out]))[0] and out == page(1)
    second.close()


def test_close_does_what_was_submitted_and_leaves_nothing(tmp_path):
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    connector = KvmmConnector(str(tmp_path / "s"), ROOM)
    futures = [connector.submit_batch_set([key(i)], [page(i)]) for i in range(20)]
    connector.close()
    connector.close()
    assert [(done[0], done[1]) for done in connector.drain_completions()] == [
        (future, True) for future in futures]
    late = connector.submit_batch_exists([key(1)])
    assert [done[:2] for done in connector.drain_completions()] == [(late, False)]
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == files


def test_threads_submit_at_once(adapter):
    futures = []

    def run(base):
        for i in range(base, base + 25):
            futures.append((i, adapter.connector.submit_batch_set([key(i)], [page(i)])))
    threads = [threading.Thread(target=run, args=(100 * t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({future for _, future in futures}) == 100
    for i, future in futures:
        assert adapter.wait(future)[0], i


def test_lmcaches_own_adapter_stores_looks_up_and_loads(tmp_path):
    module = pytest.importorskip("lmcache.v1.distributed.l2_adapters.native_plugin_l2_adapter")
    from lmcache.v1.distributed.api import ObjectKey
    config = module.NativePluginL2AdapterConfig.from_dict({
        "module_path": "kvmm.lmcache", "class_name": "KvmmConnector",
        "adapter_params": {"path": str(tmp_path / "s"), "max_bytes": ROOM}})
    keys = [ObjectKey(chunk_hash=bytes([i]) * 32, model_name="org/m", kv_rank=0) for i in range(5)]

    def wait(descriptor, ask):
        assert select.select([descriptor], [], [], 30)[0], "no completion"
        return ask()
    for turn in range(2):               # the second is the next process
        adapter = module._create_native_plugin_l2_adapter(config)
        assert adapter.report_status()["is_healthy"]
        if not turn:
            objects = [SimpleNamespace(byte_array=page(i)) for i in range(3)]
            task = adapter.submit_store_task(keys[:3], objects)
            done = wait(adapter.get_store_event_fd(), adapter.pop_completed_store_tasks)
            assert list(done) == [task]
        task = adapter.submit_lookup_and_lock_task(keys, {})
        found = wait(adapter.get_lookup_and_lock_event_fd(),
                     lambda: adapter.query_lookup_and_lock_result(task))
        assert [found.test(i) for i in range(5)] == [True] * 3 + [False] * 2
        out = [SimpleNamespace(byte_array=memoryview(bytearray(5000))) for _ in keys]
        task = adapter.submit_load_task(keys, out)
        loaded = wait(adapter.get_load_event_fd(), lambda: adapter.query_load_result(task))
        assert [loaded.test(i) for i in range(5)] == [True] * 3 + [False] * 2
        assert [obj.byte_array for obj in out[:3]] == [page(i) for i in range(3)]
        adapter.close()
