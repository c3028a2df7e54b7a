# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Takes all of the memory but LEAVE bytes, so that what leaks meets the end within minutes.

Usage: ballast.py LEAVE NEED FILE …. At first it leaves NEED bytes more, for the others to
load. When FILE is there it takes what they did not need."""

import os
import sys
import time

import program

leave, need, go = program.size(sys.argv.pop(1)), program.size(sys.argv.pop(1)), sys.argv.pop(1)
p = program.Program("holds all memory but %d MiB" % (leave / program.MIB), leaks=False)
torch = p.torch()
torch.zeros(1, device="cuda")
held = []


def fill(leave):
    while (more := torch.cuda.mem_get_info()[0] - leave) > 24 * program.MIB:
        # In parts, because one block of 100 GiB may be refused where many are not. The
        # driver is asked again after each: the others go on allocating.
        held.append(torch.ones(int(min(more, 4 * program.GIB)) // 4, device="cuda"))


fill(leave + need)
while not os.path.exists(go):
    time.sleep(0.1)
fill(leave)
p.run(lambda: None)
