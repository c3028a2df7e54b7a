# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A kernel that writes to an address that is nobody's. The driver ends its context, and reports an XID."""

import ctypes

import program

KERNEL = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry crash() {
    .reg .u64 %address;
    .reg .u32 %one;
    mov.u64 %address, 64;
    mov.u32 %one, 1;
    st.global.u32 [%address], %one;
    ret;
}
"""

p = program.Program("a kernel writes to a wrong address", leaks=False)
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    p.skip("the CUDA driver's library cannot be loaded: %s" % error)
device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
for call, status in (
    ("cuInit", cuda.cuInit(0)),
    ("cuDeviceGet", cuda.cuDeviceGet(ctypes.byref(device), 0)),
    ("cuDevicePrimaryCtxRetain", cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)),
    ("cuCtxSetCurrent", cuda.cuCtxSetCurrent(context)),
    ("cuModuleLoadData", cuda.cuModuleLoadData(ctypes.byref(module), KERNEL)),
    ("cuModuleGetFunction", cuda.cuModuleGetFunction(ctypes.byref(function), module, b"crash")),
    ("cuLaunchKernel", cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)),
):
    if status != 0:
        p.skip("%s: CUDA error %d" % (call, status))
p.say("crashed", status=cuda.cuCtxSynchronize())
p.finish(0)
