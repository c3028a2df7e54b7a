#!/usr/bin/env python3
# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Tries gpu_leak_exporter on a machine with a GPU, in under ten minutes.

It needs the two binaries, this folder, and a Python with PyTorch. Everything that it
finds lies in one folder afterwards; report.md there is the page to read first.
README.md beside this file says more.

Exit status: 0 nothing is wrong, 1 something is (report.md says what), 2 it could not
be tried at all.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
DRIVER_TOOLS = "/usr/local/nvidia/bin"  # where some container runtimes put nvidia-smi, in no PATH
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

from suite import bursts, cost, exporter as exposition, faults, judge, lives, machine, probe, results, values  # noqa: E402
from suite.programs import Programs, known  # noqa: E402
from suite.shift import Kept, Shift  # noqa: E402

PHASES = ("values", "probe", "leaks", "cost", "faults")
ASKED_FOR = ("bursts", "lives")  # what --only has to name

# Seconds that a part takes: the imports and the judging of a shift besides its lead and
# its leaks, the least that leaks are worth, the costs, the faults, an XID besides, the probe, bursts, lives.
AROUND_SHIFT, LEAST_LEAKING, COST, FAULTS, XID, PROBE, BURSTS, LIVES = 40, 60, 105, 45, 15, 100, 60, 120


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", help="folder of gpu_leak_exporter and gpuleaktool; default: this one, or the root of the repository")
    parser.add_argument("--out", default="hardware-report", help="folder for what is found; it must not exist yet")
    parser.add_argument("--archive", action="store_true", help="also pack the folder into OUT.tar.gz, to send it")
    parser.add_argument("--again", default="", help="folder of an earlier report: judge its recordings again, with these binaries and without a GPU")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU to use")
    parser.add_argument("--only", default=",".join(PHASES), help="of %s, those to run" % ",".join(PHASES + ASKED_FOR))
    parser.add_argument("--programs", default="", help="only programs whose names hold one of these words, such as hook,training")
    parser.add_argument("--library", default="", help="the NVML library; default: the driver's")
    parser.add_argument("--limit", type=float, default=570, help="seconds after which nothing new is begun; the shifts get shorter to end by then")
    parser.add_argument("--lead", type=float, default=25, help="seconds of healthy work before the leaks begin")
    parser.add_argument("--seconds", type=float, default=150, help="seconds for which the leaks of a shift grow, at most")
    parser.add_argument("--pace", type=float, default=30, help="minutes that a minute of a shift stands for")
    parser.add_argument("--interval", type=float, default=0.25, help="seconds between two samples of a recording")
    parser.add_argument("--life", type=float, default=55, help="seconds that each of three lives works, at most")
    parser.add_argument("--xid", action="store_true", help="also have a kernel of ours write to a wrong address: the driver reports an XID, which may page you")
    parser.add_argument("--contexts", default="0,1,64", help="numbers of processes beside which the exporter's cost is measured")
    options = parser.parse_args()
    options.only = options.only.split(",")
    unknown = set(options.only) - set(PHASES + ASKED_FOR)
    if unknown:
        parser.error("--only: %s is none of %s" % (", ".join(sorted(unknown)), ", ".join(PHASES + ASKED_FOR)))
    options.exporter, options.tool = binaries(options.bin, parser)
    if os.path.exists(options.out):
        parser.error("--out: %s exists already; name another folder" % options.out)
    return options


def binaries(folder, parser):
    """The two binaries: where they were named, beside this file, or two folders up."""
    for place in [folder] if folder else [HERE, os.path.dirname(os.path.dirname(HERE))]:
        found = [os.path.join(os.path.abspath(place), name) for name in ("gpu_leak_exporter", "gpuleaktool")]
        if all(os.access(path, os.X_OK) for path in found):
            return found
    parser.error("gpu_leak_exporter and gpuleaktool are not in %s; --bin names their folder" % (folder or HERE))


def beside(name, *folders):
    """The first of the folders that has the file."""
    return next((folder for folder in folders if os.path.exists(os.path.join(folder, name))), None)


class Launch:
    """Starts exporters, and knows which GPU is used."""

    def __init__(self, options, found):
        self.options, self.results = options, found
        self.uuid = None
        self.public = None

    def exporter(self, name, flags=(), env=None, prepare=None, library=True, slow="2s"):
        """Starts one; slow is how often it reads what changes slowly."""
        flags = ["--sample.slow-interval=" + slow] + list(flags)
        if library and self.options.library:
            flags.append("--nvml.library-path=" + self.options.library)
        env = dict(os.environ, **env) if env else None
        binary = self.public_binary() if prepare else self.options.exporter
        return exposition.Exporter(binary, self.results.path(name + ".log"), flags, env, prepare)

    def public_binary(self):
        """A copy that every user can execute: the folder of the original may be root's alone."""
        if self.public is None:
            self.public = tempfile.TemporaryDirectory()
            os.chmod(self.public.name, 0o755)
            shutil.copy(self.options.exporter, self.public.name)
        return os.path.join(self.public.name, os.path.basename(self.options.exporter))

    def replay(self, name, recording):
        """An exporter over a recording, as fast as it goes."""
        flags = ["--source=replay:" + recording, "--source.speed=inf"]
        return exposition.Exporter(self.options.exporter, self.results.path(name + ".log"), flags)

    def choose(self, exporter):
        """The UUID of the GPU; None where the exporter sees none."""
        def totals(m):
            return exposition.select(m, "gpu_memory_total_bytes", gpu=str(self.options.gpu))

        metrics, _ = exporter.wait(lambda m: totals(m) or [r for r in faults.reasons(m) if r != "starting"], 30)
        if totals(metrics):
            self.uuid = totals(metrics)[0][0]["uuid"]
        else:
            self.results.problem("the exporter sees no GPU %d: gpu_driver_error %s, gpu_devices %s" % (
                self.options.gpu, faults.reasons(metrics) or "none", exposition.value(metrics, "gpu_devices")))
        return self.uuid


class Suite:
    """The phases, each within what is left of the time."""

    def __init__(self, options, found):
        self.options, self.results = options, found
        self.end = time.monotonic() + options.limit
        self.launch = Launch(options, found)
        self.programs = Programs(options.python, found.folder)

    def left(self):
        return self.end - time.monotonic()

    def attempt(self, what, part, *arguments):
        """Runs a part. What goes wrong in it must not take the others with it."""
        try:
            part(*arguments)
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            self.results.problem("%s: the suite failed: %s: %s" % (what, type(error).__name__, error))
        finally:
            self.programs.kill_all()

    def due(self, phase, seconds, what=""):
        """Whether a phase is asked for and fits into the time that is left."""
        if phase not in self.options.only:
            self.results.skip(what or phase, "not asked for")
            return False
        if self.left() < seconds:
            self.results.skip(what or phase, "needs %.0f s, and %.0f s are left" % (seconds, self.left()))
            return False
        return True

    def run(self):
        """Runs all phases; False if there is no GPU to try."""
        o, r = self.options, self.results
        r.facts = machine.facts(o.exporter, o.tool, o.python)
        # Every process has series, also one that has just begun, so that all can be compared.
        flags = ["--collector.nvlink", "--collector.process.min-age=0s", "--detector.state-file=" + r.path("state")]
        exporter = self.launch.exporter("exporter", flags)
        try:
            if not self.launch.choose(exporter):
                return False
            os.environ["CUDA_VISIBLE_DEVICES"] = r.facts["uuid"] = self.launch.uuid
            for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
                os.environ.pop(name, None)  # the leaks are made for PyTorch's default allocator
            self._phases(exporter)
            self.attempt("the exporter itself", self._exporter_itself, exporter)
            return True
        finally:
            self.programs.kill_all()
            status = exporter.stop()
            if status != 0:
                r.problem("the exporter ended with exit status %s" % status)

    def again(self, folder):
        """Judges the recordings of an earlier report."""
        try:
            with open(os.path.join(folder, "report.json")) as f:
                self.results.facts = json.load(f)["facts"]
        except (OSError, ValueError) as error:
            self.results.problem("--again: this is no report: %s" % error)
            return False
        shifts = Kept.names(folder)
        if not shifts or "uuid" not in self.results.facts:
            self.results.problem("--again=%s: it has no recording with its truth" % folder)
            return False
        self.results.facts["judged again by"] = machine.version(self.options.tool)
        self.launch.uuid = self.results.facts["uuid"]
        for name in shifts:
            self.attempt("shift " + name, judge.Judge(Kept(folder, name), self.options, self.results, self.launch).run)
        self.attempt("lives", lives.again, folder, self.options, self.results, self.launch.uuid)
        return True

    def _phases(self, exporter):
        o, r, uuid = self.options, self.results, self.launch.uuid
        if self.due("values", 20):
            self.attempt("values", values.compare, r, "Values at idle", exporter, uuid, o.python, o.library)
            self.attempt("latency", cost.latencies, r, o.python, o.library or "libnvidia-ml.so.1", uuid, exporter)
        mig = exposition.value(exporter.metrics(), "gpu_mig_enabled", uuid=uuid) == 1
        if mig:
            # Its UUID names no device that a program could use, and its slices are not ours to choose.
            return r.skip("all that uses the GPU", "GPU %d is in MIG mode; --gpu names another one" % o.gpu)
        if self.due("probe", PROBE):
            self.attempt("the probe", self._probe, exporter)
        shifts = self._shifts()
        for i, shift in enumerate(shifts):
            if self.due("leaks", o.lead + min(LEAST_LEAKING, o.seconds) + AROUND_SHIFT, "shift " + shift.name):
                # They share the time; the costs are short, and come behind them for that.
                later = COST * ("cost" in o.only) + (FAULTS + XID * o.xid) * ("faults" in o.only)
                share = (self.left() - later) / (len(shifts) - i) - o.lead - AROUND_SHIFT
                shift.seconds = min(o.seconds, max(LEAST_LEAKING, share))
                self.attempt("shift " + shift.name, self._shift, shift, exporter)
        if self.due("cost", COST):
            counts = [int(n) for n in o.contexts.split(",")]
            self.attempt("cost", cost.exporter_cost, r, self.launch, counts, self.programs)
        if "bursts" in o.only and self.due("bursts", BURSTS):
            self.attempt("bursts", bursts.compare, r, self.launch, self.programs)
        if "lives" in o.only and self.due("lives", LIVES):
            self.attempt("lives", lives.run, o, r, self.programs, exporter, uuid, self.left)
        if self.due("faults", FAULTS + XID * o.xid):
            self.attempt("faults", faults.Faults(r, self.launch, self.programs, self.left).run, o.xid)

    def _probe(self, exporter):
        place = beside("gpu_leak_probe.py", HERE, os.path.join(os.path.dirname(os.path.dirname(HERE)), "probe"))
        if place is None:
            return self.results.skip("the probe", "gpu_leak_probe.py is not here")
        probe.Probe(self.results, self.launch, self.programs, self.options, place).run(exporter)

    def _shift(self, shift, exporter):
        if shift.run(exporter, self.launch.uuid):
            judge.Judge(shift, self.options, self.results, self.launch).run()

    def _shifts(self):
        """Two shifts with half of the programs each: five leaks at a time are told apart
        by their processes, and ten would share the memory too thinly."""
        words = [w for w in self.options.programs.split(",") if w]
        leaks, healthy = ([n for n in names if not words or any(w in n for w in words)] for names in known())
        halves = [(leaks[0::2], healthy[0::2]), (leaks[1::2], healthy[1::2])]
        if words:
            halves = [(leaks, healthy)]
        return [Shift("ab"[i], half[0], half[1], self.options, self.results, self.programs) for i, half in enumerate(halves)]

    def _exporter_itself(self, exporter):
        """What the exporter says of its own run."""
        r = self.results
        if not exporter.alive():
            return r.problem("the exporter ended by itself; its log ends: " + exporter.tail())
        text = exporter.get("/metrics")
        with open(r.path("exporter.prom"), "w") as f:
            f.write(text)
        metrics = exposition.parse(text)
        rows = [["CPU seconds", exporter.cpu_seconds()], ["RSS, MiB", exporter.rss_mib()],
                ["samples missed", exposition.value(metrics, "gpu_samples_missed_total", uuid=self.launch.uuid)],
                ["processes not resolved", exposition.value(metrics, "gpu_processes_unresolved")]]
        for labels, count in exposition.select(metrics, "gpu_nvml_errors_total"):
            rows.append(["%s: %s" % (labels["call"], labels["error"]), count])
            r.problem("a call into the driver failed: %s: %s, %d times" % (labels["call"], labels["error"], count))
        lines = [line for line in exporter.output().splitlines() if "level=error" in line or "level=ERROR" in line]
        for line in lines[:5]:
            r.problem("the exporter's log: " + line)
        r.table("The exporter itself", ["", ""], rows, "Over the whole run, at the default sampling interval.")


def main():
    options = arguments()
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":" + DRIVER_TOOLS
    os.makedirs(options.out)
    found = results.Results(os.path.abspath(options.out))
    began = time.monotonic()
    # An end from outside still leaves the report of what was found so far.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    status = 2
    try:
        suite = Suite(options, found)
        if suite.again(options.again) if options.again else suite.run():
            status = 1 if found.problems else 0
    except KeyboardInterrupt:
        found.problem("it was interrupted")
    except Exception as error:  # noqa: BLE001: what was found before must not be lost
        traceback.print_exc()
        found.problem("the suite failed: %s: %s" % (type(error).__name__, error))
    found.facts["the suite took"] = "%.0f s" % (time.monotonic() - began)
    for leftover in ("state", "state.lock"):
        if os.path.exists(found.path(leftover)):
            os.remove(found.path(leftover))
    found.write()
    if options.archive:
        with tarfile.open(options.out.rstrip("/") + ".tar.gz", "w:gz") as archive:
            archive.add(options.out, arcname=os.path.basename(options.out.rstrip("/")))
    print("\n%d problems, %d skipped. Read %s" % (len(found.problems), len(found.skipped), found.path("report.md")))
    return status


if __name__ == "__main__":
    sys.exit(main())
