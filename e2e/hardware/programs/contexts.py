# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Processes with a CUDA context each, to see what they cost the exporter.

Usage: contexts.py 1,8,64 PAUSE …: so many, each number for PAUSE seconds."""

import os
import signal
import sys
import time

import program

counts, pause = [int(n) for n in sys.argv.pop(1).split(",")], float(sys.argv.pop(1))
p = program.Program("processes with a CUDA context each", leaks=False)
torch = p.need("torch")  # once, before the fork: an import in each child would take minutes

begun = 0
for count in counts:
    ready, told = os.pipe()
    for _ in range(count - begun):
        if os.fork() == 0:
            program.die_with_parent()
            held = torch.zeros(1, device="cuda")
            os.write(told, b"1")
            os.close(told)  # or the end of a child that failed is never seen
            signal.pause()
            os._exit(0)
    os.close(told)
    while begun < count:
        got = os.read(ready, count)
        if not got:
            p.say("failed", error="%d of %d children could make a context" % (begun, count))
            p.finish(1)
        begun += len(got)
    p.say("ready %d" % count)
    time.sleep(pause)
p.say("end")
p.finish(0)
