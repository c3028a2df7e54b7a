# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""The exporter as a process, and what it answers."""

import ctypes
import glob
import http.client
import json
import os
import re
import signal
import subprocess
import time
import urllib.request

SERIES = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

# Past any proxy that the environment names.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def die_with_suite():
    """Run in a child that was just forked: the kernel ends it when the suite ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def parse(text):
    """The text format as {(name, ((label, value), …)): number}."""
    found = {}
    for line in text.splitlines():
        match = SERIES.match(line)
        if match and not line.startswith("#"):
            labels = tuple(sorted(LABEL.findall(match.group(2) or "")))
            found[match.group(1), labels] = float(match.group(3))
    return found


def select(metrics, name, **labels):
    """The series of that name that have these labels, as [(labels, value)]."""
    wanted = set(labels.items())
    return [(dict(l), v) for (n, l), v in metrics.items() if n == name and wanted <= set(l)]


def value(metrics, name, **labels):
    """The value of the one such series, or None."""
    found = select(metrics, name, **labels)
    return found[0][1] if len(found) == 1 else None


class Exporter:
    """One exporter. It is ready once the constructor returns."""

    def __init__(self, binary, log, flags=(), env=None, prepare=None):
        self.log_path = log
        self.log = open(log, "ab")
        args = [binary, "--web.listen-address=127.0.0.1:0"] + list(flags)

        def before():
            if prepare:
                prepare()
            die_with_suite()  # last: another user would undo it

        self.process = subprocess.Popen(args, stdout=self.log, stderr=self.log, env=env, preexec_fn=before)
        self.url = None
        deadline = time.monotonic() + 60  # without persistence the driver takes seconds for each GPU
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError("the exporter does not serve; its log ends: %s" % self.tail())
            time.sleep(0.05)

    def _ready(self):
        match = re.search(r'Listening on"? address"?[=:]"?(127\.0\.0\.1:\d+)', self.output())
        if not match:
            return False
        self.url = "http://" + match.group(1)
        try:
            self.get("/-/ready")
            return True
        except OSError:
            return False

    def output(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def tail(self):
        return " / ".join(self.output().splitlines()[-3:])

    def get(self, path):
        """The body; OSError where there is no answer or none with status 200."""
        try:
            with DIRECT.open(self.url + path, timeout=10) as answer:
                return answer.read().decode()
        except http.client.HTTPException as error:
            raise OSError("%s: %r" % (path, error))

    def metrics(self):
        return parse(self.get("/metrics"))

    def verdicts(self):
        return json.loads(self.get("/api/v1/verdicts"))["data"]

    def wait(self, condition, seconds):
        """Scrapes until condition(metrics) holds; the last metrics, and whether it did."""
        deadline = time.monotonic() + seconds
        while True:
            metrics = self.metrics()
            if condition(metrics) or time.monotonic() > deadline:
                return metrics, condition(metrics)
            time.sleep(0.2)

    def settled_free(self, uuid, seconds=20):
        """The free memory of the GPU once it stands still; the driver takes a while to
        free what killed processes held. None where there is no such series."""
        deadline, before = time.monotonic() + seconds, None
        while True:
            free = value(self.metrics(), "gpu_memory_free_bytes", uuid=uuid)
            if time.monotonic() > deadline or None not in (before, free) and abs(free - before) < 16 << 20:
                return free
            before = free
            time.sleep(2)

    def cpu_seconds(self):
        """The CPU time so far: in nanoseconds where the kernel counts so, else in hundredths of a second."""
        spent = 0
        for path in glob.glob("/proc/%d/task/*/schedstat" % self.process.pid):
            with open(path) as f:
                spent += int(f.read().split()[0])
        if spent:
            return spent / 1e9
        with open("/proc/%d/stat" % self.process.pid) as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mib(self):
        with open("/proc/%d/status" % self.process.pid) as f:
            return next((int(line.split()[1]) / 1024 for line in f if line.startswith("VmRSS:")), None)

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        """Ends it as systemd does. The exit status; None where it had to be killed."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            self.log.close()
