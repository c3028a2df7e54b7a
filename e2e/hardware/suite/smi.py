# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""nvidia-smi -q -x: what the driver's own tool says of a GPU."""

import re
import subprocess
import xml.etree.ElementTree as ElementTree

# How the tool says that there is no value. Newer drivers say the last one of what they gave up.
ABSENT = ("N/A", "[N/A]", "None", "Unknown", "Not Supported", "[Not Supported]", "Requested functionality has been deprecated", "")


def query():
    """{uuid: GPU}; OSError where there is no nvidia-smi, RuntimeError where it fails."""
    done = subprocess.run(["nvidia-smi", "-q", "-x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, universal_newlines=True, errors="replace")
    if done.returncode != 0:
        raise RuntimeError("nvidia-smi -q -x: %s" % (done.stderr or done.stdout).strip()[:300])
    return parse(done.stdout)


def parse(text):
    log = ElementTree.fromstring(text)
    gpus = {}
    for element in log.findall("gpu"):
        gpu = GPU(element, log)
        gpus[gpu.text("uuid")] = gpu
    return gpus


class GPU:
    """One GPU: its leaves by path, such as fb_memory_usage/total."""

    def __init__(self, element, log):
        self.leaves = {}
        self.processes = {}
        for child in element:
            if child.tag == "processes":
                self._processes(child)
            elif child.tag not in ("supported_clocks", "accounted_processes", "mig_devices"):
                self._flatten(child, child.tag)
        self.leaves["pci_bus_id"] = element.get("id")
        for tag in ("driver_version", "cuda_version"):
            self.leaves[tag] = (log.findtext(tag) or "").strip()

    def _flatten(self, element, path):
        if len(element) == 0:
            self.leaves[path] = (element.text or "").strip()
        for child in element:
            self._flatten(child, path + "/" + child.tag)

    def _processes(self, element):
        for info in element.findall("process_info"):
            used = number(info.findtext("used_memory"))
            self.processes[int(info.findtext("pid"))] = None if used is None else used * (1 << 20)

    def text(self, path):
        """The text of a leaf; None where the tool says that there is none."""
        text = self.leaves.get(path)
        return None if text is None or text in ABSENT else text

    def first(self, paths):
        """(path, text) of the first of the paths that has one: names change with the driver."""
        for path in paths:
            if self.text(path) is not None:
                return path, self.text(path)
        return None, None


def number(text):
    """The number that a text such as "3534 MiB", "P8" or "16x" holds."""
    match = re.search(r"-?\d+(?:\.\d+)?", text or "")
    return float(match.group()) if match and text not in ABSENT else None
