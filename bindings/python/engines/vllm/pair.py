#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vLLM twice on a CPU, one computes prompts and the other decodes: what goes over NIXL between?

usage: pair.py [--requests N] [--blocks N]
The requests of e2e.py, four at a time, with vLLM's own NixlConnector over loopback, and block pools
of vLLM's, of kvmm's, and of kvmm's for long runs. A descriptor is a piece of memory on both sides:
NIXL joins neighbours that are neighbours there, too. Lines and exit code as e2e.py's; failures are
tokens that differ from those of one engine alone, and no fewer descriptors of what was asked for.
"""
import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile

import e2e

KINDS = {"alone": {}, "stock": None, "kvmm": {}, "long runs": e2e.POOLS["long runs"]}


def count_transfers():
    """What NIXL is asked for and what it makes of that, summed up here as it goes."""
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.stats import NixlKVConnectorStats
    from vllm.distributed.nixl_utils import NixlWrapper
    seen = {"transfers": 0, "asked": 0, "descriptors": 0, "bytes": 0, "microseconds": 0}
    make, record = NixlWrapper.make_prepped_xfer, NixlKVConnectorStats.record_transfer

    def make_prepped_xfer(self, operation, local, ids, *args, **named):
        seen["asked"] += len(ids)
        return make(self, operation, local, ids, *args, **named)

    def record_transfer(self, result):
        seen["transfers"] += 1
        seen["descriptors"] += result.descCount
        seen["bytes"] += result.totalBytes
        seen["microseconds"] += result.xferDuration
        return record(self, result)

    NixlWrapper.make_prepped_xfer = make_prepped_xfer
    NixlKVConnectorStats.record_transfer = record_transfer
    return seen


def serve(kind, options):
    """A process: a line has requests, the answer their tokens and what the other side must know."""
    port = socket.socket()      # kept: nothing else is given its port before the connector listens
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port.bind(("127.0.0.1", 0))
    os.environ["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(port.getsockname()[1])
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    connector = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu"}
    seen = count_transfers() if kind != "alone" else {}
    engine = e2e.start(KINDS[kind], options.blocks, options.room,
                       connector if kind != "alone" else None)
    for line in sys.stdin:
        wanted = []
        for request in json.loads(line):
            wanted.append(e2e.asked_for(request["nr"]))
            wanted[-1].extra_args = {"kv_transfer_params": request["other"]}
        answers = engine.generate([{"prompt_token_ids": request["prompt"]}
                                   for request in json.loads(line)], wanted, use_tqdm=False)
        print("RESULT " + json.dumps({
            "tokens": [list(answer.outputs[0].token_ids) for answer in answers],
            "other": [answer.kv_transfer_params for answer in answers], "seen": seen}), flush=True)


class Engine:
    """The other end of serve()."""

    def __init__(self, kind, room):
        self.log = open(os.path.join(room, f"log-{os.urandom(4).hex()}"), "w+")
        self.process = subprocess.Popen(
            [sys.executable, __file__, *sys.argv[1:], "--serve", kind, "--room", room],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def ask(self, requests):
        self.process.stdin.write(json.dumps(requests) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("RESULT "):
                return json.loads(line[7:])
        self.log.seek(0)
        sys.exit(self.log.read()[-3000:])

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()


def through(kind, room, asked):
    """Tokens of all requests, and what was counted."""
    with contextlib.ExitStack() as stack:
        engines = [Engine(kind, room) for _ in range(1 if kind == "alone" else 2)]
        for engine in engines:
            stack.callback(engine.close)
        tokens, answer = [], {}
        for first in range(0, len(asked), 4):
            batch = [{"prompt": prompt, "nr": nr, "other": None}
                     for prompt, nr in asked[first:first + 4]]
            if kind != "alone":
                made = engines[0].ask([{**request, "nr": 1, "other": {"do_remote_decode": True}}
                                       for request in batch])
                for request, other in zip(batch, made["other"]):
                    request["other"] = other
            answer = engines[-1].ask(batch)
            tokens += answer["tokens"]
        return tokens, answer["seen"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=160)
    parser.add_argument("--blocks", type=int, default=160)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--room", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options)
        return
    asked = list(e2e.documents(options.requests))
    with tempfile.TemporaryDirectory() as room:
        e2e.make_model(room)
        found = {kind: through(kind, room, asked) for kind in KINDS}
    alone, stock, ours = (found[kind] for kind in ("alone", "stock", "kvmm"))
    good = all(tokens == alone[0] for tokens, _ in found.values())
    each = [f"{seen['descriptors'] / seen['transfers']:.2f} of "
            f"{seen['asked'] / seen['transfers']:.2f}" for _, seen in found.values() if seen]
    fewer = (ours[1]["descriptors"] / ours[1]["asked"] <
             stock[1]["descriptors"] / stock[1]["asked"])
    print(f"tokens\t{len(alone[0])} requests\t{'ok' if good else 'FAILED'}")
    print(f"descriptors a request\t{each[0]} -> {each[1]}, run_window 128, ahead 8: {each[2]}\t"
          f"{'ok' if fewer else 'FAILED'}")
    sys.exit(not (good and fewer))


if __name__ == "__main__":
    main()
