#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings of replays, and the page that is made of them.

What is recorded is held against what the run says in the end, and maps against numbers: the reader here
is not the one of kvmm-dump. Run from the object tree.
"""
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile

REPLAY = os.environ.get("KVMM_REPLAY", "tools/kvmm-replay")
DUMP = os.environ.get("KVMM_DUMP", "tools/kvmm-dump")
GAUGES = ["held", "cached", "largest", "free_runs", "running", "wait_p50", "wait_p99"]

passed = failed = 0


def check(what, holds):
    global passed, failed
    print(f"{'ok  ' if holds else 'FAIL'} {what}", flush=True)
    passed += bool(holds)
    failed += not holds


def call(*args, text=None):
    return subprocess.run([*map(str, args)], input=text, capture_output=True, text=True, timeout=300)


def replay(*args):
    done = call(REPLAY, *args, "--json", "--no-progress")
    if done.returncode or done.stderr:
        raise RuntimeError(f"{args}: exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def read(path):
    with open(path) as file:
        return file.read()


def decode(text, last):
    """The cells of a map: (state, owner or None)."""
    row = []
    for run in text.split(" "):
        count, state, owner = re.fullmatch(r"(\d+)([.acpsmx=])(\d*)", run).groups()
        at = len(row)
        row += last[at:at + int(count)] if state == "=" else [(state, owner)] * int(count)
    return row


class Recording:
    def __init__(self, text):
        lines = [json.loads(line) for line in text.splitlines()]
        self.head, self.end = lines[0], lines[-1]
        self.samples = [line for line in lines if "x" in line and "v" in line]
        self.latencies = {line["latency"]: line for line in lines if "latency" in line}
        self.results = next(line for line in lines if "results" in line)["results"]
        self.x = [s["x"] for s in self.samples]
        self.columns = {name: [s["v"][i] for s in self.samples]
                        for i, name in enumerate(self.head["columns"])}
        self.maps, last = [], []
        for s in self.samples:
            last = decode(s["map"], last)
            self.maps.append(last)


def check_form(name, rec):
    check(f"{name}: as many moments as the end says", rec.end["end"] == len(rec.samples) > 50)
    check(f"{name}: each map is whole", all(len(m) == rec.head["cells"] for m in rec.maps))
    check(f"{name}: time does not go back", rec.x == sorted(rec.x))
    counters = [c for c in rec.columns if c not in GAUGES]
    check(f"{name}: what is counted only grows",
          all(rec.columns[c] == sorted(rec.columns[c]) for c in counters))


def runs_of(cells, wanted):
    """Lengths of the runs of a state."""
    drawn = "".join("#" if cell[0] == wanted else " " for cell in cells)
    return [len(run) for run in drawn.split()]


def check_frag(folder):
    args = ["frag", "--blocks", 2000, "--generate", "chat:requests=1500", "--max-runs", 4,
            "--compact", "direct", "--mark", 97, "--pinned", 10, "--verify"]
    path, again = os.path.join(folder, "frag.rec"), os.path.join(folder, "again.rec")
    out = replay(*args, "--record-state", path)
    rec = Recording(read(path))
    col = rec.columns
    check_form("frag", rec)
    check("frag: recording changes nothing", out == replay(*args))
    check("frag: it has the results", rec.results == out)
    replay(*args, "--record-state", again)
    check("frag: equal runs make equal recordings", read(path) == read(again))
    check("frag: what the map shows in use is what is held",
          all(sum(c[0] != "." for c in m) == held for m, held in zip(rec.maps, col["held"])))
    check("frag: and its holes are the free runs, the longest included",
          all([len(runs_of(m, ".")), max(runs_of(m, "."), default=0)] == [n, longest]
              for m, n, longest in zip(rec.maps, col["free_runs"], col["largest"])))
    check("frag: it shows as many owners as requests run",
          all(len({c[1] for c in m if c[1]}) == n for m, n in zip(rec.maps, col["running"])))
    check("frag: pinned requests are pinned all the time",
          not {c[1] for m in rec.maps for c in m if c[0] == "a"} &
          {c[1] for m in rec.maps for c in m if c[0] == "p"})
    check("frag: sums are those of the run", [col["requests"][-1], col["runs"][-1], col["moved"][-1]] ==
          [out["admitted"], out["runs"], out["moved_blocks"]])
    wait = rec.latencies["requests waited for admission"]
    check("frag: waits are simulated, and all there", wait["how"] == "simulated" and
          wait["n"] == out["admitted"] == sum(n for _, n in wait["buckets"]) and
          wait["sum"] == out["wait_us"])
    return path


def check_cache(folder):
    args = ["conc", "--blocks", 400, "--generate", "chat:requests=600", "--host-blocks", 1500]
    path = os.path.join(folder, "conc.rec")
    out = replay(*args, "--record-state", path, "--record-every", 2.5, "--record-calls")
    rec = Recording(read(path))
    col = rec.columns
    check_form("conc", rec)
    check("conc: the map shows what is in use, and what is cached",
          all([sum(c[0] == "a" for c in m), sum(c[0] == "c" for c in m)] == [held, cached]
              for m, held, cached in zip(rec.maps, col["held"], col["cached"])))
    check("conc: hits by tier are those of the run",
          [col["hits_device"][-1], col["hits_host"][-1], col["accesses"][-1]] ==
          [out["device_hits"], out["host_hits"], out["accesses"]] and out["host_hits"])
    regular = [x for i, x in enumerate(rec.x) if i == 0 or x // 2500000 != rec.x[i - 1] // 2500000]
    check("conc: a moment in each 2.5 s in which anything happens, 256 for the close-up",
          rec.head["every"] == 2500000 and 0 <= len(rec.x) - len(regular) <= 256)
    stall = rec.latencies["requests waited for what they load"]
    check("conc: stalls are the run's", abs(stall["sum"] - out["stall_us"]) <= stall["n"] > 0)
    calls = rec.latencies["calls of the library for a request's blocks"]
    check("conc: calls are measured where that is asked for", calls["how"] == "measured" and calls["n"] >= 600)
    return path


def check_disk(folder):
    path = os.path.join(folder, "disk.rec")
    out = replay("conc", "--blocks", 200, "--generate", "chat:requests=600", "--host-blocks", 300,
                 "--disk-blocks", 3000, "--write-policy", "back", "--record-state", path)
    col = Recording(read(path)).columns
    check("disk: hits of three tiers are those of the run",
          [col["hits_device"][-1], col["hits_host"][-1], col["hits_disk"][-1]] ==
          [out["device_hits"], out["host_hits"], out["disk_hits"]] and out["disk_hits"])


def check_seq(folder):
    path = os.path.join(folder, "seq.rec")
    out = replay("seq", "--blocks", 300, "--generate", "zipf:requests=400", "--transfers",
                 "--record-state", path, "--record-every", 4)
    rec = Recording(read(path))
    check_form("seq", rec)
    check("seq: x counts requests", rec.head["x"] == "requests" and rec.x[:3] == [0, 4, 8])
    check("seq: descriptors are counted",
          rec.columns["descriptors"][-1] <= out["descriptors"] * 1.0 if "descriptors" in out
          else rec.columns["descriptors"][-1] > 0)
    check("seq: hits are the run's, but for the last request",
          0 <= out["hits"] - rec.columns["hits_device"][-1] <= out["hits"] / 50)


class Page(html.parser.HTMLParser):
    """The recordings in it, and whatever would be fetched from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.recordings, self.outside, self.name = {}, [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.name = attrs.get("data-name") if attrs.get("class") == "recording" else None
        if tag in ("link", "img", "iframe", "object") or "src" in attrs or "href" in attrs:
            self.outside.append(tag)

    def handle_data(self, data):
        if self.name is not None:
            self.recordings[self.name] = self.recordings.get(self.name, "") + data

    def handle_endtag(self, tag):
        self.name = None


def check_page(folder, recordings):
    out = os.path.join(folder, "page.html")
    odd = os.path.join(folder, "a<b>&\".rec")
    with open(odd, "w") as file:
        file.write('{"kvmm_recording":1,"source":"</script><!--<script>","x":"us"}\n{"end":0}\n')
    done = call(DUMP, "report", *recordings, odd, "-o", out)
    check("report: written without a word", [done.returncode, done.stdout, done.stderr] == [0, "", ""])
    page = Page(read(out))
    names = [os.path.basename(path).rsplit(".", 1)[0] for path in [*recordings, odd]]
    check("report: each recording under its name, in order", list(page.recordings) == names)
    for name, path in zip(names, [*recordings, odd]):
        check(f"report: {name} is in it, byte for byte but for '<'",
              page.recordings[name].strip() == read(path).strip().replace("<", "\\u003c"))
    check("report: nothing is fetched", not page.outside and "@import" not in read(out))
    check("report: the chart library and all scripts are in it",
          all(part in read(out) for part in ["dygraphs", "function decodeMap", "function drawMap",
                                             "function setUpCharts", "function showComparison",
                                             "function selftest"]))
    check("report: no place is left open", not re.search(r"^@[A-Z]+$", read(out), re.M))
    direct = os.path.join(folder, "direct.html")
    again = os.path.join(folder, "azure.rec")
    replay("frag", "--generate", "chat:requests=300", "--report", direct, "--record-state", again)
    check("kvmm-replay --report makes the same page",
          list(Page(read(direct)).recordings.values()) == ["\n" + read(again)])


def check_errors(folder, good):
    out, bad = os.path.join(folder, "none.html"), os.path.join(folder, "bad.rec")
    with open(bad, "w") as file:
        file.write("".join(read(good).splitlines(True)[:3]) + '{"x":0,"v":[]}\n')
    done = call(DUMP, "report", good, bad, "-o", out)
    check("a bad line is said with its number", done.returncode == 1 and f"{bad}:4: " in done.stderr)
    check("and nothing is left of the page", not os.path.exists(out) and not os.path.exists(out + ".part"))
    done = call(DUMP, "report", os.path.join(folder, "missing"), "-o", out)
    check("a file that is not there", done.returncode == 1 and "No such file" in done.stderr)
    done = call(DUMP, "report", good, "-o", os.path.join(folder, "no", "page"))
    check("a page that cannot be written", done.returncode == 1 and "No such file" in done.stderr)
    link = os.path.join(folder, "link")
    os.symlink(out, link)
    done = call(DUMP, "report", good, "-o", link)
    check("a link stays one, as devices do, and its file is written",
          done.returncode == 0 and os.path.islink(link) and "</html>" in read(out))
    os.unlink(out)
    check("no file at all is bad usage", call(DUMP, "report").returncode == 2)
    done = call(DUMP, "report", "-", "-o", "-", text=read(good)[:len(read(good)) // 2])
    check("a recording that was cut off is reported, and said to be",
          done.returncode == 0 and "was cut off after" in done.stderr and "standard input" in done.stdout)
    for args in [["--record-every", "0"], ["--record-every", "x"], ["--record-every", "1e12"]]:
        check(" ".join(args) + " is bad usage", call(REPLAY, "frag", *args).returncode == 2)
    check("compare has no one run to record", call(REPLAY, "compare", "--record-state", out).returncode == 2)
    done = call(REPLAY, "frag", "--generate", "chat:requests=30", "--no-progress", "--record-state", "/dev/full")
    check("a recording that finds no room is an error", done.returncode == 2 and "/dev/full" in done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        recordings = [check_frag(folder), check_cache(folder)]
        check_disk(folder)
        check_seq(folder)
        compared = os.path.join(folder, "compared.json")
        with open(compared, "w") as file:
            file.write(call(REPLAY, "compare", "--generate", "chat:requests=100", "--policies", "lru",
                            "--blocks", "50", "--json", "--no-progress").stdout)
        for mode in ["waste", "seq"]:
            path = os.path.join(folder, mode + ".rec")
            replay(mode, "--generate", "chat:requests=50", "--record-state", path,
                   *(["--policy", "bound"] if mode == "seq" else []))
            recordings.append(path)
        check_page(folder, [*recordings, compared])
        check_errors(folder, recordings[0])
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
