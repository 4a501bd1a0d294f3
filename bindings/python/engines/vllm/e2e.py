#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vLLM on a CPU, with its own block pool and with kvmm's: the same requests, the same tokens?

usage: e2e.py [--requests N] [--blocks N] [--one stock|kvmm]
A Llama of two layers with random weights, made here; prompts share prefixes, and the pool must
evict. Prints a line for each engine and the comparison; exit code 1 if tokens differ, if more than
0.1 % of the hits are lost, or if runs are not fewer.
"""
import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile

BLOCK = 32


def make_model(path):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
              "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
              "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 512,
              "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "torch_dtype": "float32",
              "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False}
    with open(os.path.join(path, "config.json"), "w") as file:
        json.dump(config, file)


def prompts(nr):
    """Documents that several ask about, and questions of their own."""
    rng = random.Random(7)
    documents = [[rng.randrange(3, 512) for _ in range(BLOCK * rng.randrange(4, 24))]
                 for _ in range(24)]
    asked = []
    for _ in range(nr):
        document = documents[min(int(rng.expovariate(0.15)), 23)]
        asked.append(document + [rng.randrange(3, 512) for _ in range(rng.randrange(8, 80))])
    return asked


def runs(ids):
    return sum(b != a + 1 for a, b in zip([-9, *ids], ids))


def one(kind, requests, blocks):
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    from vllm import LLM, SamplingParams
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    seen = {"runs": 0, "blocks": 0, "requests": 0}
    free = KVCacheManager.free

    def counted(self, request, *args, **named):
        tables = self.get_block_ids(request.request_id)
        ids = [i for i in tables[0] if i]
        seen["runs"] += runs(ids)
        seen["blocks"] += len(ids)
        seen["requests"] += 1
        return free(self, request, *args, **named)
    KVCacheManager.free = counted
    with tempfile.TemporaryDirectory() as path:
        make_model(path)
        more = {"scheduler_cls": "kvmm.vllm.KvmmScheduler"} if kind == "kvmm" else {
            "scheduler_cls": "vllm.v1.core.sched.scheduler.Scheduler"}
        engine = LLM(path, skip_tokenizer_init=True, load_format="dummy", dtype="float32",
                     block_size=BLOCK, num_gpu_blocks_override=blocks, max_model_len=2048,
                     max_num_seqs=4, enable_prefix_caching=True, enforce_eager=True, seed=1,
                     disable_log_stats=True, async_scheduling=False, **more)
        params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, detokenize=False)
        asked = prompts(requests)
        answers = engine.generate([{"prompt_token_ids": p} for p in asked], params, use_tqdm=False)
    tokens = hashlib.sha256(json.dumps([list(a.outputs[0].token_ids) for a in answers]).encode())
    print("RESULT " + json.dumps({
        "tokens": tokens.hexdigest()[:16], "cached": sum(a.num_cached_tokens or 0 for a in answers),
        "prompt": sum(map(len, asked)), "runs": round(seen["runs"] / seen["requests"], 2),
        "blocks": round(seen["blocks"] / seen["requests"], 2)}))


def in_process(kind, options):
    done = subprocess.run([sys.executable, __file__, "--one", kind, "--requests",
                           str(options.requests), "--blocks", str(options.blocks)],
                          capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])
    sys.exit(f"{kind}: {done.stderr[-3000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--blocks", type=int, default=160)
    parser.add_argument("--one")
    options = parser.parse_args()
    if options.one:
        one(options.one, options.requests, options.blocks)
        return
    stock, ours = in_process("stock", options), in_process("kvmm", options)
    for kind, row in (("vLLM", stock), ("on kvmm", ours)):
        print(f"{kind:8} tokens {row['tokens']}, cached {row['cached']} of {row['prompt']}, "
              f"{row['blocks']} blocks in {row['runs']} runs a request")
    print(f"computed {stock['prompt'] - stock['cached']} -> {ours['prompt'] - ours['cached']} "
          f"prompt tokens, runs {stock['runs'] / ours['runs']:.2f}x fewer")
    sys.exit(stock["tokens"] != ours["tokens"] or ours["cached"] < 0.999 * stock["cached"] or
             ours["runs"] >= stock["runs"])


main()
