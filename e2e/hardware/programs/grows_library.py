# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A native library takes memory from the driver, beside PyTorch."""

import ctypes

import program

p = program.Program("a native library allocates beside PyTorch", leaks=True)
torch = p.torch()
torch.zeros(1, device="cuda")
cuda = ctypes.CDLL("libcuda.so.1")


def grow(n):
    pointer = ctypes.c_uint64()
    status = cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(n))
    if status != 0:
        raise RuntimeError("cuMemAlloc: CUDA error %d" % status)


p.run(program.trainer(torch), grow)
