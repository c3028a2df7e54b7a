# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""What the programs share: their arguments, their truth, their pace and their end.

A program writes its truth as it runs, one JSON object a line:

    {"time": 1790000000.1, "event": "start", "program": "leak_hook", "pid": 42, "leaks": true, "about": "…"}
    {"time": …, "event": "ready"}                 it holds its first memory and works
    {"time": …, "event": "onset"}                 it leaks, or works as it always will, from now on
    {"time": …, "event": "now", "leaked": 1073741824, "reserved": 1610612736, "allocated": …}
    {"time": …, "event": "oom", "error": "…"}     an allocation failed; the program ends
    {"time": …, "event": "end"}

Each can be run by hand: python3 leak_hook.py --rate=1GiB --seconds=60
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import time

MIB = 1 << 20
GIB = 1 << 30

# How much a program leaks at a time. Large enough that a step costs little. Half
# of it is above the 10 MiB from which PyTorch asks the driver for a segment of
# that very size, so that what leaks is what the driver sees.
PIECE = 24 * MIB

# The exit status of a program that cannot run here.
SKIPPED = 77


def size(text):
    """Reads bytes such as 512MiB."""
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("B", 1)):
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    return float(text)


def die_with_parent():
    """Lets the kernel end this process when its parent ends. Without it an
    aborted run would leave memory on the GPU."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def is_out_of_memory(error):
    """Whether an exception of PyTorch, JAX, CuPy or the driver says that."""
    text = str(error).lower()
    return any(words in text for words in ("out of memory", "out_of_memory", "resource_exhausted", "alloc_failed"))


class Program:
    """One program with its truth. It must be made before torch is imported, so
    that the truth begins with the process."""

    def __init__(self, about, leaks):
        parser = argparse.ArgumentParser(description=about)
        parser.add_argument("--truth", help="file for the truth; default: the standard output")
        parser.add_argument("--rate", type=size, default=float(GIB), help="bytes that leak in a minute, such as 2GiB")
        parser.add_argument("--lead", type=float, default=10, help="seconds of healthy work before the leak begins")
        parser.add_argument("--seconds", type=float, default=60, help="when to end after that")
        parser.add_argument("--probe", help="folder of gpu_leak_probe.py, to load it")
        self.args = parser.parse_args()
        self.rate = self.args.rate / 60
        self.leaked = 0
        self.allocator = dict  # what the framework's allocator holds, in bytes: reserved from the driver, allocated, …
        self.out = open(self.args.truth, "a", buffering=1) if self.args.truth else sys.stdout
        die_with_parent()
        # The watchdog: an import or a kernel may never return. The signal ends the
        # process without Python's help.
        signal.alarm(int(self.args.lead + self.args.seconds + 60))
        name = os.path.splitext(os.path.basename(sys.argv[0]))[0]
        if self.args.probe:
            sys.path.insert(0, self.args.probe)
            __import__("gpu_leak_probe")
        self.say("start", program=name, pid=os.getpid(), leaks=leaks, about=about, rate=self.rate if leaks else 0)

    def say(self, event, **more):
        """Writes a line of the truth."""
        print(json.dumps({"time": time.time(), "event": event, **more}), file=self.out, flush=True)

    def need(self, module):
        """Imports a module; where it is not installed the program is skipped."""
        try:
            return __import__(module)
        except ImportError as error:
            self.say("skipped", reason="%s cannot be imported: %s" % (module, error))
            self.finish(SKIPPED)

    def skip(self, reason):
        """Ends the program as one that cannot run here."""
        self.say("skipped", reason=reason)
        self.finish(SKIPPED)

    def torch(self):
        """Imports PyTorch; without a GPU the program is skipped."""
        torch = self.need("torch")
        if not torch.cuda.is_available():
            self.skip("PyTorch sees no GPU")
        self.allocator = lambda: of_torch(torch.cuda)
        return torch

    def run(self, work, leak=None):
        """Calls work() each 50 ms, and leak(bytes) besides as the rate asks for it
        from the end of the lead on. It ends the process."""
        try:
            work()
            self.say("ready")
            self._repeat(work, self.args.lead, None)
            self.say("onset")
            self._time_probe()
            self._repeat(work, self.args.seconds, leak)
        except Exception as error:  # noqa: BLE001: every framework has its own
            if not is_out_of_memory(error):
                self.say("failed", error="%s: %s" % (type(error).__name__, error))
                raise
            self.say("oom", error=str(error).splitlines()[0][:200], leaked=self.leaked)
        self.say("end", leaked=self.leaked)
        self.finish(0)

    def _repeat(self, work, seconds, leak):
        began = told = worked = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            # One piece a round: what cannot keep up with its rate still ends in time.
            if due := bool(leak) and self.leaked + PIECE <= (now - began) * self.rate:
                leak(PIECE)
                self.leaked += PIECE
            if now >= worked + 0.05:
                worked = now
                work()
            if now >= told + 1:
                told = now
                self.say("now", leaked=self.leaked, **self.allocator())
            if not due:
                time.sleep(0.02)

    def _time_probe(self):
        """Writes what a reading of the probe takes, where it is loaded."""
        probe = sys.modules.get("gpu_leak_probe")
        if probe:
            spent = []
            for _ in range(50):
                began = time.perf_counter()
                probe._read()
                spent.append(time.perf_counter() - began)
            spent.sort()
            self.say("probe", median=spent[25], most=spent[-1])

    def finish(self, status):
        """Ends the process at once. The teardown of a framework can take seconds in
        which the memory is still held."""
        self.out.flush()
        os._exit(status)


def of_torch(cuda):
    """What PyTorch says that its allocator holds on the first GPU, in bytes."""
    stats = cuda.memory_stats()
    keys = {"allocated": "allocated_bytes", "reserved": "reserved_bytes", "active": "active_bytes", "inactive_split": "inactive_split_bytes"}
    return {name: stats[key + ".all.current"] for name, key in keys.items() if key + ".all.current" in stats}


def trainer(torch, rows=1024, features=1024):
    """Returns a function that trains a small model for one step."""
    model = torch.nn.Linear(features, features).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(n=rows):
        optimizer.zero_grad()
        model(torch.ones(n, features, device="cuda")).mean().backward()
        optimizer.step()
        torch.cuda.synchronize()

    return step
