# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""CuPy's pool: arrays that are freed, each a little larger than all before. Where CuPy
itself meets the end of the memory it gives its pool back, and goes on."""

import program

p = program.Program("CuPy's pool keeps arrays of sizes that never come again", leaks=True)
cupy = p.need("cupy")
pool = cupy.get_default_memory_pool()
p.allocator = lambda: {"allocated": pool.used_bytes(), "reserved": pool.total_bytes()}
steps = 0


def work():
    cupy.zeros(1024 * 1024, dtype=cupy.float32)  # set by the driver: no kernel has to be compiled


def leak(n):
    global steps
    steps += 1
    # 512 bytes is the granularity of the pool: no free block fits. The driver's is 2 MiB:
    # it gives n bytes.
    cupy.zeros(n - 2 * program.MIB + 512 * steps, dtype=cupy.uint8)


p.run(work, leak)
