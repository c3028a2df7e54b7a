# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""The probe in real frameworks: its numbers, what they say of growth, and the lines that leak."""

import json
import os
import subprocess
import time

from suite import exporter as exposition

GIB = 1 << 30
MIB = 1 << 20

# What grows in each program: the series that has to, and none of the others.
TENSORS, CACHE, FRAGMENTATION, LIBRARY = "allocated", "cache", "inactive split", "untracked"
CLASSES = {
    "leak_cache": TENSORS, "leak_exception": TENSORS, "leak_graphs": TENSORS, "leak_hook": TENSORS, "leak_loss": TENSORS, "leak_outputs": TENSORS,
    "grows_jax": TENSORS, "leak_cupy": CACHE, "grows_cache": CACHE, "grows_fragmentation": FRAGMENTATION, "grows_library": LIBRARY,
}

# Those of them that can tell their lines.
TELL_LINES = [name for name in CLASSES if name.startswith("leak_") and CLASSES[name] == TENSORS]

# Programs that are followed from the kernel, without the probe.
TRACED = ["leak_cache", "leak_cudamalloc"]

RATE = 1.5 * GIB  # bytes a minute
LEAD = 25  # seconds until the growth begins; the exporter has looked for the page by then
RECORDED = 20  # seconds
PAGE_AGE = 12  # seconds that a number may be old: the probe's interval, and the exporter's
SLACK = 64 * MIB  # by which the training step moves


class Probe:
    """Runs programs with the probe, and compares."""

    def __init__(self, results, launch, programs, options, folder):
        self.results, self.launch, self.programs, self.options = results, launch, programs, options
        self.folder = folder  # that holds gpu_leak_probe.py

    def run(self, exporter):
        print("the probe in real frameworks", flush=True)
        words = [w for w in self.options.programs.split(",") if w]
        chosen = [name for name in CLASSES if not words or any(w in name for w in words)]
        running = [self.programs.start(name, rate=RATE, lead=LEAD, seconds=60, probe=self.folder) for name in chosen]
        traced = [] if words else [self.programs.start(name, rate=RATE, lead=LEAD, seconds=60, env={"PYTHONPERFSUPPORT": "1"}) for name in TRACED]
        begun = [p for p in running + traced if self._onset(p)]
        asked = [self._ask(p, p in traced) for p in begun if p in traced or p.name in TELL_LINES]
        with_page = [p for p in begun if p in running]
        first = self._numbers(exporter, with_page)
        self._compare(exporter, with_page)
        sites = [self._answer(*a) for a in asked]
        self._classes(with_page, first, self._numbers(exporter, with_page))
        self.results.table("Lines that leak", ["program", "by", "line", "grew, MiB", "longest stop, s", "lines left out", ""], sites,
                           "Recorded for %d s." % RECORDED)
        self._cost(with_page)

    def _onset(self, program):
        if self.programs.wait_for(program, "onset", 60 + LEAD):
            return True
        if program.event("skipped"):
            self.results.skip("the probe in " + program.name, self.programs.last_word(program))
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
            rows.append([p.name] + [None if v is None else v / MIB for v in (grown["used"], parts[TENSORS], parts.get(CACHE), parts[FRAGMENTATION], parts[LIBRARY])] + [most, "" if most == right else "NOT " + right.upper()])
            if most != right:
                self.results.problem("the probe: what grows most in %s is %s, not %s" % (p.name, most, right))
        self.results.table("What grows", ["program", "driver's, MiB", "allocated", "cache", "inactive split", "untracked", "most", ""], rows)

    def _ask(self, program, ebpf):
        by = "eBPF" if ebpf else "probe"
        args = [self.options.tool, "sites", "--pid=%d" % program.event("start")["pid"], "--for=%ds" % RECORDED, "--output=json"]
        log = open(self.results.path("sites-%s-%s.log" % (program.name, by)), "w")
        process = subprocess.Popen(args + (["--ebpf"] if ebpf else []), stdout=subprocess.PIPE, stderr=log, universal_newlines=True, preexec_fn=exposition.die_with_suite)
        return program, by, process, log

    def _answer(self, program, by, process, log):
        try:
            text, _ = process.communicate(timeout=RECORDED + 30)
        except subprocess.TimeoutExpired:
            process.kill()
            text = ""
        log.close()
        with open(self.results.path("sites-%s-%s.json" % (program.name, by)), "w") as f:
            f.write(text or "")
        try:
            answer = json.loads(text)
        except ValueError:
            with open(log.name) as f:
                why = (f.read().strip().splitlines() or ["no word"])[-1]
            self.results.problem("the lines of %s by %s: %s" % (program.name, by, why))
            return [program.name, by, None, None, None, None, why[:100]]
        top = (answer["sites"] or [{}])[0]
        line = top.get("line", "")
        # Compiled code without frame pointers ends a stack: the kernel may see libraries alone.
        right = program.name + ".py:" in line or by == "eBPF" and ".so" in line
        if not right:
            self.results.problem("the lines of %s by %s: the first one is %r" % (program.name, by, line))
        return [program.name, by, line, top.get("growth_bytes", 0) / MIB, answer["pause_seconds"], answer["unsure_lines"], "" if right else "WRONG"]

    def _cost(self, programs):
        rows = []
        for p in programs:
            said = p.event("probe")
            if said:
                rows.append([p.name, 1e6 * said["median"], 1e6 * said["most"]])
        self.results.table("Cost of the probe", ["program", "a reading, median, µs", "longest of 50, µs"], rows, "A reading each five seconds.")
