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


def check_that_it_can_fail(browser, folder, page):
    """A page whose map is not painted, and one whose hover is mute, must fail."""
    with open(page) as file:
        text = file.read()
    for what, a, b in [("map painted", "context.putImageData(image, 0, 0);", ""),
                       ("hover names the owner", "showTip(clientX, clientY, explain(", "void (explain("),
                       ("an arrow moves the view", "ArrowRight: e =>", "ArrowNowhere: e =>"),
                       ("dark and light differ", "root.dataset.theme = theme;", "")]:
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
        page, both, compared = (os.path.join(folder, name + ".html") for name in ["frag", "both", "compare"])
        frag, conc = (os.path.join(folder, name + ".rec") for name in ["frag", "conc"])
        run(REPLAY, "frag", "--blocks", 1024, "--max-runs", 4, "--generate", "chat:requests=600",
            "--no-progress", "--record-state", frag, "--report", page)
        run(REPLAY, "conc", "--blocks", 300, "--host-blocks", 900, "--generate", "chat:requests=400",
            "--no-progress", "--record-state", conc)
        run(DUMP, "report", conc, frag, "-o", both)
        run(REPLAY, "compare", "--generate", "chat:requests=200", "--policies", "lru,slru", "--blocks",
            "50,100", "--ages", "--no-progress", "--report", compared)
        for name, path, least in [("frag", page, 18), ("both", both, 18), ("compare", compared, 2)]:
            check_look(name, look(browser, folder, path), least)
        check_that_it_can_fail(browser, folder, page)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
