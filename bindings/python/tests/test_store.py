# SPDX-License-Identifier: Apache-2.0
"""The store below the plug-ins of engines: what fails is a miss and counted, never an exception."""
import threading

import pytest

import kvmm
from kvmm.store import Store, Worker, name_of

ROOM = 4 << 20


class Broken:
    """A store on a disk that fails."""

    def put(self, key, data):
        raise OSError(28, "no space")

    def get_into(self, key, out):
        raise OSError(5, "input/output error")

    def sync(self):
        raise OSError(5, "input/output error")

    def close(self):
        pass


@pytest.fixture
def store(tmp_path):
    store = Store(str(tmp_path / "a" / "store"), ROOM, "x")
    yield store
    store.close()


def test_names_of_any_length_are_told_apart():
    keys = [b"", b"a", b"b" * 7, b"c" * 8, b"d" * 64, b"e" * 65, "f", "g" * 300, "a"]
    names = [name_of(key) for key in keys]
    assert len(set(names)) == len(keys)
    assert all(8 <= len(name) <= 64 for name in names)
    assert name_of(b"c" * 8) == b"c" * 8


def test_a_record_is_found_by_its_name_and_length_only(store):
    out = bytearray(1000)
    assert not store.exists("k") and not store.get_into("k", out)
    assert store.put("k", b"v" * 1000) and store.exists("k") and not store.exists(b"k")
    assert store.get_into("k", out) and out == b"v" * 1000
    assert not store.get_into("k", bytearray(999))
    assert not store.get_into("k", bytearray(1001))
    assert store.put("k", b"v" * 1000)
    assert store.put("one", b"1") and store.exists("one")
    assert store.counts == {"hits": 1, "misses": 3, "stored": 2, "present": 1, "errors": 1}


def test_records_survive_and_those_of_another_layout_are_not_seen(tmp_path):
    path, out = str(tmp_path / "s"), bytearray(5)
    first = Store(path, ROOM, "bfloat16")
    assert first.put(b"k" * 32, b"value") and first.sync()
    first.close()
    other = Store(path, ROOM, "float16")
    assert not other.exists(b"k" * 32) and not other.get_into(b"k" * 32, out)
    other.close()
    again = Store(path, ROOM, "bfloat16")
    assert again.exists(b"k" * 32) and again.get_into(b"k" * 32, out) and out == b"value"
    again.close()


def test_a_damaged_record_is_a_miss(tmp_path):
    path = tmp_path / "s"
    store = Store(str(path), ROOM, "")
    store.put("k", b"\xa5" * 40000)
    store.close()
    damaged = 0
    for file in path.iterdir():
        raw = bytearray(file.read_bytes())
        at = raw.find(b"\xa5" * 1000)
        if at >= 0:
            raw[at + 500] ^= 1
            file.write_bytes(raw)
            damaged += 1
    assert damaged == 1
    store = Store(str(path), ROOM, "")
    assert not store.get_into("k", bytearray(40000))
    assert store.counts["misses"] == 1 and not store.exists("k")
    store.close()


def test_a_failing_disk_misses_and_is_counted(store):
    store._disk.close()
    store._disk = Broken()
    assert not store.put("k", b"v") and not store.exists("k") and not store.sync()
    assert not store.get_into("k", bytearray(1))
    assert store.counts["errors"] == 4 and "input/output" in store.last_error
    assert store._users == 0


def test_a_store_that_is_closed_misses(store):
    store.put("k", b"v")
    store.close()
    store.close()
    assert not store.exists("k") and not store.put("l", b"v") and not store.clear()
    assert not store.get_into("k", bytearray(1)) and not store.sync()


def test_clear_forgets_for_good(tmp_path):
    path = str(tmp_path / "s")
    store = Store(path, ROOM, "")
    store.put("k", b"v")
    assert store.clear() and not store.exists("k") and store.put("l", b"v")
    store.close()
    store = Store(path, ROOM, "")
    assert not store.exists("k") and store.exists("l")
    store.close()


def test_clear_and_close_wait_for_calls_under_way(store):
    inside, go = threading.Event(), threading.Event()

    def slow(disk):
        inside.set()
        go.wait()
        return disk.put(b"slow key", b"v")
    done = []
    user = threading.Thread(target=lambda: done.append(store._with_disk(slow, None)))
    user.start()
    inside.wait()
    closer = threading.Thread(target=store.close)
    closer.start()
    while store._disk is not None:      # until close has taken it away
        with store._idle:
            pass
    assert closer.is_alive()
    go.set()
    closer.join()
    user.join()
    assert done == [True] and store.counts["errors"] == 0


def test_many_threads_agree_with_a_dictionary_while_it_is_cleared(store):
    wrong = []

    def run(seed):
        for i in range(60):
            key, value = f"{seed} {i % 7}", bytes([seed, i % 7]) * 50
            out = bytearray(100)
            store.put(key, value)
            if store.get_into(key, out) and out != value:
                wrong.append(key)
    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    cleared = [store.clear() for _ in range(3)]
    for thread in threads:
        thread.join()
    assert not wrong and all(cleared) and store.counts["errors"] == 0


def test_a_second_opening_is_refused(store):
    with pytest.raises(kvmm.Busy):
        Store(store._path, ROOM, "x")


def test_a_worker_does_jobs_in_order_and_ends():
    worker, done = Worker("t"), []
    for i in range(100):
        assert worker.submit(lambda i=i: done.append(i))
    worker.drain()
    assert done == list(range(100))
    worker.submit(lambda: done.append(100))
    worker.close()
    worker.close()
    assert done[-1] == 100 and not worker._thread.is_alive()
    assert not worker.submit(lambda: None)
    worker.drain()
