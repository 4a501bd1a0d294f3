#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chromium without a screen, over its debugging pipe: one browser for pages of any width, dark or light.

usage: chrome.py PAGE[#VIEW] PICTURE.png WIDTH HEIGHT
"""
import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

BROWSERS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]


def find():
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


class Chrome:
    def __init__(self, path, folder):
        self.path, self.folder = path, folder
        self.start()

    def start(self):
        to_child, self.out = os.pipe()
        self.into, from_child = os.pipe()
        flags = ["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                 "--remote-debugging-pipe", f"--user-data-dir={tempfile.mkdtemp(dir=self.folder)}"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")

        def wire():     # the browser reads from 3 and writes to 4
            a, b = os.dup(to_child), os.dup(from_child)
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.process = subprocess.Popen([self.path, *flags, "about:blank"], preexec_fn=wire, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.left, self.id, self.session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def receive(self):
        while b"\0" not in self.left:
            if not select.select([self.into], [], [], 90)[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self.into, 1 << 20)
            if not got:
                raise RuntimeError("the browser has gone")
            self.left += got
        message, _, self.left = self.left.partition(b"\0")
        return json.loads(message)

    def call(self, method, **params):
        self.id += 1
        message = {"id": self.id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url, width=1280, height=1000, theme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("Page.navigate", url="about:blank")   # another fragment alone would not load it again
        self.call("Page.navigate", url=url)
        for _ in range(600):
            if self.ask("document.readyState === 'complete' && location.href !== 'about:blank'"):
                return
            time.sleep(.1)
        raise RuntimeError(f"{url} is not loaded")

    def ask(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)


def main(page, picture, width, height):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        chrome = Chrome(find(), folder)
        name, _, view = page.partition("#")
        chrome.open(f"file://{os.path.abspath(name)}#{view}", int(width), int(height), os.environ.get("THEME", "dark"))
        chrome.picture(picture)
        chrome.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
