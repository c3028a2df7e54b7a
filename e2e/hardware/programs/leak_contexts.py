# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A process with a CUDA context for each request, which nobody reaps."""

import os
import signal

import program

p = program.Program("a child with a CUDA context a request is never reaped", leaks=True)
torch = p.need("torch")  # imported here, used in the children: a parent with a context could not fork
CONTEXT = 500 * program.MIB  # about; it depends on the GPU and the driver
children = []
owed = 0


def idle():
    if not children:
        child()
    for pid in children:
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            raise RuntimeError("a child ended: out of memory")


def child():
    pid = os.fork()
    if pid == 0:
        program.die_with_parent()
        try:
            torch.zeros(1, device="cuda")
        except Exception:  # noqa: BLE001: most likely out of memory; the parent sees the end
            os._exit(1)
        signal.pause()
        os._exit(0)
    children.append(pid)


def leak(n):
    global owed
    owed += n
    if owed >= CONTEXT:
        owed -= CONTEXT
        child()
        p.say("child", pid=children[-1])


p.run(idle, leak)
