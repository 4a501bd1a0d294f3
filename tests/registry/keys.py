#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compute keys from Documentation/keys.rst alone and compare them with the library's.

usage: keys.py [LIBRARY]		default: libkvmm.so.0 in the current directory

Nothing is shared with the library: SHA-256 is Python's, SipHash and CBOR are written here. Where
the package cbor2 is installed, with which vLLM writes CBOR, the writer is compared with it, too.
$KVMM_SEED repeats a run.
"""
import ctypes
import hashlib
import os
import random
import struct
import sys

LORA, MM, SALT, EMBEDS, OTHER = range(5)
ROUNDS = 300
passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("failed:", what)


# ---- SipHash-2-4-128 ----

def sip_round(v):
    mask = (1 << 64) - 1

    def rotate(x, n):
        return (x << n | x >> (64 - n)) & mask

    a, b, c, d = v
    a = (a + b) & mask
    b = rotate(b, 13) ^ a
    a = rotate(a, 32)
    c = (c + d) & mask
    d = rotate(d, 16) ^ c
    a = (a + d) & mask
    d = rotate(d, 21) ^ a
    c = (c + b) & mask
    b = rotate(b, 17) ^ c
    c = rotate(c, 32)
    return [a, b, c, d]


def siphash(key, message):
    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ int.from_bytes(b"somepseu", "big"), k1 ^ int.from_bytes(b"dorandom", "big") ^ 0xEE,
         k0 ^ int.from_bytes(b"lygenera", "big"), k1 ^ int.from_bytes(b"tedbytes", "big")]
    whole = len(message) // 8 * 8
    last = message[whole:].ljust(7, b"\0") + bytes([len(message) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", message[:whole] + last):
        v[3] ^= word
        v = sip_round(sip_round(v))
        v[0] ^= word
    halves = []
    for place, number in ((2, 0xEE), (1, 0xDD)):
        v[place] ^= number
        for _ in range(4):
            v = sip_round(v)
        halves.append(v[0] ^ v[1] ^ v[2] ^ v[3])
    return struct.pack("<QQ", *halves)


# ---- CBOR ----

def cbor_head(major, n):
    if n < 24:
        return bytes([major << 5 | n])
    size = next(i for i in range(4) if n < 1 << (8 << i))
    return bytes([major << 5 | 24 + size]) + n.to_bytes(1 << size, "big")


def cbor(x):
    if x is None:
        return b"\xf6"
    if isinstance(x, int):
        return cbor_head(0, x) if x >= 0 else cbor_head(1, -1 - x)
    if isinstance(x, bytes):
        return cbor_head(2, len(x)) + x
    if isinstance(x, str):
        return cbor_head(3, len(x.encode())) + x.encode()
    return cbor_head(4, len(x)) + b"".join(map(cbor, x))


# ---- keys, by the documentation ----

def field(tag, data):
    return len(data).to_bytes(3, "little") + bytes([tag]) + data


def u32(n):
    return struct.pack("<I", n)


def domain(a):
    out = field(1, b"kvmm-key-3") + field(2, a["algo"].encode())
    if any(a["secret"]):
        out += field(3, a["secret"])
    for tag, name in ((4, "layout_id"), (5, "tenant")):
        out += field(tag, a[name]) if a[name] is not None else b""
    out += field(6, u32(a["group"])) + field(7, u32(a["block_tokens"]))
    for tag, name in ((8, "lora"), (9, "salt"), (10, "lora_path")):
        out += field(tag, a[name]) if a[name] is not None else b""
    return hashlib.sha256(out).digest()


def touching(extras, first, nr):
    return [(kind, data, start - first) for kind, data, start, length in extras
            if start < first + nr and start + length > first]


def blocks(a, tokens):
    nr = a["block_tokens"]
    return [(i, tokens[i:i + nr]) for i in range(0, len(tokens) - nr + 1, nr)]


def key_of(result):
    return result[:8] + result[-8:]


def own_keys(a, tokens, extras, parent):
    seed = domain(a)
    for first, block in blocks(a, tokens):
        message = field(17, b"".join(map(u32, block)))
        for kind, data, offset in touching(extras, first, len(block)):
            message += field(32 + kind, struct.pack("<q", offset) + data)
        message += field(16, parent) if parent is not None else b""
        if a["algo"] == "sha256":
            result = hashlib.sha256(seed + bytes(28) + message).digest()
        else:
            result = siphash(seed[:16], bytes(60) + message)
        yield result
        parent = key_of(result)


def vllm_keys(a, tokens, extras, parent):
    seed = a["seed"] if a["seed"] is not None else "vllm-none-hash"
    root = a["root"] if a["root"] is not None else hashlib.sha256(cbor(seed)).digest()
    for first, block in blocks(a, tokens):
        here = touching(extras, first, len(block))
        more = []
        if a["lora"] is not None:
            more.append(("lora", a["lora"].decode(), a["lora_path"].decode()))
        more += [("mm", data.decode(), offset) for kind, data, offset in here if kind == MM]
        more += [("cache_salt", a["salt"].decode())] if a["salt"] and parent is None else []
        more += [("prompt_embeds", data) for kind, data, offset in here if kind == EMBEDS]
        parent = hashlib.sha256(cbor((parent or root, tuple(block), tuple(more) or None))).digest()
        yield parent


# ---- the library ----

class Bytes(ctypes.Structure):
    """struct kvmm_key_bytes"""
    _fields_ = [("data", ctypes.c_char_p), ("bytes", ctypes.c_size_t)]


class Attr(ctypes.Structure):
    """struct kvmm_key_attr"""
    _fields_ = [("size", ctypes.c_size_t), ("algo", ctypes.c_char_p),
                ("block_tokens", ctypes.c_uint32), ("group", ctypes.c_uint32),
                ("secret", ctypes.c_uint8 * 16), ("layout_id", Bytes), ("tenant", Bytes),
                ("lora", Bytes), ("salt", Bytes), ("vllm_root", ctypes.c_char_p),
                ("vllm_seed", Bytes), ("lora_path", Bytes)]


class Extra(ctypes.Structure):
    """struct kvmm_key_extra"""
    _fields_ = [("kind", ctypes.c_uint32), ("bytes", ctypes.c_uint32), ("data", ctypes.c_char_p),
                ("start", ctypes.c_int64), ("nr", ctypes.c_int64)]


class Seq(ctypes.Structure):
    """struct kvmm_key_seq"""
    _fields_ = [("size", ctypes.c_size_t), ("tokens", ctypes.POINTER(ctypes.c_uint32)),
                ("nr_tokens", ctypes.c_size_t), ("extras", ctypes.POINTER(Extra)),
                ("nr_extras", ctypes.c_size_t), ("parent", ctypes.c_char_p),
                ("parent_digest", ctypes.c_char_p)]


def borrow(data):
    return Bytes(data, len(data)) if data is not None else Bytes(None, 0)


def library_attr(a):
    attr = Attr(size=ctypes.sizeof(Attr), algo=a["algo"].encode(), group=a["group"],
                block_tokens=a["block_tokens"])
    attr.secret[:] = a["secret"]
    for name in ("layout_id", "tenant", "lora", "salt", "lora_path"):
        setattr(attr, name, borrow(a[name]))
    attr.vllm_root = a["root"]
    attr.vllm_seed = borrow(a["seed"].encode() if a["seed"] is not None else None)
    return attr


def library_keys(lib, a, tokens, extras, parent, whole):
    """Keys, and digests if @whole, that kvmm_key_hash() returns: two lists of bytes."""
    ctx = ctypes.c_void_p()
    err = lib.kvmm_key_ctx_create(ctypes.byref(library_attr(a)), ctypes.byref(ctx))
    check(err == 0, f"kvmm_key_ctx_create() of {a} returns {err}")
    if err:
        return [], []
    array = (Extra * len(extras))(*(Extra(k, len(d), d, s, n) for k, d, s, n in extras))
    seq = Seq(ctypes.sizeof(Seq), (ctypes.c_uint32 * len(tokens))(*tokens), len(tokens), array,
              len(extras))
    setattr(seq, "parent_digest" if a["algo"].startswith("vllm") else "parent", parent)
    room = len(tokens) // a["block_tokens"]
    keys = ctypes.create_string_buffer(16 * room + 1)
    digests = ctypes.create_string_buffer(32 * room + 1) if whole else None
    nr = lib.kvmm_key_hash(ctx, ctypes.byref(seq), keys, digests, ctypes.c_uint32(room))
    lib.kvmm_key_ctx_destroy(ctx)
    check(nr == room, f"kvmm_key_hash() returns {nr}, not {room}")
    return ([keys.raw[i * 16:(i + 1) * 16] for i in range(max(nr, 0))],
            [digests.raw[i * 32:(i + 1) * 32] for i in range(max(nr, 0))] if whole else [])


# ---- by chance ----

def any_text(rng, most):
    return "".join(rng.choice("abcxyz-0189äß中") for _ in range(rng.randrange(most))).encode()


def any_or_none(rng):
    return any_text(rng, 80) if rng.random() < 0.5 else None


def any_token(rng):
    return rng.randrange(1 << rng.choice((4, 5, 8, 9, 16, 17, 32)))


def any_items(rng, kind, length):
    """Items of one kind, in order, none on top of another; some begin early, some end late."""
    items, start = [], rng.randrange(-40, 40)
    while start < length + 20 and rng.random() < 0.7:
        nr = rng.randrange(1, 60)
        items.append((kind, any_text(rng, rng.choice((20, 400))), start, nr))
        start += nr + rng.randrange(30)
    return items


def any_attr(rng, algo):
    a = {"algo": algo, "block_tokens": rng.choice((1, 3, 16, 16, 32, 64, 128, 528)), "group": 0,
         "secret": bytes(16), "layout_id": None, "tenant": None, "lora": any_or_none(rng),
         "salt": any_or_none(rng), "root": None, "seed": None, "lora_path": None}
    if a["lora"] is not None and (algo.startswith("vllm") or rng.random() < 0.5):
        a["lora_path"] = any_text(rng, 80)
    if algo.startswith("vllm"):
        if rng.random() < 0.5:
            a["root"] = bytes(rng.randrange(1, 256) for _ in range(32))
        elif rng.random() < 0.8:
            a["seed"] = any_text(rng, 30).decode()
        return a
    if algo == "siphash" or rng.random() < 0.5:
        a["secret"] = bytes(rng.randrange(1, 256) for _ in range(16))
    a.update(group=any_token(rng), layout_id=any_or_none(rng), tenant=any_or_none(rng))
    return a


def any_extras(rng, a, length):
    if not a["algo"].startswith("vllm"):
        kinds = [k for k in range(5) if rng.random() < 0.4]
        return [item for k in kinds for item in any_items(rng, k, length)]
    extras = any_items(rng, MM, length) if rng.random() < 0.5 else []
    nr = a["block_tokens"]
    return extras + [(EMBEDS, os.urandom(32).replace(b"\0", b"1"), i, nr)
                     for i in range(0, length, nr) if rng.random() < 0.2]


def compare(lib, rng, algo):
    vllm = algo.startswith("vllm")
    a = any_attr(rng, algo)
    tokens = [any_token(rng) for _ in range(rng.randrange(12 * a["block_tokens"]))]
    extras = any_extras(rng, a, len(tokens))
    size = 32 if vllm else 16
    parent = bytes(rng.randrange(1, 256) for _ in range(size)) if rng.random() < 0.5 else None
    expected = list((vllm_keys if vllm else own_keys)(a, tokens, extras, parent))
    keys, digests = library_keys(lib, a, tokens, extras, parent, algo != "siphash")
    check(keys == [key_of(k) for k in expected], f"keys of {a}, {len(tokens)} tokens, {extras}")
    if algo != "siphash":
        check(digests == expected, f"digests of {a}, {len(tokens)} tokens, {extras}")


def check_tools():
    """That the oracle is right: its SipHash, its CBOR, the hash of vLLM's most usual seed."""
    key = bytes(range(16))
    check(siphash(key, b"").hex() == "a3817f04ba25a8e66df67214c7550293", "siphash of nothing")
    check(siphash(key, key[:15]).hex() == "5493e99933b0a8117e08ec0f97cfc3d9", "siphash of 15")
    check(hashlib.sha256(cbor("0")).hexdigest() ==
          "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e", "NONE_HASH")
    try:
        import cbor2
    except ImportError:
        return
    sample = (bytes(32), (0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1), None, -1, -24, -25,
              ("ä" * 300, -70000), b"")
    check(cbor(sample) == cbor2.dumps(sample, canonical=True), "CBOR as cbor2 writes it")


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "libkvmm.so.0"
    lib = ctypes.CDLL(os.path.abspath(path))
    seed = int(os.environ.get("KVMM_SEED", random.randrange(1 << 32)))
    rng = random.Random(seed)
    print(f"KVMM_SEED={seed}")
    check_tools()
    for _ in range(ROUNDS):
        for algo in ("sha256", "siphash", "vllm-sha256-cbor"):
            compare(lib, rng, algo)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
