// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fakenvml

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// A Code is an NVML return code: its name without NVML_ERROR_, or its number in digits.
type Code string

// Some return codes; any other can be spelled out.
const (
	Uninitialized   Code = "UNINITIALIZED"
	NotSupported    Code = "NOT_SUPPORTED"
	NoPermission    Code = "NO_PERMISSION"
	NotFound        Code = "NOT_FOUND"
	DriverNotLoaded Code = "DRIVER_NOT_LOADED"
	GPUIsLost       Code = "GPU_IS_LOST"
	LibraryMismatch Code = "LIB_RM_VERSION_MISMATCH"
	UnknownError    Code = "UNKNOWN"
)

// AnyInit matches all forms of nvmlInit in a [Fault].
const AnyInit = "nvmlInit*"

// A Fault makes calls fail, hang or be late. Make it with [Fail], [Hang], [Race] or [Late].
type Fault struct {
	call   string
	on     string
	action string
	skip   uint64
	times  uint64
}

// Fail makes calls answer code. The call is a function's name; a trailing * stands for any ending, so that
// nvmlDeviceGetMemoryInfo* is both versions, and * is every call.
func Fail(call string, code Code) Fault {
	return Fault{call: call, action: "error=" + string(code)}
}

// Hang makes calls block until a script without it is written. No other call waits for them.
func Hang(call string) Fault { return Fault{call: call, action: "hang"} }

// Race makes lists grow between count and fill: INSUFFICIENT_SIZE although the buffer would do. Without [Fault.Times]
// go-nvml's process lists double their buffer until memory ends.
func Race(call string) Fault { return Fault{call: call, action: "size"} }

// Late makes calls take d longer.
func Late(call string, d time.Duration) Fault {
	return Fault{call: call, action: "delay=" + strconv.FormatInt(d.Microseconds(), 10)}
}

// On limits the fault to one GPU, or MIG device, by its UUID. Without it, the fault is for all, also for calls that have
// no device.
func (f Fault) On(uuid string) Fault { f.on = uuid; return f }

// Times limits the fault to the first n calls (after those of [Fault.After]). The count goes on over writes while the
// fault stays the same.
func (f Fault) Times(n uint64) Fault { f.times = n; return f }

// After lets the first n calls pass.
func (f Fault) After(n uint64) Fault { f.skip = n; return f }

// String is the fault's line of the script.
func (f Fault) String() string {
	words := []string{"fault", f.call, cmp.Or(f.on, "*"), f.action}
	if f.skip > 0 {
		words = append(words, "skip="+strconv.FormatUint(f.skip, 10))
	}
	if f.times > 0 {
		words = append(words, "times="+strconv.FormatUint(f.times, 10))
	}
	return strings.Join(words, " ")
}
