#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What we write is read by the software that it is for, and that says the same numbers: node-exporter the
folder of "kvmm-stat proc", promtool the metrics and what the recording rules make of them.

Run in the object tree. What is not installed is skipped, with a word.
"""
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.request

SRC = os.environ.get("KVMM_SRCTREE", ".")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SRC, "tests/views"))
import engine as counts  # noqa: E402
from engine import Engine, expect  # noqa: E402

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"')
FILES = {"buddyinfo": "buddyinfo", "pagetypeinfo": "pagetypeinfo", "slabinfo": "slabinfo", "vmstat": "vmstat",
         "pressure/memory": "pressure-text"}
skipped = []


def run(*args, **more):
    return subprocess.run(args, capture_output=True, text=True, timeout=120, **more)


def tool(*args):
    return run("tools/kvmm-stat", *args)


def found(*names):
    """A program, by any of its names; without one that is said at the end."""
    for name in names:
        if shutil.which(name):
            return name
    skipped.append(names[0])
    return None


def samples(text):
    """Numbers by name and labels."""
    result = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, labels, number = SAMPLE.match(line).groups()
            labels = frozenset((k, re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), v))
                               for k, v in LABEL.findall(labels or ""))
            result[name, labels] = float(number)
    return result


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


# ---- the folder ----

def writes_a_folder(engine, folder):
    out = tool("proc", folder)
    expect("proc", out.returncode == 0 and not out.stdout + out.stderr, out)
    for name, command in FILES.items():
        expect(name, read(folder, name) == tool(command).stdout != "", read(folder, name))
    for name in ("cpu", "io"):
        expect(name, re.fullmatch(r"(?:(some|full)( avg\d+=0\.00){3} total=0\n){2}",
                                  read(folder, "pressure", name)))
    every = [name for _, _, names in os.walk(folder) for name in names]
    expect("nothing else", len(every) == len(FILES) + 2, every)
    only = engine.dir + "/only"
    expect("one pool", tool("proc", "--pool", "kv", only).returncode == 0 and
           read(only, "buddyinfo") == read(folder, "buddyinfo"))
    shutil.rmtree(only)


def refuses_what_is_wrong(engine, folder):
    for args, code in ((["proc"], 2), (["proc", folder, "x"], 2), (["proc", folder, "1", "2", "3"], 2),
                       (["proc", "--json", folder], 2), (["proc", "/dev/null/x"], 1),
                       (["proc", "--pool", "nix", folder], 1), (["proc", "x" * 5000], 1),
                       (["proc", "-S", engine.dir + "/nobody", folder], 1)):
        out = tool(*args)
        expect(f"proc {args[1:]} ends with {code}, and says why", out.returncode == code and out.stderr, out)
    expect("what was there is there", read(folder, "buddyinfo") == tool("buddyinfo").stdout)


def follows_no_links(engine, folder):
    precious = engine.dir + "/precious"
    with open(precious, "w") as file:
        file.write("precious")
    for name in ("vmstat", "vmstat.new"):
        if os.path.exists(os.path.join(folder, name)):
            os.unlink(os.path.join(folder, name))
        os.symlink(precious, os.path.join(folder, name))
    expect("links are replaced", tool("proc", folder).returncode == 0 and
           read(folder, "vmstat") == tool("vmstat").stdout and read(precious) == "precious")
    expect("by files", stat.S_ISREG(os.lstat(os.path.join(folder, "vmstat")).st_mode))
    os.unlink(precious)


def takes_them_away_with_the_engine():
    engine = Engine()
    folder = tempfile.mkdtemp(prefix="kvmm-proc-")
    writer = subprocess.Popen(["tools/kvmm-stat", "proc", folder, "0.05"], stderr=subprocess.PIPE, text=True)
    path, end = os.path.join(folder, "vmstat"), time.time() + 30
    while time.time() < end and not os.path.exists(path):
        time.sleep(0.01)
    first = os.stat(path).st_ino
    while time.time() < end and os.stat(path).st_ino == first:
        time.sleep(0.01)
    expect("written again", os.stat(path).st_ino != first)
    engine.kill()
    shutil.rmtree(engine.dir)
    expect("it ends with the engine", writer.wait(30) == 1 and writer.stderr.read())
    left = [name for _, _, names in os.walk(folder) for name in names]
    expect("and leaves no old numbers", not left, left)
    shutil.rmtree(folder)


# ---- node-exporter ----

def scrape(exporter, folder):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % s.getsockname()[1]
    collectors = ["--collector." + name for name in ("buddyinfo", "slabinfo", "vmstat", "pressure")]
    process = subprocess.Popen([exporter, "--path.procfs=" + folder, "--collector.disable-defaults",
                                "--collector.vmstat.fields=.*", "--web.listen-address=" + address,
                                *collectors], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.time() + 60
    try:
        while time.time() < end and process.poll() is None:
            try:
                with urllib.request.urlopen("http://%s/metrics" % address, timeout=10) as answer:
                    return samples(answer.read().decode())
            except OSError:
                time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return None


def by_exporter(folder):
    """What it has to say of the files, read by us."""
    want = {}
    for line in read(folder, "buddyinfo").splitlines():
        node, zone, *numbers = re.match(r"Node (\d+), zone +(\S+) +(.*)", line).groups()
        for order, number in enumerate(numbers[0].split()):
            want["buddyinfo_blocks", (("node", node), ("size", str(order)), ("zone", zone))] = number
    for line in read(folder, "vmstat").splitlines():
        want["vmstat_" + line.split()[0], ()] = line.split()[1]
    for line in read(folder, "slabinfo").splitlines()[2:]:
        for name, number in zip(("active_objects", "objects", "object_size_bytes", "objects_per_slab",
                                 "pages_per_slab"), line.split()[1:]):
            want["slabinfo_" + name, (("slab", line.split()[0]),)] = number
    for line, kind in zip(read(folder, "pressure/memory").splitlines(), ("waiting", "stalled")):
        want[f"pressure_memory_{kind}_seconds_total", ()] = int(line.split("total=")[1]) / 1000 / 1000
    return {("node_" + name, frozenset(labels)): float(number) for (name, labels), number in want.items()}


def node_exporter_reads(exporter, folder, what):
    seen, want = scrape(exporter, folder), by_exporter(folder)
    if seen is None:
        return skipped.append(exporter + " (does not run)")
    for name in ("buddyinfo", "slabinfo", "vmstat", "pressure"):
        expect(f"{what}: {name} is read",
               seen.get(("node_scrape_collector_success", frozenset({("collector", name)}))) == 1)
    wrong = {key: (seen.get(key), number) for key, number in want.items() if seen.get(key) != number}
    expect(f"{what}: the exporter says our numbers", want and not wrong, wrong)
    known = ("node_buddyinfo_", "node_slabinfo_", "node_vmstat_")
    more = [key for key in seen if key[0].startswith(known) and key not in want]
    expect(f"{what}: and no others", not more, more)


def folder_of_many_pools(folder):
    """Random work on five pools, one with an odd name."""
    os.mkdir(os.path.join(folder, "pressure"))
    for name in ("buddyinfo", "slabinfo", "vmstat", "pressure/memory"):
        with tempfile.TemporaryDirectory(prefix="kvmm-metrics-") as disk:
            text = run("tests/ctl/metrics_run", "5", "500", disk, name).stdout.partition("---\n")[2]
        for copy in (name,) if "/" not in name else (name, "pressure/cpu", "pressure/io"):
            with open(os.path.join(folder, copy), "w") as file:
                file.write(text)


# ---- promtool ----

def promtool_reads(promtool, text):
    out = run(promtool, "check", "metrics", input=text)
    expect("promtool finds nothing wrong", out.returncode == 0 and not out.stdout + out.stderr, out)
    spoilt = text.replace("# HELP kvmm_ranges ", "# HELP kvmm_other ")
    expect("and looks", run(promtool, "check", "metrics", input=spoilt).returncode)
    rules = run(promtool, "check", "rules", f"{SRC}/share/prometheus/kvmm.rules.yml")
    expect("the rules are rules", rules.returncode == 0 and "SUCCESS" in rules.stdout, rules)


# What the rules have to say, without PromQL: the family whose samples there are to be, and what one of
# these is made of. Counters are tenfold, since promtool gives them ten steps.
def share_of(used, room):
    return lambda get: 1 - get(used) / get(room)


def in_tokens(*names):
    return lambda get: sum(10 * get(name) for name in names) * get("kvmm_block_tokens")


def counted(name):
    return lambda get: 10 * get(name)


def hit_rate(get):
    hits, misses = get("kvmm_hit_blocks_total"), get("kvmm_missed_blocks_total")
    return round(hits / (hits + misses) * 1e6) if hits + misses else None


USAGE = share_of("kvmm_available_blocks", "kvmm_capacity_blocks")
HIT_RATE = "round(sglang:cache_hit_rate * 1e6)"  # the last digits are how PromQL calculates
RULES = {
    "vllm:kv_cache_usage_perc": ("kvmm_capacity_blocks", USAGE),
    "vllm:prefix_cache_queries_total": (
        "kvmm_hit_blocks_total", in_tokens("kvmm_hit_blocks_total", "kvmm_missed_blocks_total")),
    "vllm:prefix_cache_hits_total": ("kvmm_hit_blocks_total", in_tokens("kvmm_hit_blocks_total")),
    "vllm:external_prefix_cache_queries_total": (
        "kvmm_below_hit_blocks_total",
        in_tokens("kvmm_below_hit_blocks_total", "kvmm_below_missed_blocks_total")),
    "vllm:external_prefix_cache_hits_total": (
        "kvmm_below_hit_blocks_total", in_tokens("kvmm_below_hit_blocks_total")),
    "vllm:kv_offload_load_bytes_total": ("kvmm_loaded_bytes_total", counted("kvmm_loaded_bytes_total")),
    "vllm:kv_offload_store_bytes_total": (
        "kvmm_offloaded_bytes_total", counted("kvmm_offloaded_bytes_total")),
    "vllm:kv_offload_cpu_cache_usage_perc": (
        "kvmm_tier_used_units", lambda get: get("kvmm_tier_used_units") / get("kvmm_tier_capacity_units")),
    "vllm:kv_offload_stores_skipped_total": (
        "kvmm_below_present_blocks_total", counted("kvmm_below_present_blocks_total")),
    "vllm:kv_offload_cpu_allocation_size": (
        "kvmm_tier_capacity_units", lambda get: get("kvmm_tier_capacity_units") * get("kvmm_tier_unit_bytes")),
    **{f"vllm:kv_block_{name}_seconds_bucket": (
        f"kvmm_block_{name}_seconds_bucket", counted(f"kvmm_block_{name}_seconds_bucket"))
       for name in ("lifetime", "idle_before_evict", "reuse_gap")},
    "sglang:token_usage": ("kvmm_capacity_blocks", USAGE),
    HIT_RATE: ("kvmm_hit_blocks_total", hit_rate),
    'sglang:cached_tokens_total{cache_source="device"}': (
        "kvmm_hit_blocks_total", in_tokens("kvmm_hit_blocks_total")),
    'sglang:cached_tokens_total{cache_source="host"}': (
        "kvmm_loaded_blocks_total", in_tokens("kvmm_loaded_blocks_total")),
    "sglang:evicted_tokens_total": ("kvmm_evicted_blocks_total", in_tokens("kvmm_evicted_blocks_total")),
    "sglang:hicache_host_used_tokens": (
        "kvmm_below_blocks", lambda get: get("kvmm_below_blocks") * get("kvmm_block_tokens")),
    "sglang:hicache_backup_tokens_total": (
        "kvmm_offloaded_blocks_total", in_tokens("kvmm_offloaded_blocks_total")),
    "sglang:load_back_tokens_total": ("kvmm_loaded_blocks_total", in_tokens("kvmm_loaded_blocks_total")),
    "sglang:load_back_duration_seconds_total": ("kvmm_load_seconds_total", counted("kvmm_load_seconds_total")),
}


def series_name(name, labels):
    return name + "{%s}" % ",".join(f"{key}={json.dumps(value)}" for key, value in sorted(labels))


def wanted(rule, seen):
    """The samples of a rule: of each pool, or tier, that has the family."""
    family, value = RULES[rule]
    record, _, more = ("" if rule == HIT_RATE else rule).partition("{")
    more = frozenset(LABEL.findall(more))
    for (name, labels), _ in seen.items():
        def get(of, labels=labels):
            fewer = frozenset((k, v) for k, v in labels if k != "tier")
            return seen[of, labels] if (of, labels) in seen else seen[of, fewer]

        if name == family and value(get) is not None:
            yield {"labels": series_name(record, labels | more), "value": value(get)}


def rules_make_the_numbers(promtool, text):
    """Two engines, which are alike but for the instance; promtool gets JSON, which is YAML. It adds ten times
    instead of multiplying, so seconds are taken for microseconds: whole numbers are exact."""
    seen = {(name, labels | {("instance", instance)}): number if number % 1 == 0 else round(number * 1e6)
            for (name, labels), number in samples(text).items() for instance in ("a:1", "b:1")}
    used = set(re.findall(r"kvmm_\w+", read(f"{SRC}/share/prometheus/kvmm.rules.yml")))
    series = [{"series": series_name(name, labels),
               "values": f"0+{number!r}x10" if re.search("_(total|bucket|count|sum)$", name) else f"{number!r}x10"}
              for (name, labels), number in seen.items() if name in used]
    tests = [{"expr": rule, "eval_time": "10m",
              "exp_samples": list(wanted(rule, seen))} for rule in RULES]
    for test in tests:
        expect(f"{test['expr']}: there are some", test["exp_samples"])
    with tempfile.TemporaryDirectory(prefix="kvmm-rules-") as folder:
        shutil.copy(f"{SRC}/share/prometheus/kvmm.rules.yml", folder)
        with open(folder + "/test.yml", "w") as file:
            json.dump({"rule_files": ["kvmm.rules.yml"], "evaluation_interval": "1m",
                       "tests": [{"interval": "1m", "input_series": series,
                                  "promql_expr_test": tests}]}, file)
        out = run(promtool, "test", "rules", folder + "/test.yml")
    expect("the rules make these numbers", out.returncode == 0, out.stdout + out.stderr)


def alerts_ring(promtool):
    """And each stops doing so, somewhere in the file of cases, when its rule is not as it is."""
    rules, name = read(f"{SRC}/share/prometheus/kvmm.rules.yml"), "/kvmm.rules.yml"
    alerts = rules.partition("  - name: kvmm-alerts")
    with tempfile.TemporaryDirectory(prefix="kvmm-alerts-") as folder:
        shutil.copy(f"{SRC}/tests/ctl/alerts.yml", folder)
        for what, text in {"as they are": rules,
                           **{f"without {alert}": rules.replace(f"alert: {alert}\n", f"alert: {alert}Not\n")
                              for alert in re.findall(r"alert: (\w+)", alerts[2])},
                           "that ring below": alerts[0] + alerts[1] + alerts[2].replace("> 0", "> 1e9"),
                           "that always wait": alerts[0] + alerts[1] + re.sub("for: .*", "for: 5h", alerts[2])}.items():
            with open(folder + name, "w") as file:
                file.write(text)
            out = run(promtool, "test", "rules", folder + "/alerts.yml")
            expect(f"alerts {what}", (out.returncode == 0) == (what == "as they are"), out.stdout + out.stderr)


def all_rules_are_here():
    records = set(re.findall(r"record: (\S+)", read(f"{SRC}/share/prometheus/kvmm.rules.yml")))
    here = {re.search(r"\w+:\w+", rule)[0] for rule in RULES}
    expect("each rule has a line here", records == here, records ^ here)
    alerts = set(re.findall(r"- alert: (\S+)", read(f"{SRC}/share/prometheus/kvmm.rules.yml")))
    cases = set(re.findall(r"alertname: (\w+)", read(f"{SRC}/tests/ctl/alerts.yml"))) | set(
        re.findall(r'alertname="(\w+)"', read(f"{SRC}/tests/ctl/alerts.yml")))
    expect("each alert has a case", alerts == cases and len(alerts) > 7, alerts ^ cases)


def main():
    engine = Engine()
    folder = engine.dir + "/proc"
    writes_a_folder(engine, folder)
    refuses_what_is_wrong(engine, folder)
    follows_no_links(engine, folder)
    exporter = found("prometheus-node-exporter", "node_exporter")
    if exporter:
        node_exporter_reads(exporter, folder, "an engine")
        with tempfile.TemporaryDirectory(prefix="kvmm-proc-") as many:
            folder_of_many_pools(many)
            node_exporter_reads(exporter, many, "many pools")
    engine.end()
    takes_them_away_with_the_engine()
    all_rules_are_here()
    promtool = found("promtool")
    if promtool:
        with tempfile.TemporaryDirectory(prefix="kvmm-metrics-") as disk:
            text = run("tests/ctl/metrics_run", "7", "900", disk, "prometheus").stdout.partition("---\n")[2]
        promtool_reads(promtool, text)
        rules_make_the_numbers(promtool, text)
        alerts_ring(promtool)
    print(f"{counts.passed} passed, {counts.failed} failed" +
          "".join(f", SKIPPED: {name} is not there" for name in skipped))
    return counts.failed != 0


sys.exit(main())
