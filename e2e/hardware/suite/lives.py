# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A program that runs three times, as the same process to everybody who looks, and leaks in its third life until
memory ends. There is one recording of all of it, with the truth of each life."""

import json
import os
import subprocess
import time

from suite import judge
from suite.programs import Programs
from suite.shift import CONTEXT, brief, begin_recording, end_recording

GIB = 1 << 30
FULL = 4 * GIB  # as programs/life.py has it
RATE = 6 * GIB  # bytes a minute of the leak
PAUSE = 3  # seconds between two lives
START = 7  # seconds that a life takes to begin and to end
AROUND = 22  # seconds for the ballast and the end of the recording
PACE = 2  # a life is shorter than a shift: each of its minutes stands for that many times as many


def run(options, results, programs, exporter, uuid, left):
    """Three lives within what is left of the time."""
    free = exporter.settled_free(uuid) or 0
    seconds = min(options.life, (left() - AROUND) / 3 - START - PAUSE)
    lead, growing = seconds * 0.3, seconds * 0.7
    leave = CONTEXT / 2 + FULL + RATE / 60 * growing * 2 / 3
    if seconds < 15 or free < leave + 2 * CONTEXT:
        return results.skip("lives", "%.0f s and %d MiB are left" % (left(), free / (1 << 20)))
    go, defect = results.path("lives-go"), results.path("lives-defect")
    open(go, "w").close()
    ballast = programs.start("ballast", ["%dB" % leave, "0B", go], seconds=3 * (seconds + START + PAUSE) + 60)
    if not programs.wait_for(ballast, "ready", 60):
        return results.problem("lives: no ballast: " + programs.last_word(ballast))
    recording = results.path("lives.rec.gz")
    recorder = begin_recording(options, results, "lives", recording)
    truth, rows = [], []
    try:
        time.sleep(PAUSE)
        for number in (1, 2, 3):
            if number == 3:
                open(defect, "w").close()
            truth.append(_live(number, options, results, defect, lead, growing))
            with open(results.path("lives.truth.json"), "w") as f:
                json.dump(truth, f)
            rows.append(_row(truth[-1]))
            time.sleep(PAUSE)
    finally:
        end_recording(options, results, "lives", recording, recorder)
        programs.kill(ballast)
        for path in (go, defect):
            if os.path.exists(path):
                os.remove(path)
    results.table("Lives", ["life", "pid", "took, s", "leaked, GiB", "exit status", "ended"], rows)
    if truth[-1]["ended"] != "oom":
        results.problem("the third life did not meet the end of memory")
    judged(options, results, uuid, recording, truth)


def again(folder, options, results, uuid):
    """Judges the lives of an earlier report, if it has some."""
    recording, truth = (os.path.join(folder, "lives." + end) for end in ("rec.gz", "truth.json"))
    if os.path.exists(recording) and os.path.exists(truth):
        with open(truth) as f:
            judged(options, results, uuid, recording, json.load(f))


def judged(options, results, uuid, recording, lives):
    """What the detector says of each life: how long before its end it was called a leak, and there was a page."""
    pace = options.pace * PACE
    stretched = results.path("lives-stretched.rec.gz")
    origin = judge.stretch(recording, stretched, pace)
    said = judge.verdicts(options.tool, stretched, origin, pace, uuid, results.path("backtest-lives.log"))
    rows = []
    for life in lives:
        told = {line["event"]: line for line in life["truth"]}
        start, end = told["start"], (told.get("oom") or told["end"])["time"]
        leak, page = (
            next((end - at for at, line in said.get(series, ()) if line[what] and start["time"] <= at <= end), None)
            for series, what in ((str(start["pid"]), "leak"), ("gpu", "page"))
        )
        rows.append([life["life"], start["leaks"], leak, page])
        if start["leaks"] and leak is None and page is None:
            results.problem("life %d met the end of memory, and nobody was told" % life["life"])
        if not start["leaks"] and leak is not None:
            results.problem("life %d is healthy and was called a leak" % life["life"])
        if not start["leaks"] and page is not None:
            # A program that nobody knows and that fills the GPU may be one that fills it up.
            (results.note if life["life"] == 1 else results.problem)("life %d is healthy and was paged" % life["life"])
    results.table("What was said of the lives", ["life", "leaks", "called a leak before its end, s", "page before its end, s"], rows,
                  "On a clock that runs %g times as fast: 60 s here stand for %g min." % (pace, pace))


def _live(number, options, results, defect, lead, growing):
    """One life. What starts it is new each time, so that its arguments are the same."""
    print("life %d" % number, flush=True)
    fresh = Programs(options.python, results.folder)
    life = fresh.start("life", [defect], rate=RATE, lead=lead, seconds=growing)
    try:
        life.process.wait(timeout=lead + growing + 45)
        status = life.process.returncode
    except subprocess.TimeoutExpired:
        status = None
    fresh.kill(life)
    lines = life.truth()
    if os.path.exists(life.path):
        os.rename(life.path, life.path.replace(".truth", "-%d.truth" % number))
    ended = next((line["event"] for line in lines if line["event"] in ("oom", "failed", "skipped")), "end")
    return {"life": number, "status": status, "ended": ended, "gone": time.time(), "truth": brief(lines)}


def _row(life):
    start = next((line for line in life["truth"] if line["event"] == "start"), {})
    leaked = max([line.get("leaked") or 0 for line in life["truth"]] or [0])
    return [life["life"], start.get("pid"), life["gone"] - start["time"] if start else None, leaked / GIB, life["status"], life["ended"]]
