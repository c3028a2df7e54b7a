# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A stub of nvidia-ml-py with the calls that the readers in suite use, over the library
that its second argument names."""

import ctypes
import sys
import types

__version__ = "0.stub"
nvmlMemory_v2 = 2
_library = None


class NVMLError(Exception):
    pass


class _Memory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint)] + [(n, ctypes.c_ulonglong) for n in ("total", "reserved", "free", "used")]


class _Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong), ("instance", ctypes.c_uint), ("compute", ctypes.c_uint)]


def _call(name, *args):
    status = getattr(_library, name)(*args)
    if status != 0:
        raise NVMLError("%s: %d" % (name, status))


def nvmlInit():
    global _library
    _library = ctypes.CDLL(sys.argv[2])
    _call("nvmlInit_v2")


def nvmlDeviceGetHandleByUUID(uuid):
    handle = ctypes.c_void_p()
    _call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(handle))
    return handle


def nvmlDeviceGetMemoryInfo(handle, version):
    memory = _Memory(version=ctypes.sizeof(_Memory) | version << 24)
    _call("nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(memory))
    return memory


def _number(name, width, *before):
    def get(handle, *args):
        value = width()
        _call(name, handle, *args, *before, ctypes.byref(value))
        return value.value

    return get


nvmlDeviceGetTotalEnergyConsumption = _number("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)
nvmlDeviceGetPowerUsage = _number("nvmlDeviceGetPowerUsage", ctypes.c_uint)
nvmlDeviceGetEnforcedPowerLimit = _number("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint)
nvmlDeviceGetTemperature = _number("nvmlDeviceGetTemperature", ctypes.c_uint)


def nvmlDeviceGetComputeRunningProcesses(handle):
    count, list_of = ctypes.c_uint(256), (_Process * 256)()
    _call("nvmlDeviceGetComputeRunningProcesses_v3", handle, ctypes.byref(count), list_of)
    return [types.SimpleNamespace(pid=p.pid, usedGpuMemory=p.usedGpuMemory) for p in list_of[: count.value]]


class _Utilization(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("timeStamp", ctypes.c_ulonglong)] + [(n, ctypes.c_uint) for n in ("sm", "mem", "enc", "dec")]


def nvmlDeviceGetProcessUtilization(handle, since):
    count, list_of = ctypes.c_uint(256), (_Utilization * 256)()
    _call("nvmlDeviceGetProcessUtilization", handle, list_of, ctypes.byref(count), ctypes.c_ulonglong(since))
    return list(list_of[: count.value])
