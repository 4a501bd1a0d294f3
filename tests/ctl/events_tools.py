#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-trace and kvmm-events: what a replay tells becomes a trace, whose replay is the same.

Run from the object tree. Exactly the same, since a trace has a number for each block of the engine: the same hits for each request, the same evictions, byte for byte the same trace where all of its
blocks have keys. Times are exact to the millisecond, which is what they have.
"""
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

TREE = os.environ.get("KVMM_SRCTREE", ".")
ENV = {k: v for k, v in os.environ.items() if k not in ("KVMM_SOCKET", "KVMM_SOCKET_DIR")}
good = bad = 0


def check(ok, what):
    global good, bad
    good += bool(ok)
    bad += not ok
    if not ok:
        print("failed:", what)


def run(*args, stdin=None):
    return subprocess.run(args, capture_output=True, timeout=120, env=ENV, input=stdin)


def replay(mode, blocks, tokens, trace, *more):
    done = run("tools/kvmm-replay", mode, "--blocks", str(blocks), "--block-tokens", str(tokens),
               "--json", "--no-progress", *more, trace)
    check(done.returncode == 0, f"replay {mode} {tokens}: {done.stderr.decode()}")
    row = json.loads(done.stdout)
    return {k: row[k] for k in row if k in ("hits", "misses", "evictions", "fp", "accesses",
                                            "hit_tokens", "input_tokens", "rejected")}


def in_order(path):
    """A trace whose numbers are in the order in which they come first."""
    names, out = {}, []
    with open(path) as file:
        for row in map(json.loads, file):
            row["hash_ids"] = [names.setdefault(n, len(names)) for n in row["hash_ids"]]
            out.append(row)
    first = out[0]["timestamp"]
    return [{**row, "timestamp": row["timestamp"] - first} for row in out]


def check_round_trip(folder, trace, mode, blocks, tokens):
    events, again = f"{folder}/events", f"{folder}/again.jsonl"
    first = replay(mode, blocks, tokens, trace, "--events", events)
    done = run("tools/kvmm-trace", "record", events, "-o", again, "--json")
    check(done.returncode == 0, f"record: {done.stderr.decode()}")
    said = json.loads(done.stdout)
    check(not any(said[k] for k in ("lost_events", "broken", "odd", "rounded")), said)
    check(first["hits"] > 0 and first["evictions"] > 0, "nothing to compare")
    check(replay(mode, blocks, tokens, again) == first, f"{mode}, blocks of {tokens}")
    if tokens == 512:
        check(in_order(trace) == in_order(again), "not the same trace")


def write_talks(path, tokens):
    """Prompts that part at any block of so many tokens: each goes on from somewhere in one before it."""
    rng = random.Random(16)
    prompts, nr = [], 0
    with open(path, "w") as file:
        for i in range(400):
            old = rng.choice(prompts[-40:]) if prompts and rng.random() < 0.9 else []
            ids = old[:len(old) - rng.randrange(len(old) // 4 + 1)]
            fresh = rng.randrange(1, 40)
            ids = ids + list(range(nr, nr + fresh))
            nr += fresh
            prompts.append(ids)
            said = {"block_tokens": tokens} if tokens & (tokens - 1) else {}
            json.dump({"timestamp": 3 * i, "input_length": len(ids) * tokens - rng.randrange(tokens),
                       "output_length": 5, **said, "hash_ids": ids}, file)
            file.write("\n")


def live_hits(events):
    """What the engine noted when each request ended."""
    with open(events) as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    column = rows[0].index("hits")
    return sum(int(row[column]) for row in rows if row[1] == "request_end")


def check_small_blocks(folder, tokens):
    """Prompts that share less than 512 tokens: what is recorded hits as often as it did live."""
    trace, events, again = f"{folder}/talks.jsonl", f"{folder}/talks", f"{folder}/talks-again.jsonl"
    write_talks(trace, tokens)
    first = replay("seq", 4000, tokens, trace, "--events", events)
    check(first["hits"] > first["accesses"] // 2 and first["evictions"] > 0, f"too few hits: {first}")
    check(live_hits(events) == first["hits"], f"{live_hits(events)} hits noted")
    for kind in ("mooncake", "bailian"):
        done = run("tools/kvmm-trace", "record", events, "-o", again, "--to", kind)
        check(done.returncode == 0, f"record: {done.stderr.decode()}")
        check(replay("seq", 4000, tokens, again) == first, f"{kind}, blocks of {tokens}")
        back = run("tools/kvmm-trace", "convert", again, "-o", f"{folder}/back.jsonl")
        check(back.returncode == 0 and replay("seq", 4000, tokens, f"{folder}/back.jsonl") == first,
              f"{kind} as another format")
    coarse = replay("seq", 1000, 4 * tokens, again)
    check(0 < coarse["hit_tokens"] < first["hit_tokens"], f"larger blocks share less: {coarse}")


def check_answers(folder):
    """An engine whose answers fill blocks, which the next turn of the talk finds again."""
    events, again = f"{folder}/talk", f"{folder}/talk.jsonl"
    for blocks in (300, 1000, 3000):
        done = run("tests/ctl/talk_run", str(blocks), events)
        check(done.returncode == 0, f"talks: {done.stderr.decode()}")
        engine = json.loads(done.stdout)
        check(engine["hits"] == live_hits(events) > 2000 and engine["evictions"] > 0, engine)
        done = run("tools/kvmm-trace", "record", events, "-o", again, "--json")
        check(done.returncode == 0 and json.loads(done.stdout)["requests"] == 900, done)
        told = replay("seq", blocks, 16, again, "--answers")
        check({k: told[k] for k in engine} == engine, f"{blocks} blocks: {told}, not {engine}")
        without = replay("seq", blocks, 16, again)
        check(without["hits"] != engine["hits"], "answers do not matter here")
    for mode, more in (("conc", []), ("seq", ["--policy", "min"]), ("seq", ["--ages"])):
        done = run("tools/kvmm-replay", mode, "--answers", "--block-tokens", "16", *more, again)
        check(done.returncode == 2 and b"--answers" in done.stderr, f"{mode} {more}: {done}")


def check_bailian(folder):
    """There equal numbers are equal tokens, and only behind equal ones the same prefix."""
    path = f"{folder}/bailian.jsonl"
    with open(path, "w") as file:
        for i, ids in enumerate([[1, 2, 3], [4, 2, 3], [1, 2, 5]]):
            json.dump({"chat_id": i, "parent_chat_id": -1, "timestamp": i * 0.5, "input_length": 48,
                       "output_length": 1, "type": "text", "turn": 1, "hash_ids": ids}, file)
            file.write("\n")
    done = run("tools/kvmm-trace", "convert", path)
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    check([row["hash_ids"] for row in rows] == [[0, 1, 2], [3, 4, 5], [0, 1, 6]], rows)
    check([row["timestamp"] for row in rows] == [0, 500, 1000], rows)
    ids = run("tools/kvmm-replay", "seq", "--blocks", "9", "--no-progress", path)
    check(ids.returncode == 2 and b"--block-tokens 16" in ids.stderr, ids)


def check_convert(folder, trace):
    for kind in ("azure", "lengths"):
        paths = [trace, *(f"{folder}/{kind}{i}.csv" for i in range(3))]
        for source, out in zip(paths, paths[1:]):
            check(run("tools/kvmm-trace", "convert", "--to", kind, "-o", out, source).returncode
                  == 0, f"to {kind}")
        # An Azure trace begins when its first request comes.
        with open(paths[2]) as a, open(paths[3]) as b:
            check(a.read() == b.read(), f"{kind} is not what it was")
    done = run("tools/kvmm-trace", "convert", trace)
    with open(trace) as file:
        check([json.loads(x) for x in file] ==
              [json.loads(x) for x in done.stdout.decode().splitlines()], "convert to the same")


def check_live(folder, trace):
    """A replay that is looked at by its control socket."""
    sock = f"{folder}/sock"
    os.mkdir(sock, 0o700)
    path = f"{sock}/replay.sock"
    with subprocess.Popen(["tools/kvmm-replay", "seq", "--blocks", "400", "--control", sock,
                           "--slow", "50000", "--no-progress", trace], env=ENV,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as engine:
        for _ in range(1500):
            names = run("tools/kvmm-events", "names", "--socket", path, "--json")
            if names.returncode == 0 and names.stdout:
                break
            time.sleep(0.02)
        check(names.stdout and all(json.loads(x)["kind"] == "stored"
                                   for x in names.stdout.decode().splitlines()), "names")
        names = run("tools/kvmm-events", "names", "--socket", path, "--json", "-n", "3")
        check(names.returncode == 0 and len(names.stdout.splitlines()) == 3, "so many names")
        tail = run("tools/kvmm-events", "tail", "--socket", path, "-n", "20", "--json")
        rows = [json.loads(x) for x in tail.stdout.decode().splitlines()]
        check(len(rows) == 20 and all("seq" in row for row in rows), "tail")
        out = f"{folder}/live.jsonl"
        done = run("tools/kvmm-trace", "record", "--socket", path, "--requests", "20", "-o", out,
                   "--json")
        check(done.returncode == 0 and json.loads(done.stdout)["requests"] >= 20, "live trace")
        lookups = run("tools/kvmm-trace", "record", "--socket", path, "--requests", "5", "--from",
                      "lookups", "-o", out, "--json")
        check(lookups.returncode == 0 and json.loads(lookups.stdout)["requests"] >= 4,
              f"lookups: {lookups}")
        engine.kill()
    check(run("tools/kvmm-events", "tail", "--socket", path).returncode == 1, "no engine")


def check_full_answers(folder):
    """More is there behind an answer that took as many events as one may, whatever it shows of them."""
    path, rests = f"{folder}/full.sock", []
    door = socket.socket(socket.AF_UNIX)
    door.bind(path)
    door.listen(1)
    with open(f"{folder}/talks") as file:
        head, row = file.readline(), next(line for line in file if "\tstored\t" in line)

    def serve():
        client = door.accept()[0]
        client.sendall(b"kvmm-control 1 full\n")
        sent = 0
        for i, line in enumerate(client.makefile("r")):
            rests.append(time.monotonic() - sent)
            mark = f"{4096 * (i + 1)}\tnext" + "\t-" * 15 + "\t0\n"
            body = head + row * 4 + mark
            client.sendall(f"ok {len(body)}\n{body}".encode())
            sent = time.monotonic()
    threading.Thread(target=serve, daemon=True).start()
    done = run("tools/kvmm-events", "tail", "--socket", path, "-n", "100")
    check(done.returncode == 0 and done.stdout.count(b"\n") == 100, done.stderr)
    check(len(rests) == 25 and min(rests) < 0.02, f"a rest before each question: {rests}")


def check_published(folder, trace):
    """The events of a replay on the network. Who comes late misses the first ones, so the end is compared."""
    at, batches = f"ipc://{folder}/pub", f"{folder}/batches"
    with subprocess.Popen(["tools/kvmm-events", "record", "--zmq", at, batches], env=ENV,
                          stderr=subprocess.PIPE) as reader:
        replay("seq", 500, 512, trace, "--slow", "8000", "--publish", at, "--events",
               f"{folder}/told")
        size = -1	# of what has come, until there is no more
        while size != (size := os.path.getsize(batches)):
            time.sleep(0.5)
        reader.terminate()
    decoded = run("tools/kvmm-events", "decode", "--json", batches)
    stored = [h for row in decoded.stdout.decode().splitlines() for e in json.loads(row)["events"]
              if e["type"] == "BlockStored" for h in e["block_hashes"]]
    with open(f"{folder}/told") as file:
        rows = [line.split("\t") for line in file]
    told = [int(row[3][16:], 16) for row in rows if row[1] == "stored"]
    check(len(stored) > 500 and len(told) > 500, f"{len(stored)} published, {len(told)} told")
    check(stored[-500:] == told[-500:], "what was published last is what was told last")
    for endpoint in ("nonsense", "ipc:///no/such/folder/pub"):
        done = run("tools/kvmm-replay", "seq", "--blocks", "500", "--publish", endpoint, trace)
        check(done.returncode and endpoint.encode() in done.stderr, f"{endpoint}: {done}")


def check_decode(folder):
    batches, tokens = b"", 0
    for name in ("map-stored", "array-mixed", "sglang-mixed", "map-tokens", "array-tokens"):
        with open(f"{TREE}/tests/ctl/vectors/{name}.hex") as file:
            batches += bytes.fromhex(file.read())
    done = run("tools/kvmm-events", "decode", "--json", stdin=batches)
    rows = [json.loads(x) for x in done.stdout.decode().splitlines()]
    check(done.returncode == 0 and len(rows) == 5, "decode")
    tokens = [e["token_ids"] for e in rows[3]["events"]]
    check(tokens == [[0, 127, 128, 255, 256, 65535, 65536, (1 << 32) - 1], []], tokens)
    check(rows[3]["events"] == rows[4]["events"], "maps and arrays say the same")
    check(rows[1]["events"][-1] == {"type": "AllBlocksCleared"}, "cleared")
    check(run("tools/kvmm-events", "decode", stdin=batches[:-1]).returncode == 2, "cut off")
    check(run("tools/kvmm-events", "decode", stdin=b"\xc1").returncode == 2, "no batch")


def check_record_without_an_engine(folder):
    """What is in the file already is worth more than nothing."""
    path = f"{folder}/yesterday"
    with open(path, "w") as file:
        file.write("precious\n")
    done = run("tools/kvmm-events", "record", "--socket", f"{folder}/none.sock", path)
    check(done.returncode == 1 and open(path).read() == "precious\n", f"a file was lost: {done}")


def check_usage(folder):
    empty = f"{folder}/empty"
    with open(empty, "w") as file:
        file.write("no event\n")
    for args in (["record", empty], ["convert", empty], ["record", "--json", empty],
                 ["record", f"{folder}/none"]):
        done = run("tools/kvmm-trace", *args)
        check(done.returncode == 2 and done.stderr, f"{args}: {done.returncode}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        trace = f"{folder}/trace.jsonl"
        with open(trace, "wb") as file:
            file.write(run("tools/kvmm-replay", "generate", "--requests", "300", "--seed", "7",
                           "chat").stdout)
        check_round_trip(folder, trace, "seq", 500, 512)
        check_round_trip(folder, trace, "seq", 8000, 64)
        check_round_trip(folder, trace, "conc", 1000, 512)
        check_small_blocks(folder, 16)
        check_small_blocks(folder, 528)
        check_small_blocks(folder, 1)
        check_answers(folder)
        check_bailian(folder)
        check_convert(folder, trace)
        check_full_answers(folder)
        check_live(folder, trace)
        check_published(folder, trace)
        check_decode(folder)
        check_record_without_an_engine(folder)
        check_usage(folder)
    print(f"{good} passed, {bad} failed")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
