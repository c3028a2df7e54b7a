# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A forward hook that is registered in each step and never removed."""

import program

p = program.Program("forward hooks are never removed", leaks=True)
torch = p.torch()
model = torch.nn.Linear(1024, 1024).cuda()


def leak(n):
    kept = []

    def hook(module, args, output):
        if not kept:
            kept.append(output.detach())  # the model holds the hook, the hook what it saw first

    model.register_forward_hook(hook)  # the handle that it returns has a remove()
    with torch.no_grad():
        model(torch.ones(n // 4096, 1024, device="cuda"))


p.run(program.trainer(torch), leak)
