// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

/*
#include <stddef.h>

// The library's functions by address. go-nvml's wrappers of them double their
// buffer for as long as the driver calls it too small, which may be for ever.
typedef int (*running_processes)(void *device, unsigned int *count, void *infos);
typedef int (*process_utilization)(void *device, void *samples, unsigned int *count, unsigned long long since);

static int call_running_processes(void *f, void *device, unsigned int *count, void *infos)
{
	return ((running_processes)f)(device, count, infos);
}

static int call_process_utilization(void *f, void *device, void *samples, unsigned int *count,
				    unsigned long long since)
{
	return ((process_utilization)f)(device, samples, count, since);
}

typedef int (*retired_pages)(void *device, int cause, unsigned int *count, unsigned long long *addresses);

static int count_retired_pages(void *f, void *device, int cause, unsigned int *count)
{
	return ((retired_pages)f)(device, cause, count, NULL);
}
*/
import "C"

import (
	"math"
	"reflect"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	// listTries bounds how often a list is asked for that grows meanwhile, and listEntries its length.
	listTries   = 5
	listEntries = 65_536
	// noInstance is the GPU instance of a process on a GPU without MIG.
	noInstance = math.MaxUint32
)

// processInfo is nvmlProcessInfo_v2_t, which the functions of version 3 use, too.
type processInfo struct {
	pid      uint32
	used     uint64 // bytes; all ones where it is not known
	instance uint32
	compute  uint32
}

// pointer returns the handle as the library knows it. go-nvml has it only in a field of an unnamed type.
func pointer(d nvml.Device) unsafe.Pointer { return reflect.ValueOf(d).Field(0).UnsafePointer() }

// runningProcesses returns one of the driver's lists of processes. function is its name without version, buf the buffer to use
// again.
func (r *reading) runningProcesses(function string, buf *[]processInfo) (list []processInfo, err error) {
	l := r.device.source.library
	// Drivers around 535.43 have a version 3 with longer entries, which would overrun the buffer. The functions that they have
	// and lack tell them.
	longer := l.has("nvmlDeviceGetConfComputeMemSizeInfo") && !l.has("nvmlDeviceGetRunningProcessDetailList")
	name := function + "_v3"
	if longer || !l.has(name) {
		name = function + "_v2"
	}
	return fill(r, name, buf, func(buf unsafe.Pointer, n *C.uint) nvml.Return {
		return nvml.Return(C.call_running_processes(l.symbol(name), pointer(r.handle.Device), n, buf))
	})
}

// processUtilization returns the utilisation samples of processes that are newer than the time stamp since.
func (r *reading) processUtilization(since uint64, buf *[]nvml.ProcessUtilizationSample) ([]nvml.ProcessUtilizationSample, error) {
	const name = "nvmlDeviceGetProcessUtilization"
	return fill(r, name, buf, func(buf unsafe.Pointer, n *C.uint) nvml.Return {
		f := r.device.source.library.symbol(name)
		ret := nvml.Return(C.call_process_utilization(f, pointer(r.handle.Device), buf, n, C.ulonglong(since)))
		if ret == nvml.ERROR_NOT_FOUND { // no process has done anything since
			*n = 0
			return nvml.SUCCESS
		}
		return ret
	})
}

// retired returns how many pages of memory were retired for a cause. The call is asked for the size of its list only, and
// answers that there is no room.
func (r *reading) retired(cause nvml.PageRetirementCause) gpu.Opt[uint64] {
	const name = "nvmlDeviceGetRetiredPages"
	var n C.uint
	err := r.call(name, func() nvml.Return {
		f := r.device.source.library.symbol(name)
		ret := nvml.Return(C.count_retired_pages(f, pointer(r.handle.Device), C.int(cause), &n))
		if ret == nvml.ERROR_INSUFFICIENT_SIZE {
			return nvml.SUCCESS
		}
		return ret
	}, nvml.ERROR_INVALID_ARGUMENT)
	return gpu.Some(uint64(n)).If(err == nil && n != notAvailable32)
}

// fill calls f until the list fits into the buffer. A list that grows too often or too long fails with INSUFFICIENT_SIZE. The
// first call of all has no buffer: that asks for the size, by nvml.h. The error is errAbsent where the driver has no such
// list.
func fill[T any](r *reading, name string, buf *[]T, f func(unsafe.Pointer, *C.uint) nvml.Return) ([]T, error) {
	for try := 1; ; try++ {
		n := C.uint(len(*buf))
		again := false
		err := r.call(name, func() nvml.Return {
			ret := f(unsafe.Pointer(unsafe.SliceData(*buf)), &n)
			again = ret == nvml.ERROR_INSUFFICIENT_SIZE && try < listTries && n <= listEntries
			if again {
				return nvml.SUCCESS
			}
			return ret
		})
		if err != nil {
			return nil, err
		}
		if !again {
			return (*buf)[:min(int(n), len(*buf))], nil
		}
		// The list may grow until the next call.
		*buf = make([]T, min(max(int(n)+int(n)/4, 2*len(*buf), 16), listEntries))
	}
}
