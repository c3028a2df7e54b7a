// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// units are how many bytes one is of a unit, by its name in lower case. kB, MB, GB and TB are
// those of SI.
var units = map[string]float64{
	"b": 1, "byte": 1, "bytes": 1,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
}

// errNoUnit says that an amount tells no unit, and nobody else does.
var errNoUnit = errors.New("tells no unit: write it behind the column's name, as in --columns='timestamp,gpu,used[MiB]', or give --unit=MiB")

// isAbsent reports whether a field tells that there is no value, in the words of nvidia-smi, DCGM,
// pandas or JSON.
func isAbsent(text string) bool {
	switch strings.ToLower(text) {
	case "", "-", "n/a", "na", "nan", "null", "none", "err!", "unknown error", "not supported", "unavailable":
		return true
	}
	return strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]")
}

// amount reads an amount of memory: a number, and the unit behind it or else the one given, in
// bytes. It is absent where the log has no value.
func amount(text string, unit float64) (v gpu.Opt[uint64], err error) {
	text = strings.TrimSpace(text)
	if isAbsent(text) {
		return v, nil
	}
	end := strings.LastIndexAny(text, "0123456789.") + 1
	number, suffix := text[:end], strings.TrimSpace(text[end:])
	if suffix != "" {
		var ok bool
		if unit, ok = units[strings.ToLower(suffix)]; !ok {
			return v, fmt.Errorf("cannot read %s as memory such as 1234 MiB", replay.QuoteLine(text))
		}
	}
	if unit == 0 {
		return v, errNoUnit
	}
	// ParseFloat also reads hexadecimal numbers and underscores.
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || strings.Trim(number, "0123456789.eE+-") != "" {
		return v, fmt.Errorf("cannot read %s as memory such as 1234 MiB", replay.QuoteLine(text))
	}
	return inBytes(f*unit, text)
}

// points finds out where the points in a column of amounts are set between thousands, as in 24.010 MiB: all of those that have
// one look so, and are less than any GPU has.
type points struct {
	decimal   bool // there was one that is no such amount
	comma     bool // there was one with a comma before its decimals, as 2.020,5
	thousands int  // how many amounts look so
}

var (
	thousands    = regexp.MustCompile(`^[1-9]\d{0,2}\.\d{3}(?: ?[A-Za-z]+)?$`)
	commaDecimal = regexp.MustCompile(`^(?:\d+|\d{1,3}(?:\.\d{3})+),\d+(?: ?[A-Za-z]+)?$`)
	commaGroups  = regexp.MustCompile(`^\d{1,3}(?:,\d{3})+(?:\.\d*|)(?: ?[A-Za-z]+)?$`)
)

// plain returns an amount without thousands that are set apart, and with a point before its decimals. A comma before three
// digits may be either, as may be a point: that is left to note.
func (p *points) plain(text string) string {
	text = strings.TrimSpace(text)
	switch commas := strings.Count(text, ","); {
	case commas == 0:
	case commaGroups.MatchString(text) && (commas > 1 || strings.Contains(text, ".")): // 2,000.5
		return strings.ReplaceAll(text, ",", "")
	case commaDecimal.MatchString(text):
		plain := strings.Replace(strings.ReplaceAll(text, ".", ""), ",", ".", 1)
		p.comma = p.comma || !thousands.MatchString(plain)
		return plain
	}
	return text
}

// manyThousands is from how many on they are no chance.
const manyThousands = 20

// note takes an amount as it is written, and in bytes. total says that it is the memory that there is. It returns an error once it
// is certain enough that thousands are set apart.
func (p *points) note(text string, v gpu.Opt[uint64], total bool, comma string) error {
	switch looks := thousands.MatchString(strings.TrimSpace(text)); {
	case !v.OK:
	case looks && v.V < 1<<30:
		p.thousands++
	case strings.Contains(text, ".") && !p.comma || v.V >= 1<<30:
		p.decimal = true
	}
	if p.thousands == 0 || !p.comma && (p.decimal || !total && p.thousands < manyThousands) {
		return nil
	}
	return replay.LogError(fmt.Sprintf("amounts such as %s are less than a GPU has. If the point sets thousands apart, take it out: awk -F'%s' -v OFS='%s' '{for (i = 2; i <= NF; i++) gsub(/[.]/, \"\", $i)} 1'. If it stands before decimals, add one: sed -E 's/([.][0-9]{3})/\\10/g'", replay.QuoteLine(text), comma, comma))
}

// inBytes returns an amount of memory in bytes.
func inBytes(v float64, text string) (gpu.Opt[uint64], error) {
	v = math.Round(v)
	switch {
	case v >= 0 && v <= detector.MaxBytes:
		return gpu.Some(uint64(v)), nil
	case v > 0:
		return gpu.Opt[uint64]{}, fmt.Errorf("%s is more memory than any GPU has: check the unit", replay.QuoteLine(text))
	}
	return gpu.Opt[uint64]{}, fmt.Errorf("cannot read %s as memory such as 1234 MiB", replay.QuoteLine(text))
}
