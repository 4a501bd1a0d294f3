# SPDX-License-Identifier: Apache-2.0
"""Ranges, steps, sequences, tiers, stores, events; what a process pays for pools."""
import array
import concurrent.futures
import gc
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

import pytest

import kvmm


def key(n):
    return n.to_bytes(8, "little") * 2


def test_a_range_is_given_out_in_runs_and_taken_back():
    with kvmm.Pool(64, compactor="window") as pool:
        with kvmm.Range(pool, 20, max_runs=1, grows=True) as span:
            assert sum(nr for _, nr in span.extents()) == len(span) == 20
            span.grow(4)
            assert len(span) == 24
            span.shrink(2)
            span.shrink_front(2)
            assert len(span) == 20
            with pytest.raises(RuntimeError):
                pool.close()
        assert pool.available == 64
        with pytest.raises(ValueError):
            span.extents()
        with pytest.raises(kvmm.NoSpace):
            kvmm.Range(pool, 40), kvmm.Range(pool, 40)
        with pytest.raises(TypeError):
            kvmm.Range(object(), 1)


def test_a_step_is_a_context():
    with kvmm.Pool(16) as pool:
        step = kvmm.Step(pool)
        with step:
            with pytest.raises(kvmm.Busy):
                step.__enter__()
        with step:
            pass
        del step


def test_tokens_have_32_bits():
    prompt = array.array("I", [0, 2**31 - 1, 2**31, 2**32 - 1])
    with kvmm.Pool(64) as pool, kvmm.Sequence(pool, kvmm.Keys(), prompt) as sequence:
        assert sequence.tokens() == list(prompt)


def test_a_second_prompt_computes_only_what_is_new():
    with kvmm.Pool(64) as pool:
        keys = kvmm.Keys(tenant="acme")
        first = kvmm.Sequence(pool, keys, list(range(64)))
        assert first.acquire() == 0
        first.schedule_prefill(64)
        first.apply([7])
        first.schedule_decode()
        first.apply([8])
        assert first.tokens()[-2:] == [7, 8]
        table = first.block_table()
        first.close()
        with kvmm.Sequence(pool, keys, list(range(64)) + [9]) as second:
            assert second.match() == 4
            assert second.block_table()[:4] == table[:4]
            assert second.info()["nr_hits"] == 4
            with pytest.raises(kvmm.Error):
                second.schedule_decode()
        pool.validate()


def test_keys_of_tokens_chain():
    keys = kvmm.Keys(block_tokens=4)
    whole = keys.of(range(12))
    assert len(whole) == 48
    assert keys.of(range(4, 12), parent=whole[:16]) == whole[16:]
    assert keys.of(range(3)) == b""
    assert kvmm.Keys(block_tokens=4, salt="x").of(range(12)) != whole
    with pytest.raises(kvmm.Invalid):
        kvmm.Keys(block_tokens=0, algo="siphash")


def test_local_keys_stay_in_the_process():
    keys = kvmm.Keys("local", block_tokens=4).of(range(12))
    assert len(keys) == 48 and keys != kvmm.Keys(block_tokens=4).of(range(12))
    assert keys == kvmm.Keys("local", block_tokens=4).of(range(12))
    code = "import kvmm; print(kvmm.Keys('local', block_tokens=4).of(range(12)).hex())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert len(other.stdout.strip()) == 96 and other.stdout.strip() != keys.hex()
    with pytest.raises(kvmm.Invalid):
        kvmm.Keys("local", secret=b"0123456789abcdef")


def test_keys_made_before_the_request_are_taken_along():
    with kvmm.Pool(64, block_tokens=4) as pool:
        keys = kvmm.Keys("local", block_tokens=4)
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            made = list(threads.map(keys.of, [range(n, n + 12) for n in range(8)]))
        assert made == [keys.of(range(n, n + 12)) for n in range(8)]
        with kvmm.Sequence(pool, keys, range(12), prompt_keys=made[0]) as seq:
            assert seq.match() == 0
        with pytest.raises(ValueError):
            kvmm.Sequence(pool, keys, range(12), prompt_keys=made[0][:17])
        with pytest.raises(kvmm.Invalid):
            kvmm.Sequence(pool, keys, range(11), prompt_keys=made[0])


def fill(pool, nr):
    for n in range(nr):
        block = pool.alloc(1)
        pool.write(block[0], bytes([n]) * 4096)
        pool.put(pool.register(block, key(n)))
        while pool.poll():
            pass


def load(pool, n):
    pool.prefetch(key(n))
    while pool.poll():
        pass
    found = pool.find(key(n))
    if not found:
        return None
    out = bytearray(4096)
    pool.read_into(found[0], out)
    pool.put(found)
    return bytes(out)


def test_what_the_device_evicted_comes_back_from_host_memory():
    tier = kvmm.Tier(64 * 4096, 4096)
    with kvmm.Pool(8, block_bytes=4096) as pool:
        pool.attach(tier, layout_id=5, write=kvmm.WRITE_THROUGH)
        fill(pool, 32)
        assert pool.probe(key(0)) == 0
        assert pool.match_tiers(key(0)) == (0, 1)
        assert load(pool, 0) == bytes(4096)
        assert load(pool, 17) == bytes([17]) * 4096
        assert load(pool, 99) is None
        pool.validate()


@pytest.fixture
def server(tmp_path):
    if not shutil.which("redis-server"):
        pytest.skip("no redis-server here")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir",
                                str(tmp_path), "--save", "", "--logfile", "/dev/null"])
    for _ in range(1000):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.01)
    yield f"127.0.0.1:{port}"
    process.kill()
    process.wait()


def until(done, pool, tier):
    for _ in range(10000):
        if done():
            return True
        pool.poll()
        tier.tick()
        time.sleep(0.001)
    return False


def expect_found_by_another_pool(server):
    remote = {"remote_address": server, "remote_model": "toy", "remote_deadline_ns": 2000000000}
    tier = kvmm.Tier(4 * 4096, 4096, **remote)
    with kvmm.Pool(8, block_bytes=4096) as pool:
        pool.attach(tier, layout_id=5, write=kvmm.WRITE_THROUGH)
        fill(pool, 8)
        assert until(lambda: tier.remote_stat()["stored"] >= 4, pool, tier)
    tier = kvmm.Tier(64 * 4096, 4096, **remote)
    with kvmm.Pool(8, block_bytes=4096) as pool:
        pool.attach(tier, layout_id=5)
        assert until(lambda: load(pool, 1), pool, tier)
        assert load(pool, 1) == bytes([1]) * 4096
        assert tier.remote_stat()["got"] == 1 and tier.remote_stat()["wrong"] == 0


def test_another_process_finds_what_a_server_below_has(server):
    expect_found_by_another_pool(server)
    assert kvmm.Tier(64 * 4096, 4096).remote_stat()["away"] == 0


def test_what_is_no_server_is_refused():
    for remote in ({"remote_address": "localhost:6379", "remote_model": "toy"},
                   {"remote_address": "127.0.0.1:6379"}):
        with pytest.raises(kvmm.Invalid):
            kvmm.Tier(64 * 4096, 4096, **remote)


def test_a_store_survives_its_process(tmp_path):
    path = str(tmp_path / "store")
    with kvmm.Disk(path, 64 << 20, layout=b"f16") as disk:
        assert disk.put(b"name-one", b"x" * 5000)
        assert not disk.put(b"name-one", b"x" * 5000)
        disk.sync()
    with kvmm.Disk(path, 64 << 20, layout=b"f16") as disk:
        out = bytearray(8192)
        assert disk.get_into(b"name-one", out) == 5000 and out[:5000] == b"x" * 5000
        assert disk.get_into(b"name-two", out) == -1
        with pytest.raises(kvmm.Error):
            disk.get_into(b"name-one", bytearray(10))
        with pytest.raises(ValueError):
            disk.put(b"x", b"y")
    with kvmm.Disk(path, 64 << 20, layout=b"f32") as disk:
        assert disk.get_into(b"name-one", bytearray(8192)) == -1
    with pytest.raises(ValueError):
        disk.put(b"name-one", b"z")


def test_events_tell_what_comes_and_goes():
    with kvmm.Pool(16) as pool:
        events = kvmm.Events(pool)
        ids = pool.register(pool.alloc(2), key(1) + key(2))
        pool.evict(ids[:1])
        got, lost = events.read()
        assert lost == 0
        assert [(e["kind"], e["key"]) for e in got] == [
            ("stored", key(1)), ("stored", key(2)), ("removed", key(1))]
        assert got[0]["block"] == ids[0] and got[0]["medium"] == "device"
        with pytest.raises(RuntimeError):
            pool.close()
        events.close()
        with pytest.raises(ValueError):
            events.read()


def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])


def test_ten_thousand_pools_leave_nothing_behind():
    def some(nr):
        for _ in range(nr):
            with kvmm.Pool(256, null_block=True) as pool:
                ids = pool.register(pool.alloc(2), key(1) + key(2))
                pool.put(ids)
                span = kvmm.Range(pool, 3)
                span.free()
        gc.collect()
    some(2000)
    before = rss()
    some(8000)
    assert rss() - before < 512                     # pages


def test_errors_and_arguments_leave_no_references_behind():
    with kvmm.Pool(8) as pool:
        ids, name = [1, 2, 3], key(1)

        def provoke():
            for call in (lambda: pool.put(ids), lambda: pool.find([name, b"x"]),
                         lambda: pool.register(ids, name), lambda: pool.alloc(99)):
                with pytest.raises((kvmm.Error, ValueError)):
                    call()
        provoke()
        before = sys.getrefcount(ids), sys.getrefcount(name), sys.getrefcount(pool)
        for _ in range(100):
            provoke()
        assert (sys.getrefcount(ids), sys.getrefcount(name), sys.getrefcount(pool)) == before


def test_a_second_interpreter_is_refused():
    code = """
import sys
try:
    import _xxsubinterpreters as sub
except ImportError:
    import _interpreters as sub
me = sub.create()
try:
    failed = sub.run_string(me, "import kvmm")
except BaseException as error:
    failed = error
sys.exit(0 if failed else 1)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_tools_look_at_a_pool_by_its_socket(tmp_path):
    folder = tmp_path / "run"
    with kvmm.Pool(64, name="one") as pool, kvmm.Control("engine", str(folder)) as control:
        control.add(pool)
        pool.alloc(3)
        path = control.path
        with pytest.raises(RuntimeError):
            pool.close()

        def ask(*words):
            return subprocess.run([sys.executable, "-m", "kvmm", "--socket", path, *words],
                                  capture_output=True, text=True)
        done = ask("stat", "one")
        assert done.returncode == 0, done.stderr
        print(done.stdout)
        assert dict(line.split()[:2] for line in done.stdout.splitlines())["private"] == "3"
        assert "one" in ask("pools").stdout
        assert "no pool" in ask("stat", "two").stderr
        control.close()
        assert ask("pools").returncode


def test_what_the_readme_shows(capsys):
    readme = pathlib.Path(__file__).parents[3].joinpath("README.md").read_text()
    code = re.search("```python\n(.*?)```", readme, re.S)[1]
    assert len(code.splitlines()) <= 10
    exec(code, {})
    assert capsys.readouterr().out == "0 tokens were there\n96 tokens were there\n"
