#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kvmm-stat metrics --listen: what a scraper gets is what the tool prints, whatever others send meanwhile,
and Prometheus itself, where it is installed, scrapes it. Run in the object tree.
"""
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ.get("KVMM_SRCTREE", "."), "tests/views"))
import engine as counts  # noqa: E402
from engine import Engine, expect  # noqa: E402

OPEN = "application/openmetrics-text"
ASK = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n"
NR_PLACES = 32
NR_GARBAGE = 1500


class Server:
    def __init__(self, *args, address="0"):
        self.process = subprocess.Popen(["tools/kvmm-stat", "metrics", "--listen", address, *args],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://\[?([0-9.:]+?)\]?:(\d+)/metrics", self.url)
        self.at = (found[1], int(found[2])) if found else None

    def end(self):
        alive = self.process.poll() is None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        expect("it was there until the end", alive and not self.process.stderr.read())

    def connect(self):
        return socket.create_connection(self.at, timeout=30)

    def say(self, what):
        """All that is answered to these bytes; what came until a reset."""
        answer = b""
        with self.connect() as s:
            try:
                s.sendall(what)
                s.shutdown(socket.SHUT_WR)
                while piece := s.recv(65536):
                    answer += piece
            except ConnectionError:
                pass
        return answer

    def status(self, what):
        found = re.match(rb"HTTP/1\.1 (\d+) ", self.say(what))
        return int(found[1]) if found else None

    def get(self, accept="text/plain", page=""):
        """Status, type and text, by a client that others wrote."""
        request = urllib.request.Request(self.url + page, headers={"Accept": accept})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()


def printed(*args):
    return subprocess.run(["tools/kvmm-stat", "metrics", *args], capture_output=True, text=True,
                          timeout=60).stdout


def says_what_the_tool_prints(server):
    plain, open_metrics = printed("prometheus"), printed("openmetrics")
    expect("there are metrics", "kvmm_free_blocks{" in plain and open_metrics.endswith("# EOF\n"))
    expect("text", server.get() == (200, "text/plain; version=0.0.4; charset=utf-8", plain))
    status, kind, text = server.get(f"{OPEN};version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    expect("OpenMetrics", (status, kind, text) == (200, f"{OPEN}; version=1.0.0; charset=utf-8", open_metrics))
    expect("with a query", server.get(page="?x=1")[2] == plain)
    head, _, body = server.say(ASK.replace(b"GET", b"HEAD")).partition(b"\r\n\r\n")
    expect("a head alone", b"Content-Length: %d" % len(plain.encode()) in head and not body, head)
    with server.connect() as s:
        for byte in ASK:
            s.sendall(bytes([byte]))
        expect("byte by byte", s.recv(15) == b"HTTP/1.1 200 OK")


def refuses_the_rest(server):
    for what, status in (
            (b"GET / HTTP/1.1\r\n\r\n", 404), (b"GET /metricsx HTTP/1.1\r\n\r\n", 404),
            (b"HEAD / HTTP/1.1\r\n\r\n", 404), (b"GET /../metrics HTTP/1.0\r\n\r\n", 404),
            (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
            (b"DELETE /metrics HTTP/1.1\r\n\r\n", 405), (b"get /metrics HTTP/1.1\r\n\r\n", 405),
            (b"GET /metrics\r\n\r\n", 400), (b"GET /metrics HTTP/2.0\r\n\r\n", 400), (b"\r\n\r\n", 400),
            (b"GET /metrics HTTP/1.1\r\nno field\r\n\r\n", 400), (b"GET\0/metrics HTTP/1.1\r\n\r\n", 400),
            (b"GET /metrics HTTP/1.1\r\n folded: x\r\n\r\n", 400), (b"\x16\x03\x01\x02\n\n", 400),
            (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 9000 + b"\r\n\r\n", 431), (b"a" * 9000, 431),
            (b"GET /metrics HTTP/1.1\n\n", 200), (b"GET /metrics HTTP/1.0\r\n\r\n", 200), (b"", None),
            (b"GET /metrics HTTP/1.1\r\n", None)):
        got = server.status(what)
        expect(f"{what[:60]} gets {status}", got == status, got)


def usage_is_told():
    for args, code in ((["metrics", "--listen", "x"], 2), (["metrics", "--listen", "localhost:0"], 2),
                       (["metrics", "--listen", ":0"], 2), (["metrics", "--listen", "127.0.0.1:99999"], 2),
                       (["metrics", "--listen", "::1:0"], 2), (["metrics", "--listen", ""], 2),
                       (["metrics", "--listen", "192.0.2.1:9"], 1), (["metrics", "prometheus", "--listen", "0"], 2),
                       (["pool", "--listen", "0"], 2), (["--listen", "0"], 2),
                       (["metrics", "--json", "--listen", "0"], 2)):
        out = subprocess.run(["tools/kvmm-stat", *args], capture_output=True, text=True, timeout=30)
        expect(f"{args} ends with {code}", out.returncode == code and out.stderr and not out.stdout, out)


def is_not_held_up(server):
    """Those who say nothing, say half, or never read, are more than there are places."""
    idle = []
    for i in range(3 * NR_PLACES):
        s = server.connect()
        try:
            s.sendall((b"", ASK[:20], ASK)[i % 3])
        except ConnectionError:
            pass
        idle.append(s)
        if i % 16 == 15:
            expect("others are served", server.get()[0] == 200)
    files = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    expect("in a bounded number of places", files < NR_PLACES + 10, files)
    for s in idle:
        s.close()
    with server.connect() as s:
        s.sendall(ASK[:30])
        begin = time.time()
        expect("half a request is closed", s.recv(1) == b"" and 3 < time.time() - begin < 25)


def survives_garbage(server, seed):
    """Mostly about a page that is not there: the engine answers some forty times a second."""
    chance = random.Random(seed)
    asks = [ASK] + 15 * [ASK.replace(b"/metrics", b"/metricz")]
    for _ in range(NR_GARBAGE // 10):
        burst = []
        for _ in range(10):
            what = bytearray(chance.choice(asks) if chance.random() < .7 else chance.randbytes(chance.randrange(300)))
            for _ in range(chance.randrange(6)):
                at = chance.randrange(len(what) + 1)
                what[at:at + chance.randrange(3)] = chance.choice(
                    (b"", b"\r\n", b"\n", b"\0", b" ", b":", b"\xff", b"/metrics", chance.randbytes(3)))
            burst.append((server.connect(), bytes(what)))
            try:
                burst[-1][0].sendall(burst[-1][1])
            except ConnectionError:
                pass
        for s, what in burst:
            s.close()
    expect(f"it is there after garbage, seed {seed}", server.get()[2] == printed("prometheus"))


def says_that_the_engine_is_gone():
    first = Engine()
    path = first.path
    server = Server("--socket", path)
    expect("there", server.get()[0] == 200)
    first.kill()
    status, kind, text = server.get()
    expect("503, and why", status == 503 and kind.startswith("text/plain") and text, (status, kind, text))
    expect("and again", server.get()[0] == 503)
    again = subprocess.Popen(["tests/views/serve", first.dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True)
    again.stdout.readline()
    expect("another engine is found", server.get()[0] == 200)
    again.stdin.close()
    again.wait(30)
    server.end()
    shutil.rmtree(first.dir)


def says_that_the_pool_is_not_there():
    server = Server("--pool", "nix")
    answers = [server.get() for _ in range(20)]
    expect("503, and its name", all(status == 503 and "nix" in text for status, _, text in answers), answers[0])
    files = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    expect("connections are closed", files < 10, files)
    server.end()


def by_prometheus(server):
    if not shutil.which("prometheus"):
        return ", SKIPPED: prometheus is not there"
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="kvmm-prometheus-") as folder:
        shutil.copy(os.path.join(os.environ.get("KVMM_SRCTREE", "."), "share/prometheus/kvmm.rules.yml"), folder)
        with open(folder + "/prometheus.yml", "w") as file:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                       "rule_files": ["kvmm.rules.yml"],
                       "scrape_configs": [{"job_name": "kvmm", "static_configs": [
                           {"targets": ["%s:%d" % server.at]}]}]}, file)
        process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml",
                                    f"--storage.tsdb.path={folder}/data",
                                    f"--web.listen-address=127.0.0.1:{port}"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return ask_prometheus(process, port)
        finally:
            process.kill()
            process.wait()


def ask_prometheus(process, port):
    def value(query):
        url = f"http://127.0.0.1:{port}/api/v1/query?query=" + urllib.parse.quote(query)
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                result = json.load(answer)["data"]["result"]
        except OSError:
            return None
        return float(result[0]["value"][1]) if len(result) == 1 else None

    end = time.time() + 60
    while time.time() < end and process.poll() is None and value("vllm:kv_cache_usage_perc") is None:
        time.sleep(0.1)
    if process.poll() is not None:
        return ", SKIPPED: prometheus does not run"
    free = float(re.search(r"^kvmm_free_blocks\{.*\} (\d+)$", printed("prometheus"), re.M)[1])
    expect("prometheus is content", value("up") == 1)
    expect("it has our number", value("kvmm_free_blocks") == free, value("kvmm_free_blocks"))
    usage = value("vllm:kv_cache_usage_perc")
    expect("and a rule's", usage is not None and 0 < usage < 1, usage)
    return ""


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
            return True
    except OSError:
        return False


def main():
    engine = Engine()
    server = Server()
    says_what_the_tool_prints(server)
    refuses_the_rest(server)
    usage_is_told()
    is_not_held_up(server)
    survives_garbage(server, random.randrange(1 << 32))
    skipped = by_prometheus(server)
    server.end()
    says_that_the_pool_is_not_there()
    if has_ipv6():
        six = Server("--pool", "kv", address="[::1]:0")
        expect("IPv6, and one pool", six.at and six.get()[2] == printed("prometheus", "kv"))
        six.end()
    engine.end()
    says_that_the_engine_is_gone()
    print(f"{counts.passed} passed, {counts.failed} failed{skipped}")
    return counts.failed != 0


sys.exit(main())
