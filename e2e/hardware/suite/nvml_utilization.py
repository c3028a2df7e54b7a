# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Prints how many samples of the utilisation of processes the driver keeps, as JSON: whether who
asks seldom misses some. It is run as a program, as nvml_values.py."""

import json
import sys

import pynvml

pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByUUID(sys.argv[1])
try:
    samples = pynvml.nvmlDeviceGetProcessUtilization(handle, 0)
except pynvml.NVMLError as error:
    sys.exit(str(error))
stamps = {}
for sample in samples:
    stamps.setdefault(sample.pid, []).append(sample.timeStamp / 1e6)
print(json.dumps({
    "samples": len(samples), "processes": len(stamps), "most": max(map(len, stamps.values()), default=0),
    "span": max((max(s) - min(s) for s in stamps.values()), default=0),
}))
