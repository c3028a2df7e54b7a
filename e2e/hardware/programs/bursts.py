# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Does nothing, but for a second of work on the GPU whenever FILE is there, which it removes.

Usage: bursts.py FILE …"""

import os
import sys
import time

import program

asked = sys.argv.pop(1)
p = program.Program("a second of work now and then", leaks=False)
torch = p.torch()
x = torch.ones(4096, 4096, device="cuda")


def work():
    if not os.path.exists(asked):
        return
    os.remove(asked)
    began = time.time()
    while time.time() < began + 1:
        for _ in range(20):
            x * 2
        torch.cuda.synchronize()
    p.say("burst", began=began)


p.run(work)
