// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/fleet"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/wording"
	"github.com/gpuleak/gpu_leak_exporter/collector"
)

// lost says of a GPU that cannot be read since when.
func (h *predictor) lost(s *collector.State, d *collector.DeviceState) string {
	text := fmt.Sprintf("%s (%s) cannot be read", strings.ReplaceAll(gpuName(d), "\u00a0", " "), wording.Joined(d.Info.Name, d.Info.UUID))
	if d.SampleTime.IsZero() {
		return text + "."
	}
	text += "; its last sample is of " + h.moment(d.SampleTime, s.Time, "15:04:05 MST")
	if h.Note == "" { // else it is of another clock than the state
		text += ", " + humanize.Duration(max(0, s.Time.Sub(d.SampleTime))) + " ago"
	}
	return text + "."
}

// blind says of a memory that nothing tells how much of it is used, and why as far as that is known.
func blind(s *collector.State, m *domain) string {
	info := m.device.Info
	text := fmt.Sprintf("%s (%s) does not tell how much memory is used, so that it is not judged", m.name, wording.Joined(info.Name, info.UUID))
	var errs []string
	for _, e := range s.Calls.Errors {
		if e.UUID == info.UUID && strings.HasPrefix(e.Call, "nvmlDeviceGetMemoryInfo") && !slices.Contains(errs, e.Error) {
			errs = append(errs, e.Error)
		}
	}
	if len(errs) > 0 {
		text += ": the driver answered " + strings.Join(errs, ", ")
	}
	return text + "."
}

// hints say what to do about the driver's reasons that have a usual cause.
var hints = map[string]string{
	collector.ReasonStarting:   "the exporter has just started",
	"library_not_found":        "libnvidia-ml.so.1 was not found. Install the driver; in a container, NVIDIA_DRIVER_CAPABILITIES must hold utility; --nvml.library-path names the file elsewhere",
	"driver_not_loaded":        "the kernel module is not loaded. Load it with modprobe nvidia, or see dmesg for why it cannot be",
	"no_permission":            "this user may not open /dev/nvidiactl",
	"lib_rm_version_mismatch":  "the driver was updated and its old kernel module is still loaded. Unload it or reboot",
	"call_does_not_return":     "a call into the driver hangs; see dmesg for XID errors",
	"gpu_not_found":            "the driver is loaded but finds no GPU that it can use",
	"driver_does_not_initiate": "see dmesg",
}

func driverProblem(reason string) string {
	if reason == fleet.ReasonDown {
		return "The Prometheus of --source=prometheus: does not answer. The log says why."
	}
	text := "The driver does not answer (" + reason + ")"
	if hint := hints[reason]; hint != "" {
		text += ": " + hint
	}
	return text + "."
}
