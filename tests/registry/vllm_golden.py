#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/registry/vllm_golden.h: hashes of blocks, and what of them is in events, by vLLM itself.

usage: vllm_golden.py [--write]		without: compare only

vLLM's own functions compute them; see tests/support/vllm_parts.py for where it is looked for. Made by:
	pip download --no-deps vllm==0.33.0 && unzip vllm-*.whl -d V && pip install cbor2 msgspec
	VLLM=V tests/registry/vllm_golden.py --write
"""
import os
import re
import sys
import textwrap
from types import SimpleNamespace

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADER = TREE + "/tests/registry/vllm_golden.h"
sys.path.insert(0, TREE + "/tests/support")
import vllm_parts  # noqa: E402

# One number on either side of each border of the encoding, then 1 to 8; then 100 to 131.
TOKENS = [0, 23, 24, 255, 256, 65535, 65536, 4294967295, *range(1, 9), *range(100, 132)]
LORA = SimpleNamespace(lora_name="adapter", lora_path="/adapters/a")
EMBEDS = {(i, i + 16): bytes(range(32)) if i == 0 else bytes([i] * 32) for i in (0, 16, 32)}


def image(name, offset, length):
    return SimpleNamespace(identifier=name, mm_position=SimpleNamespace(offset=offset,
                                                                        length=length))


IMAGES = [image("img-1", 5, 20), image("bild-\u00e4", 31, 9)]
EVERYTHING = {"lora_request": LORA, "cache_salt": "pepper", "mm_features": IMAGES,
              "prompt_embeds": [0], "_prompt_embeds_per_block_hashes": EMBEDS}
CASES = {		# what of a request is set, value of PYTHONHASHSEED
    "plain": ({}, None),
    "seed": ({}, "0"),
    "lora": ({"lora_request": LORA}, None),
    "salt": ({"cache_salt": "pepper"}, None),
    "lora_as_salt": ({"cache_salt": "adapter"}, None),
    "images": ({"mm_features": IMAGES}, None),
    "embeds": ({"prompt_embeds": [0], "_prompt_embeds_per_block_hashes": EMBEDS}, None),
    "everything": (EVERYTHING, None),
}


def request(more):
    plain = {"block_hashes": [], "num_tokens": len(TOKENS), "all_token_ids": TOKENS,
             "mm_features": [], "lora_request": None, "cache_salt": None, "prompt_embeds": None}
    return SimpleNamespace(**{**plain, **more})


def table(utils, hashing):
    import msgspec  # vllm_parts has seen that it is there
    for name, (more, seed) in CASES.items():
        os.environ.pop("PYTHONHASHSEED", None)
        if seed is not None:
            os.environ["PYTHONHASHSEED"] = seed
        utils.init_none_hash(hashing.sha256_cbor)
        hashes = utils.get_request_block_hasher(16, hashing.sha256_cbor)(request(more))
        keys = utils.to_event_extra_keys(
            [utils.generate_block_hash_extra_keys(request(more), i, i + 16, 0)[0]
             for i in (0, 16, 32)])
        yield name, [(h.hex(), utils.maybe_convert_block_hash(h), msgspec.msgpack.encode(k).hex())
                     for h, k in zip(hashes, keys)]


def text(utils, hashing, version):
    lines = ["/* SPDX-License-Identifier: Apache-2.0 */",
             "/* Of vLLM %s; tests/registry/vllm_golden.py has written it. */" % version,
             "#ifndef TESTS_REGISTRY_VLLM_GOLDEN_H", "#define TESTS_REGISTRY_VLLM_GOLDEN_H", "",
             "#include <kv/types.h>", "",
             "static const struct vllm_golden {", "\tconst char *name;",
             "\tconst char *hash[3];", "\tu64 number[3];\t\t/* in events */",
             "\tconst char *extra_keys[3];\t/* likewise, in MessagePack */",
             "} vllm_golden[] = {"]
    for name, blocks in table(utils, hashing):
        lines += ['\t{ "%s", {' % name, *('\t\t"%s",' % h for h, _, _ in blocks), "\t}, {",
                  *("\t\t0x%016xull," % number for _, number, _ in blocks), "\t}, {",
                  *('\t\t"%s",' % "\"\n\t\t\"".join(textwrap.wrap(keys, 76))
                    for _, _, keys in blocks), "\t} },"]
    return "\n".join(lines + ["};", "", "#endif /* TESTS_REGISTRY_VLLM_GOLDEN_H */", ""])


def numbers_are_ends():
    """Of each hash in the header: what can be said without vLLM."""
    with open(HEADER) as file:
        words = file.read()
    ends = [int(h[48:], 16) for h in re.findall(r'"([0-9a-f]{64})",', words)]
    return ends and ends == [int(n, 16) for n in re.findall(r"0x([0-9a-f]{16})ull", words)]


def main():
    try:
        (utils, hashing), version = vllm_parts.load("vllm.v1.core.kv_cache_utils",
                                                    "vllm.utils.hashing")
    except vllm_parts.Missing as missing:
        good = bool(numbers_are_ends())
        print(f"skipped: {missing}\n{int(good)} passed, {int(not good)} failed")
        return not good
    new = text(utils, hashing, version)
    if "--write" in sys.argv:
        with open(HEADER, "w") as file:
            file.write(new)
    with open(HEADER) as file:
        # Another version's hashes are to be these, too.
        same = file.read().splitlines()[2:] == new.splitlines()[2:]
    print(f"vLLM {version}\n{int(same)} passed, {int(not same)} failed")
    return not same


if __name__ == "__main__":
    sys.exit(main())
