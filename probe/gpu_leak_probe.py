# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0
"""Tells gpu_leak_exporter what the memory allocator in this process holds.

The driver shows one number for a process: what its allocator has reserved. This module
adds what lives in the reservation. Import it, or install gpu_leak_probe.pth beside it.

Once PyTorch, TensorFlow, JAX or CuPy is imported, a thread asks the framework every five
seconds, and writes the answer into 4,096 bytes of memory that the exporter reads through
/proc. README.md has the layout. GPU_LEAK_PROBE=off turns it off.

It never raises into the program, never allocates on the GPU, never initialises a
framework, and never waits for the exporter.
"""

import os
import sys

_INTERVAL = 5.0  # seconds; the exporter takes a page that is six times as old for dead
_SIZE = 4096
_OURS = 4032  # what follows is the exporter's to write
_RECORDS = 16
_MAGIC = b"GPULEAK\0"
_VERSION = 1
_MAX_PAGES = 8  # how often the page is made anew after somebody closed it
_MAX_FAILURES = 20  # readings in a row of which nothing came, by errors


# Each reader yields (ordinal, backend, values) for the GPUs that the framework uses.
# values has allocated, reserved, active, inactive_split (bytes), retries and ooms; what
# the framework does not tell is left out.


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
            yield ordinal, backend, values


def _read_tensorflow(_tensorflow):
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    if context is None or not context._initialized:
        return
    for device in context.list_logical_devices("GPU"):
        ordinal = int(device.name.rsplit(":", 1)[1])
        yield ordinal, "", {"allocated": context.get_memory_info(device.name)["current"]}


def _read_jax(_jax):
    bridge = sys.modules.get("jax._src.xla_bridge")
    for platform, backend in list(getattr(bridge, "_backends", {}).items()):
        if platform not in ("cuda", "gpu", "rocm"):
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
        with cupy.cuda.Device(ordinal):
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


class _Page:
    """The memory that the exporter reads. Its size is sealed: no access to it can fail."""

    def __init__(self):
        import ctypes
        import fcntl

        self._sequence = 0
        with open("/proc/self/stat", "rb") as f:
            self._start = int(f.read().rpartition(b")")[2].split()[19])  # field 22
        fd = os.memfd_create("gpu_leak_probe", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(fd, 0, _SIZE)
            fcntl.fcntl(fd, 1033, 1 | 2 | 4)  # F_ADD_SEALS: seal, shrink, grow
            # The module mmap would keep a second descriptor, and close its number in the end,
            # whosever it is by then.
            libc = ctypes.CDLL(None)
            libc.mmap.restype = ctypes.c_void_p
            libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
            address = libc.mmap(None, _SIZE, 3, 1, fd, 0)  # read and write, shared
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

    def write(self, records):
        import struct
        import zlib

        self._sequence += 1
        body = struct.pack("<QQII", self._sequence, self._start, len(records), 0).ljust(64 - 16, b"\0") + b"".join(records)
        body = body.ljust(_OURS - 16, b"\0")
        page = struct.pack("<8sHHI", _MAGIC, _VERSION, 192, zlib.crc32(body)) + body
        self._move(self._address, page, _OURS)


def _record(framework, version, ordinal, backend, values):
    import struct

    valid, numbers = 0, []
    for bit, name in enumerate(("allocated", "reserved", "active", "inactive_split", "retries", "ooms")):
        number = values.get(name)
        known = isinstance(number, int) and 0 <= number < 1 << 63
        valid |= known << bit
        numbers.append(number if known else 0)

    def text(s, size):
        return str(s).encode("ascii", "replace")[: size - 1]

    return struct.pack(
        "<48s16s32s32sII6QQ", text(_cuda.uuid(ordinal), 48), text(framework, 16), text(version, 32), text(backend, 32), valid, ordinal, *numbers, 0
    )


def _read():
    records, failures = [], 0
    for name, reader in _READERS.items():
        module = sys.modules.get(name)
        if module is None:
            continue
        try:
            version = getattr(module, "__version__", "")
            records.extend(_record(name, version, *found) for found in reader(module))
        except Exception:  # it may be half imported, or of a version that has it elsewhere
            failures += 1
    return records[:_RECORDS], failures


class _Probe:
    def __init__(self):
        self.interval = _INTERVAL
        self.started = False
        self._renew()

    def _renew(self):
        import _thread

        self._page, self._pages, self._failures = None, 0, 0
        # Held while a framework is asked, and for ever from the program's end on.
        self._asking = _thread.allocate_lock()

    def start(self):
        if self.started:
            return
        self.started = True
        try:
            import _thread
            import atexit

            os.register_at_fork(after_in_child=self._forked)
            atexit.register(self._stop)
            _thread.start_new_thread(self._run, ())
        except BaseException:
            pass  # no thread, no memory: the program goes on without a probe

    def _forked(self):
        # The child has the parent's page, and no thread.
        try:
            import _thread

            if self._page is not None:
                self._page.close()
            self._renew()
            _thread.start_new_thread(self._run, ())
        except BaseException:
            pass

    def _stop(self):
        # A thread that is inside a framework while the interpreter goes may crash it.
        self._asking.acquire(timeout=1)

    def _run(self):
        try:
            import signal
            import time

            # A signal that this thread took would not wake the one that waits for it.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            asking = self._asking
            while self._failures < _MAX_FAILURES and self._pages <= _MAX_PAGES:
                time.sleep(self.interval)
                with asking:
                    self._update()
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
            self._page = _Page()
        self._page.write(records)


class _Finder:
    """Starts the probe when a framework is imported. It finds no module itself."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in _READERS:
            _probe.start()
        return None


def _install():
    if os.environ.get("GPU_LEAK_PROBE", "").lower() in ("off", "0", "false", "no") or not hasattr(os, "memfd_create"):
        return
    if any(name in sys.modules for name in _READERS):
        _probe.start()
    else:
        sys.meta_path.insert(0, _Finder)


_cuda = _Cuda()
try:
    _probe = _Probe()
    _install()
except Exception:
    pass
