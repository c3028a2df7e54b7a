# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""What the detector says of a shift, beside the truth.

A leak here takes minutes where a real one takes hours, and the detector's
thresholds are made for hours. So the recording is stretched: each of its minutes
becomes --pace minutes, and the detector judges that, with its defaults. Every
duration in the tables is a real one again."""

import datetime
import gzip
import json
import os
import subprocess

GIB = 1 << 30

# Growth that was watched for less than this, on the stretched clock, is too short
# to be told by any rule that waits out a program's loading.
TELLABLE = 12 * 60


def stretch(source, target, pace):
    """Writes a recording whose time runs pace times as long. All of its stamps and
    durations scale together, so that rates of CPU time stay what they were."""
    origin = None
    with gzip.open(source, "rt") as lines, gzip.open(target, "wt", compresslevel=4) as out:
        for line in lines:
            entry = json.loads(line)
            sample = entry.get("sample")
            if sample:
                origin = sample["t"] if origin is None else origin
                scale(sample, origin, pace)
            out.write(json.dumps(entry, separators=(",", ":")) + "\n")
    return origin / 1e9 if origin is not None else None


def cut(source, target, pace, until):
    """Copies a stretched recording up to a real time."""
    origin = None
    with gzip.open(source, "rt") as lines, gzip.open(target, "wt", compresslevel=1) as out:
        for line in lines:
            sample = json.loads(line).get("sample")
            if sample:
                origin = sample["t"] / 1e9 if origin is None else origin
                if origin + (sample["t"] / 1e9 - origin) / pace > until:
                    return
            out.write(line)


def scale(sample, origin, pace):
    def moved(t):
        return int(origin + (t - origin) * pace)

    sample["t"] = moved(sample["t"])
    at = datetime.datetime.fromtimestamp(sample["t"] // 10**9, datetime.timezone.utc)
    sample["time"] = "%s.%09dZ" % (at.strftime("%Y-%m-%dT%H:%M:%S"), sample["t"] % 10**9)
    for process in sample.get("processes", ()):
        if "started" in process:
            process["started"] = max(1, moved(process["started"]))
        if "cpu" in process:
            process["cpu"] = int(process["cpu"] * pace)


def verdicts(tool, recording, origin, pace, uuid, log):
    """{series key: [(real time, line), …]} of one GPU; the key is a pid, or "gpu"."""
    args = [tool, "backtest", "--output=json", "--step=%gs" % pace, recording]
    with open(log, "w") as errors:
        done = subprocess.run(args, stdout=subprocess.PIPE, stderr=errors, universal_newlines=True, timeout=120)
    if done.returncode not in (0, 1, 3):  # 3: nothing was judged
        raise RuntimeError("gpuleaktool backtest ended with %d; see %s" % (done.returncode, log))
    found = {}
    for text in done.stdout.splitlines():
        line = json.loads(text)
        if line["series"].get("uuid") != uuid:
            continue
        at = datetime.datetime.strptime(line["time"].split(".")[0].rstrip("Z"), "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc).timestamp()
        found.setdefault(line["series"].get("pid", "gpu"), []).append((origin + (at - origin) / pace, line))
    return found


class Story:
    """What is true of one program."""

    def __init__(self, program):
        self.name = program.name
        truth = program.truth()
        by_event = {line["event"]: line for line in truth}
        start = by_event.get("start", {})
        self.pid, self.leaks = str(start.get("pid")), start.get("leaks", False)
        self.began = start.get("time")
        self.onset = by_event.get("onset", {}).get("time")
        self.oom = by_event.get("oom", {}).get("time")
        self.end = self.oom or by_event.get("end", {}).get("time") or (truth[-1]["time"] if truth else None)
        self.leaked = max([line.get("leaked") or 0 for line in truth] or [0])
        self.skipped = by_event.get("skipped", {}).get("reason")
        self.failed = by_event.get("failed", {}).get("error")
        self.children = [str(line["pid"]) for line in truth if line["event"] == "child"]
        self.rate = self.leaked / (self.end - self.onset) if self.onset and self.end and self.end > self.onset else None


class Judge:
    """Compares one shift with its truth."""

    def __init__(self, shift, options, results, launch):
        self.shift, self.options, self.results, self.launch = shift, options, results, launch
        self.stories = [Story(p) for p in shift.running]
        self.ooms = sorted(s.oom for s in self.stories if s.oom)

    def run(self):
        r, o = self.results, self.options
        stretched = r.path("shift-%s-stretched.rec.gz" % self.shift.name)
        try:
            origin = stretch(self.shift.recording, stretched, o.pace)
            said = verdicts(o.tool, stretched, origin, o.pace, self.launch.uuid, r.path("backtest-%s.log" % self.shift.name))
            with open(r.path("backtest-%s.log" % self.shift.name), "a") as log, open(r.path("backtest-%s.html" % self.shift.name), "w") as page:
                subprocess.run([o.tool, "backtest", "--output=html", stretched], stdout=page, stderr=log, timeout=120)
        except (OSError, EOFError, RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
            return r.problem("shift %s: %s" % (self.shift.name, error))
        listed = any(pid in said for s in self.stories for pid in [s.pid] + s.children)
        if not listed:
            r.note("shift %s: the driver lists none of the programs' processes here; the leaks are judged by the GPU's memory alone, and the healthy programs not at all" % self.shift.name)
        self._leaks(said, listed)
        self._healthy(said, listed)
        self._page(stretched)

    def _page(self, stretched):
        """The page and the series as they were when two thirds of the way to the first
        end of memory were gone: the exporter replays the recording up to then."""
        r, onsets = self.results, [s.onset for s in self.stories if s.leaks and s.onset]
        if not onsets:
            return
        first = self.ooms[0] if self.ooms else max(s.end for s in self.stories if s.end)
        part = r.path("shift-%s-part.rec.gz" % self.shift.name)
        cut(stretched, part, self.options.pace, min(onsets) + (first - min(onsets)) * 2 / 3)
        exporter = self.launch.replay("replay-" + self.shift.name, part)
        try:
            exporter.wait(lambda m: "the recording has ended" in exporter.output(), 60)
            for path, name in (("/predict", "predict-%s.html"), ("/metrics", "metrics-%s.prom"), ("/api/v1/verdicts", "verdicts-%s.json")):
                with open(r.path(name % self.shift.name), "w") as f:
                    f.write(exporter.get(path))
        finally:
            exporter.stop()
            os.remove(part)

    def _ran(self, story):
        """Whether a program did what it is for."""
        if story.skipped:
            self.results.skip(story.name, story.skipped)
        elif story.failed or story.onset is None:
            self.results.problem("%s %s" % (story.name, "failed: " + story.failed if story.failed else "did not begin; see programs/%s.log" % story.name))
        else:
            return True
        return False

    def _leaks(self, said, listed):
        rows = []
        for story in (s for s in self.stories if s.leaks):
            if self._ran(story):
                rows.append(self._leak(story, said, listed))
        self.results.table(
            "Leaks, shift " + self.shift.name,
            ["program", "rate, GiB/min", "leaked, GiB", "from onset to end, s", "ended", "found after, s", "live after, s", "pattern", "rate said, GiB/min", "at half: out of memory said in, s", "from", "to", "true, s", ""],
            rows,
            "Judged with the detector's defaults on a clock that runs %g times as fast: 60 s here stand for %g min. *Live* is the exporter in real time, whose defaults need longer than a shift." % (self.options.pace, self.options.pace),
        )

    def _leak(self, story, said, listed):
        # Where no process of its own grows only the GPU's verdict can say so, which all leaks share.
        shared = not listed or bool(story.children)
        onset = min(s.onset for s in self.stories if s.leaks and s.onset) if shared else story.onset
        alarms = [(at, line) for at, line in said.get("gpu" if shared else story.pid, ()) if line["leak"] and at < story.end + 1]
        found = alarms[0][0] if alarms else None
        remark = "by the GPU, as a whole" if shared else ""
        if found is None and (story.end - story.onset) * self.options.pace < TELLABLE:
            remark = "too short to tell"
            self.results.skip(story.name, "it leaked for %.0f s only, which is too short to tell" % (story.end - story.onset))
        elif found is None:
            remark = "NOT FOUND"
            self.results.problem("%s leaked %.1f GiB in %.0f s and was not found" % (story.name, story.leaked / GIB, story.end - story.onset))
        elif found < onset:
            remark = "BEFORE IT BEGAN"
            self.results.problem("%s was called a leak %.0f s before it leaked" % (story.name, onset - found))
        last = alarms[-1][1] if alarms else {}
        rate = last.get("leak_rate_bytes_per_second")
        return [
            story.name, (story.rate or 0) * 60 / GIB, story.leaked / GIB, story.end - story.onset, "out of memory" if story.oom else "by itself",
            found - story.onset if found else None, self._live(story), last.get("pattern"),
            rate * self.options.pace * 60 / GIB if rate else None, *self._half(story, said), remark,
        ]

    def _half(self, story, said):
        """The forecast for the GPU in the middle between onset and the first end of
        memory, its interval, and the true time."""
        first = next((oom for oom in self.ooms if oom > story.onset), None)
        if first is None:
            return [None] * 4
        middle = (story.onset + first) / 2
        lines = [line for at, line in said.get("gpu", ()) if at <= middle]
        foreseen = [lines[-1].get("seconds_to_oom" + end) if lines else None for end in ("", "_lower", "_upper")]
        return [None if s is None else s / self.options.pace for s in foreseen] + [first - middle]

    def _live(self, story):
        """When the exporter itself said so, in real time."""
        return next((at - story.onset for at, devices in self.shift.seen if (devices.get(story.pid) or {}).get("leak")), None)

    def _healthy(self, said, listed):
        rows = []
        for story in (s for s in self.stories if not s.leaks):
            if not self._ran(story):
                continue
            # Once the memory is full everything on the GPU behaves in other ways.
            until = self.ooms[0] if self.ooms else story.end
            lines = [line for at, line in said.get(story.pid, ()) if at <= until] if listed else []
            alarmed = any(line["leak"] for line in lines)
            live = self._live(story)
            patterns = sorted({line["pattern"] for line in lines if line.get("pattern")})
            confidence = max([line["confidence"] or 0 for line in lines] or [0]) if lines else None
            remark = "CALLED A LEAK" if alarmed or live is not None else "" if lines else "not judged: not listed"
            rows.append([story.name, until - story.began, confidence, ", ".join(patterns) or None, remark])
            if alarmed:
                self.results.problem("%s is healthy and was called a leak" % story.name)
            if live is not None:
                self.results.problem("%s is healthy and the exporter called it a leak in real time" % story.name)
        self.results.table("Healthy programs, shift " + self.shift.name, ["program", "watched for, s", "highest confidence", "patterns", ""], rows)
