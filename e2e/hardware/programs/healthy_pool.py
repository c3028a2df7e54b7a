# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A replay buffer that fills to its bound of 1 GiB, and then replaces the oldest."""

import collections

import program

p = program.Program("a buffer fills to its bound", leaks=False)
torch = p.torch()
buffer = collections.deque(maxlen=256)


def work():
    buffer.append(torch.ones(1024, 1024, device="cuda"))


p.run(work)
