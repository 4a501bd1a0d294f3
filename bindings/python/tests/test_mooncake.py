# SPDX-License-Identifier: Apache-2.0
"""The gateway to Mooncake Store: over a store of ours with its codes, or, with
KVMM_MOONCAKE_MASTER= (HOST:PORT), over Mooncake itself."""
from __future__ import annotations

import argparse
import ctypes
import os
import socket
import threading

import pytest
from test_objects import expect_found_by_another_pool

from kvmm import mooncake

WORD = b"kvmm:m:epoch"
ASK = b"return tonumber(redis.call('GET',KEYS[1])or'0')"
PUT = b"... redis.call('RENAME',KEYS[3],KEYS[2])"
DEL = b"redis.call('DEL',KEYS[2]) return redis.call('INCRBY',KEYS[1],ARGV[1])"
FENCE = b"redis.pcall('DEL',KEYS[2]) return redis.call('INCRBY',KEYS[1],ARGV[1])"
FENCED = 1 << mooncake.EPOCH_SHIFT


class FakeStore:
    """Objects by key; what is named in fails says -900."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.fails: set[str] = set()
        self.before_upsert = threading.Event()
        self.before_upsert.set()
        self.is_inside = threading.Event()

    def register_buffer(self, address: int, size: int) -> int:
        return 0

    def get_into(self, key: str, address: int, size: int) -> int:
        if "get_into" in self.fails:
            return -900
        value = self.objects.get(key)
        if value is None:
            return mooncake.NOT_FOUND
        ctypes.memmove(address, value, len(value))
        return len(value)

    def upsert_from(self, key: str, address: int, size: int) -> int:
        self.is_inside.set()
        self.before_upsert.wait()
        if "upsert_from" in self.fails:
            return -900
        self.objects[key] = ctypes.string_at(address, size)
        return 0

    def upsert(self, key: str, value: bytes, config: object) -> int:
        if "upsert" in self.fails:
            return -900
        self.objects[key] = bytes(value)
        return 0

    def get(self, key: str) -> bytes:
        return self.objects[key]

    def is_exist(self, key: str) -> int:
        return -900 if "is_exist" in self.fails else int(key in self.objects)

    def remove(self, key: str, force: bool) -> int:
        if "remove" in self.fails:
            return -900
        return 0 if self.objects.pop(key, None) is not None else mooncake.NOT_FOUND


class Client:
    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.file = self.sock.makefile("rb")

    def send(self, *args: bytes) -> None:
        self.sock.sendall(b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a)
                                                              for a in args))

    def answer(self) -> bytes | int | None:
        line = self.file.readline()
        if not line:
            raise ConnectionError
        if line[:1] == b"$":
            size = int(line[1:])
            return None if size < 0 else self.file.read(size + 2)[:-2]
        return int(line[1:]) if line[:1] == b":" else line.rstrip()

    def ask(self, *args: bytes) -> bytes | int | None:
        self.send(*args)
        return self.answer()

    def word(self) -> int:
        word = self.ask(b"EVAL", ASK, b"1", WORD)
        assert isinstance(word, int)
        return word

    def send_put(self, word: int, key: bytes, value: bytes) -> None:
        self.send(b"SET", b"new:1", value, b"EX", b"60")
        self.send(b"EVAL", PUT, b"3", WORD, key, b"new:1", b"%d" % word, b"0")

    def put(self, word: int, key: bytes, value: bytes) -> bytes | int | None:
        self.send_put(word, key, value)
        assert self.answer() == b"+OK"
        return self.answer()

    def delete(self, key: bytes, add: int = 1, script: bytes = DEL) -> bytes | int | None:
        return self.ask(b"EVAL", script, b"2", WORD, key, b"%d" % add)


def keep() -> object:
    if not os.environ.get("KVMM_MOONCAKE_MASTER"):
        return None
    from mooncake.store import ReplicateConfig

    config = ReplicateConfig()
    config.with_hard_pin = True
    return config


class Served:
    def __init__(self, store: mooncake.Store, password: bytes | None = None) -> None:
        self.store = store
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.gateway = mooncake.Gateway(store, 1 << 20, password, keep())
        threading.Thread(target=self.gateway.serve, args=(self.listener, 4), daemon=True).start()

    def client(self) -> Client:
        return Client(self.port)


def new_store() -> mooncake.Store:
    master = os.environ.get("KVMM_MOONCAKE_MASTER")
    if not master:
        return FakeStore()
    return mooncake.open_store(argparse.Namespace(
        hostname="127.0.0.1", metadata="P2PHANDSHAKE", segment_mib=64, buffer_mib=16,
        protocol="tcp", devices="", master=master))


@pytest.fixture(scope="module")
def store() -> mooncake.Store:
    return new_store()


@pytest.fixture
def served(store: mooncake.Store) -> Served:
    return Served(store)


@pytest.fixture
def fake() -> Served:
    return Served(FakeStore())


def test_what_was_put_is_found_whatever_its_bytes(served: Served) -> None:
    client = served.client()
    word = client.word()
    for size in (1, 127, 65536 + 128, 1 << 20):
        value = os.urandom(size // 2) + b"\r\n" * (size - size // 2)
        value = value[:size]
        assert client.put(word, b"kvmm:a:%d" % size, value) == b"+OK"
        assert client.ask(b"GET", b"kvmm:a:%d" % size) == value
        assert client.ask(b"EXISTS", b"kvmm:a:%d" % size) == 1
    assert client.ask(b"GET", b"kvmm:a:other") is None
    assert client.ask(b"EXISTS", b"kvmm:a:other") == 0


def test_commands_that_come_together_are_answered_in_their_order(served: Served) -> None:
    client = served.client()
    word = client.word()
    for i in range(40):
        client.send_put(word, b"kvmm:b:%d" % i, b"%d" % i * 3000)
    for i in range(40):
        assert [client.answer(), client.answer()] == [b"+OK", b"+OK"]
    for i in range(40):
        client.send(b"GET", b"kvmm:b:%d" % i)
    for i in range(40):
        assert client.answer() == b"%d" % i * 3000


def test_store_that_was_sent_before_a_deletion_is_void(served: Served) -> None:
    one, other = served.client(), served.client()
    word = one.word()
    assert one.put(word, b"kvmm:c", b"old") == b"+OK"
    assert other.delete(b"kvmm:c") == word + 1
    assert one.ask(b"GET", b"kvmm:c") is None
    assert one.put(word, b"kvmm:c", b"late") == word + 1
    assert one.ask(b"GET", b"kvmm:c") is None
    assert one.put(word + 1, b"kvmm:c", b"new") == b"+OK"
    assert other.ask(b"GET", b"kvmm:c") == b"new"


def test_deletion_waits_for_the_store_of_that_name_that_is_being_done(fake: Served) -> None:
    one, other = fake.client(), fake.client()
    word = one.word()
    fake.store.before_upsert.clear()
    one.send_put(word, b"kvmm:d", b"slow")
    assert one.answer() == b"+OK" and fake.store.is_inside.wait(20)
    other.send(b"EVAL", DEL, b"2", WORD, b"kvmm:d", b"1")
    other.sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        other.sock.recv(1, socket.MSG_PEEK)
    other.sock.settimeout(20)
    fake.store.before_upsert.set()
    assert one.answer() == b"+OK" and other.answer() == word + 1
    assert "kvmm:d" not in fake.store.objects


def test_word_outlives_the_gateway(served: Served) -> None:
    word = served.client().word()
    assert word > FENCED
    assert served.client().delete(b"kvmm:e", FENCED, FENCE) == word + FENCED
    assert Served(served.store).client().word() == word + FENCED


def test_word_that_was_lost_begins_beyond_the_old_one(fake: Served) -> None:
    word = fake.client().word()
    fake.store.objects.clear()
    assert Served(fake.store).client().word() >= word


@pytest.mark.parametrize("call", ["upsert_from", "remove", "is_exist", "get_into", "upsert"])
def test_failure_of_the_store_is_an_error_and_no_more(fake: Served, call: str) -> None:
    client = fake.client()
    word = client.word()
    assert client.put(word, b"kvmm:f", b"value") == b"+OK"
    fake.store.fails = {call}
    answers = [client.put(word, b"kvmm:g", b"v"), client.ask(b"EXISTS", b"kvmm:f"),
               client.ask(b"GET", b"kvmm:f"), client.delete(b"kvmm:f")]
    refused = [isinstance(answer, bytes) and answer.startswith(b"-ERR") for answer in answers]
    at = {"upsert_from": 0, "is_exist": 1, "get_into": 2, "remove": 3, "upsert": 3}[call]
    assert [i for i, is_refused in enumerate(refused) if is_refused] == [at]
    fake.store.fails = set()
    assert client.ask(b"EXISTS", b"kvmm:g") == int(call != "upsert_from")


def test_fence_is_done_where_nothing_can_be_deleted(fake: Served) -> None:
    client = fake.client()
    word = client.word()
    fake.store.fails = {"remove"}
    assert client.delete(b"kvmm:h", FENCED, FENCE) == word + FENCED


def test_password_is_asked_for_before_all_else() -> None:
    served = Served(FakeStore(), b"secret")
    client = served.client()
    for args in ((b"GET", b"k"), (b"SET", b"n", b"v" * 1000), (b"AUTH", b"other")):
        answer = client.ask(*args)
        assert isinstance(answer, bytes) and answer.startswith(b"-ERR")
    assert client.ask(b"AUTH", b"secret") == b"+OK"
    assert client.ask(b"GET", b"k") is None


@pytest.mark.parametrize("sent", [
    b"GET k\r\n", b"*\r\n", b"*0\r\n", b"*17\r\n", b"*1\r\n$1025\r\n", b"*1\r\n$-1\r\n",
    b"*1\r\n$1\r\nabc", b"*9999999999999999999999999999999999", b"*1\r\n+3\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1048577\r\n"])
def test_what_is_no_command_ends_that_connection_alone(fake: Served, sent: bytes) -> None:
    bad, good = fake.client(), fake.client()
    bad.sock.sendall(sent)
    assert bad.file.read() == b""
    assert good.ask(b"EXISTS", b"k") == 0


def test_length_that_a_client_claims_is_not_believed(fake: Served) -> None:
    client = fake.client()
    word = client.word()
    client.send(b"set", b"new:1", b"4000000000")
    client.send(b"EVAL", PUT, b"3", WORD, b"kvmm:i", b"new:1", b"%d" % word, b"0")
    assert [client.answer(), client.answer()] == [b"+OK", b"+OK"]
    assert client.ask(b"GET", b"kvmm:i") == b"4000000000"


def test_stranger_has_so_long_to_say_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mooncake, "STRANGER_S", 0.05)
    served = Served(FakeStore(), b"secret")
    stranger, client = served.client(), served.client()
    assert client.ask(b"AUTH", b"secret") == b"+OK"
    with pytest.raises(OSError):		# whatever it says instead
        while stranger.ask(b"PING"):
            pass
    assert client.ask(b"EXISTS", b"k") == 0
    assert len(served.gateway.rooms) == 0


@pytest.mark.parametrize("args", [
    (b"FLUSHALL",), (b"GET",), (b"SET", b"a"), (b"EVAL", DEL), (b"EVAL", DEL, b"2", b"a"),
    (b"\xff",), (b"EVAL", PUT, b"3", WORD, b"k", b"none", b"1", b"0"), (b"GET", b"\xff"),
    (b"EVAL", DEL, b"x", b"a", b"b"), (b"EVAL", DEL, b"2", b"a", b"b", b"-1"),
    (b"EVAL", DEL, b"2", b"a", b"b", b"9" * 900),
    (b"EVAL", DEL, b"2", b"a", b"b", b"x"), (b"__class__",)])
def test_bad_command_is_answered_with_an_error(fake: Served, args: tuple[bytes, ...]) -> None:
    client = fake.client()
    answer = client.ask(*args)
    assert isinstance(answer, bytes) and answer.startswith(b"-ERR")
    assert client.ask(b"EXISTS", b"k") == 0
    assert not fake.store.objects


def test_connection_beyond_the_limit_is_closed_until_another_ends(fake: Served) -> None:
    clients = [fake.client() for _ in range(4)]
    assert [client.ask(b"EXISTS", b"k") for client in clients] == [0] * 4
    assert fake.client().file.read() == b""
    clients[0].sock.shutdown(socket.SHUT_RDWR)
    while True:
        late = fake.client()
        late.send(b"EXISTS", b"k")
        try:
            if late.file.readline() == b":0\r\n":
                break
        except ConnectionError:
            pass
    assert len(fake.gateway.rooms) == 0		# none has had a block


def test_tier_finds_what_that_of_another_pool_has_stored(served: Served) -> None:
    expect_found_by_another_pool(f"127.0.0.1:{served.port}")
