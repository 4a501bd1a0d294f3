# SPDX-License-Identifier: Apache-2.0
"""A prompt goes from the pool that computed it to the one that decodes: how many pieces is it?"""
import collections
import ctypes
import importlib.util
import mmap
import os
import random
import subprocess
import sys
import time

import pytest

import kvmm

NR, BYTES = 512, 4096
NO_NIXL = 77            # an exit code


class Queue:
    """Free blocks in the order in which they came back, as engines without a memory manager."""

    def __init__(self):
        self.free = collections.deque(range(NR))

    def alloc(self, nr):
        return [self.free.popleft() for _ in range(nr)]

    def put(self, ids):
        self.free.extend(reversed(ids))


def pieces(here, there):
    """Pairs of runs: blocks that are neighbours on both sides go together."""
    pairs = list(zip(here, there, strict=True))
    return sum((a + 1, b + 1) != pair for (a, b), pair in zip([(-9, -9), *pairs], pairs))


def prompts(prefill, decode, seed, nr):
    """Ids on both sides of prompts one after the other, where all blocks are cached: the prefill
    side has a few prompts at a time, the decode side more, which grow, and end in any order."""
    rng, sent, kept = random.Random(seed), collections.deque(), []

    def blocks_of(pool, nr):
        ids = pool.alloc(nr)
        if isinstance(pool, kvmm.Pool):
            pool.register(ids, rng.randbytes(16 * nr))
        return ids

    for _ in range(nr):
        length = rng.randrange(4, 24)
        here, there = blocks_of(prefill, length), blocks_of(decode, length)
        yield here, there
        sent.append(here)
        kept.append(list(there))
        if len(sent) == 8:
            prefill.put(sent.popleft())
        for request in kept:
            if rng.randrange(16) == 0:
                request += blocks_of(decode, 1)
        if len(kept) == 12:
            decode.put(kept.pop(rng.randrange(12)))


def test_prompts_go_from_pool_to_pool_in_few_pieces():
    seed = int(os.getenv("KVMM_SEED", random.randrange(1 << 32)))
    print("KVMM_SEED", seed)
    with kvmm.Pool(NR, run_window=128) as prefill, kvmm.Pool(NR, run_window=128) as decode:
        ours = [pieces(*pair) for pair in prompts(prefill, decode, seed, 600)][100:]
        prefill.validate()
        decode.validate()
    queues = [pieces(*pair) for pair in prompts(Queue(), Queue(), seed, 600)][100:]
    assert 4 * sum(ours) < 3 * sum(queues)


class Side:
    """A pool in memory that an agent of NIXL's has registered."""

    def __init__(self, name):
        from nixl import _api as nixl
        self.agent = nixl.nixl_agent(f"{name}-{os.getpid()}", nixl.nixl_agent_config(
            backends=["UCX"], capture_telemetry=True))
        memory = mmap.mmap(-1, NR * BYTES)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.pool = kvmm.Pool(NR, memory=memory, planes=[(self.address, BYTES, BYTES)],
                              block_bytes=BYTES, run_window=128)
        self.known = self.agent.register_memory([(self.address, NR * BYTES, 0, "")], "DRAM")

    def blocks(self):
        return self.agent.get_xfer_descs([(self.address + i * BYTES, BYTES, 0)
                                          for i in range(NR)], "DRAM")


def test_nixl_moves_the_blocks_of_a_prompt_in_as_many_descriptors_as_pieces():
    """In a process that ends at once: one with an agent of NIXL 1.5.1 crashes where Python ends,
    without kvmm, too, in what unloads its libnl."""
    if not importlib.util.find_spec("nixl"):
        pytest.skip("no NIXL")
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=300)
    if done.returncode == NO_NIXL:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stderr


def move_prompts():
    prefill, decode = Side("prefill"), Side("decode")
    agent = decode.agent
    name = agent.add_remote_agent(prefill.agent.get_agent_metadata())
    local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", decode.blocks())
    remote = agent.prep_xfer_dlist(name, prefill.blocks())
    for here, there in prompts(prefill.pool, decode.pool, 7, 40):
        content = [os.urandom(BYTES) for _ in here]
        for i, data in zip(here, content):
            prefill.pool.write(i, data)
        job = agent.make_prepped_xfer("READ", local, there, remote, here, b"")
        state = agent.transfer(job)
        while state == "PROC":
            time.sleep(0.001)
            state = agent.check_xfer_state(job)
        assert state == "DONE"
        assert agent.get_xfer_telemetry(job).descCount == pieces(here, there)
        agent.release_xfer_handle(job)
        found = bytearray(BYTES)
        for i, data in zip(there, content):
            decode.pool.read_into(i, found)
            assert found == data


if __name__ == "__main__":
    try:
        move_prompts()
    except ImportError as error:
        print(error, flush=True)
        os._exit(NO_NIXL)
    os._exit(0)
