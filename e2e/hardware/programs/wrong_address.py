# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A kernel that writes to an address that is nobody's. The driver ends its context, and reports an XID.

Usage: wrong_address.py FILE …: it waits until FILE is there."""

import ctypes
import os
import sys
import time

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

go = sys.argv.pop(1)
p = program.Program("a kernel writes to a wrong address", leaks=False)
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    p.skip("the CUDA driver's library cannot be loaded: %s" % error)


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status != 0:
        p.skip("%s: CUDA error %d" % (name, status))


device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), KERNEL)
call("cuModuleGetFunction", ctypes.byref(function), module, b"crash")
p.say("ready")
while not os.path.exists(go):
    time.sleep(0.005)
call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
p.say("crashed", status=cuda.cuCtxSynchronize())
p.finish(0)
