#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vLLM on a CPU, with its own block pool, with kvmm's, with kvmm's tiers below: the same tokens?

usage: e2e.py [--requests N] [--blocks N] [--host-blocks N] [--disk-blocks N] [--trace FILE]
A Llama of two layers with random weights, made here. Prompts share prefixes, and the pool must
evict. The last fifth of the requests comes after a restart of the process. With --trace about N
requests of a conversation trace, some conversations in full (512 tokens a block there, 32 here, and
answers in proportion). Prints a line for each check, NAME, tab, FIGURE, tab, "ok" or "FAILED"; exit
code 1 if one failed: tokens differ, more than 0.1 % of the hits are lost, runs are not fewer, or
tiers bring nothing.
"""
import argparse
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

POOLS = {"stock": None, "kvmm": {}, "tiers": {}, "long runs": {"run_window": 128, "ahead": 8}}
BLOCK = 32
BLOCK_BYTES = 2 * 2 * 2 * 32 * 4 * BLOCK    # layers, K and V, heads, dimensions, float32


def make_model(path):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
              "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
              "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 512,
              "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "torch_dtype": "float32",
              "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False}
    with open(os.path.join(path, "config.json"), "w") as file:
        json.dump(config, file)


def tokens_of(rng, nr):
    return [rng.randrange(3, 512) for _ in range(nr)]


def documents(nr):
    """Prompts and tokens to make: documents that several ask about, and questions of their own."""
    rng = random.Random(7)
    known = [tokens_of(rng, BLOCK * rng.randrange(4, 24)) for _ in range(24)]
    for _ in range(nr):
        document = known[min(int(rng.expovariate(0.15)), 23)]
        yield document + tokens_of(rng, rng.randrange(8, 80)), 8


def conversations(path, nr):
    """The same of a trace, whose first block all conversations share: those with a second that fits
    into the sample. A block's tokens follow from its number, lengths are scaled."""
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    part = max(1, len(rows) // nr)
    for row in rows:
        numbers = row["hash_ids"]
        if len(numbers) > 1 and numbers[1] % part == 0:
            prompt = itertools.chain(*(tokens_of(random.Random(i), BLOCK) for i in numbers))
            yield (list(prompt)[:max(1, row["input_length"] * BLOCK // 512)],
                   max(1, row["output_length"] * BLOCK // 512))


def runs(ids):
    return sum(b != a + 1 for a, b in zip([-9, *ids], ids))


def start(ours, blocks, room, connector=None):
    """An engine in this process, with vLLM's own pool if ours is None, else kvmm's with that."""
    from vllm import LLM
    return LLM(room, skip_tokenizer_init=True, load_format="dummy", dtype="float32",
               block_size=BLOCK, num_gpu_blocks_override=blocks,
               max_model_len=min(8192, BLOCK * (blocks - 1)), max_num_seqs=4,
               gpu_memory_utilization=0.1, enable_prefix_caching=True, enforce_eager=True, seed=1,
               disable_log_stats=True, async_scheduling=False, kv_transfer_config=connector,
               additional_config={"kvmm": ours},
               scheduler_cls="vllm.v1.core.sched.scheduler.Scheduler" if ours is None else
               "kvmm.vllm.KvmmScheduler")


def asked_for(tokens):
    """What decodes so many tokens, the likeliest ones."""
    from vllm import SamplingParams
    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)


def one(kind, options, room):
    """A process: its share of the requests, and what became of them, as JSON."""
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    seen = {"runs": 0, "blocks": 0, "requests": 0}
    free = KVCacheManager.free

    def counted(self, request, *args, **named):
        ids = [i for i in self.get_block_ids(request.request_id)[0] if i]
        seen["runs"] += runs(ids)
        seen["blocks"] += len(ids)
        seen["requests"] += 1
        return free(self, request, *args, **named)
    KVCacheManager.free = counted
    asked = list(conversations(options.trace, options.requests) if options.trace
                 else documents(options.requests))
    split = len(asked) * 4 // 5
    asked = asked[split:] if options.restarted else asked[:split]
    connector = {"kv_connector": "KvmmConnector", "kv_role": "kv_both",
                 "kv_connector_extra_config": {
                     "host_bytes": options.host_blocks * BLOCK_BYTES,
                     "path": os.path.join(room, "store"),
                     "max_bytes": options.disk_blocks * BLOCK_BYTES}}
    engine = start(POOLS[kind], options.blocks, room, connector if kind == "tiers" else None)
    answers = engine.generate(
        [{"prompt_token_ids": prompt} for prompt, _ in asked],
        [asked_for(nr) for _, nr in asked], use_tqdm=False)
    tokens = hashlib.sha256(json.dumps([list(a.outputs[0].token_ids) for a in answers]).encode())
    print("RESULT " + json.dumps({
        "tokens": tokens.hexdigest()[:16], "cached": sum(a.num_cached_tokens or 0 for a in answers),
        "prompt": sum(len(prompt) for prompt, _ in asked),
        "runs": round(seen["runs"] / seen["requests"], 2),
        "blocks": round(seen["blocks"] / seen["requests"], 2)}))


def in_process(kind, room, restarted):
    done = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--one", kind, "--room", room,
                           *(["--restarted"] if restarted else [])], capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])
    sys.exit(f"{kind}: {done.stderr[-3000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("requests", 375), ("blocks", 160), ("host-blocks", 640),
                          ("disk-blocks", 4096)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--trace")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--room", help=argparse.SUPPRESS)
    parser.add_argument("--restarted", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options, options.room)
        return
    with tempfile.TemporaryDirectory() as room:
        make_model(room)
        stock, ours, tiers, long = (in_process(kind, room, False)
                                    for kind in ("stock", "kvmm", "tiers", "long runs"))
        stock2, tiers2 = (in_process(kind, room, True) for kind in ("stock", "tiers"))
    failed = False

    def check(name, figure, good):
        nonlocal failed
        failed |= not good
        print(f"{name}\t{figure}\t{'ok' if good else 'FAILED'}")

    check("tokens", stock["tokens"], tiers2["tokens"] == stock2["tokens"] and
          ours["tokens"] == tiers["tokens"] == long["tokens"] == stock["tokens"])
    check("hits of the pool", f"{stock['cached']} -> {ours['cached']} of {stock['prompt']}",
          ours["cached"] >= 0.999 * stock["cached"])
    check("runs a request", f"{stock['runs']} -> {ours['runs']} for {ours['blocks']} blocks",
          ours["runs"] < stock["runs"])
    check("run_window 128, ahead 8", f"{long['runs']} runs a request, {long['cached']} hits",
          long["runs"] < ours["runs"])
    for name, before, after in (("computed with tiers", stock, tiers),
                                ("computed after a restart", stock2, tiers2)):
        figures = [row["prompt"] - row["cached"] for row in (before, after)]
        check(name, f"{figures[0]} -> {figures[1]} of {before['prompt']}", figures[1] < figures[0])
    sys.exit(failed)


if __name__ == "__main__":
    main()
