# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""What the driver's calls take, and what the exporter costs."""

import json
import os
import subprocess
import time

from suite import exporter as exposition

MEASURED = 8  # seconds of CPU time that one row is made of


def latencies(results, python, library, uuid, exporter):
    """The latency of each call: median and 99 %, and the mean that the exporter saw."""
    print("latency of NVML's calls", flush=True)
    reader = os.path.join(os.path.dirname(__file__), "nvml_latency.py")
    try:
        done = subprocess.run([python, reader, library, uuid], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, universal_newlines=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        return results.problem("latency of NVML's calls: %s" % error)
    if done.returncode != 0:
        return results.problem("latency of NVML's calls: %s" % (done.stderr.strip().splitlines() or [done.returncode])[-1])
    rows, metrics = [], exporter.metrics()
    for call in json.loads(done.stdout):
        if call["status"] is None:
            rows.append([call["call"], None, None, None, None, None, "this driver does not have it"])
            continue
        calls = exposition.value(metrics, "gpu_nvml_calls_total", call=call["call"])
        seconds = exposition.value(metrics, "gpu_nvml_call_seconds_total", call=call["call"])
        mean = 1e6 * seconds / calls if calls else None
        remark = "" if call["status"] == 0 else "NVML answers %d" % call["status"]
        rows.append([call["call"], call["calls"], 1e6 * call["median"], 1e6 * call["p99"], 1e6 * call["cpu"], mean, remark])
    results.table("Latency of NVML's calls", ["call", "calls", "median, µs", "99 %, µs", "CPU, µs", "mean in the exporter, µs", ""], rows,
                  "Timed through ctypes, which adds about a microsecond.")


def exporter_cost(results, launch, counts, programs):
    """CPU time of an exporter with its defaults, beside so many processes."""
    exporter = launch.exporter("cost", slow="15s")  # its default
    try:
        _cost_of(exporter, results, launch, counts, programs)
    finally:
        exporter.stop()


def _cost_of(exporter, results, launch, counts, programs):
    rows = []
    holder = programs.start("contexts", [",".join(map(str, counts)), str(MEASURED + 4)], seconds=120)
    for n in counts:
        print("cost of the exporter beside %d processes" % n, flush=True)
        if not programs.wait_for(holder, "ready %d" % n, 60):
            results.skip("cost beside %d processes" % n, programs.last_word(holder))
            break
        time.sleep(1)  # until all are sampled
        scrapes, began, cpu = [], time.monotonic(), exporter.cpu_seconds()
        while time.monotonic() < began + MEASURED:
            at = time.monotonic()
            size = len(exporter.get("/metrics"))
            scrapes.append(time.monotonic() - at)
            time.sleep(1)
        spent = (exporter.cpu_seconds() - cpu) / (time.monotonic() - began)
        listed = exposition.value(exporter.metrics(), "gpu_processes", uuid=launch.uuid)
        rows.append([n, listed, 100 * spent, exporter.rss_mib(), 1e3 * sorted(scrapes)[len(scrapes) // 2], size])
    programs.kill(holder)
    results.table("Cost of the exporter", ["processes", "of them listed", "CPU, % of a core", "RSS, MiB", "a scrape, ms", "bytes a scrape"], rows,
                  "With its defaults, and scraped each second.")
