# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Training that empties the cache each two seconds."""

import random
import time

import program

p = program.Program("training that empties the cache", leaks=False)
torch = p.torch()
step = program.trainer(torch)
lengths = random.Random(2)
last = time.monotonic()


def work():
    global last
    step(lengths.randrange(1024, 32768))
    if time.monotonic() >= last + 2:
        last = time.monotonic()
        torch.cuda.empty_cache()


p.run(work)
