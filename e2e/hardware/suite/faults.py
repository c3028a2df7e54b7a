# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Faults that are safe to cause on any machine: nothing here changes the GPU, its
driver or a file of the host."""

import ctypes
import glob
import os
import stat
import subprocess
import tempfile
import time

from suite import exporter as exposition

MIB = 1 << 20
NOBODY = 65534

# From mount(2), unshare(2).
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x00020000, 0x1000, 0x4000, 0x40000


class Faults:
    """Each fault is a method that returns what was seen; a wrong one is a problem."""

    def __init__(self, results, launch, programs, left):
        self.results, self.launch, self.programs = results, launch, programs
        self.left = left  # seconds until the end of the suite
        self.rows = []

    def run(self, xid):
        if xid:
            self._try("a kernel writes to a wrong address", self.wrong_address)
        self._try("a process that holds memory is killed", self.killed)
        self._try("no nvidia-smi in PATH", self.no_smi)
        self._try("LD_LIBRARY_PATH leads to a library that is none", self.wrong_library)
        self._try("no permission on /dev/nvidia*", self.no_devices)
        holder = self._holder() if self.left() > 15 else None
        self._try("an unprivileged user, beside a process of another one", self.unprivileged)
        self._try("an empty procfs, beside a process", self.no_procfs)
        if holder:
            self.programs.kill(holder)
        self.results.table("Faults", ["fault", "seen", ""], self.rows)

    def _try(self, name, fault):
        print("fault: " + name, flush=True)
        try:
            if self.left() < 5:
                raise Skip("no time is left")
            seen, wrong = fault()
        except Skip as reason:
            self.results.skip("fault: " + name, reason)
            return
        except Exception as error:  # noqa: BLE001: one fault must not hide the others
            seen, wrong = "%s: %s" % (type(error).__name__, error), True
        self.rows.append([name, seen, "WRONG" if wrong else ""])
        if wrong:
            self.results.problem("fault: %s: %s" % (name, seen))

    def _holder(self):
        """A process that holds some memory, and does nothing else."""
        holder = self.programs.start("healthy_pool", lead=60)
        self.programs.wait_for(holder, "ready", 60)
        return holder

    def killed(self):
        uuid = self.launch.uuid
        exporter = self.launch.exporter("fault-killed", ["--collector.process.min-age=0s"])
        try:
            exporter.wait(lambda m: exposition.value(m, "gpu_memory_free_bytes", uuid=uuid) is not None, 20)
            free = exporter.settled_free(uuid)
            holder = self._holder()
            if not holder.event("ready"):
                raise Skip(self.programs.last_word(holder))
            pid = str(holder.event("start")["pid"])
            _, listed = exporter.wait(lambda m: exposition.value(m, "gpu_process_memory_used_bytes", uuid=uuid, pid=pid) is not None, 10)
            self.programs.kill(holder)
            after, gone = exporter.wait(
                lambda m: exposition.value(m, "gpu_process_memory_used_bytes", uuid=uuid, pid=pid) is None
                and abs(exposition.value(m, "gpu_memory_free_bytes", uuid=uuid) - free) < 256 * MIB, 30)
            held = exposition.select(after, "gpu_unreleased_memory_bytes", uuid=uuid)
            if not listed:
                return "the driver did not list process %s; its memory came back: %s" % (pid, gone), not gone
            return "its series ended and its memory came back: %s; called unreleased: %d" % (gone, len(held)), not gone or bool(held)
        finally:
            exporter.stop()

    def wrong_address(self):
        """In the exporter's first moment: all is ready before it starts."""
        uuid, go = self.launch.uuid, self.results.path("fault-xid-go")

        def reported(metrics):
            return [(labels["xid"], n) for labels, n in exposition.select(metrics, "gpu_xid_errors_total", uuid=uuid) if n > 0 and "xid" in labels]

        program = self.programs.start("wrong_address", [go])
        if not self.programs.wait_for(program, "ready", max(5, min(60, self.left() - 15))):
            raise Skip(self.programs.last_word(program))
        began = time.time()
        exporter = self.launch.exporter("fault-xid")
        try:
            exporter.wait(lambda m: exposition.value(m, "gpu_up", uuid=uuid) == 1, 20)
            open(go, "w").close()
            if not self.programs.wait_for(program, "crashed", 10):
                raise Skip(self.programs.last_word(program))
            metrics, seen = exporter.wait(reported, 10)
            crashed = program.event("crashed")
            return "%.2f s after the exporter's start the program got CUDA error %d; XIDs reported: %s" % (
                crashed["time"] - began, crashed["status"], reported(metrics) or "none"), not seen
        finally:
            exporter.stop()
            if os.path.exists(go):
                os.remove(go)

    def no_smi(self):
        return self._serves("fault-no-smi", env={"PATH": "/nonexistent"}, up=1)

    def wrong_library(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "libnvidia-ml.so.1"), "w") as f:
                f.write("this is no library\n")
            # The default library is what the linker finds there first. It may go on to
            # the real one, or refuse: both are right, an end is not.
            return self._serves("fault-library", env={"LD_LIBRARY_PATH": folder}, up=None, library=False)

    def no_devices(self):
        devices = device_files()
        if not devices:
            raise Skip("there is no /dev/nvidia* here")
        if os.getuid() != 0:
            raise Skip("hiding device files from one process takes root")
        handle, hidden = tempfile.mkstemp()
        os.close(handle)
        os.chmod(hidden, 0)
        libc = ctypes.CDLL(None, use_errno=True)

        def hide():
            # In a mount namespace of its own: nobody else sees it.
            call(libc, libc.unshare(CLONE_NEWNS), "unshare")
            call(libc, libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount private")
            for device in devices:
                call(libc, libc.mount(hidden.encode(), device.encode(), None, MS_BIND, None), "mount over " + device)
            become_nobody()

        try:
            return self._serves("fault-devices", prepare=hide, up=0)
        finally:
            os.unlink(hidden)

    def unprivileged(self):
        if os.getuid() != 0:
            raise Skip("the suite runs without root already")
        everyones = all(os.stat(device).st_mode & 0o006 == 0o006 for device in device_files())
        return self._serves("fault-nobody", prepare=become_nobody, up=1 if everyones else None)

    def no_procfs(self):
        with tempfile.TemporaryDirectory() as folder:
            return self._serves("fault-procfs", ["--path.procfs=" + folder], up=1)

    def _serves(self, name, flags=(), env=None, prepare=None, up=1, library=True):
        """Starts an exporter; what it says of the GPU. up is what gpu_up has to be, None
        where that is not known. A reason has to be there if it is not up."""
        try:
            exporter = self.launch.exporter(name, flags, env=env, prepare=prepare, library=library)
        except (subprocess.SubprocessError, PermissionError) as error:
            raise Skip("an exporter like that cannot be started here: %s" % error)
        try:
            uuid = self.launch.uuid
            metrics, _ = exporter.wait(
                lambda m: exposition.value(m, "gpu_up", uuid=uuid) is not None or [r for r in reasons(m) if r != "starting"], 15)
            seen, reason = exposition.value(metrics, "gpu_up", uuid=uuid), reasons(metrics)
            attributed = exposition.value(metrics, "gpu_detector_attributed", uuid=uuid)
            unresolved = exposition.value(metrics, "gpu_processes_unresolved")
            text = "gpu_up %s, gpu_driver_error %s, attributed %s, processes not resolved %s" % (seen, reason or "none", attributed, unresolved)
            wrong = seen != 1 and not reason or up is not None and (seen == 1) != (up == 1)
        finally:
            status = exporter.stop()
        return text + ", exit status %s" % status, wrong or status != 0


class Skip(Exception):
    """Why a fault cannot be tried here."""


def device_files():
    """The driver's device files, without those of MIG, of which some are root's everywhere."""
    return [d for d in glob.glob("/dev/nvidia*") if stat.S_ISCHR(os.stat(d).st_mode)]


def reasons(metrics):
    return [labels["reason"] for labels, v in exposition.select(metrics, "gpu_driver_error") if v == 1]


def become_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def call(libc, status, what):
    if status != 0:
        raise OSError(ctypes.get_errno(), what + ": " + os.strerror(ctypes.get_errno()))
