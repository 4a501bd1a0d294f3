# SPDX-License-Identifier: Apache-2.0
"""kvmm: the memory manager of the KV cache of LLM engines.

A Pool has the blocks of one KV cache group. Calls take and give block ids in batches:

    pool = kvmm.Pool(4096, block_tokens=16, key_bytes=32)
    hits = pool.find(hashes)                    # longest cached prefix, a reference each
    new = pool.alloc(n - len(hits))             # free blocks, then evicted ones
    pool.register(new, hashes[len(hits):])      # full blocks are found by others from here on
    pool.put(hits + new)                        # cached until their memory is needed

Ids are int: lists, or buffers of int32 (numpy, array, DLPack of CPU tensors), which are not copied.
Keys are bytes: one buffer of key_bytes each, or a list of bytes.
"""
from ._kvmm import (
    ACTIVE, DUP_ALLOW, DUP_HOLD, DUP_REJECT, FREE, INACTIVE, NO_ID, PRIVATE, WRITE_BACK,
    WRITE_EXPLICIT, WRITE_SELECTIVE, WRITE_THRESHOLD, WRITE_THROUGH, NAME_ADD, NAME_REMOVE,
    NAME_RENAME, Blocks, Busy, Control, Device, DeviceError, Disk, Error,
    Events, Invalid, Keys, NoSpace, Pool, Range, Sequence, Stale, Step, Tier, policies, strerror,
    version)

__version__ = version
__all__ = [
    "ACTIVE", "DUP_ALLOW", "DUP_HOLD", "DUP_REJECT", "FREE", "INACTIVE", "NO_ID", "PRIVATE",
    "WRITE_BACK", "WRITE_EXPLICIT", "WRITE_SELECTIVE", "WRITE_THRESHOLD", "WRITE_THROUGH",
    "NAME_ADD", "NAME_REMOVE", "NAME_RENAME", "Blocks", "Busy", "Control",
    "Device", "DeviceError", "Disk", "Error", "Events", "Invalid", "Keys", "NoSpace", "Pool", "Range",
    "Sequence", "Stale", "Step", "Tier", "policies", "strerror", "version"]
