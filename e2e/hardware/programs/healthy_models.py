# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Models that are loaded, used for 10 seconds and unloaded again."""

import gc
import time

import program

p = program.Program("models are loaded and unloaded", leaks=False)
torch = p.torch()
model, since = None, 0.0


def work():
    global model, since
    if time.monotonic() < since:
        return
    if model is None:
        model = [torch.nn.Linear(8192, 8192).cuda() for _ in range(4)]
        since = time.monotonic() + 10
    else:
        model = None
        gc.collect()
        torch.cuda.empty_cache()
        since = time.monotonic() + 5


p.run(work)
