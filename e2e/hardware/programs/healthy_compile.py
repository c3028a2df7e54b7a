# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""torch.compile: a warm-up that compiles a few shapes, then steady work."""

import program

p = program.Program("warm-up with torch.compile", leaks=False)
torch = p.torch()
model = torch.nn.Linear(1024, 1024).cuda()
steps = 0


def work():
    global steps
    with torch.no_grad():
        compiled(torch.ones(1024 * (1 + steps % 4), 1024, device="cuda")).mean()
    torch.cuda.synchronize()
    steps += 1


try:
    compiled = torch.compile(model)
    work()
except Exception as error:  # noqa: BLE001: it needs a compiler for C, Python's headers, Triton
    p.skip("torch.compile does not work here: %s" % error)
p.run(work)
