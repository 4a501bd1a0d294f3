#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Load the library into a running Python, as engines do, and make some calls.

usage: dlopen.py [LIBRARY]		default: libkvmm.so.0 in the current directory

The interpreter has used up some of its static TLS by then and has no jemalloc:
both have kept libraries from being loaded late. Exit code 1 on failure.
"""
import ctypes
import os
import re
import sys
import threading

NR_BLOCKS = 1000


class SlabAttr(ctypes.Structure):
    """struct kvmm_slab_attr"""
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p),
                ("object_bytes", ctypes.c_uint64), ("align", ctypes.c_uint64),
                ("base_block_bytes", ctypes.c_uint64), ("colour_bytes", ctypes.c_uint64),
                ("max_waste_pm", ctypes.c_uint32), ("keep_empty", ctypes.c_uint32),
                ("nr_blocks", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("beside", ctypes.c_void_p)]


def check(what, good):
    if not good:
        sys.exit(f"dlopen.py: {what}")


def check_words(lib):
    lib.kvmm_version.restype = ctypes.c_char_p
    lib.kvmm_strerror.restype = ctypes.c_char_p
    version = lib.kvmm_version().decode()
    check(f"version is {version!r}", re.fullmatch(r"\d+\.\d+\.\d+", version))
    check("unknown errors sound like success",
          lib.kvmm_strerror(-4711) != lib.kvmm_strerror(0))


def use_cache(lib, problems):
    """Take objects until none is left, and give them back."""
    attr = SlabAttr(size=ctypes.sizeof(SlabAttr), name=b"ten", object_bytes=64,
                    base_block_bytes=64, nr_blocks=NR_BLOCKS)
    cache = ctypes.c_void_p()
    if lib.kvmm_slab_cache_create(ctypes.byref(attr), ctypes.byref(cache)):
        problems.append("kvmm_slab_cache_create() failed")
        return
    taken = [(ctypes.c_uint64 * 10)() for _ in range(NR_BLOCKS // 10)]
    if any(lib.kvmm_slab_alloc(cache, 10, ten) for ten in taken):
        problems.append("kvmm_slab_alloc() failed")
    if len({obj for ten in taken for obj in ten}) != NR_BLOCKS:
        problems.append("an object was given twice")
    if not lib.kvmm_slab_alloc(cache, 1, (ctypes.c_uint64 * 1)()):
        problems.append("there were too many objects")
    if any(lib.kvmm_slab_free(cache, 10, ten) for ten in taken):
        problems.append("kvmm_slab_free() failed")
    lib.kvmm_slab_cache_destroy(cache)


def use_caches_in_threads(lib):
    """Threads of the interpreter: the library's own per-thread data comes and goes."""
    lib.kvmm_slab_cache_create.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    lib.kvmm_slab_cache_destroy.argtypes = [ctypes.c_void_p]
    for call in (lib.kvmm_slab_alloc, lib.kvmm_slab_free):
        call.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p]
    problems = []
    threads = [threading.Thread(target=use_cache, args=(lib, problems)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check("; ".join(problems), not problems)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "libkvmm.so.0"
    lib = ctypes.CDLL(os.path.abspath(path))
    check_words(lib)
    use_caches_in_threads(lib)


if __name__ == "__main__":
    main()
