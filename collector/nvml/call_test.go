// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestClassify(t *testing.T) {
	want := map[nvml.Return]outcome{
		nvml.SUCCESS:                         succeeded,
		nvml.ERROR_NOT_SUPPORTED:             absent,
		nvml.ERROR_FUNCTION_NOT_FOUND:        absent,
		nvml.ERROR_NOT_FOUND:                 absent,
		nvml.ERROR_NO_DATA:                   absent,
		nvml.ERROR_VGPU_ECC_NOT_SUPPORTED:    absent,
		nvml.ERROR_ARGUMENT_VERSION_MISMATCH: absent,
		nvml.ERROR_DEPRECATED:                absent,
		nvml.ERROR_GPU_IS_LOST:               lost,
		nvml.ERROR_RESET_REQUIRED:            lost,
		nvml.ERROR_GPU_NOT_FOUND:             lost,
		nvml.ERROR_UNINITIALIZED:             down,
		nvml.ERROR_DRIVER_NOT_LOADED:         down,
		nvml.ERROR_LIB_RM_VERSION_MISMATCH:   down,
	}
	for ret := range nvml.Return(1100) { // codes that nvml.h does not have are failures
		w, ok := want[ret]
		if !ok {
			w = failed
		}
		testkit.Equal(t, classify(ret, nil), w, "%s", returnName(ret))
	}
	also := []nvml.Return{nvml.ERROR_TIMEOUT, nvml.ERROR_INVALID_ARGUMENT}
	testkit.Equal(t, classify(nvml.ERROR_INVALID_ARGUMENT, also), absent, "INVALID_ARGUMENT where it means not offered")
}

func TestReturnName(t *testing.T) {
	for _, c := range []struct {
		ret  nvml.Return
		want string
	}{
		{nvml.ERROR_GPU_IS_LOST, "GPU_IS_LOST"},
		{nvml.ERROR_UNKNOWN, "UNKNOWN"},
		{nvml.ERROR_RESET_TYPE_NOT_SUPPORTED, "RESET_TYPE_NOT_SUPPORTED"},
		{77, "ERROR_77"},
	} {
		testkit.Equal(t, returnName(c.ret), c.want, "%d", c.ret)
	}
	for ret := nvml.SUCCESS; ret <= nvml.ERROR_RESET_TYPE_NOT_SUPPORTED; ret++ {
		if name := returnNames[ret]; name == "" || strings.Contains(name, " ") {
			t.Errorf("code %d of nvml.h has no name", ret)
		}
	}
}

func TestCallErrorMeaning(t *testing.T) {
	wrap := func(ret nvml.Return) error {
		return fmt.Errorf("thermal: %w", errors.Join(&callError{"nvmlDeviceGetFanSpeed_v2", ret, classify(ret, nil)}))
	}
	if err := wrap(nvml.ERROR_GPU_IS_LOST); !errors.Is(err, gpu.ErrLost) || !terminal(err) {
		t.Errorf("%v: is not ErrLost, or not terminal", err)
	}
	if err := wrap(nvml.ERROR_UNKNOWN); errors.Is(err, gpu.ErrLost) || terminal(err) || err.Error() != "thermal: nvmlDeviceGetFanSpeed_v2: UNKNOWN" {
		t.Errorf("%v: is ErrLost, or terminal, or has another text", err)
	}
	var d *gpu.DriverError
	for _, ret := range []nvml.Return{nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH} {
		err := wrap(ret)
		if !errors.As(err, &d) || d.Fatal || !terminal(err) {
			t.Errorf("%v: DriverError %+v: fatal is for Init alone to say", err, d)
		}
	}
	if d.Reason == "" {
		t.Error("a DriverError without reason")
	}
	for _, err := range []error{errStale, gpu.ErrClosed, driverError(nvml.ERROR_UNKNOWN, errors.New("x"))} {
		if !terminal(err) {
			t.Errorf("%v: not terminal", err)
		}
	}
	if terminal(errAbsent) {
		t.Error("what is not offered ends the reading")
	}
}
