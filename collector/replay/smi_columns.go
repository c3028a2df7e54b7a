// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// smiColumn puts the value of a column into a row. unit is that of the header.
type smiColumn func(r *Row, text, unit string) error

// smiColumnOf returns how the column of that name is read, nil if it is not
// needed.
func smiColumnOf(name string) smiColumn {
	if c, ok := smiColumns[name]; ok {
		return c
	}
	// The families below have many members, and newer drivers add some.
	if rest, ok := strings.CutPrefix(name, "ecc.errors."); ok {
		return smiECC(rest)
	}
	for _, prefix := range []string{"clocks_event_reasons.", "clocks_throttle_reasons."} {
		if reason, ok := strings.CutPrefix(name, prefix); ok && smiReasons[reason] {
			return smiReason(reason)
		}
	}
	if rest, ok := strings.CutPrefix(name, "clocks."); ok {
		return smiClock(rest)
	}
	return nil
}

// smiColumns are the columns by name, as nvidia-smi --help-query-gpu and
// --help-query-compute-apps list them.
var smiColumns = map[string]smiColumn{
	"timestamp": func(*Row, string, string) error { return nil }, // read by smiHeader.row

	"index":      smiInt(func(r *Row) *gpu.Opt[int] { return &r.Index }),
	"uuid":       smiText(func(r *Row) *string { return &r.Info.UUID }),
	"gpu_uuid":   smiText(func(r *Row) *string { return &r.Info.UUID }),
	"name":       smiText(func(r *Row) *string { return &r.Info.Name }),
	"gpu_name":   smiText(func(r *Row) *string { return &r.Info.Name }),
	"pci.bus_id": smiText(func(r *Row) *string { return &r.Info.PCIBusID }),
	"gpu_bus_id": smiText(func(r *Row) *string { return &r.Info.PCIBusID }),
	"serial":     smiText(func(r *Row) *string { return &r.Info.Serial }),
	"gpu_serial": smiText(func(r *Row) *string { return &r.Info.Serial }),
	"host":       smiHost, "hostname": smiHost, "node": smiHost,

	"vbios_version":  smiText(func(r *Row) *string { return &r.Info.VBIOSVersion }),
	"driver_version": smiText(func(r *Row) *string { return &r.Info.DriverVersion }),

	"memory.total":    smiBytes(func(r *Row) *gpu.Opt[uint64] { return &r.Memory.Total }),
	"memory.used":     smiBytes(func(r *Row) *gpu.Opt[uint64] { return &r.Memory.Used }),
	"memory.free":     smiBytes(func(r *Row) *gpu.Opt[uint64] { return &r.Memory.Free }),
	"memory.reserved": smiBytes(func(r *Row) *gpu.Opt[uint64] { return &r.Memory.Reserved }),

	"pid":             smiPID,
	"process_name":    smiProcess,
	"used_memory":     smiBytes(func(r *Row) *gpu.Opt[uint64] { return &r.Used }),
	"used_gpu_memory": smiBytes(func(r *Row) *gpu.Opt[uint64] { return &r.Used }),

	"utilization.gpu":     smiRatio(func(r *Row) *gpu.Opt[float64] { return &r.status.Utilization.GPU }),
	"utilization.memory":  smiRatio(func(r *Row) *gpu.Opt[float64] { return &r.status.Utilization.MemoryController }),
	"utilization.encoder": smiRatio(func(r *Row) *gpu.Opt[float64] { return &r.status.Utilization.Encoder }),
	"utilization.decoder": smiRatio(func(r *Row) *gpu.Opt[float64] { return &r.status.Utilization.Decoder }),
	"utilization.jpeg":    smiRatio(func(r *Row) *gpu.Opt[float64] { return &r.status.Utilization.JPEG }),
	"utilization.ofa":     smiRatio(func(r *Row) *gpu.Opt[float64] { return &r.status.Utilization.OFA }),

	"temperature.gpu":    smiNamed(&smiCelsius, "gpu", func(r *Row) *[]gpu.Named[float64] { return &r.status.Thermal.Temperatures }),
	"temperature.memory": smiNamed(&smiCelsius, "memory", func(r *Row) *[]gpu.Named[float64] { return &r.status.Thermal.Temperatures }),
	"temperature.gpu.tlimit": smiFloat(&smiCelsius, func(r *Row) *gpu.Opt[float64] {
		return &r.status.Thermal.Margin
	}),
	"fan.speed": smiFan,

	"power.draw":           smiFloat(&smiWatts, func(r *Row) *gpu.Opt[float64] { return &r.status.Power.Watts }),
	"power.draw.instant":   smiFloat(&smiWatts, func(r *Row) *gpu.Opt[float64] { return &r.status.Power.Watts }),
	"enforced.power.limit": smiNamed(&smiWatts, "enforced", smiLimits),
	"power.limit":          smiNamed(&smiWatts, "management", smiLimits),
	"power.default_limit":  smiNamed(&smiWatts, "default", smiLimits),
	"power.min_limit":      smiNamed(&smiWatts, "min", smiLimits),
	"power.max_limit":      smiNamed(&smiWatts, "max", smiLimits),
	"pstate":               smiPerformanceState,

	"ecc.mode.current":                   smiFlag(func(r *Row) *gpu.Opt[bool] { return &r.status.ECC.Enabled }),
	"retired_pages.single_bit_ecc.count": smiCounted("single_bit", smiRetired),
	"retired_pages.double_bit.count":     smiCounted("double_bit", smiRetired),
	"retired_pages.pending":              smiFlag(func(r *Row) *gpu.Opt[bool] { return &r.status.ECC.RetiredPagesPending }),
	"remapped_rows.correctable":          smiCounted("corrected", smiRemapped),
	"remapped_rows.uncorrectable":        smiCounted("uncorrected", smiRemapped),
	"remapped_rows.pending":              smiFlag(func(r *Row) *gpu.Opt[bool] { return &r.status.ECC.RemapPending }),
	"remapped_rows.failure":              smiFlag(func(r *Row) *gpu.Opt[bool] { return &r.status.ECC.RemapFailed }),

	"pcie.link.gen.current":    smiInt(func(r *Row) *gpu.Opt[int] { return &r.status.PCIe.GenerationCurrent }),
	"pcie.link.gen.gpucurrent": smiInt(func(r *Row) *gpu.Opt[int] { return &r.status.PCIe.GenerationCurrent }),
	"pcie.link.gen.max":        smiInt(func(r *Row) *gpu.Opt[int] { return &r.status.PCIe.GenerationMax }),
	"pcie.link.width.current":  smiInt(func(r *Row) *gpu.Opt[int] { return &r.status.PCIe.WidthCurrent }),
	"pcie.link.width.max":      smiInt(func(r *Row) *gpu.Opt[int] { return &r.status.PCIe.WidthMax }),

	"mig.mode.current": smiFlag(func(r *Row) *gpu.Opt[bool] { return &r.mig }),
}

// smiReasons are the clocks event reasons that are flags.
var smiReasons = map[string]bool{
	"gpu_idle": true, "applications_clocks_setting": true, "sw_power_cap": true, "hw_slowdown": true,
	"sync_boost": true, "sw_thermal_slowdown": true, "hw_thermal_slowdown": true,
	"hw_power_brake_slowdown": true, "display_clock_setting": true,
}

func smiLimits(r *Row) *[]gpu.Named[float64]  { return &r.status.Power.Limits }
func smiRetired(r *Row) *[]gpu.Named[uint64]  { return &r.status.ECC.RetiredPages }
func smiRemapped(r *Row) *[]gpu.Named[uint64] { return &r.status.ECC.RemappedRows }

// smiUnit is a unit that numbers come in, the one of nvidia-smi and any other
// that can be turned into the base unit: base = number × times ÷ by.
type smiUnit struct {
	name      string // of nvidia-smi; counts where there is none
	units     map[string]smiScale
	min, max  float64 // in the base unit; nothing that exists lies beyond
	wholeBase bool    // the result is a whole number
}

type smiScale struct{ times, by float64 }

var (
	smiMemory = smiUnit{"MiB", map[string]smiScale{
		"MiB": {1 << 20, 1}, "B": {1, 1}, "KiB": {1 << 10, 1}, "GiB": {1 << 30, 1},
	}, 0, 1 << 48, true}
	smiPercent = smiUnit{"%", map[string]smiScale{"%": {1, 100}}, 0, 10, false}
	smiCelsius = smiUnit{"C", map[string]smiScale{"C": {1, 1}}, -273, 1000, false}
	smiWatts   = smiUnit{"W", map[string]smiScale{"W": {1, 1}, "mW": {1, 1000}}, 0, 1e6, false}
	smiHertz   = smiUnit{"MHz", map[string]smiScale{"MHz": {1e6, 1}, "kHz": {1e3, 1}, "GHz": {1e9, 1}}, 0, 1e12, false}
	smiCount   = smiUnit{"a whole number", nil, 0, 1 << 53, true}
)

// read reads a number. Its unit is the one behind it, else that of the header,
// else nvidia-smi's own.
func (u *smiUnit) read(text, header string) (float64, error) {
	digits, unit, _ := strings.Cut(text, " ")
	unit = cmp.Or(strings.TrimSpace(unit), header, u.name)
	scale, ok := u.units[unit]
	if u.units == nil && unit == u.name {
		scale, ok = smiScale{1, 1}, true
	}
	if ok && header != "" && unit != header {
		return 0, fmt.Errorf("cannot read %q: the header says %q", text, header)
	}
	if !ok || !isDecimal(digits) {
		return 0, u.wrong(text)
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, u.wrong(text)
	}
	v = v * scale.times / scale.by
	if v < u.min || v > u.max || u.wholeBase && v != math.Trunc(v) {
		return 0, u.wrong(text)
	}
	return v + 0, nil // -0 is 0
}

func (u *smiUnit) wrong(text string) error { return fmt.Errorf("cannot read %q as %s", text, u.name) }

// isDecimal reports whether a text holds no more than digits, signs and points:
// ParseFloat also reads nan, inf, hexadecimal numbers and underscores.
func isDecimal(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

func smiText(at func(*Row) *string) smiColumn {
	return func(r *Row, text, _ string) error {
		*at(r) = text
		return nil
	}
}

// wholeMiB reads what nvidia-smi writes of memory, such as "20480 MiB", as smiMemory does, but in a fraction of the time. ok is
// false for all else.
func wholeMiB(text, header string) (bytes uint64, ok bool) {
	digits, unit := strings.CutSuffix(text, " MiB")
	if header != "MiB" && (header != "" || !unit) || digits == "" || len(digits) > 8 {
		return 0, false
	}
	for i := range len(digits) {
		c := digits[i] - '0'
		if c > 9 {
			return 0, false
		}
		bytes = 10*bytes + uint64(c)
	}
	return bytes << 20, true
}

// setApart is an amount whose thousands may be set apart, as 24.500 MiB: nvidia-smi writes whole numbers.
var setApart = regexp.MustCompile(`^[1-9]\d{0,2}\.\d{3}(?: MiB)?$`)

func smiBytes(at func(*Row) *gpu.Opt[uint64]) smiColumn {
	return func(r *Row, text, unit string) error {
		if v, ok := wholeMiB(text, unit); ok {
			*at(r) = gpu.Some(v)
			return nil
		}
		v, err := smiMemory.read(text, unit)
		if err == nil && v < 1<<30 && setApart.MatchString(text) {
			err = fmt.Errorf("%q is less than a GPU has: if its point sets thousands apart, take it out", text)
		}
		if err == nil {
			*at(r) = gpu.Some(uint64(v))
		}
		return err
	}
}

func smiFloat(u *smiUnit, at func(*Row) *gpu.Opt[float64]) smiColumn {
	return func(r *Row, text, unit string) error {
		v, err := u.read(text, unit)
		if err == nil {
			*at(r) = gpu.Some(v)
		}
		return err
	}
}

func smiRatio(at func(*Row) *gpu.Opt[float64]) smiColumn { return smiFloat(&smiPercent, at) }

func smiNamed(u *smiUnit, name string, at func(*Row) *[]gpu.Named[float64]) smiColumn {
	return func(r *Row, text, unit string) error {
		v, err := u.read(text, unit)
		if err == nil {
			setNamed(at(r), name, v)
		}
		return err
	}
}

func smiCounted(name string, at func(*Row) *[]gpu.Named[uint64]) smiColumn {
	return func(r *Row, text, unit string) error {
		v, err := smiCount.read(text, unit)
		if err == nil {
			setNamed(at(r), name, uint64(v))
		}
		return err
	}
}

// setNamed sets the value of that name: a query may name a column twice.
func setNamed[T any](list *[]gpu.Named[T], name string, v T) {
	for i := range *list {
		if (*list)[i].Name == name {
			(*list)[i].V = v
			return
		}
	}
	*list = append(*list, gpu.Named[T]{Name: name, V: v})
}

func smiInt(at func(*Row) *gpu.Opt[int]) smiColumn {
	return func(r *Row, text, _ string) error {
		v, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return fmt.Errorf("cannot read %q as a whole number", text)
		}
		*at(r) = gpu.Some(int(v))
		return nil
	}
}

func smiFlag(at func(*Row) *gpu.Opt[bool]) smiColumn {
	return func(r *Row, text, _ string) error {
		switch strings.ToLower(text) {
		case "enabled", "yes", "active", "1":
			*at(r) = gpu.Some(true)
		case "disabled", "no", "not active", "0":
			*at(r) = gpu.Some(false)
		default:
			return fmt.Errorf("cannot read %q as Enabled, Disabled, Yes, No, Active or Not Active", text)
		}
		return nil
	}
}

// rowInside is the time of a row that was appended to one that was cut off.
var rowInside = regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, `)

func smiPID(r *Row, text, _ string) error {
	v, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return fmt.Errorf("cannot read %q as a process id", text)
	}
	r.PID = gpu.Some(uint32(v))
	return nil
}

// smiHostNames are no columns of nvidia-smi: who puts the logs of several nodes together adds one.
var smiHostNames = []string{"host", "hostname", "node"}

func smiHost(r *Row, text, _ string) error {
	r.host = text + ":"
	return nil
}

// smiProcess takes the base name of the path that nvidia-smi prints; on Windows
// it has backslashes.
func smiProcess(r *Row, text, _ string) error {
	if rowInside.MatchString(text) {
		return errors.New("another row begins inside of it")
	}
	r.Process = text[strings.LastIndexAny(text, `/\`)+1:]
	return nil
}

func smiFan(r *Row, text, unit string) error {
	v, err := smiPercent.read(text, unit)
	if err == nil {
		r.status.Thermal.Fans = []gpu.Opt[float64]{gpu.Some(v)}
	}
	return err
}

func smiPerformanceState(r *Row, text, _ string) error {
	v, err := strconv.ParseUint(strings.TrimPrefix(text, "P"), 10, 8)
	if err != nil || v > 15 {
		return fmt.Errorf("cannot read %q as a state from P0 to P15", text)
	}
	r.status.Power.PerformanceState = gpu.Some(int(v))
	return nil
}

// smiECC reads ecc.errors.TYPE.COUNTER.LOCATION.
func smiECC(name string) smiColumn {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || parts[0] != "corrected" && parts[0] != "uncorrected" ||
		parts[1] != "volatile" && parts[1] != "aggregate" ||
		strings.Trim(parts[2], "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return nil
	}
	e := gpu.ECCErrors{Type: parts[0], Counter: parts[1], Location: parts[2]}
	if e.Location == "device_memory" {
		e.Location = "dram" // NVML's two names of one location
	}
	return func(r *Row, text, unit string) error {
		v, err := smiCount.read(text, unit)
		if err != nil {
			return err
		}
		e := e
		e.Count = uint64(v)
		for i, have := range r.status.ECC.Errors {
			if have.Type == e.Type && have.Counter == e.Counter && have.Location == e.Location {
				r.status.ECC.Errors[i] = e
				return nil
			}
		}
		r.status.ECC.Errors = append(r.status.ECC.Errors, e)
		return nil
	}
}

func smiReason(reason string) smiColumn {
	return func(r *Row, text, unit string) error {
		var active Row
		if err := smiFlag(func(r *Row) *gpu.Opt[bool] { return &r.mig })(&active, text, unit); err != nil {
			return err
		}
		e := gpu.ClockEvent{Reason: reason, Active: active.mig}
		events := &r.status.Thermal.ClockEvents
		// A log of a newer driver may have it under its old name, too.
		if i := slices.IndexFunc(*events, func(have gpu.ClockEvent) bool { return have.Reason == reason }); i >= 0 {
			(*events)[i] = e
			return nil
		}
		*events = append(*events, e)
		return nil
	}
}

// smiClock reads clocks.NAME, clocks.current.NAME and clocks.max.NAME.
func smiClock(name string) smiColumn {
	highest := false
	if rest, ok := strings.CutPrefix(name, "max."); ok {
		name, highest = rest, true
	}
	name, ok := map[string]string{
		"sm": "sm", "gr": "graphics", "graphics": "graphics", "mem": "memory", "memory": "memory", "video": "video",
	}[strings.TrimPrefix(name, "current.")]
	if !ok {
		return nil
	}
	return func(r *Row, text, unit string) error {
		v, err := smiHertz.read(text, unit)
		if err != nil {
			return err
		}
		clocks := &r.status.Clocks
		i := 0
		for i < len(*clocks) && (*clocks)[i].Name != name {
			i++
		}
		if i == len(*clocks) {
			*clocks = append(*clocks, gpu.Clock{Name: name})
		}
		if highest {
			(*clocks)[i].Max = gpu.Some(v)
		} else {
			(*clocks)[i].Current = gpu.Some(v)
		}
		return nil
	}
}
