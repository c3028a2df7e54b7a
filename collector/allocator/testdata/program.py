# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0
"""A program with the probe and frameworks that are none: program.py PROBE SCENARIO.

It prints a line once the scenario is there, and ends when its input does. The line is the
pid of the process to look at, or "none" if no process may have a page.
"""

import os
import sys
import time
import types

GIB = 1 << 30


def module(name, **attributes):
    m = types.ModuleType(name)
    m.__dict__.update(attributes)
    return m


class Torch:
    """Behaves like torch: it is imported from here, and its CUDA is initialised by use."""

    def __init__(self, devices=1, stats=None, broken=False, slow=0):
        self.initialised, self.devices, self.calls, self.slow = False, devices, 0, slow
        self.stats = stats or self.usual
        memory = module("torch.cuda.memory", get_allocator_backend=lambda: "native")
        self.cuda = module(
            "torch.cuda",
            memory=memory,
            is_initialized=lambda: self.initialised,
            device_count=lambda: self.devices,
            memory_stats_as_nested_dict=self.ask,
            _is_in_bad_fork=lambda: self.initialised and os.getpid() != self.pid,
        )
        self.pid = os.getpid()
        self.module = module("torch", __version__="2.9.0+cu130")
        if not broken and not slow:
            self.module.cuda = self.cuda

    def ask(self, ordinal):
        self.calls += 1
        assert self.initialised, "the probe initialised CUDA"
        return self.stats(ordinal)

    @staticmethod
    def usual(ordinal):
        def now(n):
            return {"all": {"current": n, "peak": n + 1, "allocated": n, "freed": 0}}

        return {
            "allocated_bytes": now((2 + ordinal) * GIB),
            "reserved_bytes": now((5 + ordinal) * GIB),
            "active_bytes": now((3 + ordinal) * GIB),
            "inactive_split_bytes": now(1 * GIB),
            "num_alloc_retries": 6,
            "num_ooms": 7,
        }

    # As the finder of a package: what imports torch gets this one, which imports parts of itself.
    def find_spec(self, name, path=None, target=None):
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self, is_package=name == "torch") if name in ("torch", "torch.version") else None

    def create_module(self, spec):
        return self.module if spec.name == "torch" else None

    def exec_module(self, m):
        if m is self.module:
            import torch.version as _

            if self.slow:
                time.sleep(self.slow)
                m.cuda = self.cuda


def load(torch=None):
    sys.path.insert(0, sys.argv[1])
    import gpu_leak_probe

    gpu_leak_probe._probe.interval = 0.01
    gpu_leak_probe._probe.patience = 0.05
    if torch is not None:
        sys.meta_path.append(torch)
    return gpu_leak_probe


def begin(torch, probe):
    import torch as imported  # the probe sees this

    assert imported is torch.module
    torch.initialised = True
    wait(probe)


def wait(probe):
    """Returns once the probe has written twice: what was there before is in the page."""
    page, before = probe._probe._page, probe._probe._page._sequence if probe._probe._page else 0
    while probe._probe._page is None or (probe._probe._page is page and probe._probe._page._sequence < before + 2):
        time.sleep(0.005)


def say(what):
    print(what, flush=True)
    sys.stdin.read()


def scenario_torch():
    torch = Torch(devices=2)
    begin(torch, load(torch))
    say(os.getpid())


def scenario_limited():
    def fraction(ordinal):
        assert ordinal < 2, "the probe asked about a GPU that is not used: that makes a context there"
        return (0.25, 1.0)[ordinal]

    torch = Torch(devices=3, stats=lambda ordinal: Torch.usual(ordinal) if ordinal < 2 else {"allocated_bytes": {"all": {"current": 0}}})
    torch.cuda.memory.get_per_process_memory_fraction = fraction
    torch.cuda.get_device_properties = lambda _ordinal: types.SimpleNamespace(total_memory=80 * GIB)
    begin(torch, load(torch))
    say(os.getpid())


def scenario_loaded_late():
    torch = Torch()
    sys.modules["torch"] = torch.module
    torch.initialised = True
    wait(load())
    say(os.getpid())


def scenario_no_framework():
    before = set(os.listdir("/proc/self/task"))
    load()
    time.sleep(0.05)
    assert set(os.listdir("/proc/self/task")) == before, "the probe has a thread"
    say("none")


def scenario_no_gpu():
    torch = Torch()
    load(torch)
    import torch as _

    time.sleep(0.1)
    assert torch.calls == 0
    say("none")


def scenario_off():
    os.environ["GPU_LEAK_PROBE"] = "off"
    torch = Torch()
    load(torch)
    import torch as _

    torch.initialised = True
    time.sleep(0.1)
    assert torch.calls == 0
    say("none")


def scenario_plugged():
    def refuse(_ordinal):
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats.")

    torch = Torch(stats=refuse)
    begin(torch, load(torch))
    say(os.getpid())


def scenario_nonsense():
    values = iter([-1, 1 << 70, "many", 2.5, None])

    def nonsense(_ordinal):
        stats = Torch.usual(0)
        stats["allocated_bytes"]["all"]["current"] = next(values, -1)
        stats["num_ooms"] = [1]
        return stats

    torch = Torch(stats=nonsense)
    begin(torch, load(torch))
    say(os.getpid())


def scenario_half_imported():
    torch = Torch(broken=True)
    probe = load(torch)
    import torch as _

    deadline = 200  # the thread ends by itself
    while probe._probe._failures < 20 and deadline:
        time.sleep(0.02)
        deadline -= 1
    assert probe._probe._failures == 20, probe._probe._failures
    say("none")


def scenario_slow_import():
    """Imports a framework for longer than the probe has patience with failures."""
    torch = Torch(slow=0.5)
    probe = load(torch)
    import torch as _

    assert probe._probe._failures == 0, probe._probe._failures
    begin(torch, probe)
    say(os.getpid())


def scenario_frameworks():
    class Device:
        id = local_hardware_id = 0

        @staticmethod
        def memory_stats():
            return {"bytes_in_use": 3 * GIB, "pool_bytes": 4 * GIB, "peak_bytes_in_use": 9 * GIB}

    class Backend:
        @staticmethod
        def local_devices():
            return [Device]

    class Context:
        _initialized = True

        @staticmethod
        def list_logical_devices(kind):
            return [types.SimpleNamespace(name="/device:GPU:0")] if kind == "GPU" else []

        @staticmethod
        def get_memory_info(name):
            return {"current": GIB, "peak": 2 * GIB}

    probe = load()
    sys.modules["jax._src.xla_bridge"] = module("jax._src.xla_bridge", _backends={"cpu": None, "cuda": Backend})
    sys.modules["jax"] = module("jax", __version__="0.8.0")
    sys.modules["tensorflow.python.eager.context"] = module("context", _context=Context)
    sys.modules["tensorflow"] = module("tensorflow", __version__="2.20.0")
    probe._probe.start()
    wait(probe)
    say(os.getpid())


def child(then):
    pid = os.fork()
    if pid == 0:
        then()
        os._exit(0)
    os.close(0)
    os.waitpid(pid, 0)


def tell_nothing():
    """Is a child without a probe."""
    import gc

    time.sleep(0.1)
    gc.collect()
    assert threads() == 1
    say("none " + str(os.getpid()))


def scenario_fork():
    """Forks as a server does whose workers use the GPU."""
    import gc

    torch = Torch()
    probe = load(torch)
    import torch as _

    def then():
        torch.initialised = True
        assert threads() == 1
        while probe._probe._page is None:
            gc.collect()
            time.sleep(0.005)
        wait(probe)
        say(os.getpid())

    child(then)


def scenario_fork_imports():
    """Forks, and the child never collects garbage: imports start the thread, too."""
    import gc

    gc.disable()
    torch = Torch()
    probe = load(torch)
    import torch as _

    def then():
        torch.initialised = True
        while probe._probe._page is None:
            try:
                import nothing as _
            except ImportError:
                time.sleep(0.005)
        wait(probe)
        say(os.getpid())

    child(then)


def scenario_fork_of_user():
    """Forks a program that has used the GPU, as the workers of a DataLoader: CUDA does not work there."""
    torch = Torch()
    probe = load(torch)
    begin(torch, probe)

    child(tell_nothing)


def scenario_fork_of_users_child():
    """Forks twice after it has used the GPU: CUDA works in neither."""
    torch = Torch()
    probe = load(torch)
    begin(torch, probe)

    child(lambda: child(tell_nothing))


def scenario_fork_of_new_user():
    """Forks a program that has just begun to use the GPU: it has no page yet."""
    torch = Torch()
    probe = load(torch)
    probe._probe.interval = 60
    import torch as _

    torch.initialised = True
    assert probe._probe._page is None

    child(tell_nothing)


def scenario_fork_of_jax():
    """The same of JAX, which PyTorch knows nothing of."""
    probe = load(Torch())
    probe._probe.interval = 60
    import torch as _

    sys.modules["jax._src.xla_bridge"] = module("jax._src.xla_bridge", _backends={"cpu": None, "cuda": None})

    child(tell_nothing)


def scenario_ends_in_child():
    """Ends in a child, whose garbage is collected once more meanwhile: no thread is started."""
    probe = load()
    probe._probe._due = 0
    probe._probe._stop()
    probe._probe.follow()
    assert threads() == 1
    say("none")


def scenario_fork_without_gpu():
    import gc

    torch = Torch()
    load(torch)
    import torch as _

    def then():
        time.sleep(0.1)
        gc.collect()
        time.sleep(0.1)
        say("none " + str(os.getpid()))

    child(then)


def threads():
    return len(os.listdir("/proc/self/task"))


def scenario_unshare():
    """Has a child enter a user namespace, which only a process without threads can."""
    import ctypes
    import gc
    import subprocess

    libc = ctypes.CDLL(None, use_errno=True)
    torch = Torch()
    probe = load(torch)
    probe._probe.patience = 5
    import torch as _

    def enter():
        gc.collect()
        if libc.unshare(0x10000000) != 0:
            raise OSError(ctypes.get_errno(), "unshare")

    assert threads() == 2
    subprocess.run(["true"], preexec_fn=enter, check=True)
    say("none")


def scenario_interpreter():
    """Imports a framework in an interpreter of its own, which ends."""
    try:
        import _interpreters as interpreters

        one = interpreters.create("legacy")
    except ImportError:
        import _xxsubinterpreters as interpreters

        one = interpreters.create(isolated=False)
    interpreters.run_string(
        one,
        """if True:
        import os, sys, types
        sys.path.insert(0, %r)
        import gpu_leak_probe
        torch = types.ModuleType("torch")
        torch.__path__ = []
        sys.modules["torch"] = torch
        try:
            import torch.version
        except ImportError:
            pass
        assert gpu_leak_probe._probe.started
        assert len(os.listdir("/proc/self/task")) == 1
        """
        % sys.argv[1],
    )
    interpreters.destroy(one)
    say("none")


def scenario_looked_for():
    """Looks whether there is a framework, and there is none."""
    import importlib.util

    probe = load()
    assert importlib.util.find_spec("torch") is None
    try:
        import cupy as _
    except ImportError:
        pass
    assert threads() == 1 and not probe._probe.started
    say("none")


def scenario_lazy():
    """Has a framework that is imported when it is used, and does not use it."""
    import importlib.util

    torch = Torch()
    probe = load(torch)
    spec = importlib.util.find_spec("torch")
    spec.loader = importlib.util.LazyLoader(torch)
    lazy = sys.modules["torch"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lazy)
    kind = type(lazy)
    probe._probe.start()
    time.sleep(0.1)
    assert type(lazy) is kind, "the probe imported it"
    assert lazy.__version__ == "2.9.0+cu130" and type(lazy) is not kind
    say("none")


def scenario_requests():
    """Has its page locked by two that ask, and by what is no request."""
    import fcntl
    import struct

    torch = Torch()
    probe = load(torch)
    begin(torch, probe)
    page = probe._probe._page

    def lock(start, length, kind=fcntl.F_RDLCK):
        fd = os.open("/proc/self/fd/%d" % page._fd, os.O_RDWR)
        fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", kind, 0, start, length, 0))  # F_OFD_SETLK
        return fd

    for start, length, kind in ((0, 4096, fcntl.F_RDLCK), (65537, 60, fcntl.F_RDLCK), (65536, 0, fcntl.F_RDLCK), (65536, 60, fcntl.F_WRLCK), (1 << 48, 60, fcntl.F_RDLCK)):
        fd = lock(start, length, kind)
        assert page.request(0) == page.request(1) == (0, 0), (start, length, kind)
        os.close(fd)
    first, second = lock(65536, 60), lock(0x7FFFFFFF * 65536, 65535)
    assert page.request(0) in ((1, 60), (0x7FFFFFFF, 65535))
    assert page.request(1) == (1, 60)
    assert page.request(0x7FFFFFFF) == (0x7FFFFFFF, 65535)
    os.close(first)
    assert page.request(1) == page.request(0) == (0x7FFFFFFF, 65535)
    os.close(second)
    assert page.request(0) == page.request(1) == (0, 0)
    say("none")


def scenario_refused():
    """Is refused memory, and goes on: by an observer of its own, and while the probe cannot ask PyTorch."""
    import threading

    observers, own, took, blocks = [], [], [], [7, 0]
    torch = Torch(devices=2, stats=lambda ordinal: dict(Torch.usual(ordinal), active={"all": {"current": blocks[ordinal]}}))
    torch.module._C = module("torch._C", _cuda_attach_out_of_memory_observer=observers.append)
    frames = [{"filename": "/torch/functional.py", "line": 7, "name": "empty"}, {"filename": "/app/serve.py", "line": 41, "name": "handle"}]
    block = {"size": GIB, "state": "active_allocated", "frames": frames}
    torch.cuda.memory._snapshot = lambda: {"segments": [{"device": 0, "blocks": [block, dict(block, state="inactive"), block]}, {"device": 1, "blocks": [block]}]}
    observers.append(lambda *args: own.append(args))
    probe = load(torch)
    begin(torch, probe)
    assert len(observers) == 1, "it attached to a PyTorch that calls with its lock held"
    torch.module._C._cuda_isHistoryEnabled = bool
    refusals = probe._probe._refusals
    refusals._attached = None
    while len(observers) < 2:
        time.sleep(0.005)
    probe._cuda.uuid = lambda ordinal: "0b2f"

    def refuse():
        for observer in observers:
            observer(0, 2 * GIB, 80 * GIB, GIB)

    def run():
        time.sleep(0.2)
        refuse()
        told = probe._probe._page.refusal
        refuse()  # within a minute: it is not told
        took.append(probe._probe._page.refusal is told)
        snapshot, torch.cuda.memory._snapshot = torch.cuda.memory._snapshot, None
        refusals._last = None
        refuse()  # the probe fails
        took.append(probe._probe._page.refusal is told)
        torch.cuda.memory._snapshot = snapshot

    thread = threading.Thread(target=run)
    thread.start()
    say(os.getpid())
    thread.join()
    assert took == [True] * 2 and own == [(0, 2 * GIB, 80 * GIB, GIB)] * 3 and len(observers) == 2, (took, own, observers)
    observers[1]()  # with what another version of PyTorch may tell: it raises nothing
    os.environ["GPU_LEAK_PROBE_SITES"] = "off"
    assert refusals._lines(torch.module, 0) == [{"line": "", "bytes": GIB}] * 2
    blocks[1] = 200000  # on another GPU
    assert refusals._lines(torch.module, 0) == []
    blocks[1], probe._MAX_PAUSE = 0, -1
    assert len(refusals._lines(torch.module, 0)) == 2 and refusals._lines(torch.module, 0) == [], "after a slow snapshot"
    lines = [{"line": "x" * 200, "bytes": n} for n in range(10, 0, -1)]
    assert len(probe._json(lines, lines, 896)) <= 896 and lines[-1]["bytes"] == 7, "the largest are kept"


def scenario_empty_cache():
    """Has a memory that fills, and a cache in it. The program uses its second GPU only."""
    import contextlib

    free, emptied, reserved, usual, current = [80 * GIB], [], [0], Torch.usual, [0]

    def stats(ordinal):
        return dict(usual(0), reserved_bytes={"all": {"current": reserved[0]}}) if ordinal else {}

    @contextlib.contextmanager
    def device(ordinal):
        current[0] = ordinal
        yield
        current[0] = 0

    torch = Torch(stats=stats, devices=2)
    torch.cuda.device = device
    torch.module._C = module("torch._C", _cuda_isHistoryEnabled=bool)
    torch.cuda.memory.get_per_process_memory_fraction = lambda ordinal: fraction[0]
    torch.cuda.get_device_properties = lambda ordinal: types.SimpleNamespace(total_memory=80 * GIB)
    torch.cuda.mem_get_info = lambda ordinal: (free[0], 80 * GIB)
    fraction = [1.0]
    probe = load(torch)
    for wrong in (0, 1.1, -1, float("nan")):
        try:
            probe.install(empty_cache_at=wrong)
            assert False, wrong
        except ValueError:
            pass
    begin(torch, probe)
    cache = probe._cache
    full, cached = int(0.08 * 80 * GIB), (3 + 8) * GIB
    for option, free[0], reserved[0], fraction[0], want in (
        (None, 0, cached, 1.0, 0),  # not asked for
        (0.92, full + GIB, cached, 1.0, 0),  # not full
        (0.92, full, cached - 1, 1.0, 0),  # a small cache
        (0.92, full, cached, 1.0, 1),
        (0.92, 60 * GIB, 18 * GIB, 0.25, 0),  # its limit of 20 GiB is not full
        (0.92, 60 * GIB, 19 * GIB, 0.25, 1),
        (0.92, 60 * GIB, 19 * GIB, 1.0, 0),
    ):
        emptied.clear()
        torch.cuda.empty_cache = lambda: emptied.append(current[0])
        with probe._probe._asking:  # its thread checks, too
            cache._last = None
            cache.empty_at = option
            cache.check()
            cache.check()  # within a minute
            cache.empty_at = None
        assert emptied == [1] * want, (option, free, reserved, fraction, emptied)

    def refuse():
        emptied.append(1)
        raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")

    torch.cuda.empty_cache, free[0], reserved[0] = refuse, full, cached
    cache._last = None
    probe.install(empty_cache_at=0.92)
    while not emptied:  # the thread does, and goes on
        time.sleep(0.005)
    reserved[0] = 5 * GIB
    wait(probe)
    say(os.getpid())


def scenario_cupy():
    """Uses its second GPU only: a context on the first one is not the probe's to make."""
    selected = []

    class Device:
        def __init__(self, ordinal):
            self.ordinal = ordinal

        def use(self):
            selected.append(self.ordinal)

        def __enter__(self):
            self.use()

        def __exit__(self, *_):
            selected.append(0)

    pool = types.SimpleNamespace(used_bytes=lambda: GIB, total_bytes=lambda: 2 * GIB)
    probe = load()
    probe._cuda.has_context = lambda ordinal: ordinal == 1
    sys.modules["cupy"] = module("cupy", __version__="14.0", cuda=types.SimpleNamespace(Device=Device), get_default_memory_pool=lambda: pool)
    probe._probe.start()
    wait(probe)
    assert set(selected) == {1}, selected
    say(os.getpid())


def scenario_fork_storm():
    torch = Torch()
    begin(torch, load(torch))
    for _ in range(200):
        if os.fork() == 0:
            os._exit(0)
        os.wait()
    say(os.getpid())


def scenario_exec():
    torch = Torch()
    begin(torch, load(torch))
    os.execv(sys.executable, [sys.executable, "-c", "import os, sys; print('none', os.getpid(), flush=True); sys.stdin.read()"])


def scenario_all_closed():
    """Closes all descriptors, as daemons do, and has files of its own at their numbers."""
    torch = Torch()
    probe = load(torch)
    begin(torch, probe)
    fd = probe._probe._page._fd
    os.closerange(3, 256)
    mine = os.open(os.path.join(os.environ["TMPDIR"], "mine"), os.O_RDWR | os.O_CREAT)
    os.dup2(mine, fd)
    os.write(mine, b"mine")
    lost = probe._probe._page
    while probe._probe._page is lost:
        time.sleep(0.005)
    wait(probe)
    os.lseek(fd, 0, 0)
    assert os.read(fd, 100) == b"mine"
    say(os.getpid())


def scenario_no_memory():
    import resource

    torch = Torch()
    probe = load(torch)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 2, hard))
    try:
        while True:
            files.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    import torch as _

    torch.initialised = True
    time.sleep(0.1)
    say("none")


def scenario_failing():
    """Has system calls fail, one after the other, while the probe begins."""
    import ctypes
    import fcntl

    torch = Torch()
    torch.initialised = True
    probe = load(torch)
    import torch as _

    def fail(*_args, **_keywords):
        calls.append(1)
        raise OSError(12, "no memory")

    for module, name in ((os, "memfd_create"), (os, "posix_fallocate"), (fcntl, "fcntl"), (ctypes, "CDLL")):
        calls, works = [], getattr(module, name)
        setattr(module, name, fail)
        p = probe._Probe()
        p.interval = 0.01
        p.start()
        while not (calls and p._pages):
            time.sleep(0.001)
        assert p._page is None, name
        setattr(module, name, works)
        while p._page is None:
            time.sleep(0.001)
        p._page.close()
        p._pages = 100  # its thread ends
    wait(probe)
    say(os.getpid())


def scenario_memory_limit():
    """Has no memory for a thread, then none for the page."""
    import resource

    torch = Torch()
    torch.initialised = True
    probe = load(torch)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as f:
        pages = int(f.read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + 65536, hard))
    import torch as _

    time.sleep(0.1)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    kept = [bytearray(1 << 20) for _ in range(8)]
    assert len(kept) == 8 and probe._probe._page is None
    say("none")


def scenario_driver():
    """Has a driver's library that names two MIG devices."""
    import ctypes

    library = ctypes.CDLL(os.environ["LIBCUDA"], mode=ctypes.RTLD_GLOBAL)
    assert library.cuDeviceGet is not None
    torch = Torch(devices=2)
    begin(torch, load(torch))
    say(os.getpid())


def scenario_ends():
    """Ends while the probe asks, many times a second."""
    torch = Torch(devices=8)
    probe = load(torch)
    probe._probe.interval = 0.0001
    begin(torch, probe)
    print(os.getpid(), flush=True)


globals()["scenario_" + sys.argv[2]]()
