# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Training with an evaluation, of larger batches, each 10 seconds."""

import time

import program

p = program.Program("evaluation every N steps", leaks=False)
torch = p.torch()
step = program.trainer(torch)
last = time.monotonic()


def work():
    global last
    step()
    if time.monotonic() >= last + 10:
        last = time.monotonic()
        with torch.no_grad():
            for _ in range(20):
                step_of_evaluation = torch.ones(96 * 1024, 1024, device="cuda") * 2
                step_of_evaluation.mean()


p.run(work)
