# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0
"""Programs that leak tensors, each in another way: leaks.py PROBE KIND.

They also do what healthy programs do: activations that come and go with each step, a cache
that is full, a buffer that is replaced by a larger one now and then. The line that leaks ends
in LEAK. It prints its pid once the probe has a page, and ends when its input does.
"""

import collections
import gc
import os
import queue
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import caching

MIB = 1 << 20


class Model:
    """Has weights, activations that come and go, and a cache of eight results."""

    def __init__(self):
        self.weights = [caching.empty(64 * MIB) for _ in range(4)]
        self.cache = collections.OrderedDict()
        self.buffer = caching.empty(MIB)

    def forward(self, step):
        activations = [caching.empty((8 + step % 3) * MIB) for _ in self.weights]
        self.cache[step] = caching.empty(2 * MIB)
        if len(self.cache) > 8:
            self.cache.popitem(last=False)
        # Often enough that all sizes are there in each half of a recording, on a busy machine, too.
        self.buffer = caching.empty((1 + step % 5) * MIB)
        return loss(activations)


def loss(_activations):
    return caching.empty(1024)


def kind_list():
    losses = []
    return lambda _step, out: losses.append(caching.like(out, 32768))  # LEAK list


def kind_cache():
    seen = {}

    def step(n, _out):
        seen["request-%d" % n] = caching.empty(65536)  # LEAK cache

    return step


def kind_graph():
    total = [None]

    def step(_n, out):
        total[0] = (total[0], caching.like(out, 65536))  # LEAK graph

    return step


def kind_hook():
    hooks = []

    def register(tensor):
        hooks.append(lambda: tensor)

    def step(_n, _out):
        register(caching.empty(65536))  # LEAK hook

    return step


def kind_traceback():
    failures = []

    def handle(_n):
        batch = caching.empty(65536)  # LEAK traceback
        raise ValueError(batch is None)

    def step(n, out):
        del out  # the traceback keeps it otherwise
        try:
            handle(n)
        except ValueError as e:
            failures.append(e)

    return step


def kind_cycle():
    gc.disable()

    class Node:
        def __init__(self):
            self.me = self
            self.data = caching.empty(65536)  # LEAK cycle

    def step(_n, _out):
        Node()

    return step


def kind_generator():
    streams = []

    def stream():
        kv = caching.empty(65536)  # LEAK generator
        while True:
            yield kv

    def step(_n, _out):
        s = stream()
        next(s)
        streams.append(s)

    return step


def kind_queue():
    ready = queue.Queue()
    wanted = queue.Queue()

    def prefetch():
        while True:
            wanted.get()
            ready.put(caching.empty(65536))  # LEAK queue

    threading.Thread(target=prefetch, daemon=True).start()
    return lambda n, _out: wanted.put(n)


def kind_class():
    class Metric:
        history = []

        def update(self, out):
            self.history.append(caching.like(out, 65536))  # LEAK class

    return lambda _n, out: Metric().update(out)


def kind_library():
    """Allocates where no Python code runs, as a backward pass does."""
    held = []
    return lambda _n, _out: held.append(caching.empty(65536, python=False))


# These have what is replaced again and again, and lives for longer than the recording.


def steady(size):
    old = collections.deque(caching.empty(size(n)) for n in range(3000))

    def step(n):
        old.append(caching.empty(size(n)))
        old.popleft()

    return step


def kind_fifo():
    replace = steady(lambda n: (1 + n % 3) * MIB)
    return lambda n, _out: replace(n)


def kind_fifo_leak():
    """Leaks less than is replaced."""
    replace, leak = steady(lambda _: MIB), kind_list()
    return lambda n, out: (replace(n), leak(n, out))


def kind_leak_fifo():
    """Leaks much more than is replaced."""
    replace, losses = steady(lambda _: 4096), []
    return lambda n, out: (replace(n), losses.append(caching.like(out, 65536)))  # LEAK leak_fifo


def kind_larger():
    """Replaces its buffer by a larger one, once, when half of the recording of a second is over."""
    began, buffer = [], []

    def step(_n, _out):
        if not caching.recording():
            return
        now = time.monotonic()
        if not began:
            began.append(now)
        half = now - began[0] > 0.5
        if len(buffer) < 1 + half:
            buffer.append(None)
            buffer[0] = caching.empty((1 + half) * MIB)

    return step


# These cannot tell, or not easily.


def kind_recording():
    caching.record(enabled="state", context="state", stacks="python", max_entries=1)
    return kind_list()


def kind_begins():
    """Begins a recording of its own meanwhile."""
    begun = []

    def step(_n, _out):
        if caching.recording() and not begun:
            begun.append(caching.record_all())

    return step


def kind_closes():
    """Closes the page again and again while the probe records: it gives up."""

    def step(_n, _out):
        page = sys.modules["gpu_leak_probe"]._probe._page
        if caching.recording() and page is not None and not page.lost():
            os.close(page._fd)

    return step


def kind_closes_once():
    """Closes all descriptors once the probe has answered."""
    leak, closed = kind_list(), []

    def step(n, out):
        leak(n, out)
        if sys.modules["gpu_leak_probe"]._probe._recorder._found and not closed:
            closed.append(os.closerange(3, 256))

    return step


def kind_ended():
    def step(_n, _out):
        if caching.recording():
            caching.record(enabled=None)

    return step


def kind_slow():
    caching.settings.slow = 1.1
    return kind_list()


def kind_many():
    caching.settings.blocks = 200001
    return kind_list()


def kind_old():
    del sys.modules["torch"]._C._cuda_isHistoryEnabled
    return kind_list()


def kind_broken():
    del sys.modules["torch"].cuda.memory._snapshot
    return kind_list()


def kind_fork():
    children = []

    def step(n, _out):
        if caching.recording() and len(children) < 20:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            children.append(os.waitpid(pid, 0))

    return step


def kind_none():
    return lambda _n, _out: None


def main():
    torch = caching.module()
    sys.path.insert(0, sys.argv[1])
    import gpu_leak_probe as probe

    probe._probe.interval = 0.01
    sys.modules["torch"] = torch
    probe._probe.start()
    model, leak = Model(), globals()["kind_" + sys.argv[2]]()
    end = threading.Event()
    said = False
    threading.Thread(target=lambda: (sys.stdin.read(), end.set()), daemon=True).start()
    step = 0
    while not end.wait(0.002):
        leak(step, model.forward(step))
        step += 1
        if probe._probe._page is not None and not said:
            said = True
            print(os.getpid(), flush=True)
    assert caching.recording() == (sys.argv[2] in ("recording", "begins")), "the probe has left the recording otherwise than it was"


main()
