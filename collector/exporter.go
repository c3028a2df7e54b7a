// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// The exporter itself: which GPUs it sees, and how well it reads them. Without
// these series no other could be trusted, so they are always there.
var exporterFamily = family{name: "exporter", always: true, metrics: []metric{
	gauge("gpu_up",
		"Whether (1 or 0) the GPU can be read now. While it is 0 the GPU's measurements are left out.",
		func(d *sampler.DeviceState) optional { return gpu.Some(oneIf(d.Up)) }).evenDown(),
	gauges("gpu_info",
		"Always 1; the labels say what GPU this is. memory is unified where the GPU has none of its own and uses that of the host, "+
			"coherent where each can use the other's, else empty.",
		[]string{"name", "pci_bus_id", "serial", "vbios_version", "architecture", "driver_version", "cuda_version", "memory"},
		func(d *sampler.DeviceState, e *emitter) {
			in, memory := &d.Info, ""
			switch {
			case in.UnifiedMemory:
				memory = "unified"
			case in.CoherentMemory:
				memory = "coherent"
			}
			e.emit(1, in.Name, in.PCIBusID, in.Serial, in.VBIOSVersion, in.Architecture, in.DriverVersion, in.CUDAVersion, memory)
		}).evenDown(),
	gauge("gpu_devices",
		"GPUs that can be read now. Less than gpu_pci_devices: the driver does not show or cannot read a GPU that is there.",
		func(s *sampler.State) optional { return gpu.Some(float64(devicesUp(s))) }),
	gauge("gpu_pci_devices",
		"NVIDIA display controllers that the PCI bus shows, whether the driver knows them or not. Absent where sysfs cannot be read.",
		func(s *sampler.State) optional { return number(s.PCIDevices) }),
	gauge("gpu_driver_up",
		"Whether (1 or 0) the NVIDIA driver answers. gpu_driver_error says why it does not.",
		func(s *sampler.State) optional { return gpu.Some(oneIf(s.DriverReason == "")) }),
	gauges("gpu_driver_error",
		"1 while no GPU can be seen at all, and why: library_not_found, driver_not_loaded, no_permission, lib_rm_version_mismatch, "+
			"starting and others. Absent while the driver answers.",
		[]string{"reason"},
		func(s *sampler.State, e *emitter) {
			if s.DriverReason != "" {
				e.emit(1, s.DriverReason)
			}
		}),
	gauge("gpu_sample_timestamp_seconds",
		"When memory and processes of the GPU were last read, in seconds since the Unix epoch. Absent before the first time.",
		func(d *sampler.DeviceState) optional { return timestamp(d.SampleTime) }).evenDown(),
	counter("gpu_samples_missed_total",
		"Samples of the GPU that were due and were not taken, because the driver was slow or did not answer.",
		func(d *sampler.DeviceState) optional { return gpu.Some(float64(d.Missed)) }).evenDown(),
	counters("gpu_nvml_errors_total",
		"Calls into the driver's library that failed, by function and error. gpu and uuid are empty for calls that concern no GPU.",
		[]string{"gpu", "uuid", "call", "error"},
		func(s *sampler.State, e *emitter) {
			for _, c := range s.Calls.Errors {
				e.emit(float64(c.Count), indexOf(s, c.UUID), c.UUID, c.Call, c.Error)
			}
		}),
	counters("gpu_nvml_call_seconds_total",
		"Seconds spent in calls into the driver's library that have returned, by function.",
		[]string{"call"},
		func(s *sampler.State, e *emitter) {
			for _, c := range s.Calls.Calls {
				e.emit(c.Seconds, c.Call)
			}
		}),
	counters("gpu_nvml_calls_total",
		"Calls into the driver's library that have returned, by function.",
		[]string{"call"},
		func(s *sampler.State, e *emitter) {
			for _, c := range s.Calls.Calls {
				e.emit(float64(c.Count), c.Call)
			}
		}),
	gauges("gpu_nvml_call_in_flight_seconds",
		"Seconds since a call into the driver's library was entered that has not returned, from a second on; the longest by function. A hung call shows while it hangs.",
		[]string{"gpu", "uuid", "call"},
		func(s *sampler.State, e *emitter) {
			// They are ordered by age, so of several calls of one function the oldest is the one that gets the series.
			for _, c := range s.Calls.InFlight {
				if age := s.Time.Sub(c.Since); age >= minInFlight {
					e.emit(age.Seconds(), indexOf(s, c.UUID), c.UUID, c.Call)
				}
			}
		}),
	gauges("gpu_collector_success",
		"Whether (1 or 0) the last reading of this collector succeeded on every GPU.",
		[]string{"collector"},
		func(s *sampler.State, e *emitter) {
			for _, c := range s.Collectors {
				e.emit(oneIf(c.Success), c.Name)
			}
		}),
	gauges("gpu_collector_duration_seconds",
		"Seconds that the last reading of this collector took, summed over the GPUs. It happens in the background, not in the scrape.",
		[]string{"collector"},
		func(s *sampler.State, e *emitter) {
			for _, c := range s.Collectors {
				e.emit(c.Duration.Seconds(), c.Name)
			}
		}),
	gauge("gpu_leak_exporter_config_last_reload_successful",
		"Whether (1 or 0) --detector.config could be read the last time. With 0 the rules of the time before hold. Absent without such a file.",
		func(s *sampler.State) optional { return successful(s.Reload) }),
	gauge("gpu_leak_exporter_config_last_reload_success_timestamp_seconds",
		"When --detector.config was last read without an error, in seconds since the Unix epoch.",
		func(s *sampler.State) optional { return succeededAt(s.Reload) }),
	gauge("gpu_leak_exporter_state_file_last_write_successful",
		"Whether (1 or 0) the detector's histories could be written to --detector.state-file the last time. Absent without such a file.",
		func(s *sampler.State) optional { return successful(s.StateFile) }),
	gauge("gpu_leak_exporter_state_file_write_timestamp_seconds",
		"When the detector's histories were last written to --detector.state-file, in seconds since the Unix epoch.",
		func(s *sampler.State) optional { return succeededAt(s.StateFile) }),
	gauge("gpu_leak_exporter_incident_dir_last_write_successful",
		"Whether (1 or 0) all incidents could be written to --incident.dir the last time. Absent before the first one, and without such a directory.",
		func(s *sampler.State) optional {
			return optional{V: oneIf(s.Incidents.Written.V), OK: s.Incidents.Written.OK}
		}),
}}

// successful and succeededAt are absent where there is no such file; the latter also before the first success.
func successful(f *sampler.FileState) optional {
	if f == nil {
		return optional{}
	}
	return gpu.Some(oneIf(f.Success))
}

func succeededAt(f *sampler.FileState) optional {
	if f == nil {
		return optional{}
	}
	return timestamp(f.Time)
}

// minInFlight is how long a call must have taken to be shown in flight. The wait for events is nearly always in flight for
// less, and other calls are now and then: their series would come and go with the scrapes.
const minInFlight = time.Second

func devicesUp(s *sampler.State) (n int) {
	for _, d := range s.Devices {
		if d.Up {
			n++
		}
	}
	return n
}

// indexOf returns the index of the GPU of that UUID as a label value; empty if there is none.
func indexOf(s *sampler.State, uuid string) string {
	for _, d := range s.Devices {
		if uuid != "" && d.Info.UUID == uuid {
			return d.Info.IndexLabel()
		}
	}
	return ""
}
