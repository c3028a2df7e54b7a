// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// outcome is what a return code means to the caller.
type outcome uint8

const (
	succeeded outcome = iota
	absent            // the GPU or this version of the driver does not offer it
	failed
	lost // the GPU does not answer any more, or not before a reset
	down // the library must be initialised again
)

// vital are the calls without which there is no sample. Only these can say that the library must be initialised again.
var vital = []string{
	"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetUUID",
	"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo",
}

// eventCall waits for events.
const eventCall = "nvmlEventSetWait_v2"

// classify maps a return code to its meaning. also are codes that mean "not offered" for this call only.
func classify(ret nvml.Return, also []nvml.Return) outcome {
	if slices.Contains(also, ret) {
		return absent
	}
	switch ret {
	case nvml.SUCCESS:
		return succeeded
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_NOT_FOUND, nvml.ERROR_NO_DATA,
		nvml.ERROR_VGPU_ECC_NOT_SUPPORTED, nvml.ERROR_ARGUMENT_VERSION_MISMATCH, nvml.ERROR_DEPRECATED:
		return absent
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED, nvml.ERROR_GPU_NOT_FOUND:
		return lost
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return down
	}
	return failed
}

// returnNames are the names of nvml.h without their prefix, which go-nvml has until it has loaded the library.
// The library's own nvmlErrorString gives sentences, and must not be called at any time.
var returnNames = func() map[nvml.Return]string {
	names := map[nvml.Return]string{nvml.ERROR_UNKNOWN: "UNKNOWN"}
	for ret := nvml.SUCCESS; ret <= nvml.ERROR_RESET_TYPE_NOT_SUPPORTED; ret++ {
		names[ret] = strings.TrimPrefix(ret.Error(), "ERROR_")
	}
	return names
}()

// returnName names a return code, by its number if nvml.h does not have it.
func returnName(ret nvml.Return) string {
	if name, ok := returnNames[ret]; ok {
		return name
	}
	return "ERROR_" + strconv.Itoa(int(ret))
}

// driverError says that no GPU can be seen because of ret.
func driverError(ret nvml.Return, cause error) *gpu.DriverError {
	return &gpu.DriverError{Reason: strings.ToLower(returnName(ret)), Err: cause}
}

// callError is a call that did not succeed. errors.Is finds gpu.ErrLost in it, and errors.As a *gpu.DriverError.
type callError struct {
	call    string
	ret     nvml.Return
	outcome outcome
}

// Error names the call and the return code.
func (e *callError) Error() string { return e.call + ": " + returnName(e.ret) }

// Unwrap returns the meaning of the failure beyond this call; nil if there is none.
func (e *callError) Unwrap() error {
	switch e.outcome {
	case lost:
		return gpu.ErrLost
	case down:
		return driverError(e.ret, errors.New(e.call))
	}
	return nil
}

var (
	// errAbsent says that the driver does not offer what the call asks for.
	errAbsent = errors.New("not offered")
	// errStale says that the library was initialised again after the handle was fetched, which makes the handle a wild
	// pointer.
	errStale = errors.New("the driver was initialised again")
)

// terminal reports whether further calls on the same handle would fail, too.
func terminal(err error) bool {
	if e, ok := errors.AsType[*callError](err); ok {
		return e.outcome == lost || e.outcome == down
	}
	_, ok := errors.AsType[*gpu.DriverError](err)
	return ok || errors.Is(err, errStale) || errors.Is(err, gpu.ErrClosed)
}

// call runs f, which calls the library's function name and nothing else. All calls but Init and Shutdown go
// through it. It counts threads inside the gate, refuses a handle of another generation, and does not run f where the library
// lacks the function, because the dynamic linker would end the process. It blocks as long as the driver does.
//
// It returns nil, errAbsent (also for the codes in also), errStale, gpu.ErrClosed, a *gpu.DriverError or a *callError. Only
// the last is counted as an error.
func (s *Source) call(uuid string, generation uint64, name string, f func() nvml.Return, also ...nvml.Return) error {
	wait := name == eventCall
	if !s.gate.enter(wait) {
		return gpu.ErrClosed
	}
	defer s.gate.leave(wait)
	if !s.initialised.Load() {
		if d := s.down.Load(); d != nil {
			return d
		}
		return driverError(nvml.ERROR_UNINITIALIZED, errors.New("the library is not initialised"))
	}
	if generation != s.generation.Load() {
		return errStale
	}
	if !s.library.has(name) {
		return errAbsent
	}
	end := s.calls.Begin(uuid, name)
	ret := f()
	o := classify(ret, also)
	switch o {
	case succeeded:
		end("")
		return nil
	case absent:
		end("")
		return errAbsent
	}
	end(returnName(ret))
	switch {
	case o == down && !slices.Contains(vital, name):
		o = failed
	case o == down:
		s.down.CompareAndSwap(nil, driverError(ret, fmt.Errorf("%s failed", name)))
	}
	return &callError{name, ret, o}
}

// caller makes a call, as Source.call does for one GPU.
type caller func(name string, f func() nvml.Return, also ...nvml.Return) error

func (s *Source) caller(uuid string, generation uint64) caller {
	return func(name string, f func() nvml.Return, also ...nvml.Return) error {
		return s.call(uuid, generation, name, f, also...)
	}
}

// ask makes a call that returns one value.
func ask[T any](call caller, name string, f func() (T, nvml.Return), also ...nvml.Return) (v T, err error) {
	err = call(name, func() (ret nvml.Return) { v, ret = f(); return ret }, also...)
	return v, err
}
