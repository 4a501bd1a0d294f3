# SPDX-License-Identifier: Apache-2.0
"""Sectors and blocks of transformers' continuous batching, and generate_batch on them."""
import random

import pytest

import kvmm
from kvmm.transformers import KvmmCachePool, use


def test_blocks_come_from_the_lowest_sectors():
    pool = KvmmCachePool(num_sectors=4, num_allocators=2)
    pool.set_blocks_per_sector(0, 3)
    pool.set_blocks_per_sector(1, 2)
    assert pool.num_free_sectors == len(pool.free_sectors) == 4
    assert pool.count_free_blocks(0) == 0 and pool.get_free_blocks(0, 0) == []
    pool.allocate_sector(0)
    pool.allocate_sector(1)
    assert pool.get_free_blocks(0, 2) == [6, 7]         # two sectors in front are reserved
    assert pool.get_free_blocks(1, 2) == [6, 7]
    with pytest.raises(ValueError):
        pool.get_free_blocks(0, 2)
    assert pool.count_free_blocks(0) == 1 and pool.num_free_sectors == 2
    pool.free_blocks(0, [6, 7])
    with pytest.raises(kvmm.Error):
        pool.free_blocks(0, [7])
    pool.try_to_free_sectors()
    assert pool.num_free_sectors == 3 and pool.count_free_blocks(0) == 0
    pool.reset()
    assert pool.num_free_sectors == 4 and pool.count_free_blocks(1) == 0
    for _ in range(4):
        pool.allocate_sector(1)
    with pytest.raises(ValueError):
        pool.allocate_sector(0)


def test_random_calls_agree_with_sets():
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    per, sectors, reserved = [3, 5], 12, 2
    pool = KvmmCachePool(sectors, 2, reserved)
    for index, nr in enumerate(per):
        pool.set_blocks_per_sector(index, nr)
    held, spare = [[], []], sectors
    for _ in range(2000):
        index, what = rng.randrange(2), rng.randrange(4)
        if what == 0 and spare:
            before = pool.count_free_blocks(index)
            pool.allocate_sector(index)
            spare -= 1
            assert pool.count_free_blocks(index) == before + per[index]
        elif what == 1:
            nr = rng.randrange(6)
            if nr <= pool.count_free_blocks(index):
                got = pool.get_free_blocks(index, nr)
                assert len(set(got)) == nr and not set(got) & set(held[index])
                assert all(reserved <= b // per[index] < sectors + reserved for b in got)
                held[index] += got
        elif what == 2 and held[index]:
            rng.shuffle(held[index])
            nr = rng.randrange(len(held[index])) + 1
            pool.free_blocks(index, held[index][:nr])
            del held[index][:nr]
        elif what == 3:
            pool.try_to_free_sectors()
            used = [{b // nr for b in blocks} for nr, blocks in zip(per, held)]
            assert not used[0] & used[1]
            spare = sectors - len(used[0]) - len(used[1])
            for i in range(2):
                assert pool.count_free_blocks(i) == len(used[i]) * per[i] - len(held[i])
        assert pool.num_free_sectors == spare


def test_generate_batch_gives_the_same_tokens():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("transformers.generation.continuous_batching.cache_allocators.cache_pool")
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256)).eval()
    rng = random.Random(5)
    prompts = [[rng.randrange(3, 128) for _ in range(rng.randrange(4, 40))] for _ in range(6)]
    config = transformers.GenerationConfig(max_new_tokens=8, do_sample=False, eos_token_id=-1,
                                           pad_token_id=0)
    small = transformers.ContinuousBatchingConfig(
        page_size=16, num_blocks=64, max_batch_tokens=64)
    made = []

    class Seen(KvmmCachePool):
        def __init__(self, *args, **named):
            made.append(self)
            super().__init__(*args, **named)

    def tokens():
        out = model.generate_batch(inputs=prompts, generation_config=config, warmup=False,
                                   continuous_batching_config=small)
        return [out[name].generated_tokens for name in sorted(out)]
    stock = tokens()
    use()
    try:
        from transformers.generation.continuous_batching import cache
        assert cache.CachePool is KvmmCachePool
        cache.CachePool = Seen
        assert tokens() == stock and made and all(len(t) == 8 for t in stock)
    finally:
        use(False)
