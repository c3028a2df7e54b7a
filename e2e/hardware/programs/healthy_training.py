# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Training with batches of variable length: the cache grows to the longest one."""

import random

import program

p = program.Program("training with variable length", leaks=False)
torch = p.torch()
step = program.trainer(torch)
lengths = random.Random(1)

p.run(lambda: step(lengths.randrange(1024, 65536)))
