# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A shift: some programs that leak and some that do not, at the same time on one GPU,
beside the exporter and a recording."""

import json
import os
import signal
import subprocess
import time

from suite import exporter as exposition
from suite import values

GIB = 1 << 30
MIB = 1 << 20

# What a program needs beside its leak, at most: a CUDA context with the framework's
# kernels, and its first tensors; and what a healthy one takes. It decides how fast
# the leaks may be on a small GPU.
CONTEXT = 900 * MIB
HEALTHY = 2 * GIB

# A leak that grows by less during a shift is not worth a place on a small GPU.
LEAST = 512 * MIB

# What the ballast leaves for each healthy program to move in, beside what it holds already.
ROOM = 256 * MIB

# Bytes a minute of the leaks of a shift, in turn: 1 to 4 GiB/min.
RATES = [2 * GIB, 1.5 * GIB, 3 * GIB, 1 * GIB, 4 * GIB]


class Shift:
    """One shift. run() leaves the recording, the truths and what was seen."""

    def __init__(self, name, leaks, healthy, options, results, programs):
        self.name, self.leaks, self.healthy = name, list(leaks), list(healthy)
        self.options, self.results, self.programs = options, results, programs
        self.seconds = options.seconds  # for which the leaks grow
        self.recording = results.path("shift-%s.rec.gz" % name)
        self.running = []
        self.seen = []  # what the live exporter said, each second

    def need(self):
        """Bytes that the programs take beside their leaks, at most; the first context is the ballast's."""
        return (1 + len(self.leaks) + len(self.healthy)) * CONTEXT + len(self.healthy) * HEALTHY

    def fit(self, free):
        """Leaves out programs until the others fit; False if not even one of a kind does."""
        while 0.9 * free < self.need() + len(self.leaks) * LEAST:
            if len(self.leaks) + len(self.healthy) <= 2:
                return False
            name = (self.leaks if len(self.leaks) > len(self.healthy) else self.healthy).pop()
            self.results.skip(name, "%d MiB of free memory hold no more programs; --programs chooses others" % (free / MIB))
        return True

    def rates(self, free):
        """The rates, and what the ballast has to leave of the memory when the leaks
        begin. They meet its end when five sixths of the time are over."""
        growing = self.seconds * 5 / 6 / 60
        rates = [RATES[i % len(RATES)] for i in range(len(self.leaks))]
        most = 0.9 * free - self.need()
        scale = min(1, most / (sum(rates) * growing)) if rates else 1
        return [r * scale for r in rates], len(self.healthy) * ROOM + sum(rates) * scale * growing

    def run(self, exporter, uuid):
        """True unless it could not be tried."""
        print("shift %s: %s; healthy: %s" % (self.name, ", ".join(self.leaks), ", ".join(self.healthy)), flush=True)
        free = exporter.settled_free(uuid) or 0
        if not self.fit(free):
            self.results.skip("shift " + self.name, "%d MiB of free memory do not hold its programs" % (free / MIB))
            return False
        rates, leave = self.rates(free)
        recorder = begin_recording(self.options, self.results, self.name, self.recording)
        try:
            self.go = self.results.path("shift-%s-leaks" % self.name)
            self.ballast = self.programs.start("ballast", ["%dB" % leave, "%dB" % self.need(), self.go], seconds=self.seconds + 60)
            self._start(rates)
            self._watch(exporter, uuid, sum(rates) / 60)
        finally:
            self.programs.kill_all()
            end_recording(self.options, self.results, self.name, self.recording, recorder)
            if os.path.exists(self.go):
                os.remove(self.go)
            with open(self.results.path("shift-%s.truth.json" % self.name), "w") as f:
                json.dump({p.name: brief(p.truth()) for p in self.running}, f)
        if not self.ballast.event("ready"):
            self.results.problem("shift %s: no ballast: %s" % (self.name, self.programs.last_word(self.ballast)))
        return True

    def _start(self, rates):
        o = self.options
        for name, rate in list(zip(self.leaks, rates)) + [(name, None) for name in self.healthy]:
            self.running.append(self.programs.start(name, rate=rate, lead=o.lead, seconds=self.seconds))

    def _watch(self, exporter, uuid, drift):
        o = self.options
        end = time.monotonic() + o.lead + self.seconds + 30  # 30 s for the imports
        compared = failed = False
        leaking = None
        with open(self.results.path("live-%s.jsonl" % self.name), "w") as out:
            while time.monotonic() < end and any(not p.ended() for p in self.running):
                now = time.time()
                try:
                    line = self._look(exporter, uuid)
                    self.seen.append((now, line))
                    out.write(json.dumps({"time": now, "devices": line}) + "\n")
                    if leaking and not compared and time.monotonic() > leaking + self.seconds / 5:
                        compared = True
                        title = "Values under load, shift %s" % self.name
                        values.compare(self.results, title, exporter, uuid, o.python, o.library, drift)
                        values.kept_utilization(self.results, title, o.python, o.library, uuid)
                except OSError as error:
                    if not failed:
                        self.results.problem("shift %s: a request to the exporter failed: %s" % (self.name, error))
                    failed = True
                if leaking is None and all(p.event("onset") or p.ended() for p in self.running if p.name in self.leaks):
                    leaking = time.monotonic()
                    end = min(end, leaking + self.seconds + 3)  # a healthy one that compiled for long ends earlier
                    open(self.go, "w").close()
                time.sleep(1)

    def _look(self, exporter, uuid):
        """What matters of the verdicts, small enough to keep each second."""
        kept = {}
        for device in exporter.verdicts()["devices"]:
            if device["labels"]["uuid"] != uuid:
                continue
            kept["gpu"] = short(device)
            for process in device["processes"]:
                kept[process["labels"]["pid"]] = short(process)
        return kept


def begin_recording(options, results, name, recording):
    """Starts to record; the process that does it."""
    args = [options.tool, "record", "--interval=%gs" % options.interval, "--output=" + recording]
    if options.library:
        args.append("--nvml.library-path=" + options.library)
    log = open(results.path("record-%s.log" % name), "wb")
    return subprocess.Popen(args, stdout=log, stderr=log, preexec_fn=exposition.die_with_suite)


def end_recording(options, results, name, recording, recorder):
    """Ends it, a while later, so that the ends of all programs are in the recording."""
    time.sleep(2 * options.interval + 0.5)
    recorder.send_signal(signal.SIGTERM)
    try:
        recorder.wait(timeout=20)
    except subprocess.TimeoutExpired:
        recorder.kill()
    if not os.path.exists(recording):
        results.problem("%s: gpuleaktool record left no recording; see record-%s.log" % (name, name))


def brief(truth):
    """A truth without what was said each second, but for the last."""
    told = [line for line in truth if line["event"] == "now"]
    return [line for line in truth if line["event"] != "now"] + told[-1:]


class Told:
    """A program of an earlier shift: its name and its truth."""

    def __init__(self, name, lines):
        self.name, self.truth = name, lambda: lines


class Kept:
    """A shift of an earlier report, to be judged again."""

    def __init__(self, folder, name):
        self.name, self.recording = name, os.path.join(folder, "shift-%s.rec.gz" % name)
        with open(os.path.join(folder, "shift-%s.truth.json" % name)) as f:
            self.running = [Told(*item) for item in json.load(f).items()]
        self.seen = []  # by the exporter of then

    @staticmethod
    def names(folder):
        return [name for name in "ab" if all(os.path.exists(os.path.join(folder, "shift-%s.%s" % (name, end))) for end in ("truth.json", "rec.gz"))]


def short(entry):
    verdict = entry.get("verdict") or {}
    keys = ("judged", "leak", "confidence", "pattern", "leak_rate_bytes_per_second", "seconds_to_oom")
    return {key: verdict.get(key) for key in keys}
