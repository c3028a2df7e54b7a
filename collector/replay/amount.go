// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const mebibyte = 1 << 20

// units are how many bytes one is of a unit, by its name in lower case. kB, MB, GB and TB are those of SI.
var units = map[string]float64{
	"b": 1, "byte": 1, "bytes": 1,
	"kib": 1 << 10, "mib": mebibyte, "gib": 1 << 30, "tib": 1 << 40,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
}

// errNoUnit says that an amount tells no unit, and nobody else does.
const errNoUnit = logError("tells no unit: write it behind the column's name, as in --columns='timestamp,gpu,used[MiB]'")

// isAbsent reports whether a field tells that there is no value, in the words of nvidia-smi, DCGM, pandas or JSON.
func isAbsent(text string) bool {
	const longest = len("unknown error")
	switch {
	case text == "":
		return true
	case text[0] == '[':
		return text[len(text)-1] == ']'
	case strings.IndexByte("-NnEeUu", text[0]) < 0 || len(text) > longest: // as almost all
		return false
	}
	switch strings.ToLower(text) {
	case "-", "n/a", "na", "nan", "null", "none", "err!", "unknown error", "not supported", "unavailable":
		return true
	}
	return false
}

// amount reads an amount of memory: a number, and the unit behind it or else the one given. comma is what stands between
// fields.
func amount(text string, unit float64, comma string) (v gpu.Opt[uint64], err error) {
	number := text
	if comma != "," {
		number = pointed(text)
	}
	end := len(number)
	for end > 0 && number[end-1] != '.' && (number[end-1] < '0' || number[end-1] > '9') {
		end--
	}
	number, suffix := number[:end], strings.TrimSpace(number[end:])
	switch suffix {
	case "":
	case "MiB": // as almost all
		unit = mebibyte
	default:
		if unit = units[strings.ToLower(suffix)]; unit == 0 {
			return v, fmt.Errorf("cannot read %s as memory such as 1234 MiB", quote(text))
		}
	}
	if unit == 0 {
		return v, errNoUnit
	}
	f, err := parseNumber(number)
	switch f = math.Round(f * unit); {
	case err != nil || f < 0:
		return v, fmt.Errorf("cannot read %s as memory such as 1234 MiB, without a comma between thousands", quote(text))
	case f > detector.MaxBytes:
		return v, fmt.Errorf("%s is more memory than any GPU has: check the unit", quote(text))
	case comma != "," && f < 1<<30 && thousands.MatchString(number):
		return v, logError(fmt.Sprintf("amounts such as %s are less than a GPU has. If the point sets thousands apart, take it out: awk -F'%s' -v OFS='%[2]s' '{for (i = 2; i <= NF; i++) gsub(/[.]/, \"\", $i)} 1'. If it stands before decimals, add one: sed -E 's/([.][0-9]{3})/\\10/g'", quote(text), comma))
	}
	return gpu.Some(uint64(f)), nil
}

// parseNumber reads a number in decimal digits. One that is too large is infinite.
func parseNumber(text string) (float64, error) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil { // as almost all
		return float64(n), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || strings.ContainsAny(text, "xX_") {
		return 0, strconv.ErrSyntax
	}
	return f, nil
}

// thousands is a number whose point may stand between thousands, as in 24.010 MiB.
var thousands = regexp.MustCompile(`^[1-9]\d{0,2}\.\d{3}$`)

// pointed returns a number with a point before its decimals and nothing between thousands. Between semicolons and tabs a
// comma may be either: the last sign of 24.010,5 and 24,010.5 stands before the decimals, and so does a comma alone.
func pointed(text string) string {
	comma, point := strings.LastIndexByte(text, ','), strings.LastIndexByte(text, '.')
	if comma < 0 || comma < point || strings.Count(text, ",") > 1 {
		return strings.ReplaceAll(text, ",", "")
	}
	return strings.Replace(strings.ReplaceAll(text, ".", ""), ",", ".", 1)
}
