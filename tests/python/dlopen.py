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


class ZoneAttr(ctypes.Structure):
    """struct kvmm_zone_attr"""
    _fields_ = [("size", ctypes.c_size_t), ("nr_blocks", ctypes.c_uint32),
                ("pageblock_order", ctypes.c_uint32), ("engine", ctypes.c_char_p)]


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


def use_zone(lib, problems):
    """Take a zone in tens until it is full, and give everything back."""
    attr = ZoneAttr(ctypes.sizeof(ZoneAttr), NR_BLOCKS, 0, None)
    zone = ctypes.c_void_p()
    start = ctypes.c_uint32()
    if lib.kvmm_zone_create(ctypes.byref(attr), ctypes.byref(zone)):
        problems.append("kvmm_zone_create() failed")
        return
    taken = []
    while not lib.kvmm_zone_alloc(zone, 10, ctypes.byref(start)):
        taken.append(start.value)
    blocks = {s + i for s in taken for i in range(10)}
    if blocks != set(range(NR_BLOCKS)):
        problems.append(f"{len(taken)} runs of 10 cover {len(blocks)} blocks of {NR_BLOCKS}")
    if any(lib.kvmm_zone_free(zone, s, 10) for s in taken):
        problems.append("kvmm_zone_free() failed")
    if lib.kvmm_zone_alloc(zone, NR_BLOCKS, ctypes.byref(start)) or start.value:
        problems.append("what was given back is not one run")
    lib.kvmm_zone_destroy(zone)


def use_zones_in_threads(lib):
    """Threads of the interpreter: the library's own per-thread data comes and goes."""
    for name in ("create", "alloc", "free", "destroy"):
        getattr(lib, "kvmm_zone_" + name).argtypes = {
            "create": [ctypes.c_void_p, ctypes.c_void_p],
            "alloc": [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p],
            "free": [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32],
        }.get(name, [ctypes.c_void_p])
    problems = []
    threads = [threading.Thread(target=use_zone, args=(lib, problems)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check("; ".join(problems), not problems)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "libkvmm.so.0"
    lib = ctypes.CDLL(os.path.abspath(path))
    check_words(lib)
    if hasattr(lib, "kvmm_zone_create"):
        use_zones_in_threads(lib)


if __name__ == "__main__":
    main()
