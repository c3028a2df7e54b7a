# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0
"""Tells gpu_leak_exporter what the memory allocator in this process holds.

The driver shows one number for a process: what its allocator has reserved. This module
adds what lives in the reservation. Import it, or install gpu_leak_probe.pth beside it.
If the exporter asks for it, it also records for some minutes which lines of a program with
PyTorch allocate what stays.

Once PyTorch, TensorFlow, JAX or CuPy is imported into the main interpreter, a thread asks the framework every five
seconds, and writes the answer into 4,096 bytes of memory that the exporter reads through
/proc. README.md has the layout. GPU_LEAK_PROBE=off turns it off.

It never raises into the program, never allocates on the GPU and never initialises a framework.
It changes nothing, unless the program calls install(empty_cache_at=0.92).
"""

import os
import sys

_INTERVAL = 5.0  # seconds; the exporter takes a page that is six times as old for dead
_PATIENCE = 5.0  # seconds after fork: a child that is about to call exec or unshare has done so by then
_SIZE = 4096
_WRITTEN = 4032  # the rest is zero
_RECORDS = 16
_MAGIC = b"GPULEAK\0"
_VERSION = 1
_UNIT = 65536  # a request is a lock on the page: it starts at its number times this, and is as long as it has seconds
_MAX_NUMBER = (1 << 31) - 1
_MAX_PAGES = 8  # how often the page is made anew after somebody closed it
_MAX_FAILURES = 20  # readings in a row of which nothing came, by errors

_ANSWER_SIZE = 65536
_ANSWER_MAGIC = b"GPUSITES"
_SNAPSHOTS = 0.1, 0.17, 0.24, 0.31, 0.38, 0.65, 0.72, 0.79, 0.86, 0.93  # at these parts of the recording
_JITTER = 0.07  # later by up to this part: equal distances would beat with the steps of a training
_EARLY = 5  # of them
_MAX_BLOCKS = 200000  # a snapshot of more might stop the program for longer than _MAX_PAUSE
_MAX_PAUSE = 1.0  # seconds; after a longer one there is no other snapshot
_MAX_STACKS = 10000  # some tens of MB of the host's memory
_REST = 2  # between two recordings, times the length of the first one
_MIN_SLEEP = 0.1  # seconds, however late a snapshot is
_MAX_SITES = 20
_MAX_FRAMES = 32
_MAX_NAME = 300

_REFUSAL_WAIT = 0.5  # seconds for which an out-of-memory waits for an answer that is being written
_REFUSAL_PAUSE = 60.0  # seconds between two that are told
_REFUSAL_LINES = 10
_REFUSAL_SIZE = _WRITTEN - 64 - _RECORDS * 192  # what the records leave
_EMPTY_PAUSE = 60.0  # seconds between two times that a cache is emptied
_EMPTY_LEAST = 0.1  # of the memory: for less it is not worth that the program waits


# Each reader yields (ordinal, backend, values) for the GPUs that the framework uses.
# values has allocated, reserved, active, inactive_split (bytes), retries, ooms and limit (bytes);
# what the framework does not tell is left out.


def _read_torch(torch):
    cuda = torch.cuda
    if not cuda.is_initialized():
        return
    try:
        backend = cuda.memory.get_allocator_backend()
    except Exception:
        backend = ""
    for ordinal in range(cuda.device_count()):
        try:
            stats = cuda.memory_stats_as_nested_dict(ordinal)
        except Exception:  # an allocator that was plugged in may tell nothing
            yield ordinal, backend or "pluggable", {}
            continue
        if not stats:
            continue
        values = {
            name: stats[key]["all"]["current"]
            for name, key in (
                ("allocated", "allocated_bytes"),
                ("reserved", "reserved_bytes"),
                ("active", "active_bytes"),
                ("inactive_split", "inactive_split_bytes"),
            )
            if key in stats
        }
        values.update((name, stats[key]) for name, key in (("retries", "num_alloc_retries"), ("ooms", "num_ooms")) if key in stats)
        if any(values.values()):
            values.update(_torch_limit(cuda, ordinal))
            yield ordinal, backend, values


def _torch_limit(cuda, ordinal):
    """Returns what set_per_process_memory_fraction lets the allocator reserve. PyTorch tells it from 2.8 on."""
    try:
        fraction = cuda.memory.get_per_process_memory_fraction(ordinal)
        return {"limit": int(fraction * cuda.get_device_properties(ordinal).total_memory)} if fraction < 1 else {}
    except Exception:
        return {}


def _read_tensorflow(_tensorflow):
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    if context is None or not context._initialized:
        return
    for device in context.list_logical_devices("GPU"):
        ordinal = int(device.name.rsplit(":", 1)[1])
        yield ordinal, "", {"allocated": context.get_memory_info(device.name)["current"]}


_GPUS = {"cuda", "gpu", "rocm"}  # as JAX calls them


def _read_jax(_jax):
    bridge = sys.modules.get("jax._src.xla_bridge")
    for platform, backend in list(getattr(bridge, "_backends", {}).items()):
        if platform not in _GPUS:
            continue
        for device in backend.local_devices():
            stats = device.memory_stats() or {}
            values = {name: stats[key] for name, key in (("allocated", "bytes_in_use"), ("reserved", "pool_bytes")) if key in stats}
            if values:
                yield getattr(device, "local_hardware_id", device.id), "", values


def _read_cupy(cupy):
    for ordinal in range(_RECORDS):
        if not _cuda.has_context(ordinal):  # to select a device without one makes one
            continue
        # For the thread of the probe alone, and not as a context manager: that goes back to device
        # 0 in the end, which makes a context there.
        cupy.cuda.Device(ordinal).use()
        pool = cupy.get_default_memory_pool()
        values = {"allocated": pool.used_bytes(), "reserved": pool.total_bytes()}
        if any(values.values()):
            yield ordinal, "", values


_READERS = {"torch": _read_torch, "tensorflow": _read_tensorflow, "jax": _read_jax, "cupy": _read_cupy}


class _Cuda:
    """Asks the driver's library that the framework has loaded. It loads and initialises nothing."""

    def __init__(self):
        self._uuids = {}

    def _library(self):
        import ctypes

        return ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)

    def uuid(self, ordinal):
        """Returns the UUID of a GPU or MIG device without its prefix; "" if it is not known."""
        if ordinal not in self._uuids:
            try:
                self._uuids[ordinal] = self._ask(ordinal)
            except Exception:
                return ""
        return self._uuids[ordinal]

    def _ask(self, ordinal):
        import ctypes

        library, device = self._library(), ctypes.c_int()
        if library.cuDeviceGet(ctypes.byref(device), ctypes.c_int(ordinal)) != 0:
            return ""
        raw = ctypes.create_string_buffer(16)
        # The second version tells a MIG device's own.
        get = getattr(library, "cuDeviceGetUuid_v2", None) or library.cuDeviceGetUuid
        if get(raw, device) != 0:
            return ""
        digits = raw.raw.hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def has_context(self, ordinal):
        try:
            import ctypes

            library, device, flags, active = self._library(), ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
            return (
                library.cuDeviceGet(ctypes.byref(device), ctypes.c_int(ordinal)) == 0
                and library.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active)) == 0
                and active.value == 1
            )
        except Exception:
            return False


class _Memory:
    """Memory that the exporter reads. Its size is sealed: no access to it can fail."""

    def __init__(self, name, size):
        import ctypes
        import fcntl

        self._sequence = 0
        with open("/proc/self/stat", "rb") as f:
            self._start = int(f.read().rpartition(b")")[2].split()[19])  # field 22
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(fd, 0, size)
            fcntl.fcntl(fd, 1033, 1 | 2 | 4)  # F_ADD_SEALS: seal, shrink, grow
            # The module mmap would keep a second descriptor, and close its number in the end,
            # whosever it is by then.
            libc = ctypes.CDLL(None)
            libc.mmap.restype = ctypes.c_void_p
            libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
            address = libc.mmap(None, size, 3, 1, fd, 0)  # read and write, shared
            if address in (None, ctypes.c_void_p(-1).value):
                raise OSError("mmap")
        except BaseException:
            os.close(fd)
            raise
        self._move, self._address, self._fd = ctypes.memmove, address, fd
        stat = os.fstat(fd)
        self._file = stat.st_dev, stat.st_ino

    def lost(self):
        """Reports whether somebody closed the descriptor, as daemons close all of them."""
        try:
            stat = os.fstat(self._fd)
        except OSError:
            return True
        return (stat.st_dev, stat.st_ino) != self._file

    def close(self):
        if not self.lost():
            os.close(self._fd)

    def _write(self, magic, kind, numbers, content, size):
        import struct
        import zlib

        self._sequence += 1
        body = struct.pack("<QQII", self._sequence, self._start, *numbers).ljust(64 - 16, b"\0") + content
        body = body.ljust(size - 16, b"\0")
        whole = struct.pack("<8sHHI", magic, _VERSION, kind, zlib.crc32(body)) + body
        self._move(self._address, whole, size)


class _Page(_Memory):
    """What the allocators hold, what PyTorch was refused last, and what the exporter asks for."""

    def __init__(self):
        super().__init__("gpu_leak_probe", _SIZE)

    records, refusal = (), b""

    def write(self, records):
        self.records = records
        self._write(_MAGIC, 192, (len(records), 0), b"".join(records).ljust(_RECORDS * 192, b"\0") + self.refusal, _WRITTEN)

    def request(self, number):
        """Returns the number of a request and for how many seconds it is; (0, 0) if there is none. That of
        the given number goes before others: who asked may not have read the answer yet."""
        import fcntl
        import struct

        layout = "hhqqi4x"  # struct flock of 64 bits: kind, whence, start, length, pid
        for start, length in ((number * _UNIT, _UNIT), (_UNIT, _MAX_NUMBER * _UNIT)):
            try:
                # F_OFD_GETLK: it waits for nobody, and tells a lock that a lock for writing would meet.
                found = fcntl.fcntl(self._fd, 36, struct.pack(layout, fcntl.F_WRLCK, 0, start, length, 0))
            except OSError:
                continue
            kind, _, start, length, _ = struct.unpack(layout, found)
            if kind == fcntl.F_RDLCK and start >= _UNIT and start % _UNIT == 0 and 0 < length < _UNIT:
                return start // _UNIT, length
        return 0, 0


class _Answer(_Memory):
    """Which lines allocate what stays: JSON."""

    def __init__(self):
        super().__init__("gpu_leak_sites", _ANSWER_SIZE)

    def write(self, number, answer):
        text = _json(answer, answer.get("sites"), _ANSWER_SIZE - 64)
        self._write(_ANSWER_MAGIC, 0, (number, len(text)), text, _ANSWER_SIZE)


def _json(told, lines, size):
    """Returns what is told, without the last of its lines if it is too long."""
    import json

    text = json.dumps(told, separators=(",", ":")).encode()
    while len(text) > size and lines:
        lines.pop()
        text = json.dumps(told, separators=(",", ":")).encode()
    return text


class _Refused(Exception):
    """Says why no recording is made."""


def _may_name_lines():
    return os.environ.get("GPU_LEAK_PROBE_SITES", "").lower() not in ("off", "0", "false", "no")


def _blocks(torch):
    """Returns how many blocks are in use on all GPUs: a snapshot has all of them."""
    stats = map(torch.cuda.memory_stats_as_nested_dict, range(torch.cuda.device_count()))
    return sum(s.get("active", {}).get("all", {}).get("current", 0) for s in stats)


class _Recorder:
    """Finds the lines whose memory grows: records where PyTorch allocates, for some minutes, if asked to."""

    def __init__(self):
        self._number = 0  # of the request that was dealt with last
        self._answer = None
        self._found = None  # by the last recording
        self._torch = None  # while it records
        self._next = 0.0  # when it may record again

    def sleep(self, interval):
        """Returns how long the thread may sleep: until the next snapshot at most."""
        import time

        if self._torch is None:
            return interval
        return min(interval, max(_MIN_SLEEP, self._due[len(self._taken)] - time.monotonic()))

    def update(self, page):
        """Goes on with a recording, or begins one. It raises nothing."""
        import time

        try:
            if self._torch is not None:
                self._go_on(time.monotonic())
                return
            number, seconds = page.request(self._number)
            if number in (0, self._number):
                return
            self._number = number
            if self._found is not None and time.monotonic() < self._next:
                self._say("done", **self._found)  # another one has just asked
                return
            self._begin(seconds, time.monotonic())
        except _Refused as reason:
            self._end("refused", reason=str(reason))
        except Exception as e:
            self._end("refused", reason="the probe failed: %s: %s" % (type(e).__name__, e))

    def renew(self):
        """Has the request on a page that was made anew be answered once more: the answer may be lost, too."""
        if self._torch is None:
            self._number = 0

    def stop(self):
        """Ends a recording that nobody goes on with."""
        if self._torch is None:
            return
        try:
            self._snapshot()  # the program may have begun one of its own
        except Exception:
            pass
        self._end("refused", reason="the probe has ended")

    def _begin(self, seconds, now):
        if not _may_name_lines():
            raise _Refused("the program's environment says GPU_LEAK_PROBE_SITES=off")
        if now < self._next:
            raise _Refused("it has just recorded: ask again in %d s" % (self._next - now + 1))
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            raise _Refused("the program does not use PyTorch on a GPU")
        if not hasattr(torch._C, "_cuda_isHistoryEnabled") or not hasattr(torch.cuda.memory, "_record_memory_history"):
            raise _Refused("PyTorch is older than 2.1")
        if torch._C._cuda_isHistoryEnabled():
            raise _Refused("the program records where it allocates itself")
        blocks = _blocks(torch)
        if blocks > _MAX_BLOCKS:
            raise _Refused("%d blocks are in use: a snapshot would stop the program for too long" % blocks)
        self._taken, self._stacks, self._pause, self._seconds, self._found = [], {}, 0.0, seconds, None
        self._next = now + (1 + _REST) * seconds
        self._say("recording")
        self._due = [now + seconds * (part + _JITTER * os.urandom(1)[0] / 256) for part in _SNAPSHOTS]
        self._torch = torch
        # Stacks of what is alive, and no history of what was freed.
        torch.cuda.memory._record_memory_history(enabled="state", context="state", stacks="python", max_entries=1)
        self._before = None
        self._snapshot()
        self._check_pause()

    def _go_on(self, now):
        if now < self._due[len(self._taken)]:
            return
        if not self._torch._C._cuda_isHistoryEnabled():
            raise _Refused("the program ended the recording")
        self._taken.append(self._snapshot())
        if len(self._taken) == len(_SNAPSHOTS):
            self._found = self._sites()
            self._end("done", **self._found)
        else:
            self._check_pause()

    def _check_pause(self):
        if self._pause > _MAX_PAUSE:
            raise _Refused("a snapshot stopped the program for %.1f s" % self._pause)

    def _snapshot(self):
        """Returns the bytes and blocks that are alive, by GPU and stack. What is from before the recording
        has None as its stack."""
        import time

        began = time.monotonic()
        snapshot = self._torch.cuda.memory._snapshot()
        self._pause = max(self._pause, time.monotonic() - began)
        if any(len(trace) > 1 for trace in snapshot.get("device_traces") or ()):  # ours has one entry
            self._torch = None  # it is not ours to switch off
            raise _Refused("the program has begun to record where it allocates itself")
        held, before = {}, {}
        for segment in snapshot["segments"]:
            address = segment["address"]
            for block in segment["blocks"]:
                at, size = address, block["size"]
                address += size
                if block["state"] != "active_allocated":
                    continue
                # PyTorch tells no frames of what it did not record, and none of what no Python code allocates.
                frames = block.get("frames") or ()
                if not frames and (self._before is None or self._before.get(at) == size):
                    before[at] = size
                    stack = segment["device"], None
                else:
                    stack = segment["device"], tuple((f["filename"], f["line"], f["name"]) for f in frames[:_MAX_FRAMES])
                if stack not in self._stacks and len(self._stacks) == _MAX_STACKS:
                    raise _Refused("it allocates in more than %d ways" % _MAX_STACKS)
                sum = held.setdefault(self._stacks.setdefault(stack, stack), [0, 0])
                sum[0] += size
                sum[1] += 1
        self._before = before
        return held

    def _change(self, stack):
        """Returns by how much more of a stack the later snapshots have than the early ones, and whether it grew
        steadily: each of them has more than each early one, they are not all the same, and none fell by a quarter of
        the growth. One buffer that was replaced by a larger one does not grow any more. Of lines whose memory comes
        and goes one in 252 would seem to grow by chance if falls did not count."""
        held = [t.get(stack, (0,))[0] for t in self._taken]
        early, late = sorted(held[:_EARLY]), sorted(held[_EARLY:])
        growth = late[len(late) // 2] - early[len(early) // 2]
        falls = (held[i] - min(held[i:]) for i in range(len(held)))
        return growth, early[-1] < late[0] < late[-1] and 4 * max(falls) < growth

    def _sites(self):
        """Returns what grew."""
        grown, unsure = [], 0
        for stack in self._taken[-1]:
            device, frames = stack
            growth, steadily = self._change(stack)
            if frames is None or not steadily:
                continue
            # What is replaced again and again, and lives for longer than this recording, grows here while
            # memory from before goes.
            if growth < -2 * self._change((device, None))[0]:
                unsure += 1
            else:
                grown.append((growth, stack))
        grown.sort(key=lambda g: -g[0])
        sites = []
        for growth, stack in grown[:_MAX_SITES]:
            device, frames = stack
            live, blocks = self._taken[-1][stack]
            sites.append(
                {
                    "growth": growth,
                    "live": live,
                    "blocks": blocks,
                    "uuid": _cuda.uuid(device),
                    "line": _line(self._torch, frames),
                    "frames": [("%s:%d %s" % f)[-_MAX_NAME:] for f in frames],
                }
            )
        return {"sites": sites, "unsure": unsure}

    def _end(self, state, **more):
        torch, self._torch = self._torch, None
        try:
            if torch is not None and torch._C._cuda_isHistoryEnabled():
                torch.cuda.memory._record_memory_history(enabled=None)
        except Exception:
            pass
        self._say(state, **more)
        self._taken, self._stacks, self._before = [], {}, None

    def _say(self, state, **more):
        try:
            if self._answer is None or self._answer.lost():
                self._answer = _Answer()
            answer = {"state": state, "seconds": getattr(self, "_seconds", 0), "pause": round(getattr(self, "_pause", 0.0), 6)}
            self._answer.write(self._number, dict(answer, **more))
        except Exception:
            pass  # no memory: the exporter says that there was no answer

    def forget(self):
        """Closes what a child has of its parent's."""
        if self._answer is not None:
            self._answer.close()


class _Refusals:
    """Tells what PyTorch was asked for when it had no memory left, and what held most."""

    def __init__(self):
        self._attached, self._last, self._slow = None, None, False

    def attach(self, probe):
        """Has PyTorch call back when it is refused memory. That works only once CUDA is initialised: before, it crashes.
        PyTorch before 2.1 would call with its own lock held, for which another thread may wait that has Python's."""
        torch = sys.modules.get("torch")

        def refused(*args):
            try:
                self._tell(probe, torch, *args)
            except Exception:
                pass  # or else PyTorch raises it in the program

        try:
            if torch is None or self._attached is torch or _is_lazy(torch) or not torch.cuda.is_initialized():
                return
            self._attached = torch
            if hasattr(torch._C, "_cuda_isHistoryEnabled"):
                torch._C._cuda_attach_out_of_memory_observer(refused)
        except Exception:
            pass  # PyTorch is older, or was built without CUDA, or its allocator calls nobody

    def _tell(self, probe, torch, ordinal, asked, _total, _free):
        """Is called by the thread that was refused. The exporter has the page open, and reads it after the end of the program, too."""
        import time

        now = time.monotonic()
        if self._last is not None and now - self._last < _REFUSAL_PAUSE:
            return
        self._last = now
        if not probe._asking.acquire(timeout=_REFUSAL_WAIT):
            return
        try:
            page = probe._page
            if page is None or page.lost():
                return
            lines = self._lines(torch, ordinal)
            page.refusal = _json({"time": int(time.time()), "uuid": _cuda.uuid(ordinal), "asked": asked, "lines": lines}, lines, _REFUSAL_SIZE)
            page.write(page.records)
        finally:
            probe._asking.release()

    def _lines(self, torch, ordinal):
        """Returns what holds most: by line of code, if PyTorch records where it allocates, or else the largest blocks."""
        import time

        if self._slow or _blocks(torch) > _MAX_BLOCKS:
            return []
        began = time.monotonic()
        segments = torch.cuda.memory._snapshot()["segments"]
        self._slow = time.monotonic() - began > _MAX_PAUSE  # it also has what the program itself records, however long that is
        held, largest = {}, []
        for segment in segments:
            for block in segment["blocks"] if segment["device"] == ordinal else ():
                if block["state"] != "active_allocated":
                    continue
                frames = tuple((f["filename"], f["line"], f["name"]) for f in (block.get("frames") or ())[:_MAX_FRAMES])
                if frames and _may_name_lines():
                    line = _line(torch, frames)
                    held[line] = held.get(line, 0) + block["size"]
                else:
                    largest.append(("", block["size"]))
        found = sorted(list(held.items()) or largest, key=lambda h: -h[1])
        return [{"line": line, "bytes": size} for line, size in found[:_REFUSAL_LINES]]


class _Cache:
    """Empties PyTorch's cache when a memory is nearly full, if the program asks for it."""

    def __init__(self):
        self.empty_at, self._last = None, None

    def check(self):
        """Empties the caches of all GPUs if one of the memories is too full. PyTorch does nothing, or refuses, while a CUDA
        graph is captured. Before 2.1 another thread may hold its lock and wait for Python's."""
        import time

        torch, now = sys.modules.get("torch"), time.monotonic()
        if self.empty_at is None or torch is None or _is_lazy(torch) or (self._last is not None and now - self._last < _EMPTY_PAUSE):
            return
        try:
            if not hasattr(torch._C, "_cuda_isHistoryEnabled"):
                return
            for found in _read_torch(torch):
                if self._is_due(torch.cuda, *found):
                    self._last = now
                    with torch.cuda.device(found[0]):  # this thread's is GPU 0: the driver would make a context there
                        torch.cuda.empty_cache()
                    return
        except Exception:
            pass

    def _is_due(self, cuda, ordinal, _backend, values):
        reserved, size = values["reserved"], cuda.get_device_properties(ordinal).total_memory
        limit = values.get("limit", size)
        if reserved - values["active"] < _EMPTY_LEAST * limit:
            return False
        return reserved >= self.empty_at * limit or size - cuda.mem_get_info(ordinal)[0] >= self.empty_at * size


def _line(torch, frames):
    """Returns the innermost frame that is not PyTorch's own."""
    own = os.path.dirname(getattr(torch, "__file__", None) or "/torch/") + os.sep
    for name, line, function in frames:
        if not name.startswith((own, "<")):
            break
    else:
        if not frames:
            return ""
        name, line, function = frames[0]
    return ("%s:%d %s" % (os.sep.join(name.split(os.sep)[-2:]), line, function))[-_MAX_NAME:]


def _record(framework, version, ordinal, backend, values):
    import struct

    valid, numbers = 0, []
    for bit, name in enumerate(("allocated", "reserved", "active", "inactive_split", "retries", "ooms", "limit")):
        number = values.get(name)
        known = isinstance(number, int) and 0 <= number < 1 << 63
        valid |= known << bit
        numbers.append(number if known else 0)

    def text(s, size):
        return str(s).encode("ascii", "replace")[: size - 1]

    return struct.pack(
        "<48s16s32s32sII7Q", text(_cuda.uuid(ordinal), 48), text(framework, 16), text(version, 32), text(backend, 32), valid, ordinal, *numbers
    )


def _read():
    records, failures = [], 0
    for name, reader in _READERS.items():
        module = sys.modules.get(name)
        if module is None or _is_lazy(module):
            continue
        try:
            if getattr(getattr(module, "__spec__", None), "_initializing", False):  # its import may take minutes
                continue
            version = getattr(module, "__version__", "")
            records.extend(_record(name, version, *found) for found in reader(module))
        except Exception:  # it may be of a version that has it elsewhere
            failures += 1
    return records[:_RECORDS], failures


def _is_lazy(module):
    """Reports whether a module is imported when it is used: a look at it imports it."""
    return type(module).__module__ == "importlib.util"


def _is_of_user():
    """Reports in a child whether its parent has used a GPU, as far as the frameworks know it without CUDA."""
    try:
        torch = sys.modules.get("torch")
        if torch is not None and not _is_lazy(torch) and getattr(getattr(torch, "cuda", None), "_is_in_bad_fork", bool)():
            return True
        context = getattr(sys.modules.get("tensorflow.python.eager.context"), "_context", None)
        backends = getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", {})
        return getattr(context, "_initialized", False) or not _GPUS.isdisjoint(backends)
    except Exception:
        return False


def _is_main():
    """Reports whether this is the main interpreter: with a thread in it, another one could not end."""
    import ctypes

    api = ctypes.PyDLL(None)
    get = getattr(api, "PyInterpreterState_Get", None) or api._PyInterpreterState_Get  # Python 3.8
    main = api.PyInterpreterState_Main
    get.restype = main.restype = ctypes.c_void_p
    return get() == main()


class _Probe:
    def __init__(self):
        self.interval, self.patience = _INTERVAL, _PATIENCE
        self.started = False
        self._used = False  # by a process that this one is a child of, or by the parent of that
        self._due = None  # when the thread of a child may start; None if it is none, or has started it
        self._renew()

    def _renew(self):
        import _thread

        self._page, self._pages, self._failures, self._recorder, self._refusals = None, 0, 0, _Recorder(), _Refusals()
        # Held while a framework is asked, and for ever from the program's end on.
        self._asking = _thread.allocate_lock()

    def start(self):
        if self.started:
            return
        self.started = True
        try:
            import _thread
            import atexit

            if not _is_main():
                return
            os.register_at_fork(after_in_child=self._forked)
            atexit.register(self._stop)
            _thread.start_new_thread(self._run, ())
        except BaseException:
            pass  # no thread, no memory: the program goes on without a probe

    def _forked(self):
        # The child has the parent's page, and no thread. It gets none at once: some system calls
        # refuse a process with threads, and CUDA does not work in a child of who has used it.
        try:
            import gc
            import time

            self._used = self._used or self._page is not None or _is_of_user()
            if self._page is not None:
                self._page.close()
            self._recorder.forget()
            self._renew()
            self._due = None if self._used else time.monotonic() + self.patience
            if self.follow not in gc.callbacks:
                gc.callbacks.append(self.follow)
        except BaseException:
            pass

    def follow(self, *_):
        """Starts the thread of a child once it is time. The garbage collector and imports call it: a
        child that does neither has no page."""
        if self._due is None:
            return
        try:
            import _thread
            import time

            if time.monotonic() >= self._due:
                self._due = None
                _thread.start_new_thread(self._run, ())
        except BaseException:
            self._due = None

    def _stop(self):
        self._due = None
        # A thread that is inside a framework while the interpreter goes may crash it.
        self._asking.acquire(timeout=1)

    def _run(self):
        asking = self._asking
        try:
            import signal
            import time

            # A signal that this thread took would not wake the one that waits for it.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while self._failures < _MAX_FAILURES and self._pages <= _MAX_PAGES:
                time.sleep(self.interval if self._page is None else self._recorder.sleep(self.interval))
                with asking:
                    self._update()
        except BaseException:
            pass
        try:
            with asking:
                self._recorder.stop()
        except BaseException:
            pass

    def _update(self):
        records, failures = _read()
        if not records and self._page is None:
            self._failures = self._failures + 1 if failures else 0
            return
        self._failures = 0
        if self._page is not None and self._page.lost():
            self._page = None  # the number may be another file's: it is not ours to close
        if self._page is None:
            self._pages += 1
            try:
                self._page = _Page()
            except Exception:  # no descriptor or memory is left: there may be some later
                return
            self._recorder.renew()
        self._page.write(records)
        self._refusals.attach(self)
        _cache.check()
        self._recorder.update(self._page)


class _Finder:
    """Starts the probe when a framework is imported. It finds no module itself."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        root, dot, _ = name.partition(".")
        # A framework imports parts of itself. Who only looks whether there is one does not.
        if dot and root in _READERS and root in sys.modules:
            _probe.start()
        _probe.follow()
        return None


def _install():
    if os.environ.get("GPU_LEAK_PROBE", "").lower() in ("off", "0", "false", "no") or not hasattr(os, "memfd_create"):
        return
    if any(name in sys.modules for name in _READERS):
        _probe.start()
    else:
        sys.meta_path.insert(0, _Finder)


def install(empty_cache_at=None):
    """Sets what the probe may do to this program; the import has started it. With empty_cache_at it empties PyTorch's cache when
    this part of a GPU's memory is used, or of what set_per_process_memory_fraction allows. A ValueError names a wrong part."""
    if empty_cache_at is not None and not 0 < empty_cache_at <= 1:
        raise ValueError("empty_cache_at is a part of the memory, such as 0.92, not %r" % (empty_cache_at,))
    _cache.empty_at = empty_cache_at


_cuda, _cache = _Cuda(), _Cache()
try:
    _probe = _Probe()
    _install()
except Exception:
    pass
