# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""What the driver's calls take, and what the exporter costs."""

import json
import os
import subprocess
import time

from suite import exporter as exposition

QUIET = 15  # seconds with one scrape: each of the exporter's readings falls into them
BUSY = 8  # seconds with a scrape a second


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
    rows, calls = [], {}
    holder = programs.start("contexts", [",".join(map(str, counts)), str(QUIET + BUSY + 4)], seconds=120)
    for n in counts:
        print("cost of the exporter beside %d processes" % n, flush=True)
        if not programs.wait_for(holder, "ready %d" % n, 60):
            results.skip("cost beside %d processes" % n, programs.last_word(holder))
            break
        time.sleep(2)  # until all are sampled
        before = exporter.metrics()
        quiet, _, _ = _spent(exporter, QUIET, QUIET)
        after = exporter.metrics()
        busy, scrape, size = _spent(exporter, BUSY, 1)
        listed = exposition.value(after, "gpu_processes", uuid=launch.uuid)
        rows.append([n, listed, quiet, busy, exporter.rss_mib(), scrape, size])
        for labels, count in exposition.select(after, "gpu_nvml_calls_total"):
            if labels["call"].startswith("nvmlEventSetWait"):
                continue  # it waits, and costs nothing
            made = count - (exposition.value(before, "gpu_nvml_calls_total", **labels) or 0)
            took = [exposition.value(m, "gpu_nvml_call_seconds_total", **labels) or 0 for m in (before, after)]
            calls.setdefault(labels["call"], {})[n] = [made / QUIET, 1e3 * (took[1] - took[0]) / QUIET]
    programs.kill(holder)
    results.table("Cost of the exporter", ["processes", "of them listed", "CPU, ms/s, scraped once", "scraped each second", "RSS, MiB", "a scrape, ms", "bytes a scrape"], rows,
                  "With its defaults, for %d s and %d s." % (QUIET, BUSY))
    asked = [row[0] for row in rows]
    calls["all"] = {n: [sum(beside[n][i] for beside in calls.values() if n in beside) for i in (0, 1)] for n in asked}
    results.table("Calls of the exporter", ["call"] + [text for n in asked for text in ("beside %d: calls/s" % n, "ms/s")],
                  [[call] + [v for n in asked for v in beside.get(n, [None, None])] for call, beside in calls.items() if any(v[0] for v in beside.values())],
                  "With its defaults and one scrape in %d s." % QUIET)


def _spent(exporter, seconds, pause):
    """CPU time in ms/s while it is scraped so often, a scrape in ms, its bytes."""
    scrapes, began, cpu = [], time.monotonic(), exporter.cpu_seconds()
    while time.monotonic() < began + seconds:
        at = time.monotonic()
        size = len(exporter.get("/metrics"))
        scrapes.append(time.monotonic() - at)
        time.sleep(max(0, pause - scrapes[-1]))
    return 1e3 * (exporter.cpu_seconds() - cpu) / (time.monotonic() - began), 1e3 * sorted(scrapes)[len(scrapes) // 2], size
