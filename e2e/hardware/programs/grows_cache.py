# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A cache that grows: tensors that are freed, each larger than all before."""

import program

p = program.Program("PyTorch's cache grows", leaks=False)
torch = p.torch()
steps = 0


def grow(n):
    global steps
    steps += 1
    # A block that is freed is too small for the next one, so the driver is asked again.
    torch.ones((n - 2 * program.MIB) // 4 + 512 * 1024 * steps, device="cuda")


p.run(program.trainer(torch), grow)
