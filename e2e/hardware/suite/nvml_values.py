# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Prints what nvidia-ml-py reads of a GPU, as JSON. It is run as a program, so that a
library that crashes takes nothing with it."""

import json
import sys

import pynvml

found = []


def add(name, call, absolute=0, share=0, **labels):
    """Notes a value. What this GPU or this version of the package does not have is left out."""
    try:
        value = call()
    except (pynvml.NVMLError, AttributeError):
        return
    if value is not None:
        found.append({"key": name + str(sorted(labels.items())), "name": name, "labels": labels, "value": float(value), "absolute": absolute, "share": share})


def main(uuid):
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    for field in ("total", "reserved", "used", "free"):
        # Drivers before 510 have no version 2.
        add("gpu_memory_%s_bytes" % field, lambda: getattr(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2), field))
    add("gpu_energy_joules_total", lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000, absolute=200)
    add("gpu_power_watts", lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000, absolute=20, share=0.3)
    add("gpu_power_limit_watts", lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000, limit="enforced")
    add("gpu_temperature_celsius", lambda: pynvml.nvmlDeviceGetTemperature(handle, 0), absolute=4, sensor="gpu")
    try:
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLError:
        processes = []
    for process in processes:
        add("gpu_process_memory_used_bytes", lambda: process.usedGpuMemory, pid=str(process.pid))
    print(json.dumps(found))


main(sys.argv[1])
