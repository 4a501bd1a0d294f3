#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report in a browser without a screen, at three widths: the page looks at itself (#selftest).

Without Chromium there is nothing to run it in, and the test says that it was skipped. Run from the
object tree.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["KVMM_SRCTREE"], "tests/report"))
import chrome  # noqa: E402

REPLAY = os.environ.get("KVMM_REPLAY", "tools/kvmm-replay")
DUMP = os.environ.get("KVMM_DUMP", "tools/kvmm-dump")

passed = failed = 0


def check(what, holds, seen=""):
    global passed, failed
    print(f"{'ok  ' if holds else 'FAIL'} {what}{'' if holds else ': ' + str(seen)}", flush=True)
    passed += bool(holds)
    failed += not holds


def run(*args):
    subprocess.run([*map(str, args)], check=True, capture_output=True, timeout=300)


def look(browser, page, width=1280, theme="light", what="selftest"):
    """What the page says of itself; selftest-boxes: of where things lie."""
    browser.open(f"file://{page}#{what}", width, 2000, theme)
    return json.loads(browser.ask("document.getElementById('selftest').textContent"))


def check_look(name, seen, least):
    for result in seen["results"]:
        check(f"{name}: {result['name']}", result["ok"], result.get("seen"))
    check(f"{name}: it looked at enough", len(seen["results"]) >= least, seen)


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


LAYOUT = ["every drawing lies within its panel", "nothing is wider than the page", "no word lies on another"]


def check_that_it_can_fail(browser, folder, page):
    """A page whose map is not painted, one with a mute hover, or one that is too wide, must fail."""
    with open(page) as file:
        text = file.read()
    for what, a, b in [("map painted", "context.putImageData(image, 0, 0);", ""),
                       ("hover names the owner", "showTip(clientX, clientY, explain(", "void (explain("),
                       ("an arrow moves the view", "ArrowRight: e =>", "ArrowNowhere: e =>"),
                       ("dark and light differ", "root.dataset.theme = theme;", ""),
                       ("every drawing lies within its panel", "\t\tgraph.resize();", ";"),
                       ("nothing is wider than the page", "minmax(0, 1fr); gap: 4px 8px;", "1400px;"),
                       ("no word lies on another", ".times span { position: absolute;", ".times span { position: absolute; left: 9px !important;"),
                       ("a link keeps the view", "out.set(key,", "void (key,"),
                       ("each map says what is now", "out.textContent = i", "const unseen = i"),
                       ("the headline is of the run", "a.asked_occupancy_ppm);", "a.asked_occupancy_ppm).reverse();"),
                       ("tiles", "const tile = element(", "continue; const tile = element(")]:
        broken = os.path.join(folder, "broken.html")
        assert a in text, a
        with open(broken, "w") as file:
            file.write(text.replace(a, b))
        seen = look(browser, broken, what="selftest-boxes" if what in LAYOUT else "selftest")
        check(f"broken on purpose: '{what}' is seen", not seen["ok"] and
              any(r["name"] == what and not r["ok"] for r in seen["results"]), seen)


def check_link(browser, page):
    """What the address keeps is there when it is opened again."""
    browser.open(f"file://{page}#", 1280, 1000)
    browser.ask("zoom(3, 2); choose(ownerOf(map.rec.rows[sampleAt(map.rec, map.now)].find(c => ownerOf(c) !== NOBODY)))")
    browser.ask("new Promise(done => setTimeout(done, 1000))")
    kept = browser.ask("location.hash")
    browser.open(f"file://{page}{kept}", 1280, 1000)
    check("a link brings the view back", "owner=" in kept and browser.ask("link()") == kept, [kept, browser.ask("link()")])
    check("and the life with it", browser.ask("$('life').innerText").count("got its blocks") == 2)


def main():
    if not chrome.find():
        print("skipped: no Chromium to look at the report with\n1 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page, both, compared, live = (os.path.join(folder, name + ".html")
                                      for name in ["frag", "both", "compare", "live"])
        frag, moving, buddy, conc, engine = (os.path.join(folder, name + ".rec")
                                             for name in ["frag", "moving", "buddy", "conc", "engine"])
        write_live(engine)
        run(DUMP, "report", engine, "-o", live)
        for path, args in [(moving, ["--compact", "direct", "--mark", 97]), (frag, []), (buddy, ["--alloc", "buddy"])]:
            run(REPLAY, "frag", "--blocks", 1024, "--generate", "chat:requests=600", "--no-progress",
                "--record-state", path, *args)
        run(DUMP, "report", moving, frag, buddy, "-o", page)
        run(REPLAY, "conc", "--blocks", 300, "--host-blocks", 900, "--generate", "chat:requests=400",
            "--no-progress", "--record-state", conc)
        run(DUMP, "report", conc, frag, "-o", both)
        run(REPLAY, "compare", "--generate", "chat:requests=200", "--policies", "lru,slru", "--blocks",
            "50,100", "--ages", "--no-progress", "--report", compared)
        browser = chrome.Chrome(chrome.find(), folder)
        try:
            for name, path, least in [("frag", page, 42), ("both", both, 40), ("compare", compared, 7), ("live", live, 40)]:
                check_look(name, look(browser, path), least)
                for width, theme in [(390, "dark"), (1920, "dark"), (390, "light")]:
                    check_look(f"{name}, {width} wide, {theme}", look(browser, path, width, theme, "selftest-boxes"), 7)
            check_link(browser, page)
            check_that_it_can_fail(browser, folder, page)
        finally:
            browser.close()
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
