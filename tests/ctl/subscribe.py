#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Subscribe to a publisher with other people's ZeroMQ and MessagePack, and mirror its pool.

usage: subscribe.py	prints "N passed, N failed"

In each format: what is decoded from live messages, from a replay, and from a snapshot is what the pool
finds. Once more with a ring so short that the publisher itself misses events: the number that it leaves
out is seen, and the mirror is right nevertheless. The golden bytes decode to what they say.
"""
import os
import struct
import subprocess
import sys
import tempfile

import msgpack
import zmq

MAP, ARRAY, SGLANG = range(3)
TREE = os.environ.get("KVMM_SRCTREE", ".")
STORED = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium",
          "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind",
          "kv_cache_spec_sliding_window"]
FIELDS = {"BlockStored": STORED, "BlockRemoved": ["block_hashes", "medium", "group_idx"],
          "AllBlocksCleared": []}


def decode(payload, form):
    """Time stamp, events as dictionaries, rank."""
    stamp, events, rank = msgpack.unpackb(payload, raw=False, strict_map_key=False)
    assert isinstance(stamp, float)
    out = []
    for event in events:
        if form == MAP:
            assert isinstance(event, dict) and next(iter(event)) == "type"
        else:
            names = FIELDS[event[0]]
            assert len(event) - 1 <= len(names)
            if form == SGLANG and event[0] == "BlockStored":
                assert len(event) == 7 and len(event[1]) == 1
            event = dict(zip(["type"] + names, event))
        out.append(event)
    return stamp, out, rank


MASK = (1 << 64) - 1


def tokens_by_hash(form):
    """What publish_run says of each name; of every fifth nothing."""
    out = {}
    for name in range(300):
        key = struct.pack("<QQ", (name + 1) * 0x9e3779b97f4a7c15 & MASK,
                          (name + 1) * 0xc2b2ae3d27d4eb4f & MASK)
        tokens = [((name * 1000003 + i * 77) & 0xffffffff) >> i for i in range(16)]
        out[hash_of(key, form)] = tokens if name % 5 else []
    return out


class Mirror:
    def __init__(self, form):
        self.has = set()
        self.tokens = tokens_by_hash(form)
        self.with_tokens = 0

    def check_tokens(self, event):
        """Those of all its blocks, or none of any."""
        want = [self.tokens[number] for number in event["block_hashes"]]
        assert len({bool(tokens) for tokens in want}) == 1, "some have tokens, and some have none"
        assert event["token_ids"] == sum(want, [])
        self.with_tokens += bool(event["token_ids"])

    def apply(self, events):
        for event in events:
            if event["type"] == "AllBlocksCleared":
                self.has.clear()
            elif event["type"] == "BlockStored":
                assert event["medium"] == "GPU" and event["block_size"] == 16
                self.check_tokens(event)
                self.has.update(event["block_hashes"])
            else:
                self.has.difference_update(event["block_hashes"])


def hash_of(key, form):
    return struct.unpack(">q", key[:8])[0] if form == SGLANG else struct.unpack(">Q", key[8:])[0]


class Publisher:
    def __init__(self, folder, form, ring=1 << 17):
        self.form = form
        self.ends = [f"ipc://{folder}/{name}{form}-{ring}" for name in ("pub", "replay")]
        self.process = subprocess.Popen(["tests/ctl/publish_run", str(form), *self.ends, str(ring)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.context = zmq.Context()
        self.sub = self.context.socket(zmq.SUB)
        self.sub.setsockopt(zmq.RCVHWM, 0)
        self.sub.setsockopt(zmq.SUBSCRIBE, b"kv@")
        self.sub.connect(self.ends[0])

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.say(line)
        return self.process.stdout.readline().split()

    def names(self):
        self.say("list")
        keys = iter(lambda: self.process.stdout.readline().strip(), "end")
        return {hash_of(bytes.fromhex(key), self.form) for key in keys}

    def messages(self, quiet_ms=300):
        while self.sub.poll(quiet_ms):
            topic, seq, payload = self.sub.recv_multipart()
            assert topic == b"kv@test@model" and len(seq) == 8
            yield struct.unpack(">Q", seq)[0], payload

    def first(self):
        """A subscriber that has just connected misses what comes before the publisher knows."""
        for _ in range(200):
            self.say("tick")
            for message in self.messages(20):
                return message
        raise AssertionError("nothing was heard")

    def request(self, what):
        dealer = self.context.socket(zmq.DEALER)
        dealer.connect(self.ends[1])
        dealer.send_multipart([b"", what])
        out = []
        while True:
            assert dealer.poll(10000), "no answer"
            empty, seq, payload = dealer.recv_multipart()
            assert empty == b"" and len(seq) == 8
            if seq == b"\xff" * 8:
                assert payload == b""
                break
            out.append((struct.unpack(">Q", seq)[0], payload))
        dealer.close()
        return out

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(30)
        self.context.destroy(0)
        return code


def mirror_of(messages, form):
    mirror = Mirror(form)
    for _, payload in messages:
        stamp, events, rank = decode(payload, form)
        assert stamp > 1e9 and rank == 3
        mirror.apply(events)
    assert mirror.with_tokens or not mirror.has
    return mirror.has


def check_live_replay_and_snapshot(folder, form):
    publisher = Publisher(folder, form)
    first = publisher.first()
    publisher.say("go")
    live = [first, *publisher.messages()]
    names = publisher.names()
    assert names
    numbers = [seq for seq, _ in live]
    assert numbers == list(range(first[0], first[0] + len(live))), "numbers are missing"
    replay = publisher.request(struct.pack(">Q", 0))
    assert [seq for seq, _ in replay] == list(range(numbers[-1] + 1))
    assert replay[first[0]:] == live, "a replay is not what was published"
    assert mirror_of(replay, form) == names
    assert publisher.request(struct.pack(">Q", numbers[-1])) == live[-1:]
    snapshot = publisher.request(b"kvmm-snapshot")
    assert {seq for seq, _ in snapshot} == {numbers[-1] + 1}
    assert mirror_of(snapshot, form) == names
    publisher.say("reset")
    mirror = mirror_of([*snapshot, *publisher.messages()], form)
    assert mirror == publisher.names() == set()
    assert publisher.ask("stat")[2:] == ["0", "0", "2", "1", "0"]
    assert publisher.close() == 0


def check_late_joiner(folder, form):
    """Subscribes in the middle of it, takes a snapshot while it goes on, and applies what follows."""
    publisher = Publisher(folder, form, ring=1 << 16)
    live = [publisher.first()]
    publisher.say("go")
    snapshot = publisher.request(b"kvmm-snapshot")
    live += publisher.messages()
    watermark = snapshot[0][0] if snapshot else 0
    tail = [message for message in live if message[0] >= watermark]
    assert mirror_of([*snapshot, *tail], form) == publisher.names()
    assert publisher.close() == 0


def check_publisher_that_is_too_slow(folder, form):
    publisher = Publisher(folder, form, ring=64)
    live = [publisher.first()]
    for _ in range(3):
        publisher.say("go")
    live += publisher.messages()
    lost, resyncs = (int(n) for n in publisher.ask("stat")[2:4])
    assert lost and resyncs, "the ring was long enough"
    numbers = [seq for seq, _ in live]
    missing = set(range(numbers[0], numbers[-1])) - set(numbers)
    assert len(missing) == resyncs, f"{len(missing)} numbers are missing, not {resyncs}"
    assert mirror_of(live, form) == publisher.names()
    assert publisher.close() == 0


def check_bad_requests(folder, form):
    publisher = Publisher(folder, form, ring=128)
    for frames in ([b""], [b"", b"short"], [b"x", b"12345678"], [b"", b"12345678", b"more"],
                   [b"", b"y" * 4000], [b""] * 20):
        dealer = publisher.context.socket(zmq.DEALER)
        dealer.connect(publisher.ends[1])
        dealer.send_multipart(frames)
        assert not dealer.poll(50)
        dealer.close()
    assert publisher.request(struct.pack(">Q", 0)) == []
    assert publisher.ask("stat")[-1] == "6"
    assert publisher.close() == 0


def vector(name):
    with open(f"{TREE}/tests/ctl/vectors/{name}.hex") as file:
        return bytes.fromhex(file.read())


def check_golden_bytes(_folder, form):
    kind = ["map", "array", "sglang"][form]
    stamp, (event,), rank = decode(vector(f"{kind}-stored"), form)
    signed = 0xdab89e0b1c2d3e4f - (1 << 64)
    assert (stamp, rank) == (1.5, 0)
    assert event["block_hashes"] == [signed if form == SGLANG else 0xdab89e0b1c2d3e4f]
    assert event["token_ids"] == [1, 2, 3, 300] and event["block_size"] == 4
    _, events, _ = decode(vector(f"{kind}-tokens"), form)
    tokens = [0, 127, 128, 255, 256, 65535, 65536, (1 << 32) - 1]
    assert [t for e in events for t in e["token_ids"]] == tokens and not events[-1]["token_ids"]
    _, events, rank = decode(vector(f"{kind}-mixed"), form)
    assert rank is None and events[-1] == {"type": "AllBlocksCleared"}
    stored = [e for e in events if e["type"] == "BlockStored"]
    removed = [e for e in events if e["type"] == "BlockRemoved"]
    chain = [h for e in stored for h in e["block_hashes"]]
    assert chain == [0x11, 0x1122334455667788, 0xff, 7] and stored[-1]["lora_id"] == 5
    assert len(stored) == (4 if form == SGLANG else 2)
    edge = -(1 << 63) if form == SGLANG else 1 << 63
    assert [e["block_hashes"] for e in removed] == [[0x11, edge]]
    assert removed[0]["medium"] == ("CPU_PINNED" if form == SGLANG else "CPU")


def main():
    passed = failed = 0
    checks = [(check, form) for form in (MAP, ARRAY, SGLANG)
              for check in (check_golden_bytes, check_live_replay_and_snapshot)]
    checks += [(check_late_joiner, MAP), (check_publisher_that_is_too_slow, MAP),
               (check_bad_requests, MAP)]
    with tempfile.TemporaryDirectory() as folder:
        for check, form in checks:
            try:
                check(folder, form)
                passed += 1
            except Exception as error:
                failed += 1
                print(f"FAILED: {check.__name__}, format {form}: {error!r}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
