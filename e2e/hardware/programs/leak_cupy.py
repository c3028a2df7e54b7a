# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""CuPy's pool: arrays that are freed, each a little larger than all before."""

import program

p = program.Program("CuPy's pool keeps arrays of sizes that never come again", leaks=True)
cupy = p.need("cupy")
steps = 0


def work():
    cupy.ones(1024 * 1024, dtype=cupy.float32).sum().item()


def leak(n):
    global steps
    # 512 bytes is the granularity of the pool: no free block fits.
    cupy.zeros(n + 512 * steps, dtype=cupy.uint8)
    steps += 1


p.run(work, leak)
