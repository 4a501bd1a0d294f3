#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Write the golden batches beside this file, with another's encoder and from the formats' description.

usage: make.py [--check]	--check: compare only
"""
import os
import struct
import sys

import msgpack

FOLDER = os.path.dirname(os.path.abspath(__file__))
BIG = 0xdab89e0b1c2d3e4f


def signed(number):
    return struct.unpack(">q", struct.pack(">Q", number))[0]


def raw(number):
    return struct.pack(">QQ", number, number)


def stored(hashes, parent, tokens, lora, group, kind):
    return {"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent,
            "token_ids": tokens, "block_size": 4, "lora_id": lora, "medium": "GPU",
            "lora_name": None, "extra_keys": [None] * len(hashes), "group_idx": group,
            **({"kv_cache_spec_kind": kind} if kind else {})}


def removed(hashes):
    return {"type": "BlockRemoved", "block_hashes": hashes, "medium": "CPU", "group_idx": 0}


def mixed(lora, of):
    return [stored([of(0x11), of(0x1122334455667788), of(0xff)], None, [], None, 0, None),
            stored([of(7)], None, [], lora, 1, None),
            removed([of(0x11), of(1 << 63)]), {"type": "AllBlocksCleared"}]


def as_array(event):
    fields = list(event.values())
    if event["type"] == "BlockStored":
        fields += [None] * (12 - len(fields))
    return fields


def sglang_stored(number, parent, tokens):
    return ["BlockStored", [signed(number)], parent, tokens, 4, None, "GPU"]


def sglang_mixed():
    chain = [0x11, 0x1122334455667788, 0xff]
    events = [sglang_stored(number, parent, [])
              for number, parent in zip(chain, [None] + chain[:-1])]
    events.append(sglang_stored(7, None, []))
    events[-1][5] = 5
    return events + [["BlockRemoved", [0x11, signed(1 << 63)], "CPU_PINNED"],
                     ["AllBlocksCleared"]]


def with_tokens(of):
    """A chain of three; of the last one nobody knows what stands in it."""
    return [stored([of(0x11), of(BIG)], None, [0, 127, 128, 255, 256, 65535, 65536, (1 << 32) - 1],
                   None, 0, None),
            stored([of(0xff)], of(BIG), [], None, 0, None)]


def sglang_with_tokens():
    return [sglang_stored(0x11, None, [0, 127, 128, 255]),
            sglang_stored(BIG, 0x11, [256, 65535, 65536, (1 << 32) - 1]),
            sglang_stored(0xff, signed(BIG), [])]


def told():
    """What vLLM has had since 0.32; what says nothing is left out."""
    four = [1, 2, 3, 300]
    first = stored([0x11, 0x1122334455667788], None, 2 * four, 9, 0, "full_attention")
    first.update(lora_name="adapter", extra_keys=[["adapter", ["img", -3], "pepper"], None],
                 session_id="s-1")
    second = stored([0xff], 0x1122334455667788, four, None, 0, "full_attention")
    second.update(session_id="s-2")
    host = stored([7], None, [], None, 1, "sliding_window")
    host.update(kv_cache_spec_sliding_window=128, medium="CPU", locality="LOCAL")
    far = stored([8], None, [], None, 2, None)
    far.update(medium="EXTERNAL", locality="REMOTE", ownership="store")
    gone = {"type": "BlockRemoved", "block_hashes": [8], "medium": "EXTERNAL", "group_idx": 2,
            "locality": "REMOTE", "ownership": "store"}
    return [first, second, host, far, gone]


NEW = ("locality", "ownership", "session_id")


def told_as_array():
    return [as_array({name: value for name, value in event.items() if name not in NEW})
            for event in told()]


def sglang_told():
    four = [1, 2, 3, 300]
    events = [sglang_stored(0x11, None, four), sglang_stored(0x1122334455667788, 0x11, four),
              sglang_stored(0xff, 0x1122334455667788, four), sglang_stored(7, None, []),
              sglang_stored(8, None, [])]
    events[0][5] = events[1][5] = 9
    events[3][6], events[4][6] = "CPU_PINNED", "EXTERNAL"
    return events + [["BlockRemoved", [8], "EXTERNAL"]]


def vectors():
    one = stored([BIG], None, [1, 2, 3, 300], None, 0, "full_attention")
    number = lambda n: n
    return {
        "map-stored": [1.5, [one], 0],
        "array-stored": [1.5, [as_array(one)], 0],
        "sglang-stored": [1.5, [sglang_stored(BIG, None, [1, 2, 3, 300])], 0],
        "map-mixed": [1.5, mixed(5, number), None],
        "array-mixed": [1.5, [as_array(event) for event in mixed(5, number)], None],
        "sglang-mixed": [1.5, sglang_mixed(), None],
        "map-tokens": [1.5, with_tokens(number), 0],
        "array-tokens": [1.5, [as_array(event) for event in with_tokens(number)], 0],
        "sglang-tokens": [1.5, sglang_with_tokens(), 0],
        "map-told": [1.5, told(), 0],
        "array-told": [1.5, told_as_array(), 0],
        "sglang-told": [1.5, sglang_told(), 0],
        "map-bytes": [1.5, mixed(None, raw), 300],
    }


def main():
    bad = 0
    for name, batch in vectors().items():
        text = msgpack.packb(batch, use_bin_type=True).hex() + "\n"
        path = f"{FOLDER}/{name}.hex"
        if "--check" not in sys.argv:
            with open(path, "w") as file:
                file.write(text)
        else:
            with open(path) as file:
                bad += file.read() != text
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
