#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Made-up loads for kvmm-replay seq, each to show one habit: usage: loads.py DIRECTORY"""

import json
import os
import random
import sys

PROMPTS = 20000


class Loads:
    def __init__(self):
        random.seed(1)
        self.blocks = [random.randint(1, 8) for _ in range(PROMPTS)]
        self.next_id = 10 ** 6

    def popular(self, nr):
        """Prompts by Zipf's law."""
        weights = [1 / (i + 1) ** 0.9 for i in range(PROMPTS)]
        return random.choices(range(PROMPTS), weights, k=nr)

    def prompt(self, nth, base=0):
        return [base + nth * 8 + i for i in range(self.blocks[nth])]

    def fresh(self, nr):
        self.next_id += nr
        return list(range(self.next_id - nr, self.next_id))

    def zipf(self):
        return (self.prompt(nth) for nth in self.popular(60000))

    def loop(self):
        return (self.prompt(i % 3000) for i in range(40000))

    def scan(self):
        """Half of the requests are never repeated."""
        for nth in self.popular(60000):
            yield self.prompt(nth) if random.random() < .5 else self.fresh(8)

    def phase(self):
        for i, nth in enumerate(self.popular(60000)):
            yield self.prompt(nth, base=i // 10000 * 10 ** 6)

    def bursts(self, nr):
        """Each prompt three times within some hundred requests, then never again."""
        pending = []
        for _ in range(nr):
            if pending and random.random() < 0.66:
                yield pending.pop(random.randrange(len(pending)))
            else:
                prompt = self.fresh(5)
                pending = (pending + [prompt, prompt])[-400:]
                yield prompt

    def mixed(self):
        for _ in range(3):
            for nth in self.popular(8000):
                yield self.prompt(nth)
            yield from self.bursts(8000)
            for i in range(8000):
                yield self.prompt(i % 2000, base=5 * 10 ** 6)

    def sessions(self):
        """Conversations that grow, 200 at a time."""
        live = []
        for _ in range(40000):
            if live and random.random() < 0.7:
                i = random.randrange(len(live))
                live[i] += self.fresh(2)
                yield list(live[i])
                if random.random() < 0.2:
                    live.pop(i)
            else:
                live = (live + [self.fresh(4)])[-200:]
                yield list(live[-1])


def write(path, requests):
    with open(path, "w", encoding="utf-8") as out:
        for nth, ids in enumerate(requests):
            request = {"timestamp": 100 * (nth + 1), "input_length": 512 * len(ids),
                       "output_length": 10, "hash_ids": ids}
            out.write(json.dumps(request) + "\n")


def main():
    for name in ("zipf", "loop", "scan", "phase", "mixed", "sessions"):
        write(os.path.join(sys.argv[1], name + ".jsonl"), getattr(Loads(), name)())


main()
