// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// smiColumn puts the value of a column into a row. unit is that of the header.
type smiColumn func(r *Row, text, unit string) error

// smiColumns are the columns that are read, by their names in nvidia-smi --help-query-gpu and
// --help-query-compute-apps. All others are passed over.
var smiColumns = map[string]smiColumn{
	"timestamp": func(*Row, string, string) error { return nil }, // read by smiHeader.read

	"index":          smiIndex,
	"uuid":           smiText(func(r *Row) *string { return &r.Info.UUID }),
	"gpu_uuid":       smiText(func(r *Row) *string { return &r.Info.UUID }),
	"name":           smiText(func(r *Row) *string { return &r.Info.Name }),
	"gpu_name":       smiText(func(r *Row) *string { return &r.Info.Name }),
	"pci.bus_id":     smiText(func(r *Row) *string { return &r.Info.PCIBusID }),
	"gpu_bus_id":     smiText(func(r *Row) *string { return &r.Info.PCIBusID }),
	"serial":         smiText(func(r *Row) *string { return &r.Info.Serial }),
	"gpu_serial":     smiText(func(r *Row) *string { return &r.Info.Serial }),
	"vbios_version":  smiText(func(r *Row) *string { return &r.Info.VBIOSVersion }),
	"driver_version": smiText(func(r *Row) *string { return &r.Info.DriverVersion }),

	"memory.total":    smiBytes(func(r *Row) *gpu.Opt[uint64] { return &r.Memory.Total }),
	"memory.used":     smiBytes(func(r *Row) *gpu.Opt[uint64] { return &r.Memory.Used }),
	"memory.free":     smiBytes(func(r *Row) *gpu.Opt[uint64] { return &r.Memory.Free }),
	"memory.reserved": smiBytes(func(r *Row) *gpu.Opt[uint64] { return &r.Memory.Reserved }),
	"used_memory":     smiBytes(func(r *Row) *gpu.Opt[uint64] { return &r.Used }),
	"used_gpu_memory": smiBytes(func(r *Row) *gpu.Opt[uint64] { return &r.Used }),

	"pid":              smiPID,
	"process_name":     smiProcess,
	"mig.mode.current": smiMIG,

	// No columns of nvidia-smi: a log of several nodes may have one.
	"host": smiHost, "hostname": smiHost, "node": smiHost,
}

// smiUnits are how many bytes a unit is.
var smiUnits = map[string]float64{"MiB": 1 << 20, "B": 1, "KiB": 1 << 10, "GiB": 1 << 30}

// readBytes reads an amount of memory. Its unit is the one behind it, else that of the header, else MiB.
func readBytes(text, header string) (uint64, error) {
	digits, unit, _ := strings.Cut(text, " ")
	unit = cmp.Or(strings.TrimSpace(unit), header, "MiB")
	scale, ok := smiUnits[unit]
	if ok && header != "" && unit != header {
		return 0, fmt.Errorf("cannot read %q: the header says %q", text, header)
	}
	v, err := strconv.ParseFloat(digits, 64)
	v *= scale
	// ParseFloat also reads nan, inf, hexadecimal numbers and underscores.
	if !ok || err != nil || strings.Trim(digits, "0123456789.-") != "" || v < 0 || v > detector.MaxBytes || v != math.Trunc(v) {
		return 0, fmt.Errorf("cannot read %q as MiB", text)
	}
	return uint64(v), nil
}

func smiText(at func(*Row) *string) smiColumn {
	return func(r *Row, text, _ string) error {
		*at(r) = text
		return nil
	}
}

// wholeMiB reads amounts such as "20480 MiB", which nvidia-smi writes, as readBytes does, but in a fraction of the time. ok is
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

// setApart is an amount that may have a point between its thousands, as 24.500 MiB: nvidia-smi writes whole numbers.
var setApart = regexp.MustCompile(`^[1-9]\d{0,2}\.\d{3}(?: MiB)?$`)

func smiBytes(at func(*Row) *gpu.Opt[uint64]) smiColumn {
	return func(r *Row, text, unit string) (err error) {
		v, ok := wholeMiB(text, unit)
		if !ok {
			v, err = readBytes(text, unit)
		}
		if err == nil && v < 1<<30 && setApart.MatchString(text) {
			err = fmt.Errorf("%q is less than a GPU has: if its point sets thousands apart, take it out", text)
		}
		if err == nil {
			*at(r) = gpu.Some(v)
		}
		return err
	}
}

func smiIndex(r *Row, text, _ string) error {
	v, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fmt.Errorf("cannot read %q as a whole number", text)
	}
	r.Index = gpu.Some(int(v))
	return nil
}

func smiPID(r *Row, text, _ string) error {
	v, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return fmt.Errorf("cannot read %q as a process id", text)
	}
	r.PID = gpu.Some(uint32(v))
	return nil
}

// rowInside is the time of a row that was appended to one that was cut off.
var rowInside = regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, `)

// smiProcess takes the base name of the path that nvidia-smi prints; on Windows it has backslashes.
func smiProcess(r *Row, text, _ string) error {
	if rowInside.MatchString(text) {
		return errors.New("another row begins inside of it")
	}
	r.Process = text[strings.LastIndexAny(text, `/\`)+1:]
	return nil
}

func smiMIG(r *Row, text, _ string) error {
	enabled := strings.EqualFold(text, "Enabled")
	if !enabled && !strings.EqualFold(text, "Disabled") {
		return fmt.Errorf("cannot read %q as Enabled or Disabled", text)
	}
	r.mig = gpu.Some(enabled)
	return nil
}

func smiHost(r *Row, text, _ string) error {
	r.host = text + ":"
	return nil
}
