# SPDX-License-Identifier: Apache-2.0
"""Mooncake Store as the server below a tier.

``python -m kvmm.mooncake --listen 127.0.0.1:6380 --master 10.0.0.7:50051`` is a client of Mooncake
that speaks what kvmm's ``remote`` tier speaks (Documentation/remote.rst), and lends the cluster
memory. All tiers that share prefixes connect to one such process: it keeps the word by which a
late store is void. The word lies in Mooncake, too, so that the process may be started again.

	tiers -- RESP --> this -- Mooncake --> memory of many machines
"""

from __future__ import annotations

import argparse
import ctypes
import hmac
import mmap
import socket
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Protocol

NOT_FOUND = -704		# Mooncake's OBJECT_NOT_FOUND
EPOCH_SHIFT = 28		# see remote/internal.h: below it, how many names were deleted
EPOCH_BEGIN = 1767225600	# 2026; a lost word begins with the minutes since
NR_LOCKS = 64
STRANGER_S = 10.0		# until it has said the password
MAX_ARGS = 16
MAX_TEXT = 1024			# bytes of an argument that is not a block


class Store(Protocol):
    """What is used of ``mooncake.store.MooncakeDistributedStore``; memory is by address."""

    def register_buffer(self, address: int, size: int) -> int: ...
    def get_into(self, key: str, address: int, size: int) -> int: ...
    def upsert_from(self, key: str, address: int, size: int) -> int: ...
    def upsert(self, key: str, value: bytes, config: Any) -> int: ...
    def get(self, key: str) -> bytes: ...
    def is_exist(self, key: str) -> int: ...
    def remove(self, key: str, force: bool) -> int: ...


class Refused(Exception):
    """A command that is answered with an error; the connection goes on."""


class Room:
    """Memory for one block, known to the store."""

    def __init__(self, store: Store, size: int) -> None:
        self.map = mmap.mmap(-1, size)
        self.view = memoryview(self.map)
        self.size = size
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        if store.register_buffer(self.address, size):
            raise OSError("Mooncake takes no memory of %d bytes" % size)


class Gateway:
    """Commands of all connections on one store; may be called by several threads."""

    def __init__(self, store: Store, block_bytes: int = 4 << 20,
                 password: Optional[bytes] = None, keep: Any = None) -> None:
        """keep: Mooncake's ReplicateConfig for words, which must not be evicted."""
        self.store = store
        self.keep = keep
        self.block_bytes = block_bytes
        self.password = password
        self.words: Dict[str, int] = {}
        self.words_lock = threading.Lock()
        # One key's stores and deletions are one after the other. Before words_lock.
        self.locks = [threading.Lock() for _ in range(NR_LOCKS)]
        self.rooms: List[Room] = []

    def lock_of(self, key: str) -> threading.Lock:
        return self.locks[hash(key) % NR_LOCKS]

    def checked(self, ret: int, what: str) -> int:
        if ret < 0 and ret != NOT_FOUND:
            raise Refused("Mooncake says %d to %s" % (ret, what))
        return ret

    def word(self, key: str, add: int = 0) -> int:
        """The word, counted up; one that was never there begins beyond all that time had."""
        with self.words_lock:
            word = self.words.get(key)
            if word is None and self.checked(self.store.is_exist(key), "is_exist") == 1:
                word = int(self.store.get(key))
            if word is None:
                word = (int(time.time()) - EPOCH_BEGIN) // 60 << EPOCH_SHIFT
                add = add or 1
            if add:
                word += add
                self.checked(self.store.upsert(key, b"%d" % word, self.keep), "upsert")
            self.words[key] = word
            return word

    def put(self, word_key: str, word: int, key: str, room: Room, size: int) -> Optional[int]:
        """None: stored; else the word, which is not what the store was sent with."""
        with self.lock_of(key):
            now = self.word(word_key)
            if now != word:
                return now
            self.checked(self.store.upsert_from(key, room.address, size), "upsert_from")
            return None

    def delete(self, word_key: str, add: int, key: str, must: bool) -> int:
        with self.lock_of(key):
            word = self.word(word_key, add)
            ret = self.store.remove(key, True)
            if must:
                self.checked(ret, "remove")
            return word

    def serve(self, listener: socket.socket, max_links: int = 64) -> None:
        """Until the listener is closed."""
        links = threading.Semaphore(max_links)
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                if listener.fileno() < 0:
                    return
                time.sleep(0.1)		# no descriptor, for instance
                continue
            if not links.acquire(blocking=False):
                sock.close()
                continue
            threading.Thread(target=self.serve_one, args=(sock, links), daemon=True).start()

    def serve_one(self, sock: socket.socket, links: threading.Semaphore) -> None:
        link = Link(self, sock)
        try:
            tune(sock)
            link.run()
        except (OSError, ValueError, EOFError):
            pass
        finally:
            if link.room:
                self.rooms.append(link.room)
            sock.close()
            links.release()

    def take_room(self) -> Room:
        """Rooms stay registered: a connection that ends leaves its own to the next."""
        try:
            return self.rooms.pop()
        except IndexError:
            return Room(self.store, self.block_bytes)


def tune(sock: socket.socket) -> None:
    """A machine that has gone is noticed within a minute."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)


class Link:
    """One connection: commands are done in their order."""

    def __init__(self, gateway: Gateway, sock: socket.socket) -> None:
        self.gateway = gateway
        self.sock = sock
        self.room: Optional[Room] = None	# once the password was said
        self.staged: Optional[bytes] = None	# name under which a block lies in the room
        self.staged_bytes = 0
        self.is_known = gateway.password is None
        self.end_s = time.monotonic() + STRANGER_S
        self.buf = bytearray(64 << 10)
        self.view = memoryview(self.buf)
        self.start = self.end = 0

    def fill(self) -> None:
        if self.start == self.end:
            self.start = self.end = 0
        elif self.end == len(self.buf):
            self.buf[:self.end - self.start] = self.buf[self.start:self.end]
            self.start, self.end = 0, self.end - self.start
            if self.end == len(self.buf):
                raise ValueError("a line without an end")
        self.end += self.receive(self.view[self.end:])

    def receive(self, view: memoryview) -> int:
        if not self.is_known:
            left_s = self.end_s - time.monotonic()
            if left_s <= 0:
                raise EOFError
            self.sock.settimeout(left_s)
        nr = self.sock.recv_into(view)
        if not nr:
            raise EOFError
        return nr

    def number(self, kind: bytes, most: int) -> int:
        while (at := self.buf.find(b"\r\n", self.start, self.end)) < 0:
            if self.end - self.start > 32:
                raise ValueError("no number")
            self.fill()
        line = bytes(self.buf[self.start:at])
        self.start = at + 2
        number = int(line[1:]) if line[:1] == kind and line[1:].isdigit() else -1
        if not 0 <= number <= most:
            raise ValueError("not a number of at most %d" % most)
        return number

    def into(self, view: memoryview) -> None:
        """So many bytes, of which some may have come already; then the end of an argument."""
        at = min(self.end - self.start, len(view))
        view[:at] = self.view[self.start:self.start + at]
        self.start += at
        while at < len(view):
            at += self.receive(view[at:])
        while self.end - self.start < 2:
            self.fill()
        if self.buf[self.start:self.start + 2] != b"\r\n":
            raise ValueError("an argument without an end")
        self.start += 2

    def text(self, size: int) -> bytes:
        arg = bytearray(size)
        self.into(memoryview(arg))
        return bytes(arg)

    def command(self) -> List[bytes]:
        """Its arguments; of a SET the block goes to the room instead, and its length is there."""
        args: List[bytes] = []
        for i in range(self.number(b"*", MAX_ARGS)):
            is_block = i == 2 and args[0].upper() == b"SET" and self.is_known
            size = self.number(b"$", self.gateway.block_bytes if is_block else MAX_TEXT)
            if is_block:
                self.staged = None
                self.into(self.my_room().view[:size])
                args.append(b"%d" % size)
            else:
                args.append(self.text(size))
        return args

    def my_room(self) -> Room:
        if not self.room:
            self.room = self.gateway.take_room()
        return self.room

    def run(self) -> None:
        while True:
            args = self.command()
            if not args:
                raise ValueError("an empty command")
            try:
                verb = args[0].decode("ascii", "replace").lower()
                do = getattr(self, "do_" + verb, None)
                if not self.is_known and verb != "auth":
                    raise Refused("NOAUTH")
                if not do:
                    raise Refused("unknown command")
                self.sock.sendall(do(args[1:]))
            except Refused as err:
                self.sock.sendall(b"-ERR %s\r\n" % str(err).encode())
            except (IndexError, ValueError):
                self.sock.sendall(b"-ERR bad arguments\r\n")

    def do_auth(self, args: List[bytes]) -> bytes:
        password = self.gateway.password
        if password is None or not hmac.compare_digest(args[-1], password):
            raise Refused("WRONGPASS")
        self.is_known = True
        self.sock.settimeout(None)
        return b"+OK\r\n"

    def do_get(self, args: List[bytes]) -> bytes:
        self.staged = None
        room = self.my_room()
        size = self.gateway.store.get_into(args[0].decode(), room.address, room.size)
        if self.gateway.checked(size, "get_into") < 0:
            return b"$-1\r\n"
        self.sock.sendall(b"$%d\r\n" % size)
        self.sock.sendall(room.view[:size])
        return b"\r\n"

    def do_exists(self, args: List[bytes]) -> bytes:
        return b":%d\r\n" % self.gateway.checked(self.gateway.store.is_exist(args[0].decode()),
                                                 "is_exist")

    def do_set(self, args: List[bytes]) -> bytes:
        self.staged, self.staged_bytes = args[0], int(args[1])
        return b"+OK\r\n"

    def do_eval(self, args: List[bytes]) -> bytes:
        """Four scripts, told apart by what they call."""
        nr = int(args[1]) if args[1].isdigit() else MAX_ARGS
        keys, argv = [key.decode() for key in args[2:2 + nr]], args[2 + nr:]
        if b"'RENAME'" in args[0]:
            if self.staged != keys[2].encode():
                raise Refused("no such key")
            self.staged = None
            word = self.gateway.put(keys[0], int(argv[0]), keys[1], self.my_room(),
                                    self.staged_bytes)
            return b"+OK\r\n" if word is None else b":%d\r\n" % word
        if b"'INCRBY'" in args[0]:
            if not 0 < int(argv[0]) <= 1 << (EPOCH_SHIFT + 1):
                raise Refused("not a step of the word")
            return b":%d\r\n" % self.gateway.delete(keys[0], int(argv[0]), keys[1],
                                                    b"pcall('DEL'" not in args[0])
        return b":%d\r\n" % self.gateway.word(keys[0])


def address(text: str) -> Any:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError("not HOST:PORT: %r" % text)
    return host, int(port)


def open_store(args: argparse.Namespace) -> Store:
    try:
        from mooncake.store import MooncakeDistributedStore
    except ImportError as err:
        raise SystemExit("kvmm.mooncake: no mooncake.store: pip install mooncake-transfer-engine "
                         "(or ...-non-cuda): %s" % err)
    store: Any = MooncakeDistributedStore()
    code = store.setup(args.hostname, args.metadata, args.segment_mib << 20, args.buffer_mib << 20,
                       args.protocol, args.devices, args.master)
    if code:
        raise SystemExit("kvmm.mooncake: Mooncake's setup says %d for %s" % (code, args.master))
    result: Store = store
    return result


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kvmm.mooncake",
                                     description="Mooncake Store as the server below a tier.")
    parser.add_argument("--listen", type=address, required=True, help="for tiers: ADDRESS:PORT")
    parser.add_argument("--master", required=True, help="mooncake_master: HOST:PORT")
    parser.add_argument("--metadata", default="P2PHANDSHAKE")
    parser.add_argument("--hostname", default="127.0.0.1", help="of this machine, for the others")
    parser.add_argument("--protocol", default="tcp", help="tcp or rdma")
    parser.add_argument("--devices", default="", help="of rdma")
    parser.add_argument("--segment-mib", type=int, default=1024, help="memory lent to the cluster")
    parser.add_argument("--buffer-mib", type=int, default=64, help="memory of this client")
    parser.add_argument("--block-bytes", type=int, default=4 << 20, help="most, with 128 of a head")
    parser.add_argument("--password-file", help="a line that tiers have to know")
    args = parser.parse_args(argv)
    if args.block_bytes < 4096:
        parser.error("--block-bytes is less than 4096")
    password = None
    if args.password_file:
        with open(args.password_file, "rb") as file:
            password = file.read().rstrip(b"\r\n")
    family = socket.AF_INET6 if ":" in args.listen[0] else socket.AF_INET
    listener = socket.create_server((args.listen[0].strip("[]"), args.listen[1]), family=family)
    store = open_store(args)
    from mooncake.store import ReplicateConfig

    keep = ReplicateConfig()
    keep.with_hard_pin = True
    gateway = Gateway(store, args.block_bytes, password, keep)
    print("kvmm.mooncake: %s:%d" % listener.getsockname()[:2], flush=True)
    gateway.serve(listener)
    return 0


if __name__ == "__main__":
    sys.exit(main())
