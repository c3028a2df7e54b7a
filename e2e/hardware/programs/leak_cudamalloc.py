# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Memory that a native library takes from the driver, outside any framework."""

import ctypes

import program

p = program.Program("a native library allocates from the driver and forgets", leaks=True)


def check(status, call):
    if status == 2:
        raise MemoryError("%s: CUDA_ERROR_OUT_OF_MEMORY" % call)
    if status != 0:
        raise RuntimeError("%s: CUDA error %d" % (call, status))


try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    p.skip("the CUDA driver's library cannot be loaded: %s" % error)


def begin():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")


def leak(n):
    pointer = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(n)), "cuMemAlloc")
    check(cuda.cuMemsetD8_v2(pointer, ctypes.c_ubyte(1), ctypes.c_size_t(n)), "cuMemsetD8")


started = False


def work():
    global started
    if not started:
        begin()
        started = True


p.run(work, leak)
