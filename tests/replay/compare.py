#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-replay compare: does it say what single runs say, and what a pencil says?

Run from the object tree.
"""
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile

TOOL = os.environ.get("KVMM_REPLAY", "tools/kvmm-replay")
REFERENCES = ["min", "bound", "infinite"]
ADDED = {"prompt_blocks", "device_blocks", "reference", "gap_closed_ppm", "best"}
HISTOGRAMS = ["idle_at_hit", "idle_at_eviction", "age_at_eviction", "refault_distance"]

# One block a request, named by its letter. Two blocks fit; what follows is done by hand.
SMALL = "ABACABCA"
BY_HAND = {
    # policy: blocks that hit by request, evictions
    "lru": ([0, 0, 1, 0, 1, 0, 0, 0], 4),   # C for B, B for C, C for A, A for B
    "lfu": ([0, 0, 1, 0, 1, 0, 0, 1], 3),   # C for B, B for C, C for B
    "min": ([0, 0, 1, 0, 1, 0, 1, 0], 3),   # C for B, B for A, A for one of both
    "infinite": ([0, 0, 1, 0, 1, 1, 1, 1], None),
}
BOUND_BY_HAND = 3
AGES_BY_HAND = {                            # of lru: values in requests, or evictions
    "idle_at_hit": [2, 2],                  # A, A
    "idle_at_eviction": [2, 2, 2, 2],       # B, C, A, B
    "age_at_eviction": [2, 2, 6, 2],
    "refault_distance": [1, 1, 1],          # B, C, A
}


def call(*args, text=None):
    return subprocess.run([TOOL, *map(str, args)], input=text, capture_output=True, text=True,
                          timeout=300)


def run(*args, text=None):
    done = call(*args, "--no-progress", text=text)
    if done.returncode or done.stderr:
        raise RuntimeError(f"{args}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def lines(*args, text=None):
    return [json.loads(line) for line in run(*args, "--json", text=text).splitlines()]


def small_trace(prompts):
    """Mooncake lines; a prompt is a word, a letter a block."""
    rows = [{"timestamp": at * 100000, "input_length": 512 * len(word), "output_length": 0,
             "hash_ids": [ord(c) for c in word]} for at, word in enumerate(prompts)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def fingerprint(hits):
    f = 0
    for h in hits:
        f = (f * 1000003 + h) % 2**64
    return f"{f:016x}"


def histogram(values):
    out = [0] * (max(v.bit_length() for v in values) + 1)
    for v in values:
        out[v.bit_length()] += 1
    return out


def by_hand():
    rows = {r["policy"]: r for r in lines("compare", "--policies", "lru,lfu", "--blocks", 2,
                                          "--ages", "-", text=small_trace(SMALL))}
    for policy, (hits, evictions) in BY_HAND.items():
        row = rows[policy]
        yield f"{policy}: hits", row["hits"] == sum(hits) and row["fp"] == fingerprint(hits)
        yield f"{policy}: evictions", row.get("evictions") == evictions
    yield "bound: hits", rows["bound"]["hits"] == BOUND_BY_HAND
    yield "lfu closes the whole gap", rows["lfu"]["gap_closed_ppm"] == 1000000
    yield "lru closes nothing of it", rows["lru"]["gap_closed_ppm"] == 0
    yield "lfu is the best policy", [p for p in rows if rows[p]["best"]] == ["lfu"]
    for key, values in AGES_BY_HAND.items():
        got = rows["lru"][key]
        yield f"lru: {key}", (got["n"], got["sum"], got["log2"]) == \
            (len(values), sum(values), histogram(values))
    yield "lru: three end at a new block, three at an evicted one, two nowhere", \
        [rows["lru"]["ended_" + e] for e in ("never", "evicted", "whole")] == [3, 3, 2]
    yield "lru: evicted without a hit", rows["lru"]["evicted_unused"] == 3
    yield "lru: refaults that two more blocks would have kept", rows["lru"]["refaults_near"] == 3


def by_hand_in_prefixes():
    """Prompts of two blocks: Z, AB, AB, and C and Y take the room of Z and B."""
    row = lines("compare", "--policies", "lru", "--blocks", 3, "--ages", "-",
                text=small_trace(["Z", "AB", "AB", "C", "Y"]))[0]
    yield "each block has its own age", row["idle_at_hit"]["sum"] == 1 + 1
    yield "the tail of a prompt is evicted first", \
        (row["idle_at_eviction"]["sum"], row["age_at_eviction"]["sum"]) == (3 + 2, 3 + 3)
    row = lines("seq", "--blocks", 9, "-", text=small_trace(["ABCDE"]))[0]
    yield "an empty pool has one run for a prompt", \
        (row["fresh_blocks"], row["fresh_runs"]) == (5, 1)


def by_hand_in_time():
    """Two at a time: each runs 64 ms a missed block, the next arrives 100 s later."""
    rows = {r["policy"]: r for r in lines("compare", "--policies", "lru", "--blocks", 2, "--ages",
                                          "--mode", "conc", "-", text=small_trace(SMALL))}
    yield "conc, lru: hits", rows["lru"]["kind"] == "conc" and rows["lru"]["hits"] == 2
    # From the release, 64 ms after the first arrival; the second one hit, so it took no time.
    want = [2 * 100_000_000 - 64_000, 2 * 100_000_000]
    yield "conc, lru: idle since the release", rows["lru"]["idle_at_hit"]["sum"] == sum(want)


def too_large():
    """Requests larger than the pool hit nothing, but count in the rates."""
    text = small_trace(["A", "A", "XYZ", "A"])
    out = run("compare", "--policies", "lru", "--blocks", "2,3", "-", text=text)
    rate = re.search(r"^lru +([\d.]+)\*? +([\d.]+)", out, re.M)
    yield "rates are of all prompt blocks", rate and rate.groups() == ("33.33", "16.67")
    yield "what did not fit is said", "1 requests are larger than 2 blocks" in out and \
        "than 3" not in out


def without_added(row):
    return {k: v for k, v in row.items() if k not in ADDED}


def equal_to_single_runs():
    work = ["--generate", "mix:requests=1500,seed=5"]
    ways = [("seq", []), ("conc", []), ("seq", ["--block-tokens", 128]), ("seq", ["--ages"])]
    for mode, extra in ways[:2] if os.environ.get("KVMM_TEST_LENGTH") == "short" else ways:
        sizes = [1000, 4000]      # enough for the longest prompt
        got = lines("compare", *work, *extra, "--mode", mode, "--blocks",
                    ",".join(map(str, sizes)))
        for row in got:
            alone = ["--policy", row["policy"], *(["--blocks", row["n"]] if row["n"] else [])]
            single = "seq" if row["policy"] in ("bound", "infinite") else mode
            want = lines(single, *work, *extra, *alone)[0]
            if single != mode or row["reference"]:
                want = {k: v for k, v in want.items() if k in row}
            yield f"{mode} {' '.join(map(str, extra))} {row['policy']} {row['n']}", \
                without_added(row) == want and row["prompt_blocks"] == row["accesses"]
        yield f"{mode}: the best are those that hit most", all(
            row["best"] == (not row["reference"] and row["hits"] == most_hits(got, row["n"]))
            for row in got)
        names = [r["policy"] for r in got if r["n"] == sizes[0]]
        yield f"{mode}: every row is there once", \
            len(set(names)) == len(names) and {"lru", "slru", "min", "bound"} <= set(names)
        yield f"{mode}: lru <= min <= bound <= infinite" if mode == "seq" else \
            f"{mode}: nobody hits more than infinite", ordered(got, sizes, mode)


def most_hits(rows, size):
    return max((r["hits"] for r in rows if r["n"] == size and not r["reference"]), default=0)


def ordered(rows, sizes, mode):
    hits = {(r["policy"], r["n"]): r["hits"] for r in rows}
    most = hits["infinite", 0]
    if mode == "conc":
        return all(h <= most for h in hits.values())
    return all(hits["lru", n] <= hits["min", n] <= hits["bound", n] <= most for n in sizes)


def consistent():
    for row in lines("compare", "--ages", "--blocks", "300,3000", "--generate",
                     "scan:requests=1500", "--generate", "agent:requests=600", "--keys", "vllm",
                     "--block-tokens", 256):
        name = f"{row['trace']}, {row['policy']}, {row['n']}"
        if "idle_at_hit" not in row:
            yield f"{name}: ages only where there is a pool", row["policy"] in REFERENCES
            continue
        yield f"{name}: buckets add up", \
            all(sum(row[h]["log2"]) == row[h]["n"] for h in HISTOGRAMS)
        yield f"{name}: all hits have an age", row["idle_at_hit"]["n"] == row["hits"]
        yield f"{name}: all evictions have", \
            row["idle_at_eviction"]["n"] == row["age_at_eviction"]["n"] == row["evictions"]
        yield f"{name}: nothing returns that was not evicted", \
            row["refaults_near"] <= row["refault_distance"]["n"] <= row["misses"] and \
            row["evicted_unused"] <= row["evictions"]
        yield f"{name}: each request's hits end for one reason", \
            sum(row["ended_" + e] for e in ("never", "evicted", "whole")) == \
            row["requests"] - row["rejected"]


def table(text, title):
    """{policy: [cell, ...]} of the table below @title, and its sizes."""
    body = text[text.index(title):].split("\n\n")[0].splitlines()[1:]
    rows = [re.split(r" {2,}", line.strip()) for line in body]
    return [int(n.replace(",", "")) for n in rows[0][1:]], {r[0]: r[1:] for r in rows[1:]}


def printed():
    args = ["compare", "--generate", "zipf:requests=2000", "--policies", "slru,lfu", "--blocks",
            "3000,500"]
    rows, text = lines(*args), run(*args)
    sizes, rates = table(text, "hits, %")
    _, gaps = table(text, "closed of the gap")
    yield "sizes come in order", sizes == [500, 3000]
    yield "rows come in order", list(rates) == ["lru", "slru", "lfu", *REFERENCES]
    yield "gaps are those of policies", list(gaps) == ["lru", "slru", "lfu"]
    for row in rows:
        at = sizes.index(row["n"]) if row["n"] else 0
        rate = f"{100 * row['hits'] / row['prompt_blocks']:.2f}" + "*" * row["best"]
        yield f"{row['policy']}, {row['n']}: rate", rates[row["policy"]][at] == rate
        if not row["reference"]:
            yield f"{row['policy']}, {row['n']}: gap", \
                gaps[row["policy"]][at] == f"{row['gap_closed_ppm'] / 10000:.1f}"


# Titles of the tables that tiers add, and what a field of them is.
TIER_TABLES = [
    ("hits in the device", lambda r: f"{100 * r['device_hits'] / r['prompt_blocks']:.2f}"),
    ("hits on the host", lambda r: f"{100 * r['host_hits'] / r['prompt_blocks']:.2f}"),
    ("device to host", lambda r: f"{r['offload_bytes'] / 1e9:.1f}"),
    ("host to device", lambda r: f"{r['load_bytes'] / 1e9:.1f}"),
    ("stalls", lambda r: f"{r['stall_us'] / 1e6:.3f}"),
    ("hits on disk", lambda r: f"{100 * r['disk_hits'] / r['prompt_blocks']:.2f}"),
    ("host to disk", lambda r: f"{r['disk_write_bytes'] / 1e9:.1f}"),
    ("disk to host", lambda r: f"{r['disk_read_bytes'] / 1e9:.1f}"),
]


def tiers():
    work = ["--generate", "chat:requests=800,seed=2"]
    below = ["--host-blocks", 600, "--disk-blocks", 1500]
    for mode in "seq", "conc":
        args = ["compare", *work, *below, "--mode", mode, "--policies", "slru", "--blocks", "300,900",
                "--write-policies", "through,selective"]
        rows, text = lines(*args), run(*args)
        for row in rows:
            alone = ["--policy", row["policy"], *(["--blocks", row["n"]] if row["n"] else [])]
            if not row["reference"]:
                alone += [*below, "--write-policy", row["write_policy"]]
            single = "seq" if row["policy"] in ("bound", "infinite") else mode
            want = lines(single, *work, *alone)[0]
            got = {k: v for k, v in without_added(row).items() if k in want or not row["reference"]}
            yield f"{mode} {row['policy']} {row.get('write_policy')} {row['n']}: as it is alone", \
                got == (want if not row["reference"] else {k: want[k] for k in got})
            yield "what no policy can know, it knows of one tier as large as all", \
                not row["reference"] or not row["n"] or row["n"] == row["device_blocks"] + 2100
        for title, cell in TIER_TABLES:
            sizes, cells = table(text, title)
            yield f"{mode}: {title}", all(
                cells[f"{r['policy']} {r['write_policy']}"][sizes.index(r["n"])] == cell(r)
                for r in rows if not r["reference"])
    with tempfile.TemporaryDirectory() as folder:
        run(*args, "--report", folder + "/page.html")
        with open(folder + "/page.html") as page:
            yield "the page has a table of tiers", "tiersTable(parent, board, i)" in page.read()


def any_number_of_threads():
    args = ["compare", "--generate", "phase:requests=800", "--generate", "chat:requests=500",
            "--blocks", "200,900,4000", "--ages"]
    with tempfile.TemporaryDirectory() as folder:
        seen = []
        for jobs in 1, 2, 7:
            page = os.path.join(folder, f"{jobs}.html")
            out = run(*args, "--jobs", jobs, "--report", page, "--json")
            with open(page) as text:
                seen.append((out, text.read()))
        yield "the output is the same for 1, 2 and 7 threads", seen[0] == seen[1] == seen[2]
        errors = [call(*args, "--device", "nonsense:0", "--jobs", jobs, "--no-progress")
                  for jobs in (1, 2, 7)]
        yield "and so is what is complained about", \
            len({(e.returncode, e.stdout, e.stderr) for e in errors}) == 1 and \
            errors[0].returncode == 2 and "lru, 200 blocks" in errors[0].stderr


class Page(html.parser.HTMLParser):
    """What the page is given to draw, and whatever would be fetched from elsewhere."""

    def __init__(self):
        super().__init__()
        self.data, self.outside, self.within = "", [], False

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.within = attrs.get("class") == "recording"
        if tag in ("link", "img", "iframe", "object") or "src" in attrs or "href" in attrs:
            self.outside.append(tag)

    def handle_data(self, data):
        if self.within:
            self.data += data

    def handle_endtag(self, tag):
        self.within = False


def page():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "<a>&.html")
        out = run("compare", "--generate", "chat:requests=500", "--generate", "zipf:requests=500",
                  "--policies", "lru,slru", "--blocks", "100,200,400", "--ages", "--report", path,
                  "--json")
        with open(path) as text:
            text = text.read()
        got = Page()
        got.feed(text)
        yield "the page has what --json says", got.data.strip() == out.strip()
        yield "nothing is fetched", not got.outside and \
            not re.search(r"url\((?!data:)|@import|XMLHttpRequest\(\).*https?:", text)
        bad = call("compare", "--generate", "chat:requests=50", "--report", folder + "/no/page")
        yield "a page that cannot be written is said", \
            bad.returncode == 2 and "no/page: No such file" in bad.stderr and not bad.stdout


def sources():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "some_trace.jsonl")
        with open(path, "w") as out:
            out.write(small_trace(SMALL))
        rows = lines("compare", "--generate", "chat:requests=50", path, "--blocks", 300,
                     "--generate", "zipf:requests=50", "--policies", "lru")
        names = list(dict.fromkeys(r["trace"] for r in rows))
        yield "traces come in the order they were given", \
            names == ["chat:requests=50", "some", "zipf:requests=50"]
        again = lines("compare", "--generate", "chat:requests=50", "--blocks", 300, "--policies",
                      "lru")
        yield "and do not touch each other", again == [r for r in rows if r["trace"] == names[0]]


def round_trip():
    for spec in "chat:requests=300", "agent:requests=300", "mix:requests=300,seed=9":
        text = run("generate", spec)
        ignore = {"trace"}
        direct = lines("conc", "--generate", spec, "--blocks", 800)[0]
        read = lines("conc", "-", "--blocks", 800, text=text)[0]
        yield f"{spec}: written and read it is the same", \
            {k: v for k, v in direct.items() if k not in ignore} == \
            {k: v for k, v in read.items() if k not in ignore}
    yield "without a word it says what there is", \
        all(kind in run("generate") for kind in ("chat", "agent", "zipf", "scan", "phase", "mix"))
    spec = "zipf:requests=40"
    yield "--seed and --requests are for specs that say nothing else", \
        run("generate", spec, "--seed", 4) == run("generate", spec + ",seed=4", "--seed", 5) == \
        run("generate", "zipf", "--requests", 40, "--seed", 4) != run("generate", spec)


REFUSED = [
    # arguments, what the message has to name
    (["compare", "--policies", "nonsense"], ["nonsense", "lru", "slru", "min"]),
    (["compare", "--policies", "lru,,lfu"], ["lru,,lfu"]),
    (["compare", "--policies", ""], ["''"]),
    (["compare", "--blocks", "1000,"], ["blocks"]),
    (["compare", "--blocks", "0"], ["blocks"]),
    (["compare", "--blocks", "5,x"], ["x"]),
    (["compare", "--blocks", ",".join("9" * 40)], ["32"]),
    (["compare", "--mode", "frag"], ["frag"]),
    (["compare", "--jobs", "0"], ["jobs"]),
    (["compare", "--keys", "ids", "--block-tokens", "16"], ["ids"]),
    (["compare", "--generate", "zipf:docs=0"], ["docs"]),
    (["compare", "--generate", "webcache"], ["webcache", "agent"]),
    (["compare", "--generate", "chat:loop=3"], ["loop", "follow"]),
    (["compare", "/no/such/trace"], ["/no/such/trace"]),
    (["compare", *["--generate=chat"] * 17], ["16"]),
    *[([mode, *option], ["compare only"]) for mode in ("seq", "conc", "cluster")
      for option in (["--policies", "lru"], ["--mode", "conc"])],
    (["seq", "--policy", "nonsense"], ["nonsense", "lru", "lfu", "bound", "infinite"]),
    (["seq", "--policy", ""], ["''"]),
    (["seq", "--blocks", "10,20"], ["10,20"]),
    (["seq", "--policy", "lru:1"], ["lru:1"]),
    (["conc", "--policy", "bound"], ["bound"]),
    (["seq", "a", "b"], ["b"]),
    (["generate", "chat", "zipf"], ["zipf"]),
    (["generate", "chat:span=x"], ["span"]),
    (["frag", "--streams", "2", "--device", "soft"], ["--streams 2", "'soft'"]),
    (["frag", "--streams", "2", "--device", "cuda:0", "--verify"], ["--streams 2", "'cuda:0'"]),
    (["frag", "--streams", "2", "--device", "hostess"], ["--streams 2", "'hostess'"]),
    (["frag", "--compact", "background", "--device", "soft:1"], ["--streams 4", "'soft:1'"]),
    (["nonsense"], ["nonsense", "compare"]),
    ([], ["compare"]),
]


def refused():
    for args, words in REFUSED:
        done = call(*args, "--no-progress", text="")
        yield f"refused: {' '.join(args)[:70]}", \
            done.returncode == 2 and not done.stdout and all(w in done.stderr for w in words)
    broken = small_trace(SMALL) + "{}\n"
    done = call("compare", "-", text=broken)
    yield "a broken trace has file and line", \
        done.returncode == 2 and done.stderr.startswith("kvmm-replay: <stdin>:9: ")
    lengths = "num_prefill_tokens,num_decode_tokens\n100,7\n"
    done = call("compare", "--mode", "conc", "-", text=lengths)
    yield "no time without arrivals", done.returncode == 2 and "arrival" in done.stderr


def every_policy():
    message = call("seq", "--policy", "?").stderr
    names = re.search(r"only (.*), min, bound, infinite", message).group(1).split(", ")
    for name in names:
        for mode in "seq", "conc":
            row = lines(mode, "--policy", name, "--blocks", 700, "--requests", 300)[0]
            yield f"{mode} --policy {name}", row["policy"] == name and row["hits"] > 0


TESTS = [by_hand, by_hand_in_prefixes, by_hand_in_time, too_large, equal_to_single_runs,
         consistent, printed, tiers, any_number_of_threads, page, sources, round_trip, refused,
         every_policy]


def main():
    passed = failed = 0
    for test in TESTS:
        try:
            for what, holds in test():
                passed += bool(holds)
                failed += not holds
                if not holds:
                    print(f"FAIL {test.__name__}: {what}")
        except (RuntimeError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"FAIL {test.__name__}: {error}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
