# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0
"""Behaves like the caching allocator of torch.cuda, and like its recording of stacks."""

import sys
import threading
import types

_lock = threading.RLock()
_blocks = {}  # by address
_next = 1 << 40
_recording = False
_history = 0  # entries that are kept of what was allocated and freed
OWN = "/usr/lib/python3/dist-packages/torch/"
settings = types.SimpleNamespace(slow=0.0, blocks=0)


class Tensor:
    def __init__(self, size, frames):
        global _next
        with _lock:
            self.address = _next
            _next += size
            _blocks[self.address] = {"size": size, "requested_size": size, "state": "active_allocated", "frames": frames}

    def __del__(self):
        with _lock:
            _blocks.pop(self.address, None)


def empty(size, python=True):
    return Tensor(size, stack(sys._getframe(0)) if python else [])


def like(_tensor, size):
    return empty(size)  # one more frame of the library's own


def stack(frame):
    """Returns what torch tells of a stack, the innermost frame first."""
    frames = []
    while _recording and frame is not None:
        code = frame.f_code
        file = OWN + "functional.py" if code.co_filename == __file__ else code.co_filename
        frames.append({"filename": file, "line": frame.f_lineno, "name": code.co_name})
        frame = frame.f_back
    return frames


def record(enabled="all", context="all", stacks="all", max_entries=sys.maxsize):
    global _recording, _history
    assert enabled is None or (enabled, context, stacks, max_entries) == ("state", "state", "python", 1), "more than is needed"
    _recording, _history = enabled is not None, 1


def record_all():
    """Is what a program calls that wants the history, too."""
    global _recording, _history
    _recording, _history = True, 1000


def recording():
    return _recording


def snapshot():
    import time

    time.sleep(settings.slow)
    free = {"size": 1 << 30, "state": "inactive", "frames": []}
    with _lock:
        segments = [{"device": 0, "address": a, "blocks": [dict(b), free]} for a, b in _blocks.items()]
    return {"segments": segments, "device_traces": [[{"action": "alloc"}] * _history, []]}


def statistics(_ordinal):
    with _lock:
        held = sum(b["size"] for b in _blocks.values())
        n = settings.blocks or len(_blocks)

    def now(v):
        return {"all": {"current": v, "peak": v}}

    return {"allocated_bytes": now(held), "reserved_bytes": now(held + (1 << 30)), "active": now(n)}


def module():
    def make(name, **attributes):
        m = types.ModuleType(name)
        m.__dict__.update(attributes)
        return m

    memory = make("torch.cuda.memory", get_allocator_backend=lambda: "native", _record_memory_history=record, _snapshot=snapshot)
    cuda = make("torch.cuda", memory=memory, is_initialized=lambda: True, device_count=lambda: 1, memory_stats_as_nested_dict=statistics)
    c = make("torch._C", _cuda_isHistoryEnabled=lambda: _recording)
    torch = make("torch", cuda=cuda, _C=c, __version__="2.9.0+cu130")
    torch.__file__ = OWN + "__init__.py"
    return torch
