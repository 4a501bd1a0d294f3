# SPDX-License-Identifier: Apache-2.0
"""Host memory and a disk below an engine: what was saved is found, whole, or it is a miss."""
import random

import pytest

from kvmm.tiers import Tiers

BLOCK = 4096


def key(n):
    return n.to_bytes(32, "little")


def content(n):
    return bytes([n % 251]) * (BLOCK - 2) + n.to_bytes(2, "little")


def make(path="", blocks=8, layout="x"):
    return Tiers(blocks * BLOCK + 1, BLOCK, str(path and path / "store"), 4 << 20, layout)


def save(tiers, numbers):
    tiers.save([key(n) for n in numbers], b"".join(map(content, numbers)))


def load(tiers, numbers):
    """How many of numbers were found; their content is compared."""
    held = tiers.hold([key(n) for n in numbers])
    if held:
        out = bytearray(len(held) * BLOCK)
        tiers.load(held, out)
        assert out == b"".join(map(content, numbers[:len(held)]))
    return len(held)


@pytest.fixture
def below(tmp_path):
    tiers = make(tmp_path)
    yield tiers
    tiers.close()
    assert tiers.pool.available == 8
    tiers.pool.validate()


def test_what_was_saved_is_found_up_to_the_first_gap(below):
    save(below, [1, 2, 3])
    assert below.missing([key(1), key(4), key(3)]) == [1]
    assert load(below, [1, 2, 3, 4]) == 3
    assert load(below, [1, 9, 3]) == 1
    assert load(below, [9]) == 0
    assert load(below, []) == 0


def test_what_host_memory_lost_comes_from_the_disk(below):
    for n in range(0, 64, 4):
        save(below, list(range(n, n + 4)))
        below._writer.drain()
    assert load(below, list(range(8))) == 8
    assert below.counts["disk"] == 8
    assert load(below, list(range(8))) == 8
    assert below.counts == {"saved": 64, "no_room": 0, "host": 8, "disk": 8}


def test_the_end_of_a_prompt_leaves_host_memory_first():
    tiers = make(blocks=4)
    save(tiers, [1, 2, 3, 4])
    save(tiers, [5, 6])
    assert tiers.missing([key(n) for n in (1, 2, 3, 4)]) == [2, 3]


def test_a_new_process_finds_what_the_last_one_saved(tmp_path):
    tiers = make(tmp_path)
    save(tiers, [1, 2, 3])
    tiers.close()
    save(tiers, [4])                            # late: host memory alone
    tiers.close()
    tiers = make(tmp_path)
    assert load(tiers, [1, 2, 3, 4]) == 3
    tiers.close()
    tiers = make(tmp_path, layout="other")
    assert load(tiers, [1]) == 0
    tiers.close()


def test_without_a_path_nothing_is_below_host_memory():
    tiers = make()
    for n in range(0, 16, 2):
        save(tiers, [n, n + 1])
    assert load(tiers, [0]) == 0 and load(tiers, [14, 15]) == 2
    assert tiers.reset() and load(tiers, [14]) == 0


def test_held_blocks_stay_and_what_has_no_room_is_not_saved(below):
    save(below, list(range(6)))
    held = below.hold([key(n) for n in range(6)])
    below._writer.drain()
    save(below, [10, 11, 12, 13])
    assert below.counts["no_room"] == 2
    below._writer.drain()
    assert not below.reset()
    assert load(below, [10, 11, 12]) == 2
    below.pool.put(held)
    assert load(below, list(range(6))) == 6
    assert below.reset() and load(below, [10]) == load(below, [0]) == 0


def test_a_prompt_longer_than_host_memory_is_found_as_far_as_it_fits(below):
    for n in range(0, 24, 4):
        save(below, list(range(n, n + 4)))
        below._writer.drain()
    assert load(below, list(range(24))) == 8


def test_a_disk_that_fails_is_a_miss(tmp_path):
    class Broken:
        def put(self, key, data):
            raise OSError(28, "no space")

        def get_into(self, key, out):
            raise OSError(5, "input/output error")

    tiers = make(tmp_path)
    disk, tiers.store._disk = tiers.store._disk, Broken()
    for n in range(16):
        save(tiers, [n])
        tiers._writer.drain()
    assert load(tiers, [15]) == 1 and load(tiers, [0]) == 0
    assert tiers.store.counts["errors"] > 16
    tiers.store._disk = disk
    tiers.close()


def test_a_size_that_holds_no_block_is_refused():
    with pytest.raises(ValueError, match="host_bytes"):
        Tiers(BLOCK - 1, BLOCK, "", 0, "")


def test_any_order_of_calls_loses_nothing_that_was_written(below):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng, saved, held = random.Random(seed), set(), []
    for _ in range(400):
        first, nr = rng.randrange(40), rng.randrange(1, 5)
        numbers = list(range(first, first + nr))
        below._writer.drain()
        match rng.randrange(5):
            case 0 | 1:
                new = [n for n in numbers if key(n) in
                       {key(numbers[i]) for i in below.missing([key(n) for n in numbers])}]
                before = below.counts["no_room"]
                if new:
                    save(below, new)
                    saved.update(new[:len(new) - below.counts["no_room"] + before])
            case 2:
                found = load(below, numbers)
                known = next((i for i, n in enumerate(numbers) if n not in saved), nr)
                assert found <= known
                assert found == known or below.pool.available == found or held
            case 3:
                if len(held) < 2:
                    held.append(below.hold([key(n) for n in numbers]))
            case 4:
                if held:
                    below.pool.put(held.pop())
        below.pool.validate()
    for ids in held:
        below.pool.put(ids)
