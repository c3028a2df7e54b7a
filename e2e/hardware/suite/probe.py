# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""The probe in real frameworks: its numbers, what they say of growth, and the lines that leak."""

import json
import os
import subprocess
import time

from suite import exporter as exposition
from suite.shift import CONTEXT

GIB = 1 << 30
MIB = 1 << 20

# What grows in each program, and none of the others as much. JAX's pool doubles, so it may be
# either at any moment: there the numbers alone are compared.
TENSORS, CACHE, FRAGMENTATION, LIBRARY = "allocated", "cache", "inactive split", "untracked"
CLASSES = {
    "leak_cache": TENSORS, "leak_exception": TENSORS, "leak_graphs": TENSORS, "leak_hook": TENSORS, "leak_loss": TENSORS, "leak_outputs": TENSORS,
    "grows_cache": CACHE, "grows_fragmentation": FRAGMENTATION, "grows_jax": None, "grows_library": LIBRARY, "leak_cupy": CACHE,
}

# Those of them that can tell their lines.
TELL_LINES = [name for name in CLASSES if name.startswith("leak_") and CLASSES[name] == TENSORS]

RATE = 1.5 * GIB  # bytes a minute
LEAD = 25  # seconds until the growth begins; the exporter has looked for the page by then
LASTS = 120  # seconds of growth, if nobody ends it
RECORDED = 20  # seconds
PAGE_AGE = 12  # seconds that a number may be old: the probe's interval, and the exporter's
SLACK = 64 * MIB  # by which the training step moves
PATIENCE = 60 + LEAD  # seconds until all have begun

# What stands in an answer that says that a program cannot tell lines, and no more.
CANNOT = "older than 2.1"


class Probe:
    """Runs programs with the probe, and compares."""

    def __init__(self, results, launch, programs, options, folder):
        self.results, self.launch, self.programs, self.options = results, launch, programs, options
        self.folder = folder  # that holds gpu_leak_probe.py
        self.asked = []  # (program, process, log) of the tools that run

    def run(self, exporter):
        print("the probe in real frameworks", flush=True)
        try:
            self._run(exporter)
        finally:
            for _, process, log in self.asked:
                process.kill()
                process.wait()
                process.stdout.close()
                log.close()

    def _run(self, exporter):
        started = self._start(exporter.settled_free(self.launch.uuid) or 0)
        deadline = time.monotonic() + PATIENCE
        programs = [p for p in started if self._began(p, deadline)]
        self.asked += [self._ask(p) for p in programs if p.name in TELL_LINES]
        first = self._numbers(exporter, programs)
        self._compare(exporter, programs)
        deadline = time.monotonic() + RECORDED + 30
        lines = [self._answer(*asked, deadline) for asked in self.asked]
        self._classes(programs, first, self._numbers(exporter, programs))
        self.results.table("Lines that leak", ["program", "line", "grew, MiB", "longest stop, s", "lines left out", ""],
                           [line for line in lines if line], "Recorded for %d s." % RECORDED)
        self._cost(programs)

    def _start(self, free):
        """Starts as many as there is memory for."""
        words = [w for w in self.options.programs.split(",") if w]
        names = [name for name in CLASSES if not words or any(w in name for w in words)]
        fit = int(0.9 * free / (CONTEXT + RATE * LASTS / 60))
        for name in names[fit:]:
            self.results.skip("the probe, " + name, "%d MiB of free memory hold no more programs; --programs chooses others" % (free / MIB))
        return [self.programs.start(name, rate=RATE, lead=LEAD, seconds=LASTS, probe=self.folder) for name in names[:fit]]

    def _began(self, program, deadline):
        if self.programs.wait_for(program, "onset", max(0, deadline - time.monotonic())):
            return True
        if program.event("skipped"):
            self.results.skip("the probe, " + program.name, self.programs.last_word(program))
        else:
            self.results.problem("the probe: %s did not begin: %s" % (program.name, self.programs.last_word(program)))
        return False

    def _numbers(self, exporter, programs):
        """{program: {series: bytes}}, of what the exporter has."""
        metrics, found = exporter.metrics(), {}
        for p in programs:
            labels = {"uuid": self.launch.uuid, "pid": str(p.event("start")["pid"])}
            values = {name: exposition.value(metrics, "gpu_process_allocator_%s_bytes" % name, **labels) for name in ("allocated", "reserved", "active", "inactive_split")}
            values["untracked"] = exposition.value(metrics, "gpu_process_untracked_memory_bytes", **labels)
            values["used"] = exposition.value(metrics, "gpu_process_memory_used_bytes", **labels)
            found[p.name] = values
        return found

    def _compare(self, exporter, programs):
        """The exporter's numbers have to be among those that the framework had in the last seconds."""
        rows, wrong = [], {}
        for _ in range(3):
            time.sleep(4)
            now, numbers = time.time(), self._numbers(exporter, programs)
            rows = []
            for p in programs:
                told = [line for line in p.truth() if line["event"] == "now" and now - PAGE_AGE <= line["time"]]
                for name in ("allocated", "reserved", "active", "inactive_split"):
                    theirs, ours = [line[name] for line in told if name in line], numbers[p.name][name]
                    if not theirs:
                        continue
                    good = ours is not None and min(theirs) - SLACK <= ours <= max(theirs) + SLACK
                    rows.append([p.name, name, ours, min(theirs), max(theirs), "" if good else "DIFFERS" if ours is not None else "MISSING"])
                    if not good:
                        wrong[p.name, name] = "the probe: %s of %s is %s, the framework had %s to %s" % (name, p.name, ours, min(theirs), max(theirs))
        for text in wrong.values():
            self.results.problem(text)
        self.results.table("The probe's numbers", ["program", "bytes", "exporter", "framework, from", "to", ""], rows,
                           "What the framework said within the last %d s." % PAGE_AGE)

    def _classes(self, programs, first, last):
        rows = []
        for p in programs:
            a, b = first[p.name], last[p.name]
            grown = {name: None if None in (a[name], b[name]) else b[name] - a[name] for name in a}
            parts = {TENSORS: grown["allocated"], FRAGMENTATION: grown["inactive_split"], LIBRARY: grown["untracked"]}
            if None not in (grown["reserved"], grown["allocated"]):
                parts[CACHE] = grown["reserved"] - grown["allocated"] - (grown["inactive_split"] or 0)
            known = {k: v for k, v in parts.items() if v is not None}
            most = max(known, key=known.get) if known else None
            right = CLASSES[p.name]
            good = right in (None, most)
            rows.append([p.name] + [None if v is None else v / MIB for v in (grown["used"], parts[TENSORS], parts.get(CACHE), parts[FRAGMENTATION], parts[LIBRARY])] + [most, "" if good else "NOT " + right.upper()])
            if not good:
                self.results.problem("the probe: what grows most in %s is %s, not %s" % (p.name, most, right))
        self.results.table("What grows", ["program", "driver's, MiB", "allocated", "cache", "inactive split", "untracked", "most", ""], rows)

    def _ask(self, program):
        args = [self.options.tool, "sites", "--pid=%d" % program.event("start")["pid"], "--for=%ds" % RECORDED, "--output=json"]
        log = open(self.results.path("sites-%s.log" % program.name), "w")
        process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=log, universal_newlines=True, preexec_fn=exposition.die_with_suite)
        return program, process, log

    def _answer(self, program, process, log, deadline):
        """A row for the table; None where the program cannot tell lines."""
        try:
            text, _ = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            text = ""
        with open(self.results.path("sites-%s.json" % program.name), "w") as f:
            f.write(text or "")
        try:
            answer = json.loads(text)
        except ValueError:
            with open(log.name) as f:
                why = (f.read().strip().splitlines() or ["no word"])[-1]
            if CANNOT in why:
                return self.results.skip("the lines of %s" % program.name, why)
            self.results.problem("the lines of %s: %s" % (program.name, why))
            return [program.name, None, None, None, None, why[:100]]
        top = (answer["sites"] or [{}])[0]
        line = top.get("line", "")
        right = program.name + ".py" in line
        if not right:
            self.results.problem("the lines of %s: the first one is %r" % (program.name, line))
        return [program.name, line, top.get("growth_bytes", 0) / MIB, answer["pause_seconds"], answer["unsure_lines"], "" if right else "WRONG"]

    def _cost(self, programs):
        rows = []
        for p in programs:
            said = p.event("probe")
            if said:
                rows.append([p.name, 1e6 * said["median"], 1e6 * said["most"]])
        self.results.table("Cost of the probe", ["program", "a reading, median, µs", "longest of 50, µs"], rows, "A reading each five seconds.")
