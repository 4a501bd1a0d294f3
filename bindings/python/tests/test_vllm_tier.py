# SPDX-License-Identifier: Apache-2.0
"""The tier below vLLM's CPU offload: on vLLM's own base class where vLLM is installed, else on a
stand-in for the few names that it uses."""
import enum
import importlib
import random
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

CHUNK, NR = 8192, 16


class StandIn:
    """vllm.v1.kv_offload as far as the tier needs it."""

    LookupResult = enum.Enum("LookupResult", "MISS HIT HIT_PENDING RETRY")
    Medium = enum.Enum("Medium", {"CPU": "CPU", "STORAGE": "STORAGE"})
    Locality = enum.Enum("Locality", {"LOCAL": "LOCAL", "REMOTE": "REMOTE"})
    RequestOffloadingContext = SimpleNamespace

    @dataclass
    class OffloadingEvent:
        keys: list
        medium: Any
        removed: bool
        locality: Any = None

    @dataclass
    class JobResult:
        job_id: int
        success: bool
        successful_keys: Any = None
        transfer_time: Any = None
        transfer_bytes: Any = None

    class SecondaryTierManager:
        def __init__(self, offloading_spec, primary_kv_view, tier_type, backpressure_detector=None):
            self.block_size_bytes = primary_kv_view.strides[0]
            self.tier_type = tier_type

    class FileMapper:
        def __init__(self, spec):
            self.spec = spec

        @classmethod
        def from_offloading_spec(cls, root_dir, offloading_spec, blocks_per_file=1):
            return cls(offloading_spec)

        def get_run_config(self):
            return {"model_name": self.spec.config.model.name}


def have_vllm():
    try:
        importlib.import_module("vllm.v1.kv_offload.tiering.base")
        return True
    except ImportError:
        return False


@pytest.fixture(scope="module")
def tier_module():
    with pytest.MonkeyPatch.context() as patch:
        if not have_vllm():
            for name in ("vllm", "vllm.v1", "vllm.v1.kv_offload", "vllm.v1.kv_offload.base",
                         "vllm.v1.kv_offload.file_mapper", "vllm.v1.kv_offload.tiering",
                         "vllm.v1.kv_offload.tiering.base"):
                module = ModuleType(name)
                module.__dict__.update(vars(StandIn))
                patch.setitem(sys.modules, name, module)
        yield importlib.import_module("kvmm.vllm.tier")
    if not have_vllm():
        sys.modules.pop("kvmm.vllm.tier", None)


def spec(events=False, model="m", engine=0):
    parallel = SimpleNamespace(tp_size=1, pp_size=1, pcp_size=1, dcp_size=1, rank=0,
                               is_parallelism_agnostic=False, data_parallel_index=engine)
    return SimpleNamespace(
        blocks_per_chunk=1, kv_events_config=SimpleNamespace(enable_kv_cache_events=events),
        config=SimpleNamespace(groups=(), parallel=parallel, replicated_layout=False,
                               canonical_layout=False, kv_cache_layout=None,
                               model=SimpleNamespace(name=model, dtype="float32"),
                               cache=SimpleNamespace(tokens_per_hash=16)))


class Primary:
    """vLLM's CPU cache, and the manager's side of the protocol."""

    def __init__(self, module, path, **other):
        self.module = module
        self.memory = bytearray(CHUNK * NR)
        self.view = memoryview(self.memory).cast("b").cast("b", (NR, CHUNK))
        self.spec = other.pop("offloading_spec", None) or spec(other.get("enable_kv_events", False))
        self.tier = module.KvmmSecondaryTier(self.spec, self.view, "KvmmSecondaryTier",
                                             path=str(path), max_bytes=8 << 20, **other)
        self.next = 0

    def fill(self, chunk, byte):
        self.memory[chunk * CHUNK:(chunk + 1) * CHUNK] = bytes([byte]) * CHUNK

    def holds(self, chunk, byte):
        return self.memory[chunk * CHUNK:(chunk + 1) * CHUNK] == bytes([byte]) * CHUNK

    def submit(self, call, keys, chunks):
        self.next += 1
        call(SimpleNamespace(job_id=self.next, keys=keys, chunk_ids=chunks, is_promotion=False))
        return self.next

    def run(self, call, keys, chunks):
        job = self.submit(call, keys, chunks)
        self.tier.drain_jobs()
        result, = self.tier.get_finished_jobs()
        assert result.job_id == job
        return result

    def look(self, key):
        return self.tier.lookup(key, None).name


def key(n, group=0):
    return n.to_bytes(32, "big") + group.to_bytes(4, "big")


@pytest.fixture
def primary(tier_module, tmp_path):
    primary = Primary(tier_module, tmp_path / "kv")
    yield primary
    primary.tier.shutdown()


def test_chunks_go_down_and_come_back_elsewhere(primary):
    keys = [key(i) for i in range(3)]
    for i in range(3):
        primary.fill(i, i + 1)
    assert [primary.look(k) for k in keys] == ["MISS"] * 3
    result = primary.run(primary.tier.submit_store, keys, [0, 1, 2])
    assert result.success and result.transfer_bytes == 3 * CHUNK and result.transfer_time >= 0
    assert [primary.look(k) for k in keys] == ["HIT"] * 3
    assert primary.look(key(0, group=1)) == "MISS"
    assert primary.run(primary.tier.submit_load, keys, [10, 12, 15]).success
    assert primary.holds(10, 1) and primary.holds(12, 2) and primary.holds(15, 3)
    assert primary.holds(11, 0)
    assert list(primary.tier.get_finished_jobs()) == []


def test_a_chunk_being_stored_is_asked_for_again(primary):
    primary.submit(primary.tier.submit_store, [key(1)], [0])
    primary.submit(primary.tier.submit_store, [key(1)], [0])
    assert primary.look(key(1)) == "RETRY"
    primary.tier.drain_jobs()
    assert primary.look(key(1)) == "RETRY"      # until its result was taken
    assert [result.success for result in primary.tier.get_finished_jobs()] == [True, True]
    assert primary.look(key(1)) == "HIT"


def test_of_a_load_that_fails_in_part_the_rest_is_kept(primary):
    primary.fill(0, 7)
    primary.run(primary.tier.submit_store, [key(1)], [0])
    result = primary.run(primary.tier.submit_load, [key(1), key(2)], [3, 4])
    assert not result.success and tuple(result.successful_keys) == (key(1),)
    assert primary.holds(3, 7) and result.transfer_bytes == CHUNK
    assert primary.look(key(1)) == "HIT" and primary.look(key(2)) == "MISS"


def test_what_could_not_be_loaded_misses_until_it_is_stored_again(primary):
    primary.run(primary.tier.submit_store, [key(1)], [0])
    get, primary.tier.store.get_into = primary.tier.store.get_into, lambda key, out: False
    assert not primary.run(primary.tier.submit_load, [key(1)], [1]).success
    primary.tier.store.get_into = get
    assert primary.look(key(1)) == "MISS"       # or the scheduler would try for ever
    assert primary.run(primary.tier.submit_store, [key(1)], [0]).success
    assert primary.look(key(1)) == "HIT"


def test_a_disk_that_fails_fails_jobs_and_is_counted(primary):
    primary.tier.store._disk.close()            # every call of it raises now
    result = primary.run(primary.tier.submit_store, [key(1), key(2)], [0, 1])
    assert not result.success and result.transfer_bytes == 0
    assert not primary.run(primary.tier.submit_load, [key(1)], [0]).success
    assert primary.look(key(3)) == "MISS" and primary.tier.store.counts["errors"] == 4


def test_the_next_process_hits_and_another_model_does_not(tier_module, tmp_path):
    first = Primary(tier_module, tmp_path)
    first.fill(0, 9)
    first.run(first.tier.submit_store, [key(1)], [0])
    first.tier.shutdown()
    other = Primary(tier_module, tmp_path, offloading_spec=spec(model="n"))
    assert other.look(key(1)) == "MISS"
    other.tier.shutdown()
    second = Primary(tier_module, tmp_path)
    beside = Primary(tier_module, tmp_path, offloading_spec=spec(engine=1))
    assert second.look(key(1)) == "HIT" and beside.look(key(1)) == "MISS"
    assert second.run(second.tier.submit_load, [key(1)], [5]).success and second.holds(5, 9)
    second.tier.shutdown()
    beside.tier.shutdown()


def test_stored_chunks_are_events_where_they_are_wanted(tier_module, tmp_path, primary):
    primary.run(primary.tier.submit_store, [key(1)], [0])
    assert list(primary.tier.take_events()) == []
    loud = Primary(tier_module, tmp_path / "loud", enable_kv_events=True)
    loud.run(loud.tier.submit_store, [key(1), key(2)], [0, 1])
    event, = loud.tier.take_events()
    assert event.keys == [key(1), key(2)] and event.medium.value == "STORAGE" and not event.removed
    assert event.locality.value == "LOCAL" and list(loud.tier.take_events()) == []
    loud.tier.shutdown()


def test_shutdown_lets_go_of_memory_and_late_jobs_fail(primary):
    primary.submit(primary.tier.submit_store, [key(1)], [0])
    primary.tier.shutdown()
    primary.submit(primary.tier.submit_load, [key(1)], [0])
    primary.tier.drain_jobs()
    assert [result.success for result in primary.tier.get_finished_jobs()] == [True, False]
    primary.view.release()
    with pytest.raises(ValueError):
        len(primary.tier._chunks)
    primary.tier.shutdown()


def test_a_tier_without_a_path_is_refused(tier_module):
    view = memoryview(bytearray(CHUNK)).cast("b", (1, CHUNK))
    with pytest.raises(ValueError, match="path"):
        tier_module.KvmmSecondaryTier(spec(), view, "t")


def test_random_jobs_agree_with_a_dictionary(primary):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng, model, wanted = random.Random(seed), {}, {}
    for _ in range(300):
        if rng.random() < 0.5:
            n = rng.randrange(24)
            free = rng.randrange(NR)
            primary.fill(free, n + 1)
            assert primary.run(primary.tier.submit_store, [key(n)], [free]).success
            model[key(n)] = n + 1
        else:
            keys = rng.sample([key(n) for n in range(24)], rng.randrange(1, 6))
            chunks = rng.sample(range(NR), len(keys))
            wanted = {k: c for k, c in zip(keys, chunks) if primary.look(k) == "HIT"}
            assert wanted.keys() == model.keys() & set(keys)
            if wanted:
                job = primary.run(primary.tier.submit_load, list(wanted), list(wanted.values()))
                assert job.success
            assert all(primary.holds(c, model[k]) for k, c in wanted.items())


def test_vllms_factory_and_base_class_take_it(tmp_path):
    factory = pytest.importorskip("vllm.v1.kv_offload.tiering.factory").SecondaryTierFactory
    base = importlib.import_module("vllm.v1.kv_offload.tiering.base")
    numpy = pytest.importorskip("numpy")
    memory = numpy.zeros((NR, CHUNK), dtype=numpy.int8)
    tier = factory.create_secondary_tier(
        {"type": "KvmmSecondaryTier", "module_path": "kvmm.vllm.tier", "path": str(tmp_path / "s"),
         "max_bytes": 8 << 20, "backpressure": {"backpressure_cls": "EMABackpressureDetector"}},
        memoryview(memory), spec())
    assert isinstance(tier, base.SecondaryTierManager) and tier.bp_detector is not None
    memory[2] = 5
    tier.submit_store(base.TransferJob(1, [key(1)], numpy.array([2]), False, None))
    tier.drain_jobs()
    assert [result.success for result in tier.get_finished_jobs()] == [True]
    tier.submit_load(base.TransferJob(2, [key(1)], numpy.array([4]), True, None))
    tier.drain_jobs()
    assert [result.success for result in tier.get_finished_jobs()] == [True]
    assert (memory[4] == 5).all()
    tier.shutdown()


class Engine:
    """vLLM's own manager of both tiers, over memory of the test's."""

    def __init__(self, path):
        self.base = importlib.import_module("vllm.v1.kv_offload.base")
        manager = importlib.import_module("vllm.v1.kv_offload.tiering.manager")
        factory = importlib.import_module("vllm.v1.kv_offload.tiering.factory")
        numpy = importlib.import_module("numpy")
        self.memory = numpy.zeros((NR, CHUNK), dtype=numpy.int8)
        region = SimpleNamespace(create_kv_memoryview=lambda: memoryview(self.memory),
                                 cleanup=lambda: None)
        primary = manager.CPUPrimaryTierOffloadingManager(num_chunks=NR, mmap_region=region)
        self.tier = factory.SecondaryTierFactory.create_secondary_tier(
            {"type": "KvmmSecondaryTier", "module_path": "kvmm.vllm.tier", "path": str(path),
             "max_bytes": 8 << 20}, primary.get_kv_memoryview(), spec())
        self.manager = manager.TieringOffloadingManager(primary, [self.tier])

    def request(self, name):
        context = self.base.ReqContext(req_id=name)
        self.manager.on_new_request(context)
        return context

    def step(self, names=()):
        self.manager.on_schedule_end(self.base.ScheduleEndContext(list(names), ()))
        self.tier.drain_jobs()
        self.manager.on_schedule_end(self.base.ScheduleEndContext([], ()))

    def compute(self, keys, context):
        out = self.manager.prepare_store(keys, context)
        for k, chunk in zip(out.keys_to_store, out.store_spec.block_ids):
            self.memory[int(chunk)] = k[31] + 1
        self.manager.complete_store(keys, context, success=True)

    def look(self, keys, context):
        return [self.manager.lookup(k, context).name for k in keys]


def test_vllms_manager_hits_after_a_restart(tmp_path):
    pytest.importorskip("vllm.v1.kv_offload.tiering.manager")
    keys = [key(i) for i in range(12)]
    engine = Engine(tmp_path)
    context = engine.request("first")
    engine.compute(keys, context)
    engine.step(["first"])
    assert engine.look(keys, context) == ["HIT"] * 12
    more = [key(i) for i in range(20, 30)]          # evicts most of the first from vLLM's memory
    engine.compute(more, engine.request("second"))
    engine.step(["second"])
    engine.manager.shutdown()

    engine = Engine(tmp_path)
    context = engine.request("third")
    assert engine.look(keys + [key(99)], context) == ["HIT_PENDING"] * 12 + ["MISS"]
    engine.step(["third"])
    assert engine.look(keys, context) == ["HIT"] * 12
    load = engine.manager.prepare_load(keys, context)
    assert [int(engine.memory[int(c)][0]) for c in load.block_ids] == [k[31] + 1 for k in keys]
    engine.manager.shutdown()
    assert engine.tier.store.counts["hits"] == 12 and engine.tier.store.counts["errors"] == 0
