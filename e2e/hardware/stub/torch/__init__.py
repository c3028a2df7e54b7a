# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A stub of PyTorch with the calls that the programs use. A tensor has a size and
holds what it was computed from, as autograd has it; no number is computed."""

import contextlib
import types

import fakedriver

from torch import version  # noqa: F401: as the real one, it imports a part of itself

__version__ = "0.stub"
float32, uint8 = 4, 1
OutOfMemoryError = fakedriver.OutOfMemoryError
_grad = True


class Tensor:
    def __init__(self, shape, width=float32, graph=(), device="cuda"):
        self.shape, self.width, self.graph = tuple(int(d) for d in shape), width, graph
        self.nbytes = width
        for d in self.shape:
            self.nbytes *= d
        self.held = fakedriver.memory.allocate(self.nbytes) if device == "cuda" else 0

    def __del__(self):
        fakedriver.memory.free(getattr(self, "held", 0))

    def _with(self, shape, *inputs):
        needs = _grad and any(getattr(t, "graph", ()) for t in inputs)
        return Tensor(shape, self.width, tuple(g for t in inputs if isinstance(t, Tensor) for g in t.graph) if needs else ())

    def __mul__(self, other):
        return self._with(self.shape, self, other)

    def __add__(self, other):
        return self._with(self.shape, self, other)

    def mean(self):
        return self._with((1,), self)

    sum = mean

    def detach(self):
        view = object.__new__(Tensor)
        view.shape, view.width, view.graph, view.nbytes, view.held = self.shape, self.width, (), self.nbytes, 0
        view.base = self  # shares the storage
        return view

    def backward(self):
        self.graph = ()

    def cuda(self):
        return self


def ones(*shape, device="cpu", dtype=float32):
    return Tensor(shape[0] if isinstance(shape[0], tuple) else shape, dtype, device=device)


zeros = empty = ones


@contextlib.contextmanager
def no_grad():
    global _grad
    before, _grad = _grad, False
    try:
        yield
    finally:
        _grad = before


class Linear:
    def __init__(self, features_in, features_out):
        self.features = features_out
        self.size = (features_out, features_in)
        self.hooks = []

    def cuda(self):
        self.weight = Tensor(self.size)
        return self

    def parameters(self):
        return [self.weight]

    def register_forward_hook(self, hook):
        self.hooks.append(hook)

    def __call__(self, x):
        # The gradient of the weight needs the input.
        y = Tensor((x.shape[0], self.features), graph=(x,) if _grad else ())
        for hook in self.hooks:
            hook(self, (x,), y)
        return y


nn = types.SimpleNamespace(Linear=Linear)


class _SGD:
    def __init__(self, parameters, lr):
        self.parameters = parameters

    def zero_grad(self):
        pass

    def step(self):
        pass


optim = types.SimpleNamespace(SGD=_SGD)


def compile(model):
    return model


class _CUDAGraph:
    pass


@contextlib.contextmanager
def _graph(graph):
    yield


def _mem_get_info():
    fakedriver.memory.begin()
    with open(fakedriver.script()) as f:
        lines = f.read().splitlines()
    total = fakedriver.capacity(lines)
    return total - sum(int(line.split()[5]) for line in lines if line.startswith("process ")), total


class _Stream:
    pass


def _stats():
    """As torch.cuda.memory_stats_as_nested_dict; what is not allocated is cache."""
    now = {"allocated_bytes": fakedriver.memory.allocated, "reserved_bytes": fakedriver.memory.reserved, "active_bytes": fakedriver.memory.allocated, "inactive_split_bytes": 0}
    return {key: {"all": {"current": value}} for key, value in now.items()}


cuda = types.SimpleNamespace(
    is_initialized=lambda: True,
    memory_stats_as_nested_dict=lambda i=0: _stats(),
    memory_stats=lambda i=0: {key + ".all.current": value["all"]["current"] for key, value in _stats().items()},
    Stream=_Stream,
    stream=lambda stream: contextlib.nullcontext(),
    is_available=lambda: True,
    device_count=lambda: 1,
    get_device_name=lambda i=0: "stub",
    synchronize=lambda: None,
    empty_cache=fakedriver.memory.trim,
    memory_reserved=lambda: fakedriver.memory.reserved,
    memory_allocated=lambda: fakedriver.memory.allocated,
    mem_get_info=_mem_get_info,
    CUDAGraph=_CUDAGraph,
    graph=_graph,
    OutOfMemoryError=OutOfMemoryError,
)
