// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"strings"
	"testing"
)

const statLine = "1234 (python3) S 77 1234 77 0 -1 4194304 1000 0 3 0 250 150 9 9 20 0 8 0 98765 123456789 4321 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0"

func TestParseStat(t *testing.T) {
	cut, _, _ := strings.Cut(statLine, " 123456789")
	for _, c := range []struct {
		name, line string
		want       Stat
		fails      bool
	}{
		{name: "plain", line: statLine + "\n", want: Stat{"python3", "S", 77, false, 400, 98765}},
		{name: "a name like the line", line: strings.Replace(statLine, "(python3)", "(a) R 1 (b c) )", 1), want: Stat{"a) R 1 (b c) ", "S", 77, false, 400, 98765}},
		{name: "a name with a line break", line: strings.Replace(statLine, "(python3)", "(a\nb)", 1), want: Stat{"a\nb", "S", 77, false, 400, 98765}},
		{name: "a thread of the kernel", line: strings.Replace(statLine, "4194304", "69238880", 1), want: Stat{"python3", "S", 77, true, 400, 98765}},
		{name: "field 22 is the last", line: cut, want: Stat{"python3", "S", 77, false, 400, 98765}},
		{name: "empty", fails: true},
		{name: "no name", line: "1234 S 77", fails: true},
		{name: "name ends before it begins", line: ")" + strings.ReplaceAll(statLine, ")", ""), fails: true},
		{name: "cut short", line: "1234 (python3) S 77 1234", fails: true},
		{name: "no number", line: strings.Replace(statLine, " 98765 ", " x ", 1), fails: true},
		{name: "no flags", line: strings.Replace(statLine, " 4194304 ", " x ", 1), fails: true},
		{name: "no parent", line: strings.Replace(statLine, " 77 ", " x ", 1), fails: true},
		{name: "no state", line: strings.Replace(statLine, " S ", " SS ", 1), fails: true},
	} {
		got, err := ParseStat([]byte(c.line))
		if (err != nil) != c.fails || (!c.fails && got != c.want) {
			t.Errorf("%s: %+v, %v; want %+v, failure %t", c.name, got, err, c.want, c.fails)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine))
	f.Add([]byte(") S"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := ParseStat(line)
		if err == nil && (len(s.State) != 1 || int32(s.Parent) < 0) {
			t.Errorf("%q parsed as %+v", line, s)
		}
	})
}
