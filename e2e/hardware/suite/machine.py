# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""What machine this is: versions of everything that a figure depends on."""

import json
import os
import platform
import subprocess
import sys


def run(args, timeout=30):
    """Runs a program; its output, or None where it is absent or fails."""
    try:
        done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, universal_newlines=True)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def read(path):
    try:
        with open(path) as f:
            return f.read().strip()
    except OSError:
        return None


PACKAGES = """
import importlib, json
found = {}
for name in ("torch", "jax", "cupy", "pynvml"):
    try:
        found[name] = getattr(importlib.import_module(name), "__version__", "unknown version")
    except Exception as error:
        found[name] = "not there: %s" % error
try:
    import torch
    found["torch CUDA"] = str(torch.version.cuda)
    found["torch sees"] = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
except Exception:
    pass
print(json.dumps(found))
"""


def packages(python):
    """The Python packages that the programs use."""
    text = run([python, "-c", PACKAGES], timeout=120)
    # Some packages print on their own when they are imported, and at the end.
    found = [line for line in (text or "").splitlines() if line.startswith('{"torch"')]
    return json.loads(found[0]) if found else {"torch": "not there: %s failed" % python}


def is_gvisor():
    """gVisor has its own kernel: procfs and device files differ there."""
    return "gvisor" in (run(["dmesg"]) or "").lower() or platform.version().endswith("15:06:54 PST 2016")


def version(binary):
    """What a binary says of its version; None if it does not run."""
    return ((run([binary, "--version"]) or "").splitlines() or [None])[0]


def facts(exporter, tool, python):
    """The facts as an ordered table."""
    mib = {line.split()[0]: int(line.split()[1]) // 1024 for line in (read("/proc/meminfo") or "").splitlines()[:1]}
    all_facts = {
        "kernel": " ".join(platform.uname()[i] for i in (0, 2, 4)),
        "gVisor": "yes" if is_gvisor() else "no sign of it",
        "pid namespace": os.readlink("/proc/self/ns/pid") if os.path.exists("/proc/self/ns/pid") else None,
        "distribution": next((line[13:-1] for line in (read("/etc/os-release") or "").splitlines() if line.startswith("PRETTY_NAME=")), None),
        "cores, memory": "%d, %d MiB" % (os.cpu_count(), mib.get("MemTotal:", 0)),
        "user": "uid %d" % os.getuid(),
        "kernel module": (read("/proc/driver/nvidia/version") or "no /proc/driver/nvidia/version").splitlines()[0],
        "exporter": version(exporter),
        "gpuleaktool": version(tool),
        "Python of the suite, of the programs": "%s, %s" % (platform.python_version(), python),
        "command": " ".join(sys.argv[1:]),
    }
    all_facts.update(packages(python))
    return all_facts
