# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Puts a stub of the CUDA driver's library where ctypes loads the real one."""

import ctypes

_real = ctypes.CDLL


class _Driver:
    """The calls of the programs and of the probe, with the status that the driver gives."""

    def __init__(self):
        import fakedriver

        self.memory = fakedriver.memory
        self.full = fakedriver.OutOfMemoryError

    def cuInit(self, flags):
        return 0

    def cuDeviceGet(self, device, ordinal):
        return 0 if getattr(ordinal, "value", ordinal) == 0 else 101  # there is one GPU

    def cuDevicePrimaryCtxRetain(self, context, device):
        self.memory.begin()
        return 0

    def cuCtxSetCurrent(self, context):
        return 0

    def cuDevicePrimaryCtxGetState(self, device, flags, active):
        active._obj.value = int(self.memory.context)
        return 0

    def cuMemAlloc_v2(self, pointer, n):
        try:
            self.memory.allocate_outside(n.value)
        except self.full:
            return 2
        return 0

    def cuModuleLoadData(self, module, image):
        return 0

    def cuModuleGetFunction(self, function, module, name):
        return 0

    def cuLaunchKernel(self, *arguments):
        import fakedriver

        fakedriver.crash()
        return 0

    def cuCtxSynchronize(self):
        return 700

    def cuMemsetD8_v2(self, pointer, value, n):
        return 0


def _load(name, *args, **kwargs):
    if name == "libcuda.so.1":
        return _Driver()
    return _real(name, *args, **kwargs)


ctypes.CDLL = _load
