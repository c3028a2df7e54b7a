# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""The programs as processes: start, truth, end."""

import json
import os
import signal
import subprocess
import time

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "programs")

# The exit status of a program that cannot run here; programs/program.py.
SKIPPED = 77


def known():
    """The names of all leaks and of all healthy programs."""
    names = sorted(f[:-3] for f in os.listdir(FOLDER) if f.endswith(".py"))
    return [n for n in names if n.startswith("leak_")], [n for n in names if n.startswith("healthy_")]


class Program:
    """One that was started, and the truth that it has written."""

    def __init__(self, name, process, truth, log):
        self.name, self.process, self.path, self.log = name, process, truth, log
        self.gone = False

    def truth(self):
        """The lines so far. The last one may be cut off while it is written."""
        lines = []
        try:
            with open(self.path) as f:
                for line in f:
                    if line.endswith("\n"):
                        lines.append(json.loads(line))
        except OSError:
            pass
        return lines

    def event(self, name):
        return next((line for line in self.truth() if line["event"] == name), None)

    def ended(self):
        return self.process.poll() is not None


class Programs:
    """Starts programs and sees to their end."""

    def __init__(self, python, folder):
        self.python, self.folder = python, os.path.join(folder, "programs")
        os.makedirs(self.folder, exist_ok=True)
        self.all = []

    def start(self, name, arguments=(), rate=None, lead=0, seconds=60, probe=None):
        number = len([p for p in self.all if p.name == name])
        base = os.path.join(self.folder, name + ("-%d" % number if number else ""))
        args = [self.python, os.path.join(FOLDER, name + ".py")] + list(arguments)
        args += ["--truth=" + base + ".truth.jsonl", "--lead=%g" % lead, "--seconds=%g" % seconds]
        if rate:
            args.append("--rate=%dB" % rate)
        if probe:
            args.append("--probe=" + probe)
        with open(base + ".log", "ab") as log:
            # A session of its own, so that its children end with it.
            process = subprocess.Popen(args, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        program = Program(name, process, base + ".truth.jsonl", base + ".log")
        self.all.append(program)
        return program

    def wait_for(self, program, event, seconds):
        """Waits for a line of the truth; False if it does not come."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if program.event(event):
                return True
            if program.ended():
                return bool(program.event(event))
            time.sleep(0.1)
        return False

    def last_word(self, program):
        """Why a program ended, as well as is known."""
        for event, key in (("skipped", "reason"), ("failed", "error"), ("oom", "error")):
            said = program.event(event)
            if said:
                return said[key]
        with open(program.log, errors="replace") as f:
            lines = f.read().strip().splitlines()
        return lines[-1] if lines else "it said nothing (exit status %s)" % program.process.poll()

    def kill(self, program):
        """Ends a program and its children, and waits until they are gone: until then
        they hold their memory. Once only: its number may be another one's later."""
        if program.gone:
            return
        program.gone = True
        deadline = time.monotonic() + 10  # a container may have nobody who reaps the children
        try:
            while time.monotonic() < deadline:
                os.killpg(program.process.pid, signal.SIGKILL)
                program.process.poll()
                time.sleep(0.05)
        except ProcessLookupError:
            pass
        program.process.poll()

    def kill_all(self):
        for program in self.all:
            self.kill(program)
