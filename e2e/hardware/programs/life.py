# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""One life of a program that is run again and again: it fills a cache, works, gives all back and ends.

Usage: life.py FILE …. If FILE is there it has a defect: once the cache is full it leaks."""

import os
import sys

import program

FULL = 4 * program.GIB
defect = os.path.exists(sys.argv.pop(1))
p = program.Program("one life of many, %s a defect" % ("with" if defect else "without"), leaks=defect)
torch = p.torch()
step = program.trainer(torch)
cache, kept = [], []


def work():
    if len(cache) * program.PIECE < FULL:
        cache.append(torch.ones(program.PIECE // 4, device="cuda"))
    step()


p.run(work, (lambda n: kept.append(torch.ones(n // 4, device="cuda"))) if defect else None)
