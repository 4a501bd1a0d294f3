#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode the golden batches with vLLM's own classes, as its subscribers do.

See tests/support/vllm_parts.py for where vLLM is looked for. A batch that is encoded again by vLLM
has the same fields in the same order.
"""
import os
import sys

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, TREE + "/tests/support")
import vllm_parts  # noqa: E402

passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("failed:", what)


def vector(name):
    with open(f"{TREE}/tests/ctl/vectors/{name}.hex") as file:
        return bytes.fromhex(file.read())


def check_told(events):
    first, second, host, far, gone = events
    check(first.session_id == "s-1" and second.session_id == "s-2", "sessions")
    check(first.lora_name == "adapter" and first.lora_id == 9, "adapter")
    check(second.lora_name is None and second.lora_id is None, "no adapter")
    check(first.extra_keys == [("adapter", ["img", -3], "pepper"), None], "extra keys")
    check([e.group_idx for e in events] == [0, 0, 1, 2, 2], "groups")
    check([e.locality for e in events] == [None, None, "LOCAL", "REMOTE", "REMOTE"], "locality")
    check([e.ownership for e in events] == [None, None, None, "store", "store"], "ownership")
    check(host.kv_cache_spec_kind == "sliding_window", "kind")
    check(host.kv_cache_spec_sliding_window == 128, "window")
    check(first.kv_cache_spec_kind == "full_attention", "kind of group 0")
    check(far.kv_cache_spec_kind is None and far.session_id is None, "what is not said")
    check(first.lookahead_token_ids is None, "tokens beyond")
    check(first.token_ids == 2 * [1, 2, 3, 300] and first.block_size == 4, "tokens")
    check(second.parent_block_hash == first.block_hashes[-1], "parent")
    check(gone.block_hashes == far.block_hashes and gone.medium == "EXTERNAL", "removed")


def main():
    try:
        (kv_events,), version = vllm_parts.load("vllm.distributed.kv_events")
    except vllm_parts.Missing as missing:
        check(b"\xa8locality\xa6REMOTE\xa9ownership\xa5store" in vector("map-told"), "told")
        print(f"skipped: {missing}\n{passed} passed, {failed} failed")
        return failed != 0
    import msgspec

    def ordered(payload):
        """Without a last None: vLLM leaves that rank out."""
        stamp, events, *rank = msgspec.msgpack.decode(payload)
        return [stamp, [list(event.items()) for event in events], *(rank if rank != [None] else [])]

    decoder = msgspec.msgpack.Decoder(type=kv_events.KVEventBatch)
    encoder = msgspec.msgpack.Encoder()
    for name, nr in (("map-stored", 1), ("map-mixed", 4), ("map-tokens", 2), ("map-bytes", 4),
                     ("map-told", 5)):
        batch = decoder.decode(vector(name))
        check(len(batch.events) == nr and batch.ts == 1.5, name)
        check(ordered(encoder.encode(batch)) == ordered(vector(name)), name + " as vLLM writes it")
    check_told(batch.events)
    print(f"vLLM {version}\n{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
