# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Outputs that are kept in a list: the results of an evaluation, say."""

import program

p = program.Program("outputs are kept in a list", leaks=True)
torch = p.torch()
model = torch.nn.Linear(1024, 1024).cuda()
outputs = []


def leak(n):
    with torch.no_grad():
        outputs.append(model(torch.ones(n // 4096, 1024, device="cuda")))


p.run(program.trainer(torch), leak)
