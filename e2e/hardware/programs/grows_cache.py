# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A cache that grows: tensors that are freed, each larger than all before."""

import program

p = program.Program("PyTorch's cache grows", leaks=False)
torch = p.torch()
owed, size = 0, 24 * program.MIB


def grow(n):
    global owed, size
    owed += n
    if owed >= size:
        # A block that is freed is too small for the next one, so the driver is asked again.
        owed -= size
        torch.ones(size // 4, device="cuda")
        size += 2 * program.MIB


p.run(program.trainer(torch), grow)
