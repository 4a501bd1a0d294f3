# SPDX-License-Identifier: Apache-2.0
"""What a caller should not do, each in a process of its own, since it may crash."""
import os
import subprocess
import sys
import textwrap

import pytest

BEFORE = '''
import array, threading, gc, os, sys, time
import kvmm
def key(n): return n.to_bytes(8, "little") * 2
class Block:
    __slots__ = ("block_id", "ref_cnt", "_block_hash", "_block_hash_num_tokens", "x")
    def __init__(self, i):
        self.block_id = i; self.ref_cnt = 0; self._block_hash = None
        self._block_hash_num_tokens = None; self.x = 0
def blocks(n=16):
    pool = kvmm.Pool(n, null_block=True)
    objs = [Block(i) for i in range(n)]
    return pool, objs, kvmm.Blocks(pool, objs)
def raises(exc, call):
    try: r = call()
    except exc as e:
        assert type(e) is not SystemError, e
        return e
    assert 0, ("no exception", r)
'''

CASES = {
    "close_during_write": r'''
for round in range(20):
    p = kvmm.Pool(4, block_bytes=1<<26)
    i = p.alloc(1)[0]; data = bytearray(1<<26)
    go = threading.Event()
    def w():
        go.set()
        try: p.write(i, data)
        except (ValueError, kvmm.Error): pass
    t = threading.Thread(target=w); t.start(); go.wait(); time.sleep(.002)
    while True:
        try: p.close(); break
        except RuntimeError: time.sleep(.001)
    t.join()
''',
    "range_2_62": r'''
raises((MemoryError,OverflowError), lambda: kvmm.Pool(8).put(range(2**62 + 1)))
''',
    "keys_len_2_60": r'''
class K:
    def __len__(self): return 2**60
    def __getitem__(self, i): return key(i)
raises((MemoryError,OverflowError), lambda: kvmm.Pool(8).find(K()))
''',
    "keys_list_vs_buffer": r'''
p = kvmm.Pool(8); p2 = kvmm.Pool(8, key_bytes=0); p3 = kvmm.Pool(8, digests=True)
for q in (p, p2, p3):
    for pat in (b"x"*16, bytes(16), bytes(range(16))):
        i = q.register(q.alloc(1), pat) if True else 0
        assert q.probe([pat]) == 1, (q, pat)
        q.put(i); q.reset(True)
''',
    "keys_short_vs_buffer": r'''
p = kvmm.Pool(8, key_bytes=0)
for n in (1,5,8,15,17,32,63,64):
    i = p.register(p.alloc(1), [b"q"*n])
    assert p.probe(b"q"*n) == 1, n
''',
    "keys_zero_tokens": r'''
assert kvmm.Keys(block_tokens=0).of(range(35)) == kvmm.Keys().of(range(35)) != b''
''',
    "keys_wrap_tokens": r'''
raises((ValueError,OverflowError), lambda: kvmm.Keys(block_tokens=2**32).of([1]))
''',
    "pool_wraps": r'''
raises((ValueError,OverflowError), lambda: kvmm.Pool(2**64 + 5).nr_blocks)
''',
    "range_wraps": r'''
p = kvmm.Pool(8); raises((ValueError,OverflowError), lambda: len(kvmm.Range(p, 2**32 + 1)))
''',
    "range_tenant_wraps": r'''
p = kvmm.Pool(8); raises((ValueError,OverflowError), lambda: kvmm.Range(p, 1, tenant=2**32+1))
''',
    "events_neg": r'''
p = kvmm.Pool(8); e = kvmm.Events(p); raises((ValueError,OverflowError), lambda: e.read(-1))
''',
    "events_ring_wraps": r'''
p = kvmm.Pool(8); raises((ValueError,OverflowError), lambda: kvmm.Events(p, 2**32+64))
''',
    "seq_tenant_wraps": r'''
p = kvmm.Pool(8); raises((ValueError,OverflowError), lambda: kvmm.Sequence(p, kvmm.Keys(), [1], tenant=-1))
''',
    "seq_accept_wraps": r'''
p = kvmm.Pool(8); s= kvmm.Sequence(p, kvmm.Keys(), [1]); raises(OverflowError, lambda: s.accept(2**32, 0))
''',
    "tier_wraps": r'''
raises((ValueError,OverflowError), lambda: kvmm.Tier(2**64 + 2**20, 4096))
''',
    "option_no_text": r'''
raises(TypeError, lambda: kvmm.Pool(8, **{1: 2}))
raises(TypeError, lambda: kvmm.Pool.__new__(kvmm.Pool, 8, **{(): 2}))
''',
    "plane_wraps": r'''
raises((ValueError,OverflowError), lambda: kvmm.Pool(4, planes=[(-1, 64, 64)]))
''',
    "del_hash_forgotten": r'''
p, o, b = blocks(); del o[3]._block_hash
try: b.forgotten(o[3])
except Exception as e: assert type(e) is not SystemError, e
''',
    "del_id": r'''
p, o, b = blocks(); ok = b.take(3); del ok[0].block_id
try: r = b.put(ok)
except Exception as e: assert type(e) is not SystemError, e
else: assert r == ok
''',
    "id_str": r'''
p, o, b = blocks(); ok = b.take(3); ok[0].block_id = "a"
try: r = b.put(ok)
except Exception as e: assert type(e) is not SystemError, e
else: assert r == ok
''',
    "id_str_cache": r'''
p, o, b = blocks(); ok = b.take(3); ok[0].block_id = "a"
try: r = b.cache(ok, [key(1)], 0, 1, 0, 16)
except Exception as e: assert type(e) is not SystemError, e
else: assert r is False
''',
    "del_refcnt": r'''
p, o, b = blocks(); ok = b.take(3); del ok[0].ref_cnt
try: r = b.put(ok)
except Exception as e: assert type(e) is not SystemError, e
''',
    "refcnt_str": r'''
p, o, b = blocks(); ok = b.take(3); ok[0].ref_cnt = "x"
try: r = b.put(ok)
except Exception as e: assert type(e) is not SystemError, e
''',
    "refcnt_hook_put": r'''
p, o, b = blocks(); ok = b.take(3)
class I(int):
    def __del__(self): ok.clear()
ok[0].ref_cnt = I(1)
try: r = b.put(ok)
except Exception as e: assert type(e) is not SystemError, e
''',
    "refcnt_index_put": r'''
p, o, b = blocks(); ok = b.take(3)
class I:
    def __index__(self): ok.clear(); return 1
ok[0].ref_cnt = I()
try: r = b.put(ok)
except Exception as e: assert type(e) is not SystemError, e
''',
    "cache_hook": r'''
p, o, b = blocks(); ok = b.take(3)
class H(list):
    def __getitem__(self, i):
        ok.clear(); return list.__getitem__(self, i)
try: r = b.cache(ok, H([key(1), key(2)]), 0, 2, 0, 16)
except Exception as e: assert type(e) is not SystemError, e
''',
    "cache_hook_other": r'''
p, o, b = blocks(); ok = b.take(3)
class H(list):
    def __getitem__(self, i):
        ok[0] = ok[1] = b"x"*4; return list.__getitem__(self, i)
try: r = b.cache(ok, H([key(1), key(2)]), 0, 2, 0, 16)
except Exception as e: assert type(e) is not SystemError, e
gc.collect()
''',
    "named_neg": r'''
p, o, b = blocks()
try: b.nr_named = -5
except Exception as e: assert type(e) is not SystemError, e
''',
    "named_del": r'''
p, o, b = blocks()
try: del b.nr_named
except Exception as e: assert type(e) is not SystemError, e
''',
    "stale_why": r'''
p = kvmm.Pool(8, name="zz")
e1 = raises(kvmm.Error, lambda: kvmm.Pool(8, policy="nonesuch"))
e2 = raises(kvmm.Error, lambda: p.alloc(99))
assert "nonesuch" not in e2.why, (e1.why, e2.why)
''',
    "stale_why_lib": r'''
p = kvmm.Pool(8, name="zz")
e1 = raises(kvmm.Error, lambda: kvmm.Pool(8, policy="nonesuch"))
p.alloc(8)
e2 = raises(kvmm.Error, lambda: p.alloc(1))
assert "nonesuch" not in e2.why, (e1.why, e2.why)
e1 = raises(kvmm.Error, lambda: kvmm.Pool(8, policy="nonesuch"))
e2 = raises(kvmm.Error, lambda: p.get([7777]))
assert "nonesuch" not in e2.why, (e1.why, e2.why)
''',
    "why_utf8": r'''
e = raises(kvmm.Error, lambda: kvmm.Pool(8, policy="\u00e9"*400))
for n in range(200, 260):
    e = raises(kvmm.Error, lambda: kvmm.Pool(8, policy="x"*n + "\u00e9"*400))
e = raises(kvmm.Error, lambda: kvmm.Tier(1<<20, 4096, disk_path=os.fsdecode(b"/nonesuch/\xff")))
''',
    "disk_pathlike": r'''
import tempfile, pathlib; d = tempfile.mkdtemp()
kvmm.Disk(pathlib.Path(d) / "a", 1<<24).close()
''',
    "strerror_big": r'''
raises(OverflowError, lambda: kvmm._kvmm.strerror(2**40 + 22))
''',
    "nul_name": r'''
raises(ValueError, lambda: kvmm.Pool(4, policy="lru\0x"))
''',
    "dlpack": r'''
class D:
    def __init__(self, f): self.f = f
    def __dlpack__(self): return self.f()
def boom(): raise RuntimeError("x")
p = kvmm.Pool(8)
raises(RuntimeError, lambda: p.get(D(boom)))
raises(Exception, lambda: p.get(D(lambda: None)))
raises(Exception, lambda: p.get(D(lambda: 5)))
import numpy as np
class N:
    def __init__(self, a): self.a = a
    def __dlpack__(self): return self.a.__dlpack__()
i = p.alloc(4); a = np.array(i, dtype=np.int32); p.get
p.put(N(a[:2])); p.put(N(a[2:])); 
z = np.array(p.alloc(1)[0], dtype=np.int32); p.put(N(z))
raises(BufferError, lambda: p.put(N(a[::2])))
raises(TypeError, lambda: p.put(N(a.astype(np.int64))))
p.put(N(a[:0])); p.put(N(np.zeros((0,3),dtype=np.int32))); p.put(N(np.zeros((3,0),dtype=np.int32)[::2]))
out = np.zeros(4, np.int32); p.alloc(4, out=N(out)); p.put(out)
ro = np.zeros(4, np.int32); ro.flags.writeable=False
raises(Exception, lambda: p.alloc(4, out=N(ro)))
raises(Exception, lambda: p.alloc(4, out=ro))
raises(ValueError, lambda: p.alloc(4, out=out[:2]))
assert p.available == 8
''',
}


@pytest.mark.parametrize("case", CASES)
def test_a_caller_s_mistake_is_an_exception(case):
    env = dict(os.environ, PYTHONMALLOC="debug", PYTHONFAULTHANDLER="1")
    done = subprocess.run([sys.executable, "-c", BEFORE + textwrap.dedent(CASES[case])], env=env,
                          timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr[-900:])
