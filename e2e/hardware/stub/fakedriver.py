# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""The memory of this process, as the fake NVML library tells it.

The library answers out of a script that FAKE_NVML_STATE names. Each process of
the stub keeps its own lines in it, behind those of the last GPU, and removes
those of processes that have ended.
"""

import fcntl
import os
import sys
import tempfile
import time

MIB = 1 << 20

# What a CUDA context takes; about what an H100 shows.
CONTEXT = 500 * MIB

# A leak that the driver is not to see: "leak_hook" keeps the memory of that
# program at what it was first, so that its leak cannot be found.
HIDDEN = os.environ.get("STUB_HIDDEN_LEAK", "")


def script():
    return os.environ["FAKE_NVML_STATE"]


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def capacity(lines):
    """Total without what the driver reserves, of the last GPU."""
    words = [line.split() for line in lines if line.startswith("memory ")][-1]
    return int(words[1]) - int(words[2])


def living(lines, but=0):
    """The lines without those of processes that have ended, and of one more."""
    kept = []
    for line in lines:
        words = line.split()
        if words[0] in ("process", "sample"):
            pid = int(words[2] if words[0] == "process" else words[1])
            if pid == but or not alive(pid):
                continue
        kept.append(line)
    return kept


def free_ended():
    """Frees what ended processes held, as the driver does."""
    with open(script() + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(script()) as f:
            lines = f.read().splitlines()
        kept = living(lines)
        if kept != lines:
            write("\n".join(kept) + "\n")


def announce(used):
    """Says that this process holds so many bytes; False if there are not as many."""
    if HIDDEN and HIDDEN in sys.argv[0]:
        used = min(used, CONTEXT + 64 * MIB)
    me = os.getpid()
    with open(script() + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(script()) as f:
            lines = f.read().splitlines()
        kept = living(lines, me)
        others = sum(int(line.split()[5]) for line in kept if line.startswith("process "))
        if others + used > capacity(lines):
            return False
        if used:
            kept.append("process compute %d -1 -1 %d 0 %s" % (me, used, sys.executable))
            kept.append("sample %d 40 20 0 0 0 0" % me)
        write("\n".join(kept) + "\n")
        return True


def crash():
    """Has the driver report XID 31, as for a kernel that writes to a wrong address."""
    with open(script() + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(script()) as f:
            lines = f.read().splitlines()
        number = 1 + len([line for line in lines if line.startswith("event ")])
        # It is the last GPU's.
        write("\n".join(lines) + "\nevent %d 8 31\n" % number)


def write(text):
    """Replaces the script. A stamp of its own makes it another file to the library."""
    fd, temp = tempfile.mkstemp(dir=os.path.dirname(script()))
    with os.fdopen(fd, "w") as f:
        f.write(text)
    now = time.time_ns()
    os.utime(temp, ns=(now, now))
    os.chmod(temp, 0o644)
    os.rename(temp, script())


class OutOfMemoryError(RuntimeError):
    pass


class Memory:
    """What this process has from the driver. A segment stays until trim()."""

    def __init__(self):
        self.allocated = self.reserved = 0
        self.outside = 0  # what did not come from the framework's allocator
        self.context = False

    def begin(self):
        if not self.context:
            if not announce(CONTEXT):
                raise OutOfMemoryError("CUDA error: out of memory")
            self.context = True

    def allocate(self, n):
        n = -(-n // (2 * MIB)) * 2 * MIB if n >= MIB else n
        self.begin()
        need = self.allocated + n
        if need > self.reserved and not announce(CONTEXT + self.outside + need):
            self.trim()  # a caching allocator gives back and tries again
            if not announce(CONTEXT + self.outside + need):
                raise OutOfMemoryError("CUDA out of memory. Tried to allocate %d MiB." % (n // MIB))
        self.allocated = need
        self.reserved = max(self.reserved, need)
        return n

    def allocate_outside(self, n):
        self.begin()
        if not announce(CONTEXT + self.outside + n + self.reserved):
            raise OutOfMemoryError("CUDA error: out of memory")
        self.outside += n

    def free(self, n):
        self.allocated -= n

    def trim(self):
        if self.reserved != self.allocated:
            self.reserved = self.allocated
            announce(CONTEXT + self.outside + self.reserved)


memory = Memory()

if __name__ == "__main__":
    while True:
        free_ended()
        time.sleep(0.1)
