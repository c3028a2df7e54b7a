# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A stub of CuPy with a pool that keeps each block for requests of its size."""

import collections
import types

import fakedriver

from cupy import cuda  # noqa: F401: as the real one, it imports a part of itself

__version__ = "0.stub"
float32, uint8 = 4, 1
_free = collections.Counter()


class _Array:
    def __init__(self, n):
        self.n = n
        if _free[n]:
            _free[n] -= 1
        else:
            fakedriver.memory.allocate(n)

    def __del__(self):
        _free[self.n] += 1


def zeros(n, dtype=float32):
    return _Array(n * dtype)


def get_default_memory_pool():
    def used():
        return fakedriver.memory.reserved - sum(n * count for n, count in list(_free.items()))

    return types.SimpleNamespace(used_bytes=used, total_bytes=lambda: fakedriver.memory.reserved)
