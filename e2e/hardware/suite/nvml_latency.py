# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Times calls into the driver's library, through ctypes alone, and prints them as JSON.

It decodes nothing, so it needs no package. Each call is made 200 times, or for a second."""

import ctypes
import json
import sys
import time

CALLS = 200
SECOND = 1.0

library, uuid = ctypes.CDLL(sys.argv[1]), sys.argv[2].encode()
handle = ctypes.c_void_p()
# Larger than any structure below; NVML's lists get a count that fits.
room = ctypes.create_string_buffer(1 << 16)
more = ctypes.create_string_buffer(1 << 12)


def count(n):
    return ctypes.byref(ctypes.c_uint(n))


def versioned(size, version):
    """A structure begins with its size and version, as nvml.h has it."""
    ctypes.memmove(room, ctypes.byref(ctypes.c_uint(size | version << 24)), 4)
    return room


ARGUMENTS = {
    "nvmlDeviceGetMemoryInfo_v2": lambda: (versioned(40, 2),),
    "nvmlDeviceGetMemoryInfo": lambda: (room,),
    "nvmlDeviceGetComputeRunningProcesses_v3": lambda: (count(1024), room),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": lambda: (count(1024), room),
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": lambda: (count(1024), room),
    "nvmlDeviceGetProcessUtilization": lambda: (room, count(1024), ctypes.c_ulonglong(0)),
    "nvmlDeviceGetUtilizationRates": lambda: (room,),
    "nvmlDeviceGetEncoderUtilization": lambda: (room, more),
    "nvmlDeviceGetTemperature": lambda: (0, room),
    "nvmlDeviceGetPowerUsage": lambda: (room,),
    "nvmlDeviceGetEnforcedPowerLimit": lambda: (room,),
    "nvmlDeviceGetTotalEnergyConsumption": lambda: (room,),
    "nvmlDeviceGetClockInfo": lambda: (0, room),
    "nvmlDeviceGetPerformanceState": lambda: (room,),
    "nvmlDeviceGetCurrentClocksEventReasons": lambda: (room,),
    "nvmlDeviceGetBAR1MemoryInfo": lambda: (room,),
    "nvmlDeviceGetEccMode": lambda: (room, more),
    "nvmlDeviceGetTotalEccErrors": lambda: (0, 0, room),
    "nvmlDeviceGetMemoryErrorCounter": lambda: (0, 0, 2, room),
    "nvmlDeviceGetRemappedRows": lambda: (room, more, ctypes.byref(ctypes.c_uint()), ctypes.byref(ctypes.c_uint())),
    "nvmlDeviceGetPcieReplayCounter": lambda: (room,),
    "nvmlDeviceGetPcieThroughput": lambda: (0, room),
    "nvmlDeviceGetCurrPcieLinkWidth": lambda: (room,),
    "nvmlDeviceGetNvLinkState": lambda: (0, room),
    "nvmlDeviceGetMigMode": lambda: (room, more),
}


def timed(function, arguments):
    """Seconds of each call, the status of the last, and the CPU time of one."""
    spent, status, end, cpu = [], 0, time.perf_counter() + SECOND, time.process_time()
    while len(spent) < CALLS and time.perf_counter() < end:
        values = arguments()
        begin = time.perf_counter()
        status = function(handle, *values)
        spent.append(time.perf_counter() - begin)
    return sorted(spent), status, (time.process_time() - cpu) / len(spent)


if library.nvmlInit_v2() != 0:
    sys.exit("nvmlInit_v2 failed")
if library.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle)) != 0:
    sys.exit("nvmlDeviceGetHandleByUUID failed")
found = []
for name, arguments in ARGUMENTS.items():
    try:
        function = getattr(library, name)
    except AttributeError:
        found.append({"call": name, "status": None})
        continue
    spent, status, cpu = timed(function, arguments)
    found.append({
        "call": name, "status": status, "calls": len(spent),
        "median": spent[len(spent) // 2], "p99": spent[min(len(spent) - 1, len(spent) * 99 // 100)], "cpu": cpu,
    })
print(json.dumps(found))
