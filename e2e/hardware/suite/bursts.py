# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a second of work shows in the utilisation of its process, wherever it lies between two questions to the driver."""

import time

from suite import exporter as exposition

CALL = "nvmlDeviceGetProcessUtilization"
LATER = 0, 1.5, 3  # seconds after a question
PATIENCE = 7  # seconds between two questions, at most
LEAST = 0.1  # what the driver's sample around a burst has, at least: it may be an average over five seconds


def compare(results, launch, programs):
    """A row for each burst: the highest ratio of the exporter's before it and after it."""
    asked = results.path("burst-now")
    exporter = launch.exporter("bursts", ["--collector.process.min-age=0s"], slow="15s")
    holder = programs.start("bursts", [asked], lead=120)
    try:
        if not programs.wait_for(holder, "ready", 60):
            return results.skip("bursts", programs.last_word(holder))
        labels = {"uuid": launch.uuid, "pid": str(holder.event("start")["pid"])}
        for _ in range(2):  # the first answer may lack a process that has just come
            _question(exporter, labels)
        rows = [_burst(exporter, labels, holder, asked, later) for later in LATER]
        for row in rows:
            if row[-1]:
                results.problem("a second of work, %s s after the driver was asked, has ratio %s in the exporter" % (row[0], row[2]))
        results.table("A second of work between two questions", ["s after a question", "ratio before", "after", "seen after, s", ""], rows,
                      "The highest ratio between two calls of %s." % CALL)
    finally:
        programs.kill(holder)
        exporter.stop()


def _question(exporter, labels):
    """Waits until the driver is asked the next time; the highest ratio until then."""
    time.sleep(0.3)  # until the last answer is published
    ratio, before = 0.0, None
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        metrics = exporter.metrics()
        now = exposition.value(metrics, "gpu_nvml_calls_total", call=CALL)
        if before is not None and now != before:
            return ratio
        before = now
        ratio = max(ratio, exposition.value(metrics, "gpu_process_sm_utilization_ratio", **labels) or 0.0)
        time.sleep(0.1)
    return ratio


def _burst(exporter, labels, holder, asked, later):
    time.sleep(later)
    open(asked, "w").close()
    before = _question(exporter, labels)
    answered = time.time()
    after = _question(exporter, labels)  # the answer to the question before stands until this one
    bursts = [line for line in holder.truth() if line["event"] == "burst"]
    began = bursts[-1]["began"] if bursts else None
    return [later, before, after, answered - began if began else None, "" if after >= LEAST else "NOT SEEN"]
