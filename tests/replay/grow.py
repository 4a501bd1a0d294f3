#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-replay conc --grow: answers that take their blocks one by one, and who is preempted for them; and
seq --answers, where nobody is.

Run from the object tree.
"""
import json
import os
import subprocess
import sys

TOOL = os.environ.get("KVMM_REPLAY", "tools/kvmm-replay")
MADE_UP = ["--generate", "chat:requests=1500,seed=3,span=600"]

passed = failed = 0


def check(what, holds):
    global passed, failed
    print(f"{'ok  ' if holds else 'FAIL'} {what}", flush=True)
    passed += bool(holds)
    failed += not holds


def text(*args, trace=None, code=0, mode="conc"):
    done = subprocess.run([TOOL, mode, *map(str, args), "--json", "--no-progress"], input=trace,
                          capture_output=True, text=True, timeout=300)
    if done.returncode != code:
        raise RuntimeError(f"{args}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stderr if code else done.stdout


def run(*args, trace=None, mode="conc"):
    return json.loads(text(*args, trace=trace, mode=mode))


def requests(*rows):
    """(tokens of the prompt, its blocks by letter, tokens of the answer), all at time 0."""
    return "".join(json.dumps({"timestamp": 0, "input_length": tokens, "output_length": answer,
                               "hash_ids": [ord(c) for c in word]}) + "\n"
                   for tokens, word, answer in rows)


def expect(what, got, **want):
    for key, value in want.items():
        check(f"{what}: {key} is {value}" + ("" if got[key] == value else f", not {got[key]}"),
              got[key] == value)


def check_by_hand():
    # A block is computed in 64 ms, a token said in 20. Both have two blocks at 64 ms, and fill them
    # at 10.304 s. A needs a third one: B was admitted last, and goes. A takes B's second block, as
    # the last of a prompt goes first, and is done 88 tokens later. Then B comes again with two
    # blocks, of which the first is still there, computes the other in 64 ms and says 88 tokens.
    two = requests((512, "A", 600), (512, "B", 600))
    expect("the youngest goes", run("--grow", "--blocks", 4, "-", trace=two),
           preemptions=1, preempted_requests=1, preempted_themselves=0, preempt_ppm=500000,
           preempted_us=1760000, grown_blocks=4, resumed_blocks=2, resumed_hits=1,
           recomputed_blocks=1, hits=1, accesses=4, makespan_us=13888000, delayed=0, peak_used=4)
    expect("a block more, and nobody has to", run("--grow", "--blocks", 6, "-", trace=two),
           preemptions=0, preempt_ppm=0, grown_blocks=4, resumed_blocks=0, makespan_us=12064000)
    expect("reserved, the second one waits", run("--blocks", 4, "-", trace=two),
           delayed=1, makespan_us=2 * 12064000)
    # B's two blocks have room for 24 tokens more, at 608 ms. A has the other two until 12.064 s,
    # and takes B's second one at 10.304 s.
    both = requests((512, "A", 600), (1000, "BC", 600))
    expect("who needs a block may be the youngest", run("--grow", "--blocks", 4, "-", trace=both),
           preemptions=1, preempted_themselves=1, preempted_us=12064000 - 608000, resumed_blocks=2,
           resumed_hits=1, makespan_us=12064000 + 64000 + 576 * 20000)
    # A answer of no tokens, and one that ends where its block does.
    ends = requests((512, "A", 0), (500, "B", 12))
    expect("answers that need no block", run("--grow", "--blocks", 2, "-", trace=ends),
           grown_blocks=0, preemptions=0, makespan_us=64000 + 12 * 20000)


def check_tiers():
    # A needs all four blocks in the end. B's first block is in the host tier by then, its second one
    # was taken at once. A is done at 64 ms + 1,500 tokens; B's load takes 1.1 ms, its block 64.
    two = requests((512, "A", 1500), (512, "B", 600))
    link = ["--token-bytes", 1000, "--transfer-bandwidth", 512, "--transfer-latency", 100]
    args = ["--grow", "--blocks", 4, "--write-policy", "explicit", *link, "-"]
    done = 64000 + 1500 * 20000
    expect("what the preempted had goes down and comes back",
           run(*args, "--host-blocks", 8, trace=two),
           preemptions=1, offloads=1, loads=1, host_hits=1, device_hits=0, resumed_hits=1,
           resumed_blocks=2, recomputed_blocks=1, stall_us=1100,
           makespan_us=done + 1100 + 64000 + 88 * 20000)
    expect("without tiers it is computed", run(*args, trace=two),
           preemptions=1, resumed_hits=0, recomputed_blocks=2,
           makespan_us=done + 2 * 64000 + 88 * 20000)


def check_larger():
    for size in (["--blocks", 400], ["--blocks", 8000, "--block-tokens", 16, "--keys", "vllm"]):
        for tiers in ([], ["--host-blocks", 1000, "--disk-blocks", 2000, "--write-policy", "through"],
                      ["--host-blocks", 1000, "--write-policy", "back"]):
            args = ["--grow", *size, *tiers, *MADE_UP]
            once, again = text(*args), text(*args)
            row = json.loads(once)
            check(f"{' '.join(map(str, size + tiers))}: the same in every run, "
                  f"{row['preemptions']} preemptions", once == again and row["preemptions"] > 0)
            check("blocks that come again are found or computed",
                  row["resumed_hits"] + row["recomputed_blocks"] == row["resumed_blocks"])
            if tiers:
                check("hits of the tiers add up", row["hits"] == row["device_hits"] +
                      row["host_hits"] + row.get("disk_hits", 0))
    large = ["--blocks", 20000, *MADE_UP]
    grown, reserved = run("--grow", *large), run(*large)
    check("with room for all nobody is preempted, and all take as long",
          grown["preemptions"] == 0 and grown["makespan_us"] == reserved["makespan_us"])


def check_answers():
    def seq(blocks, *rows):
        return run("--answers", "--keys", "vllm", "--blocks", blocks, "-", trace=requests(*rows),
                   mode="seq")

    # 599 of 600 tokens are computed: two blocks more, of which the first is full, and in the next turn.
    turns = [(512, "A", 600), (1700, "ABCD", 1)]
    expect("the next turn finds the answer", seq(9, *turns), hits=2, accesses=5, answer_blocks=2,
           evictions=0, resident_end=3, peak_held=4, rejected=0)
    expect("each request is followed once", seq(9, (512, "A", 600), (1700, "AXYZ", 600),
                                                (1700, "ABCD", 1)),
           hits=2 + 1, answer_blocks=2 + 1, resident_end=2 + 2 + 2)
    # What is shorter than what was said is no turn after it; the answer is cached under a name of its own.
    expect("a prompt that is too short", seq(9, (512, "A", 600), (1100, "ABC", 1)), hits=1,
           resident_end=3)
    expect("a block is full with its last computed token", seq(9, (512, "A", 513)), answer_blocks=1,
           resident_end=2)
    expect("or one before it", seq(9, (512, "A", 512)), answer_blocks=1, resident_end=1)
    expect("what never fits is refused", seq(2, (512, "A", 600)), rejected=1, hits=0, answer_blocks=0)
    expect("answers take the room of others", seq(3, (512, "B", 1), (512, "A", 600), (512, "B", 1)),
           evictions=1, hits=0)


def check_usage():
    for args in (["--grow", "--ages"], ["--grow", "--verify"], ["--grow", "--policy", "min"],
                 ["--grow", "--transfers"]):
        check(f"{' '.join(args)}: refused", "--grow: " in text(*args, code=2))


def main():
    check_by_hand()
    check_tiers()
    check_larger()
    check_answers()
    check_usage()
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
