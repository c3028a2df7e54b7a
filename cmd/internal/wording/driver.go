// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package wording

// hints say what to do about the driver's reasons that have a usual cause.
var hints = map[string]string{
	"starting":                 "the exporter has just started",
	"library_not_found":        "libnvidia-ml.so.1 was not found. Install the driver; in a container, NVIDIA_DRIVER_CAPABILITIES must hold utility; --nvml.library-path names the file elsewhere",
	"driver_not_loaded":        "the kernel module is not loaded. Load it with modprobe nvidia, or see dmesg for why it cannot be",
	"no_permission":            "this user may not open /dev/nvidiactl",
	"lib_rm_version_mismatch":  "the driver was updated and its old kernel module is still loaded. Unload it or reboot",
	"call_does_not_return":     "a call into the driver hangs; see dmesg for XID errors",
	"gpu_not_found":            "the driver is loaded but finds no GPU that it can use",
	"driver_does_not_initiate": "see dmesg",
}

// Driver says why no GPU can be seen, and what to do about it. The reason is one of gpu_driver_error.
func Driver(reason string) string {
	if reason == "prometheus_does_not_answer" {
		return "The Prometheus of --source=prometheus: does not answer. The log says why."
	}
	text := "The driver does not answer (" + reason + ")"
	if hint := hints[reason]; hint != "" {
		text += ": " + hint
	}
	return text + "."
}
