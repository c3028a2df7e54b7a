# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A running loss that is not detached: each step's graph, and the inputs in it, stay."""

import program

p = program.Program("a running loss is not detached from its graph", leaks=True)
torch = p.torch()
model = torch.nn.Linear(1024, 1024).cuda()
total = torch.zeros(1, device="cuda")


def leak(n):
    global total
    # total += loss.item() would be right.
    total = total + model(torch.ones(n // 4096, 1024, device="cuda")).mean()


p.run(program.trainer(torch), leak)
