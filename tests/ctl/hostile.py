#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every tool against an engine that lies, and files that somebody has spoilt.

usage: hostile.py [SEED [ROUNDS]]

What a real engine answers is changed before the tool gets it: words that a terminal would act on, numbers
that are none, columns that are missing, answers that end in the middle. Whatever comes: the tool ends by
itself, says what it says in exit code 0, 1 or 2, leaves the terminal alone, and its JSON is JSON.
Run from the object tree.
"""
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["KVMM_SRCTREE"], "tests/views"))
from engine import Engine, end, expect  # noqa: E402

SRC = os.environ["KVMM_SRCTREE"]
SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 9
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 1
WORDS = [b"\x1b]0;mine\x07", b"\x9b31m", b"\xc2\x9b31m", b"\xff\xfe", b"</script>", b'"><b>', b"\\", b"'",
         b"\xe2\x80\xaegnp", b"%s%n", b"\r", b"\x08", b"x" * 3000, b"\xf0\x9f\x98\x80", b"-", b"a b"]
NUMBERS = [b"99999999999999999999", b"18446744073709551615", b"18446744073709551616", b"4294967296",
           b"-1", b"1e308", b"nan", b"0", b"", b"-", b"0x10", b"00", b"9" * 400]
HEADS = [b"ok 99999999999\n", b"ok -1\n", b"ok\n", b"err 0 0\n", b"err 99999 3\nxyz", b"ok 18446744073709551617\n",
         b"err 2 4\n\x1b[2J", b"\n", b"\x00" * 100, b"ok 5\nab"]


class Liar:
    """A socket between the tools and the engine. What it does to answers is drawn anew for each."""

    def __init__(self, engine, rng):
        self.engine, self.rng, self.truth, self.how = engine, rng, {}, None
        self.dir = tempfile.mkdtemp(prefix="kvmm-liar-")
        self.path = os.path.join(self.dir, "liar.sock")
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(self.path)
        self.door.listen(16)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.door.accept()
            except OSError:
                return
            try:
                self.talk(client)
            except OSError:
                pass
            client.close()

    def talk(self, client):
        client.settimeout(20)
        name = self.rng.choice(WORDS)[:60] if self.how == "words" else b"liar"
        client.sendall(b"kvmm-control 1 " + name + b"\n")
        for line in client.makefile("rb"):
            line = line.rstrip(b"\n").decode("latin-1")
            if line not in self.truth:
                self.truth[line] = self.engine.ask(line)
            head, body = self.truth[line]
            if head[0] == "ok":
                client.sendall(self.answer(body.encode()))
            else:
                client.sendall(b"err %d %d\n" % (int(head[1]), len(body)) + body.encode())
            if self.how in ("heads", "cut"):
                return

    def answer(self, body):
        if self.how == "heads":
            return self.rng.choice(HEADS)
        if self.how == "cut":
            return b"ok %d\n" % len(body) + body[:self.rng.randrange(len(body) + 1)]
        body = getattr(self, self.how)(body)
        return b"ok %d\n" % len(body) + body

    def spoil(self, body, choice):
        """Some cells of some rows."""
        rows = [line.split(b"\t") for line in body.split(b"\n")]
        for row in rows[1:]:
            for i in range(len(row)):
                if self.rng.random() < 0.1:
                    row[i] = self.rng.choice(choice)
        return b"\n".join(b"\t".join(row) for row in rows)

    def truth_itself(self, body):
        return body

    def words(self, body):
        return self.spoil(body, WORDS)

    def numbers(self, body):
        return self.spoil(body, NUMBERS)

    def columns(self, body):
        """One of them has gone, from the head and from all rows, or from some."""
        rows = [line.split(b"\t") for line in body.split(b"\n")]
        at = self.rng.randrange(len(rows[0]))
        for row in rows:
            if len(row) > at and (row is rows[0] or self.rng.random() < 0.99):
                del row[at]
        return b"\n".join(b"\t".join(row) for row in rows)

    def lines(self, body):
        rows = body.split(b"\n")
        self.rng.shuffle(rows)
        return b"\n".join(rows[:self.rng.randrange(len(rows) + 1)])

    def bits(self, body):
        body = bytearray(body)
        for _ in range(1 + len(body) // 100):
            if body:
                body[self.rng.randrange(len(body))] ^= 1 << self.rng.randrange(8)
        return bytes(body)

    def nothing(self, body):
        return b""

    def end(self):
        self.door.close()
        os.unlink(self.path)
        os.rmdir(self.dir)


HOW = ["words", "numbers", "columns", "lines", "bits", "nothing", "heads", "cut"]
TOOLS = [
    "kvmm-stat", "kvmm-stat --json kv 0.01 2", "kvmm-stat kv 0.01 2", "kvmm-stat pool", "kvmm-stat pool --json",
    "kvmm-stat tiers --json", "kvmm-stat pressure", "kvmm-stat leaks kv 0", "kvmm-stat leaks kv 0 --json",
    "kvmm-top --batch", "kvmm-top --batch --by-owner --table holds", "kvmm-slabtop --once", "kvmm-slabtop --json",
    "kvmm-defrag plan --live --want 8", "kvmm-defrag run --live --want 8 --json",
    "kvmm-defrag set --live pace_bytes_per_ms 0", "kvmm-migrate status", "kvmm-migrate status --json",
    "kvmm-dump snapshot", "kvmm-dump show", "kvmm-dump pickle -o /dev/null", "kvmm-dump graphviz",
    "kvmm-dump record /dev/null --interval 0.01 --count 2", "kvmm-events names", "kvmm-events names --json",
]
TOOLS = [tool for tool in TOOLS if os.path.exists("tools/" + tool.split()[0])]  # some need ncurses
SLOW = ["kvmm-events tail --seconds 1", "kvmm-trace record -o /dev/null --seconds 1"]


def is_plain(out):
    try:
        text = out.decode()
    except UnicodeDecodeError:
        return False
    return not [c for c in text if c not in "\n\t" and (ord(c) < 32 or 127 <= ord(c) < 160 or
                                                        0x202a <= ord(c) <= 0x202e)]


def is_json(out):
    try:
        json.loads(out)
        return True
    except ValueError:
        pass
    try:
        return all(isinstance(json.loads(line), dict) for line in out.splitlines())
    except ValueError:
        return False


def check(args, what, env=None, stdin=subprocess.DEVNULL, **more):
    try:
        got = subprocess.run(["tools/" + args[0], *args[1:]], capture_output=True, timeout=30, env=env,
                             stdin=stdin, **more)
    except subprocess.TimeoutExpired:
        expect("%s: %s ends" % (what, args), False)
        return None
    said = "%s: %s" % (what, " ".join(args))
    expect(said, got.returncode in (0, 1, 2), "%d %s" % (got.returncode, got.stderr[-300:]))
    expect(said + ": plain", is_plain(got.stdout) and is_plain(got.stderr), got.stdout + got.stderr)
    if "--json" in args and not got.returncode:
        expect(said + ": JSON", is_json(got.stdout), got.stdout)
    return got


def lies(engine):
    liar = Liar(engine, random.Random(SEED))
    env = {**os.environ, "KVMM_SOCKET": liar.path}
    liar.how = "truth_itself"
    for tool in TOOLS:
        got = check(tool.split(), liar.how, env)
        expect("%s without lies" % tool, got and not got.returncode, got)
    for n in range(ROUNDS):
        for how in HOW:
            liar.how = how
            for tool in TOOLS + SLOW[:1] * (how == "words") + SLOW[1:] * (how == "bits"):
                check(tool.split(), "%s %d" % (how, n), env)
    liar.end()


def graves(engine):
    """Sockets of engines that have died lie beside the one that lives."""
    for name in ("kvmm-1.sock", "kvmm-2.sock"):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(os.path.join(engine.dir, name))
    got = check(["kvmm-stat", "pool"], "beside dead ones")
    expect("the one that lives is found", got and not got.returncode, got)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(os.path.join(engine.dir, "other.sock"))
        other.listen(1)
        got = check(["kvmm-stat", "pool"], "of two that live")
        expect("which one has to be said", got and got.returncode == 1 and b"other.sock" in got.stderr and
               b"kvmm-1.sock" not in got.stderr, got)
    for name in ("kvmm-1.sock", "kvmm-2.sock", "other.sock"):
        os.unlink(os.path.join(engine.dir, name))


def stuck(engine):
    """Whoever waits for an engine that does not answer can be told to stop."""
    engine.process.send_signal(signal.SIGSTOP)
    for tool in ("kvmm-events tail", "kvmm-dump record /dev/null", "kvmm-stat 1"):
        tool = tool.split()
        with subprocess.Popen(["tools/" + tool[0], *tool[1:]], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            try:
                process.wait(6)
                ended = True
            except subprocess.TimeoutExpired:
                ended = False
        expect("%s is interrupted" % tool, ended)
    engine.process.send_signal(signal.SIGCONT)


def spoilt(data, rng):
    """Cut off somewhere; some bits the other way round; a number or a word that is none."""
    yield b""
    for at in sorted(rng.sample(range(len(data)), min(len(data), 12))):
        yield data[:at]
    for _ in range(12):
        bits = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            bits[rng.randrange(len(bits))] ^= 1 << rng.randrange(8)
        yield bytes(bits)
    numbers = list(re.finditer(rb"[0-9]+", data))
    for word in NUMBERS + WORDS:
        if numbers:
            at = rng.choice(numbers)
            yield data[:at.start()] + word + data[at.end():]
    names = list(re.finditer(rb"[a-z_]{2,}", data))
    for word in WORDS:
        if names:
            at = rng.choice(names)
            yield data[:at.start()] + word + data[at.end():]


def files(engine):
    """What tools have written is read by others, and has been somewhere else in between."""
    rng = random.Random(SEED)
    path = os.path.join(engine.dir, "file")
    made = {"snapshot": check(["kvmm-dump", "snapshot"], "made").stdout,
            "recording": check(["kvmm-dump", "record", "-", "--count", "3", "--interval", "0.01"], "made").stdout,
            "batch": bytes.fromhex(open(os.path.join(SRC, "tests/ctl/vectors/map-mixed.hex")).read()),
            "trace": b'{"timestamp": 27, "input_length": 600, "output_length": 52, "hash_ids": [46, 47]}\n' * 3,
            "events": check(["kvmm-replay", "seq", "--blocks", "100", "--generate", "chat:requests=4",
                             "--events", path], "made") and open(path, "rb").read()}
    readers = {"snapshot": ["kvmm-dump show --from", "kvmm-dump graphviz --from", "kvmm-dump snapshot --from"],
               "recording": ["kvmm-dump report -o /dev/null"], "batch": ["kvmm-events decode", "kvmm-events decode --json"],
               "trace": ["kvmm-trace convert --to lengths", "kvmm-replay frag --blocks 100"],
               "events": ["kvmm-trace record"]}
    for kind, data in made.items():
        expect("a %s" % kind, len(data) > 20, data)
        for _ in range(ROUNDS):
            for n, bad in enumerate(spoilt(data, rng)):
                with open(path, "wb") as file:
                    file.write(bad)
                check(rng.choice(readers[kind]).split() + [path], "%s %d" % (kind, n))
    os.unlink(path)


def endless():
    """What has no end is not read to its end: all tools read in less memory than that."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))  # noqa: E731
    readers = ["kvmm-dump show --from -", "kvmm-dump snapshot --from -", "kvmm-dump report -o /dev/null -",
               "kvmm-events decode -", "kvmm-trace record -", "kvmm-trace convert --to lengths -",
               "kvmm-replay seq -"]
    sources = ["cat /dev/zero", "yes | tr -d '\\n'", "echo '# kvmm-snapshot 1'; cat /dev/zero",
               "echo '{'; yes | tr -d '\\n'", "yes ''", "yes '# nothing'", "yes '  '"]
    for source in sources:
        for reader in readers:
            if not os.path.exists("tools/" + reader.split()[0]):
                continue
            with subprocess.Popen(["sh", "-c", source], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as feed:
                got = check(reader.split(), "endless, " + source, stdin=feed.stdout, preexec_fn=limit)
                feed.stdout.close()
                feed.kill()
            expect("%s | %s is refused" % (source, reader), got and got.returncode, got)
            expect("%s | %s: memory was not what ended it" % (source, reader), got and b"memory" not in got.stderr, got)


def main():
    print("seed %d" % SEED)
    engine = Engine()
    graves(engine)
    stuck(engine)
    lies(engine)
    files(engine)
    endless()
    engine.end()
    end()


main()
