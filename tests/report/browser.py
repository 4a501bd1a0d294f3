#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report in a browser without a screen: the page looks at itself (#selftest).

Without Chromium there is nothing to run it in, and the test says that it was skipped. Run from the
object tree.
"""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

REPLAY = os.environ.get("KVMM_REPLAY", "tools/kvmm-replay")
DUMP = os.environ.get("KVMM_DUMP", "tools/kvmm-dump")
BROWSERS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]

passed = failed = 0


def check(what, holds, seen=""):
    global passed, failed
    print(f"{'ok  ' if holds else 'FAIL'} {what}{'' if holds else ': ' + str(seen)}", flush=True)
    passed += bool(holds)
    failed += not holds


def run(*args):
    subprocess.run([*map(str, args)], check=True, capture_output=True, timeout=300)


def look(browser, folder, page):
    """What the page says of itself, or None."""
    flags = ["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--window-size=1300,2000", f"--user-data-dir={folder}/profile"]
    if os.geteuid() == 0:
        flags.append("--no-sandbox")
    for _ in range(3):      # a browser may fail to start, on a machine that is busy
        try:
            done = subprocess.run([browser, *flags, "--dump-dom", f"file://{page}#selftest"],
                                  capture_output=True, text=True, timeout=90)
        except subprocess.TimeoutExpired:
            continue
        found = re.search(r'<pre id="selftest">(.*?)</pre>', done.stdout, re.S)
        if found:
            return json.loads(html.unescape(found.group(1)))
    return None


def check_look(name, seen, least):
    check(f"{name}: the page ran to its end", seen is not None)
    for result in seen["results"] if seen else []:
        check(f"{name}: {result['name']}", result["ok"], result.get("seen"))
    check(f"{name}: it looked at enough", seen is not None and len(seen["results"]) >= least, seen)


def write_live(path):
    """As kvmm-dump record writes it: an engine with tiers, whose histograms have bounds of 1, 2, 5 and none."""
    columns = ["held", "cached", "largest", "free_runs", "accesses", "hits_device", "evicted", "moved", "hits_host",
               "hits_disk", "offloaded", "loaded", "offloaded_bytes", "loaded_bytes", "host_blocks",
               "disk_blocks", "stalled_us", "queue_p99", "room_p99", "offload_p99", "load_p99", "disk_p99"]
    bounds = [n * 10 ** e for e in range(3, 10) for n in (1, 2, 5)] + [2 ** 53 - 1]
    with open(path, "w") as file:
        def put(line):
            file.write(json.dumps(line) + "\n")
        put({"kvmm_recording": 1, "source": "kvmm-dump record", "purpose": "engine toy, pool kv", "x": "us",
             "owner": "owner", "blocks": 64, "cells": 64, "every": 100000, "columns": columns})
        for owner in range(60):
            put({"owner": owner, "name": "sequence %d" % (owner + 7)})
        for i in range(60):
            put({"x": 100000 * i, "map": "%da%d 10a%d 20c%d %d." % (10 + i % 9, i, i // 2, i // 9, 24 - i % 9),
                 "v": [20 + i % 9, 30, 14 - i % 9, 1, 90 * i, 40 * i, 5 * i, 2 * i, 20 * i, 5 * i, 30 * i, 25 * i,
                       30720 * i, 25600 * i, min(200, 30 * i), 10 * i, 500 * i, 0, 5000, 10 ** 6 * (i % 3), 20000, 0]})
        for name, counts in [("copies back to the device took", {3: 40, 4: 9, 21: 1}), ("requests waited", {0: 5}),
                             ("blocks stayed", {21: 3})]:
            put({"latency": name, "how": "measured", "unit": "ns", "complete": True, "n": sum(counts.values()),
                 "buckets": [[bound, counts.get(i, 0)] for i, bound in enumerate(bounds)]})
        put({"end": 60, "every": 100000, "full": False})


def check_that_it_can_fail(browser, folder, page):
    """A page whose map is not painted, and one whose hover is mute, must fail."""
    with open(page) as file:
        text = file.read()
    for what, a, b in [("map painted", "context.putImageData(image, 0, 0);", ""),
                       ("hover names the owner", "showTip(clientX, clientY, explain(", "void (explain("),
                       ("an arrow moves the view", "ArrowRight: e =>", "ArrowNowhere: e =>"),
                       ("dark and light differ", "root.dataset.theme = theme;", ""),
                       ("every drawing lies within its panel", "\t\tgraph.resize();", ";"),
                       ("tiles", "const tile = element(", "continue; const tile = element(")]:
        broken = os.path.join(folder, "broken.html")
        assert a in text, a
        with open(broken, "w") as file:
            file.write(text.replace(a, b))
        seen = look(browser, folder, broken)
        check(f"broken on purpose: '{what}' is seen", seen is not None and not seen["ok"] and
              any(r["name"] == what and not r["ok"] for r in seen["results"]), seen)


def main():
    browser = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if not browser:
        print("skipped: no Chromium to look at the report with\n1 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        page, both, compared, live = (os.path.join(folder, name + ".html")
                                      for name in ["frag", "both", "compare", "live"])
        frag, conc, engine = (os.path.join(folder, name + ".rec") for name in ["frag", "conc", "engine"])
        write_live(engine)
        run(DUMP, "report", engine, "-o", live)
        run(REPLAY, "frag", "--blocks", 1024, "--max-runs", 4, "--generate", "chat:requests=600",
            "--no-progress", "--record-state", frag, "--report", page)
        run(REPLAY, "conc", "--blocks", 300, "--host-blocks", 900, "--generate", "chat:requests=400",
            "--no-progress", "--record-state", conc)
        run(DUMP, "report", conc, frag, "-o", both)
        run(REPLAY, "compare", "--generate", "chat:requests=200", "--policies", "lru,slru", "--blocks",
            "50,100", "--ages", "--no-progress", "--report", compared)
        for name, path, least in [("frag", page, 28), ("both", both, 28), ("compare", compared, 4), ("live", live, 28)]:
            check_look(name, look(browser, folder, path), least)
        check_that_it_can_fail(browser, folder, page)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
