# SPDX-License-Identifier: Apache-2.0
"""SGLang's storage backend: its calls with buffers, and with tensors where torch is installed."""
from types import SimpleNamespace

import pytest

from kvmm.sglang import KvmmStorage

PAGE = 3000


def config(path, **other):
    known = dict(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
                 is_mla_model=False, is_page_first_layout=False, model_name="m",
                 extra_config={"path": str(path), "max_bytes": 4 << 20})
    return SimpleNamespace(**{**known, **other})


@pytest.fixture
def storage(tmp_path):
    storage = KvmmStorage(config(tmp_path), {})
    yield storage
    storage.close()


class HostPool:
    """A host pool of 8 pages of 4 tokens, in bytes."""

    page_size = 4

    def __init__(self):
        self.pages = [bytearray([i]) * PAGE for i in range(8)]

    def get_dummy_flat_data_page(self):
        return bytearray(PAGE)

    def get_data_page(self, index, flat=True):
        return self.pages[index // self.page_size]

    def set_from_flat_data_page(self, index, page):
        self.pages[index // self.page_size][:] = page


def key(i):
    return f"{i:064x}"


def test_pages_are_set_found_and_got(storage):
    keys, pages = [key(i) for i in range(5)], [bytes([i]) * PAGE for i in range(5)]
    assert storage.batch_exists(keys) == 0 and not storage.exists(keys[0])
    assert storage.batch_set(keys[:3] + keys[4:], pages[:3] + pages[4:])
    assert storage.batch_exists(keys) == 3 and storage.exists(keys[4])
    places = [bytearray(PAGE) for _ in keys]
    got = storage.batch_get(keys, places)
    assert [page is not None for page in got] == [True, True, True, False, True]
    assert got[0] is places[0] and places[4] == pages[4]
    assert storage.set(key(9), None, pages[1]) and storage.get(key(9), places[0]) == pages[1]


def test_a_page_that_cannot_be_is_a_miss(storage):
    assert storage.set(key(1), b"x" * PAGE)
    assert storage.get(key(1), bytearray(PAGE - 1)) is None
    assert storage.get(key(1)) is None                  # no host pool to take a page from
    assert storage.get(key(1), b"read only" * 100) is None
    assert not storage.set(key(2)) and not storage.set(key(2), object())
    assert not storage.batch_set([key(2), key(3)], [b"x" * PAGE])
    assert storage.batch_get_v1([key(1)], [0]) == [False]
    assert storage.store.counts["errors"] >= 5
    storage.close()
    assert storage.get(key(1), bytearray(PAGE)) is None and storage.batch_exists([key(1)]) == 0


def test_pages_go_from_one_place_of_the_host_pool_to_another(storage):
    pool = HostPool()
    storage.register_mem_pool_host(pool)
    assert storage.batch_set_v1([key(1), key(2)], list(range(4, 12))) == [True, True]
    assert storage.batch_get_v1([key(2), key(7), key(1)], list(range(20, 32))) == [
        True, False, True]
    assert pool.pages[5] == bytes([2]) * PAGE and pool.pages[6] == bytes([6]) * PAGE
    assert pool.pages[7] == bytes([1]) * PAGE
    assert storage.batch_get_v1([key(1), key(2)], [0]) == [False, False]
    assert storage.get(key(1)) == bytes([1]) * PAGE
    pool.dtype = "another"
    storage.register_mem_pool_host(pool)
    assert not storage.exists(key(1)) and storage.batch_get_v1([key(1)], range(4)) == [False]


def test_clear_forgets_and_the_next_process_hits_what_came_later(tmp_path):
    first = KvmmStorage(config(tmp_path))
    first.set(key(1), b"1" * PAGE)
    assert first.clear() and not first.exists(key(1))
    first.set(key(2), b"2" * PAGE)
    first.close()
    second = KvmmStorage(config(tmp_path))
    assert not second.exists(key(1)) and second.exists(key(2))
    second.close()


def test_ranks_and_models_do_not_see_each_other(tmp_path, storage):
    storage.set(key(1), b"1" * PAGE)
    rank = KvmmStorage(config(tmp_path, tp_rank=1, tp_size=2))
    assert not rank.exists(key(1))
    rank.close()
    storage.close()
    other = KvmmStorage(config(tmp_path, model_name="n"))
    assert not other.exists(key(1))
    other.close()


def test_what_cannot_work_is_refused_at_the_start(tmp_path):
    with pytest.raises(ValueError, match="path"):
        KvmmStorage(config(tmp_path, extra_config=None))
    with pytest.raises(ValueError, match="MLA"):
        KvmmStorage(config(tmp_path, is_mla_model=True, tp_size=2))


def test_tensors_keep_their_bytes(storage):
    torch = pytest.importorskip("torch")
    page = torch.arange(600, dtype=torch.float32).view(2, 300).to(torch.bfloat16)
    assert storage.set(key(1), page) and storage.set(key(2), page.t())
    flat = torch.empty(600, dtype=torch.bfloat16)
    assert storage.get(key(1), flat) is flat and torch.equal(flat, page.flatten())
    strided = torch.zeros(300, 2, dtype=torch.bfloat16).t()
    assert storage.get(key(1), strided) is strided and torch.equal(strided, page)
    assert storage.get(key(2), flat) is flat and torch.equal(flat.view(300, 2), page.t())
    assert storage.get(key(1), torch.empty(600)) is None


def test_sglangs_factory_makes_one_that_keeps_tensors(tmp_path):
    factory = pytest.importorskip("sglang.srt.mem_cache.storage.backend_factory")
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, HiCacheStorageConfig
    torch = pytest.importorskip("torch")
    extra = {"backend_name": "kvmm", "module_path": "kvmm.sglang", "class_name": "KvmmStorage",
             "path": str(tmp_path), "max_bytes": 4 << 20}
    known = HiCacheStorageConfig(
        tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
        is_mla_model=False, enable_storage_metrics=False, is_page_first_layout=False,
        model_name="org/m", extra_config=extra)
    pages = [torch.full((2, 64, 3), i, dtype=torch.bfloat16) for i in range(4)]
    keys = [key(i) for i in range(4)]
    for turn in range(2):               # the second is the next process
        made = factory.StorageBackendFactory.create_backend("dynamic", known, None)
        assert isinstance(made, HiCacheStorage)
        assert made.batch_exists(keys) == (0, 3)[turn]
        assert made.batch_set(keys[:3], pages[:3])
        got = made.batch_get(keys, [torch.empty(384, dtype=torch.bfloat16) for _ in keys])
        assert got[3] is None
        assert all(torch.equal(a, b.flatten()) for a, b in zip(got[:3], pages))
        made.close()
