#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Feed kvmm-replay with broken traces: it must read them or say file and line, nothing else.

Run from the object tree. A small sample of each format is cut off and overwritten at every byte.
The tool must exit with 0 or 2, quickly; with 2 it must print one line "kvmm-replay: FILE:LINE:
..." on stderr and nothing on stdout. Then come cases of which the outcome is known.
"""
import os
import re
import subprocess
import sys
import tempfile

TOOL = os.environ.get("KVMM_REPLAY", "tools/kvmm-replay")
MESSAGE = re.compile(rb"kvmm-replay: <stdin>:([1-9][0-9]*): [^\n]+\n")

MOONCAKE = b"""\
{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]}
{"hash_ids": [0,2], "timestamp": 9, "output_length": 1, "input_length": 1024, "x": {"y": [1e3, ""]}}
"""
AZURE = b"""\
TIMESTAMP,ContextTokens,GeneratedTokens\r
2023-11-16 18:15:46.6805900,374,44\r
2023-11-16 18:15:50.9951690,396,109"""
LENGTHS = b"""\
id,num_prefill_tokens,num_decode_tokens
1,100,7
2,5000,90
"""
BAILIAN = b"""\
{"chat_id": 159, "parent_chat_id": 55, "timestamp": 61.114, "input_length": 36, "output_length": 132, \
"type": "text", "turn": 2, "hash_ids": [1089, 1090, 6326]}
"""
LINE = b'{"timestamp": 1, "input_length": %s, "output_length": %s, "hash_ids": [%s]}\n'
HEADER = b"TIMESTAMP,ContextTokens,GeneratedTokens\n"

# (text, line that must be complained about, or 0 if the trace is good)
KNOWN = [
    (b"", 1),
    (b"\n\n", 2),
    (b"hello\n", 1),
    (b"{}\n", 1),
    (HEADER, 1),
    (MOONCAKE, 0),
    (MOONCAKE.replace(b"\n", b"\r\n"), 0),
    (MOONCAKE.rstrip(b"\n"), 0),
    (b"\xef\xbb\xbf" + MOONCAKE, 0),
    (AZURE, 0),
    (AZURE + b"\r\n", 0),
    (LENGTHS, 0),
    (MOONCAKE + b"\n\n", 0),
    (MOONCAKE + b"\0", 3),
    (MOONCAKE + b"x\n", 3),
    (MOONCAKE + LINE % (b"1", b"1", b"7"), 3),              # time goes back
    (LINE % (b"512", b"0", b"7"), 0),
    (LINE % (b"1025", b"0", b"7"), 1),                      # of 1024 at most
    (LINE % (b"512", b"0", b"7, 8"), 0),                    # of 256 tokens each
    (LINE % (b"512", b"0", b"7, 8, 9"), 1),
    (LINE % (b"512", b"0", b"7, 8") + LINE % (b"700", b"0", b"7, 8, 9"), 0),
    (LINE % (b"512", b"0", b"7, 8") + LINE % (b"700", b"0", b"7, 8"), 2),
    (LINE % (b"0", b"1", b""), 1),
    (LINE % (b"-1", b"1", b"7"), 1),
    (LINE % (b"1.5", b"1", b"7"), 1),
    (LINE % (b"1e2", b"1", b"7"), 1),
    (LINE % (b"99999999999999999999999999", b"1", b"7"), 1),
    (LINE % (b"18446744073709551617", b"1", b"7"), 1),      # 1, were it to wrap
    (LINE % (b"1", b"4294967297", b"7"), 1),
    (LINE % (b"1", b"1", b"9007199254740991"), 0),
    (LINE % (b"1", b"1", b"9007199254740992"), 1),
    (LINE % (b"1", b"1", b"[7]"), 1),
    (LINE.replace(b'"timestamp"', b'"output_length"') % (b"1", b"1", b"7"), 1),
    (b'{"timestamp": 1, "input_length": 1, "output_length": 1}\n', 1),
    (LINE.replace(b"{", b'{"a": ' + b"[" * 100 + b"]" * 100 + b", ", 1) % (b"1", b"1", b"7"), 1),
    (LINE.replace(b": 1,", b": 1.5,") % (b"1", b"1", b"7"), 1),
    (BAILIAN, 0),
    (BAILIAN.replace(b"61.114", b"6e1"), 1),
    (BAILIAN.replace(b"61.114", b"99999999999"), 1),
    (BAILIAN + BAILIAN.replace(b"61.114", b"61"), 2),       # time goes back
    (BAILIAN + LINE % (b"1", b"1", b"7"), 2),               # another format
    (LINE % (b"1", b"1", b"7") + BAILIAN, 2),
    (b'{"a": "' + b"x" * (1 << 24) + b'"}\n', 1),
    (b"\n" * 70000 + b"x", 70001),
    (HEADER + b"2023-02-29 18:15:46.0,1,1\n", 2),
    (HEADER + b"2024-02-29 18:15:46.0,1,1\n", 0),
    (HEADER + b"2023-11-16 24:15:46.0,1,1\n", 2),
    (HEADER + b"2023-11-16 18:15:46,1,1\n", 0),
    (HEADER + b"2023-11-16 18:15:46.0,1\n", 2),
    (HEADER + b"2023-11-16 18:15:46.0,1,1,1\n", 2),
    (HEADER + b"2023-11-16 18:15:46.0,1,\n", 2),
    (HEADER + b"2023-11-16 18:15:46.0,16777217,1\n", 2),
    (HEADER + b"2023-11-16 18:15:46.0,1,1\n2023-11-16 18:15:45.9,1,1\n", 3),
    (b"num_prefill_tokens\n5\n", 1),
    (b"num_decode_tokens,num_prefill_tokens\n0,5\n", 0),
    (b"num_decode_tokens,num_prefill_tokens\n5,0\n", 2),
]


def run(text, *args):
    return subprocess.run([TOOL, *args, "-", "--no-progress"], input=text,
                          capture_output=True, timeout=20)


def complaint(text, *args):
    """None if the tool behaved, else why not; and the line it named, 0 if it read the trace."""
    try:
        done = run(text, *args)
    except subprocess.TimeoutExpired:
        return "it hangs", None
    if done.returncode == 0:
        return ("it prints to stderr", None) if done.stderr else (None, 0)
    match = MESSAGE.fullmatch(done.stderr)
    if done.returncode != 2 or done.stdout or not match:
        return f"exit code {done.returncode}, stderr {done.stderr!r}", None
    return None, int(match.group(1))


def mutations(text):
    for at in range(0, len(text), 5 if os.environ.get("KVMM_TEST_LENGTH") == "short" else 1):
        yield f"cut at {at}", text[:at]
        for byte in b"\0\n\",-9}":
            yield f"byte {byte} at {at}", text[:at] + bytes([byte]) + text[at + 1:]


def broken():
    for name, text in ("mooncake", MOONCAKE), ("bailian", BAILIAN), ("azure", AZURE), ("lengths", LENGTHS):
        for what, mutant in mutations(text):
            why, _ = complaint(mutant, "waste")
            yield f"{name}, {what}", why


def known():
    for text, line in KNOWN:
        why, got = complaint(text, "waste")
        if not why and got != line:
            why = f"names line {got} instead of {line}"
        yield f"{text[:60]!r}", why


def named():
    """A file is named as it was given."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "some trace.csv")
        for text, want in (LENGTHS + b"x\n", f"{path}:4: "), (None, path):
            if text:
                with open(path, "wb") as out:
                    out.write(text)
            else:
                os.unlink(path)
            done = subprocess.run([TOOL, "frag", path], capture_output=True, text=True)
            good = (done.returncode == 2 and not done.stdout and
                    done.stderr.startswith("kvmm-replay: " + want))
            yield f"{path}, {'broken' if text else 'missing'}", None if good else done.stderr


def main():
    passed = failed = 0
    for test in (broken, known, named):
        for name, why in test():
            passed += not why
            failed += bool(why)
            if why:
                print(f"FAIL {name}: {why}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
