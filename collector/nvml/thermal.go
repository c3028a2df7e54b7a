// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// thermal returns temperatures, fans and what slows the clocks down.
func (r *reading) thermal() gpu.Thermal {
	f := r.fields(
		fieldID{nvml.FI_DEV_MEMORY_TEMP}, fieldID{nvml.FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT}, fieldID{nvml.FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT},
		fieldID{nvml.FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT}, fieldID{nvml.FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT},
	)
	var t gpu.Thermal
	appendNamed(&t.Temperatures, "gpu", r.temperature())
	appendNamed(&t.Temperatures, "memory", sensor(f[0].degrees()))
	for i, name := range []string{"shutdown", "slowdown", "memory_max", "gpu_max"} {
		appendNamed(&t.MarginThresholds, name, f[i+1].degrees())
	}
	t.Thresholds = r.thresholds(len(t.MarginThresholds) > 0)
	margin := get(r, "nvmlDeviceGetMarginTemperature", r.handle.GetMarginTemperature, nvml.ERROR_INVALID_ARGUMENT)
	t.Margin = celsius(float64(margin.V.MarginTemperature)).If(margin.OK)
	t.Fans = r.fans()
	t.ClockEvents = r.clockEvents()
	return t
}

func appendNamed[T any](to *[]gpu.Named[T], name string, v gpu.Opt[T]) {
	if v.OK {
		*to = append(*to, gpu.Named[T]{Name: name, V: v.V})
	}
}

// temperature returns that of the GPU's die in °C. The older call returns it as an unsigned number.
func (r *reading) temperature() gpu.Opt[float64] {
	v := get(r, "nvmlDeviceGetTemperatureV", func() (nvml.Temperature, nvml.Return) {
		return r.handle.GetTemperatureV().V1()
	}, nvml.ERROR_INVALID_ARGUMENT)
	if v.OK {
		return sensor(celsius(float64(v.V.Temperature)))
	}
	old := get(r, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) {
		return r.handle.GetTemperature(nvml.TEMPERATURE_GPU)
	})
	return sensor(celsius(float64(int32(old.V)))).If(old.OK)
}

// thresholds returns the temperatures at which the driver acts. Where it gives the first four as margins (Ada and later),
// nvml.h calls their absolute values superseded, and they are left out.
func (r *reading) thresholds(margins bool) []gpu.Named[float64] {
	asked := []named[nvml.TemperatureThresholds]{
		{"shutdown", nvml.TEMPERATURE_THRESHOLD_SHUTDOWN},
		{"slowdown", nvml.TEMPERATURE_THRESHOLD_SLOWDOWN},
		{"memory_max", nvml.TEMPERATURE_THRESHOLD_MEM_MAX},
		{"gpu_max", nvml.TEMPERATURE_THRESHOLD_GPU_MAX},
		{"acoustic_min", nvml.TEMPERATURE_THRESHOLD_ACOUSTIC_MIN},
		{"acoustic_current", nvml.TEMPERATURE_THRESHOLD_ACOUSTIC_CURR},
		{"acoustic_max", nvml.TEMPERATURE_THRESHOLD_ACOUSTIC_MAX},
	}
	if margins {
		asked = asked[4:]
	}
	var thresholds []gpu.Named[float64]
	for _, t := range asked {
		v := get(r, "nvmlDeviceGetTemperatureThreshold", func() (uint32, nvml.Return) {
			return r.handle.GetTemperatureThreshold(t.id)
		}, nvml.ERROR_INVALID_ARGUMENT)
		appendNamed(&thresholds, t.name, sensor(celsius(float64(int32(v.V)))).If(v.OK))
	}
	return thresholds
}

// fans returns the intended speed of each fan as a ratio of the highest. Older drivers know one fan only.
func (r *reading) fans() (fans []gpu.Opt[float64]) {
	const none = nvml.ERROR_INVALID_ARGUMENT
	n := get(r, "nvmlDeviceGetNumFans", r.handle.GetNumFans)
	if !n.OK {
		if one := number32(get(r, "nvmlDeviceGetFanSpeed", r.handle.GetFanSpeed, none), 1, 100); one.OK {
			fans = append(fans, one)
		}
	}
	for i := range min(n.V, 32) {
		fans = append(fans, number32(get(r, "nvmlDeviceGetFanSpeed_v2", func() (uint32, nvml.Return) {
			return r.handle.GetFanSpeed_v2(i)
		}, none), 1, 100))
	}
	return fans
}

// clockReasons are NVML's clocks event reasons in the order of their bits, and the fields that count how long each held, in
// ns.
var clockReasons = [...]struct {
	name  string
	bit   uint64
	field uint32
}{
	{"gpu_idle", nvml.ClocksEventReasonGpuIdle, 0},
	{"applications_clocks_setting", nvml.ClocksEventReasonApplicationsClocksSetting, 0},
	{"sw_power_cap", nvml.ClocksEventReasonSwPowerCap, nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP},
	{"hw_slowdown", nvml.ClocksThrottleReasonHwSlowdown, 0},
	{"sync_boost", nvml.ClocksEventReasonSyncBoost, nvml.FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST},
	{"sw_thermal_slowdown", nvml.ClocksEventReasonSwThermalSlowdown, nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN},
	{"hw_thermal_slowdown", nvml.ClocksThrottleReasonHwThermalSlowdown, nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN},
	{"hw_power_brake_slowdown", nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN},
	{"display_clock_setting", nvml.ClocksEventReasonDisplayClockSetting, 0},
}

// clockEvents returns the reasons that this GPU can report.
func (r *reading) clockEvents() []gpu.ClockEvent {
	active := r.firstOf("nvmlDeviceGetCurrentClocksEventReasons", r.handle.GetCurrentClocksEventReasons,
		"nvmlDeviceGetCurrentClocksThrottleReasons", r.handle.GetCurrentClocksThrottleReasons)
	supported := r.firstOf("nvmlDeviceGetSupportedClocksEventReasons", r.handle.GetSupportedClocksEventReasons,
		"nvmlDeviceGetSupportedClocksThrottleReasons", r.handle.GetSupportedClocksThrottleReasons)
	var ids []fieldID
	for _, c := range clockReasons {
		if c.field != 0 {
			ids = append(ids, fieldID{c.field})
		}
	}
	values := r.fields(ids...)
	var events []gpu.ClockEvent
	for _, c := range clockReasons {
		e := gpu.ClockEvent{Reason: c.name, Active: gpu.Some(active.V&c.bit != 0).If(active.OK && (!supported.OK || supported.V&c.bit != 0))}
		if c.field != 0 {
			ns := values[0].count()
			e.Seconds = gpu.Some(float64(ns.V) / 1e9).If(ns.OK)
			values = values[1:]
		}
		if e.Active.OK || e.Seconds.OK {
			events = append(events, e)
		}
	}
	return events
}

// firstOf makes the first of two calls that the driver has: one was renamed.
func (r *reading) firstOf(name string, f func() (uint64, nvml.Return), old string, g func() (uint64, nvml.Return)) gpu.Opt[uint64] {
	v := get(r, name, f)
	if !v.OK {
		v = get(r, old, g)
	}
	return v.If(v.V != notAvailable64)
}
