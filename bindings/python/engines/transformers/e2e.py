# SPDX-License-Identifier: Apache-2.0
"""The same requests through transformers' own pool of blocks and kvmm's: tokens and runs.

usage: e2e.py [REQUESTS]        default: 120, of a model with random weights, on the CPU
Prefixes are shared, and the pool is so small that requests have to wait for blocks or are pushed
out. Prints one line; exit code 1 if a token differs.
"""
import random
import sys

import torch
import transformers
from transformers.generation.continuous_batching import cache, offloading_manager

from kvmm.transformers import KvmmCachePool

BLOCKS, PAGE = 48, 16


def prompts(nr, rng):
    prefixes = [[rng.randrange(3, 128) for _ in range(48)] for _ in range(6)]
    return [rng.choice(prefixes) + [rng.randrange(3, 128) for _ in range(rng.randrange(4, 90))]
            for _ in range(nr)]


def counted(pool, seen):
    """A pool that notes, of blocks that come back together, how many runs they lie in."""
    class Counted(pool):
        def free_blocks(self, index, block_ids):
            ids = list(block_ids)
            if ids:
                seen.append(1 + sum(b != a + 1 for a, b in zip(ids, ids[1:])))
            return super().free_blocks(index, ids)
    return Counted


def run(model, inputs, pool):
    seen = []
    cache.CachePool = offloading_manager.CachePool = counted(pool, seen)
    out = model.generate_batch(
        inputs=inputs, warmup=False,
        generation_config=transformers.GenerationConfig(
            max_new_tokens=24, do_sample=False, eos_token_id=-1, pad_token_id=0),
        continuous_batching_config=transformers.ContinuousBatchingConfig(
            page_size=PAGE, num_blocks=BLOCKS, max_batch_tokens=128))
    order = sorted(out, key=lambda name: int(name.rsplit("_", 1)[1]))
    return [out[name].generated_tokens for name in order], sum(seen) / max(len(seen), 1)


def main():
    nr = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)).eval()
    inputs = prompts(nr, random.Random(7))
    stock_tokens, stock_runs = run(model, inputs, cache.CachePool)
    tokens, runs = run(model, inputs, KvmmCachePool)
    same = sum(a == b for a, b in zip(stock_tokens, tokens))
    print(f"{same} of {nr} requests have the same tokens, runs a request "
          f"{stock_runs:.2f} -> {runs:.2f}")
    sys.exit(same != nr or len(tokens) != nr)


if __name__ == "__main__":
    main()
