// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

struct opened {
	void *handle;
	char *message; // for the caller to free, if handle is NULL
};

// By default each thread that is inside the library takes 64 MiB of addresses for what it allocates: too
// many where ulimit -v is set.
static void share_memory(void)
{
#ifdef M_ARENA_MAX
	mallopt(M_ARENA_MAX, 2);
#endif
}

// dlerror's message belongs to the thread, so it is fetched in the same call.
static struct opened open_library(const char *path)
{
	struct opened o = {dlopen(path, RTLD_LAZY | RTLD_LOCAL), 0};
	if (!o.handle) {
		const char *m = dlerror();
		o.message = strdup(m ? m : "dlopen failed");
	}
	return o;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// defaultLibrary is what the dynamic linker is asked for.
const defaultLibrary = "libnvidia-ml.so.1"

// usualLibraries are where the library lies if the dynamic linker does not find it: the driver container of the GPU operator,
// GKE's installer in the container and on the host.
var usualLibraries = []string{
	"/run/nvidia/driver/usr/lib/x86_64-linux-gnu/" + defaultLibrary,
	"/run/nvidia/driver/usr/lib/aarch64-linux-gnu/" + defaultLibrary,
	"/run/nvidia/driver/usr/lib64/" + defaultLibrary,
	"/usr/local/nvidia/lib64/" + defaultLibrary,
	"/home/kubernetes/bin/nvidia/lib64/" + defaultLibrary,
}

// entry is the function without which a library is not NVML.
const entry = "nvmlInit_v2"

// library is the loaded library. It stays for the life of the process: the dynamic linker binds go-nvml's calls to it at their
// first use, so that another version could not take its place.
type library struct {
	nvml.Interface
	handle  unsafe.Pointer
	symbols sync.Map // name → unsafe.Pointer, nil where the library lacks it
}

// openLibrary loads the library at path, or at the usual places if path is "".
func openLibrary(path string) (*library, *gpu.DriverError) {
	candidates := []string{path}
	if path == "" {
		candidates = []string{defaultLibrary}
		for _, p := range usualLibraries {
			if _, err := os.Stat(p); err == nil {
				candidates = append(candidates, p)
			}
		}
	}
	var first *gpu.DriverError
	for _, p := range candidates {
		l, err := load(p)
		if err == nil {
			return l, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// load maps the library. go-nvml would call Init without checking that the library has it, and hides the dynamic linker's
// message.
func load(path string) (*library, *gpu.DriverError) {
	C.share_memory()
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	opened := C.open_library(p)
	if opened.handle == nil {
		defer C.free(unsafe.Pointer(opened.message))
		return nil, driverError(nvml.ERROR_LIBRARY_NOT_FOUND, errors.New(C.GoString(opened.message)))
	}
	l := &library{Interface: nvml.New(nvml.WithLibraryPath(path)), handle: opened.handle}
	if !l.has(entry) {
		C.dlclose(opened.handle)
		return nil, driverError(nvml.ERROR_FUNCTION_NOT_FOUND, fmt.Errorf("%s has no function %s", path, entry))
	}
	return l, nil
}

// has reports whether the library has the function name. A call of one that it lacks ends the process.
func (l *library) has(name string) bool { return l.symbol(name) != nil }

// symbol returns the address of the function name, nil if the library lacks it.
func (l *library) symbol(name string) unsafe.Pointer {
	if p, ok := l.symbols.Load(name); ok {
		return p.(unsafe.Pointer)
	}
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	p := C.dlsym(l.handle, n)
	l.symbols.Store(name, p)
	return p
}

// shutdown calls Shutdown. The caller has the library alone.
func (l *library) shutdown(calls *gpu.Calls) error {
	if ret := counted(calls, "nvmlShutdown", l.Shutdown); ret != nvml.SUCCESS {
		return &callError{"nvmlShutdown", ret, classify(ret, nil)}
	}
	return nil
}

// counted makes a call about no GPU and counts it.
func counted(calls *gpu.Calls, name string, f func() nvml.Return) nvml.Return {
	end := calls.Begin("", name)
	ret := f()
	if ret == nvml.SUCCESS {
		end("")
	} else {
		end(returnName(ret))
	}
	return ret
}

// cudaVersion prints NVML's 1000 × major + 10 × minor.
func cudaVersion(v int) string {
	if v <= 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10)
}

// bus watches the PCI bus for NVIDIA GPUs that were added: the library lists those that were there at its Init. A bus that
// cannot be seen has none.
type bus struct {
	root string   // of sysfs
	seen []string // addresses that the library knows about, while they stay
}

// added reports whether there is a GPU that was not there at accept. One that went and came back counts as added.
func (b *bus) added() bool {
	now, _ := hostfs.GPUs(b.root)
	b.seen = slices.DeleteFunc(b.seen, func(address string) bool { return !slices.Contains(now, address) })
	return slices.ContainsFunc(now, func(address string) bool { return !slices.Contains(b.seen, address) })
}

// accept notes that the library knows of the GPUs that are there now.
func (b *bus) accept() { b.seen, _ = hostfs.GPUs(b.root) }
