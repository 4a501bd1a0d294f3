# SPDX-License-Identifier: Apache-2.0
"""The connector of vLLM's, both of its sides in one process, as vLLM calls them; on vLLM's base
class where vLLM is installed, else on a stand-in."""
import enum
import importlib
import itertools
import random
import sys
from types import ModuleType, SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

TOKENS, NR = 4, 32
BASE = "vllm.distributed.kv_transfer.kv_connector.v1.base"


class Base:
    """KVConnectorBase_V1 as far as the connector needs it."""

    def __init__(self, vllm_config, role, kv_cache_config):
        self._vllm_config, self._kv_cache_config = vllm_config, kv_cache_config
        self._kv_transfer_config = vllm_config.kv_transfer_config

    def bind_kv_cache_manager(self, manager):
        self._kv_cache_manager = manager

    def bind_connector_metadata(self, meta):
        self._meta = meta

    def _get_connector_metadata(self):
        return self._meta


def have_vllm():
    try:
        importlib.import_module(BASE)
        return True
    except ImportError:
        return False


@pytest.fixture(scope="module")
def module():
    with pytest.MonkeyPatch.context() as patch:
        if not have_vllm():
            for end in range(1, BASE.count(".") + 2):
                stand_in = ModuleType(".".join(BASE.split(".")[:end]))
                stand_in.KVConnectorBase_V1, stand_in.KVConnectorMetadata = Base, object
                stand_in.KVConnectorRole = enum.Enum("KVConnectorRole", "SCHEDULER WORKER")
                patch.setitem(sys.modules, stand_in.__name__, stand_in)
        yield importlib.import_module("kvmm.vllm.connector")
    if not have_vllm():
        sys.modules.pop("kvmm.vllm.connector", None)


class Engine:
    """vLLM's part: tensors, block tables, steps. A block's content follows from its key."""

    names, block_pool = itertools.count(), None

    def __init__(self, module, path="", host_blocks=64, groups=1, worker=True, rows=NR):
        self.caches = {"a": torch.zeros(NR, 2, TOKENS, 8),
                       "b": torch.zeros(rows, 1, TOKENS, 5, dtype=torch.bfloat16)}
        self.caches["again"] = self.caches["a"]             # two layers that share a cache
        one = SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=TOKENS))
        cache_config = SimpleNamespace(num_blocks=NR, kv_cache_groups=[one] * groups)
        extra = {"host_bytes": host_blocks * (2 * TOKENS * 8 * 4 + TOKENS * 5 * 2),
                 "path": str(path), "max_bytes": 8 << 20}
        model = SimpleNamespace(model="m", revision=None, dtype="f", quantization=None)
        config = SimpleNamespace(
            kv_transfer_config=SimpleNamespace(engine_id=f"e{next(self.names)}",
                                               kv_connector_extra_config=extra),
            model_config=model, parallel_config=SimpleNamespace(data_parallel_index=0),
            cache_config=SimpleNamespace(cache_dtype="auto", prefix_caching_hash_algo="sha256"))
        role = module.KVConnectorRole
        if worker:
            self.worker = module.KvmmConnector(config, role.WORKER, cache_config)
            self.worker.register_kv_caches(self.caches)
        self.connector = module.KvmmConnector(config, role.SCHEDULER, cache_config)
        self.connector.bind_kv_cache_manager(self)
        self.tables = {}
        self.tiers = self.connector.tiers

    def get_block_ids(self, request_id):
        return (self.tables[request_id],)

    def fill(self, block, key):
        generator = torch.Generator().manual_seed(int.from_bytes(key[:4], "little"))
        for cache in (self.caches["a"], self.caches["b"]):
            cache[block] = torch.rand(cache.shape[1:], generator=generator).to(cache.dtype)

    def holds(self, block, key):
        before = [cache[block].clone() for cache in self.caches.values()]
        self.fill(block, key)
        return all(torch.equal(a, cache[block]) for a, cache in zip(before, self.caches.values()))

    def begin(self, name, keys, nr_tokens, computed=0):
        request = SimpleNamespace(request_id=name, block_hashes=keys, num_tokens=nr_tokens,
                                  num_computed_tokens=0)
        self.connector.on_new_request(request)
        found, later = self.connector.get_num_new_matched_tokens(request, computed)
        assert not later
        return request, found

    def schedule(self, request, table, found, computed=0):
        self.tables[request.request_id] = table
        self.connector.update_state_after_alloc(
            request, SimpleNamespace(get_block_ids=lambda: (table,)), found)
        request.num_computed_tokens = computed + found

    def step(self, request, nr_tokens, written=None):
        """A forward pass: blocks that it fills have their content at its end."""
        meta = self.connector.build_connector_meta(
            SimpleNamespace(num_scheduled_tokens={request.request_id: nr_tokens}))
        self.worker.bind_connector_metadata(meta)
        self.worker.start_load_kv(None)
        first = request.num_computed_tokens // TOKENS
        request.num_computed_tokens += nr_tokens
        last = request.num_computed_tokens // TOKENS if written is None else written
        for i in range(first, last):
            self.fill(self.tables[request.request_id][i], request.block_hashes[i])
        self.worker.wait_for_save()
        return meta

    def finish(self, request):
        assert self.connector.request_finished(request, []) == (False, None)

    def run(self, name, keys, table, computed=0):
        """A whole request with one token more than its blocks; the tokens found below."""
        request, found = self.begin(name, keys, len(keys) * TOKENS + 1, computed)
        self.schedule(request, table, found, computed)
        self.step(request, request.num_tokens - request.num_computed_tokens)
        for block, key in zip(table, keys):
            assert self.holds(block, key) or computed
        self.finish(request)
        return found

    def end(self):
        self.connector.shutdown()
        self.worker.shutdown()
        assert self.tiers.pool.available == self.tiers.pool.nr_blocks


def keys_of(*numbers):
    return [n.to_bytes(4, "little") * 8 for n in numbers]


def test_what_one_request_computed_another_loads(module):
    engine = Engine(module)
    assert engine.run("one", keys_of(1, 2, 3), [4, 5, 6]) == 0
    assert engine.run("two", keys_of(1, 2, 9), [20, 11, 7]) == 2 * TOKENS
    assert engine.run("three", keys_of(1, 2, 3), [8, 9, 10]) == 3 * TOKENS
    engine.end()


def test_only_what_is_behind_the_pools_own_hits_is_loaded(module):
    engine = Engine(module)
    engine.run("one", keys_of(1, 2, 3), [4, 5, 6])
    request, found = engine.begin("two", keys_of(1, 2, 3), 3 * TOKENS + 1, TOKENS)
    assert found == 2 * TOKENS
    engine.schedule(request, [4, 21, 22], found, TOKENS)
    assert engine.step(request, 1).loads[0][1] == [21, 22]
    assert engine.holds(21, keys_of(2)[0]) and engine.holds(22, keys_of(3)[0])
    engine.finish(request)
    engine.end()


def test_the_last_token_is_computed(module):
    engine = Engine(module)
    engine.run("one", keys_of(1, 2), [4, 5])
    request, found = engine.begin("two", keys_of(1, 2), 2 * TOKENS)
    assert found == TOKENS
    engine.finish(request)
    engine.end()


def test_what_is_not_taken_is_let_go_of(module):
    engine = Engine(module)
    engine.run("one", keys_of(1, 2, 3), [4, 5, 6])
    request, found = engine.begin("two", keys_of(1, 2, 3), 3 * TOKENS + 1)
    assert engine.connector.get_num_new_matched_tokens(request, 0) == (found, False)
    engine.schedule(request, [7, 8, 9], TOKENS)
    assert engine.step(request, 2 * TOKENS + 1).loads[0][1] == [7]
    engine.finish(request)
    refused, _ = engine.begin("three", keys_of(1, 2, 3), 3 * TOKENS + 1)
    engine.schedule(refused, [7, 8, 9], 0)
    aborted, _ = engine.begin("four", keys_of(1, 2, 3), 3 * TOKENS + 1)
    engine.finish(aborted)
    engine.end()


def test_drafts_and_half_blocks_are_not_saved(module):
    engine = Engine(module)
    request, _ = engine.begin("one", keys_of(1), TOKENS + 2)
    engine.schedule(request, [4, 5, 6], 0)
    assert list(engine.step(request, 3).saves) == []
    assert list(engine.step(request, 2 * TOKENS, 1).saves) == keys_of(1)
    request.block_hashes += keys_of(2)
    assert list(engine.step(request, 1, 2).saves) == keys_of(2)
    engine.finish(request)
    engine.end()


def test_a_new_process_loads_from_the_disk(module, tmp_path):
    engine = Engine(module, tmp_path)
    engine.run("one", keys_of(*range(1, 9)), list(range(8)))
    engine.end()
    engine = Engine(module, tmp_path)
    assert engine.run("two", keys_of(*range(1, 9)), list(range(8, 16))) == 8 * TOKENS
    assert engine.tiers.counts["disk"] == 8
    assert engine.connector.reset_cache()
    assert engine.run("three", keys_of(1), [3]) == 0
    engine.end()


def test_what_it_cannot_serve_is_refused(module):
    with pytest.raises(ValueError, match="several kinds"):
        Engine(module, groups=2)
    with pytest.raises(ValueError, match="another process"):
        Engine(module, worker=False)
    with pytest.raises(ValueError, match="for 32 blocks"):
        Engine(module, rows=NR + 1)


@pytest.mark.parametrize("disk", [False, True])
def test_any_mix_of_prompts_loads_what_was_computed(module, tmp_path, disk):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng, engine, found = random.Random(seed), None, 0
    for nr in range(120):
        if nr % 40 == 0:
            if engine:
                engine.end()
            engine = Engine(module, tmp_path if disk else "", host_blocks=16)
        chain = [rng.randrange(4)]
        for _ in range(rng.randrange(8)):
            chain.append(chain[-1] * 3 + rng.randrange(3) + 5)
        found += engine.run(str(nr), keys_of(*chain), rng.sample(range(NR), len(chain)))
    assert found
    engine.end()
