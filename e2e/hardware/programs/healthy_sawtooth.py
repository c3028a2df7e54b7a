# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Results that are gathered and written out each 12 seconds, and the cache emptied."""

import time

import program

p = program.Program("results are gathered and written out", leaks=False)
torch = p.torch()
results = []
last = time.monotonic()


def work():
    global last
    results.append(torch.ones(1024, 1024, device="cuda") * 2)
    if time.monotonic() >= last + 12:
        last = time.monotonic()
        results.clear()
        torch.cuda.empty_cache()


p.run(work)
