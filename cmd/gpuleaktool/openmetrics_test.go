// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// amounts reads a text and writes what it tells: labels, seconds, used/total bytes.
func amounts(t *testing.T, text string, unit float64) (string, error) {
	t.Helper()
	h, err := readOpenMetrics(t.Context(), "f", strings.NewReader(text), unit)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	last := ""
	err = h.each(t.Context(), func(m *memory, s *gpu.Sample) error {
		if name := string(m.labels.json()); name != last {
			last = name
			b.WriteString(name + " ")
		}
		fmt.Fprintf(&b, "%v:%d", s.T.Seconds(), s.Memory.Used.V)
		if c := s.Memory.Capacity(); c.OK {
			fmt.Fprintf(&b, "/%d", c.V)
		}
		b.WriteByte(' ')
		return nil
	})
	return strings.TrimSpace(b.String()), err
}

func TestOpenMetrics(t *testing.T) {
	const at = "1700000000"
	for _, c := range []struct{ name, text, want string }{
		{"seconds", "a_bytes 5 1700000000.25\n", `{} 1.70000000025e+09:5`},
		{"milliseconds", "a_bytes 5 1700000000250\n", `{} 1.70000000025e+09:5`},
		{"exponents", "a_bytes 5e3 1.7e9\n", `{} 1.7e+09:5000`},
		{"blanks", "a_bytes { pod = \"x\" , } \t 5.0 1700000000  \n", `{"pod":"x"} 1.7e+09:5`},
		{"no line break at the end", "# EOF\na_bytes 5 " + at, `{} 1.7e+09:5`},
		{"a byte order mark before a comment", "\ufeff# HELP a_bytes text\na_bytes 5 " + at, `{} 1.7e+09:5`},
		{"a byte order mark before a sample", "\ufeffa_bytes 5 " + at, `{} 1.7e+09:5`},
		{"CRLF", "a_bytes 5 " + at + "\r\n\r\n", `{} 1.7e+09:5`},
		{"escapes", `a_bytes{x="a\"b\\c\nd",y="}"} 5 ` + at, `{"x":"a\"b\\c\nd","y":"}"} 1.7e+09:5`},
		{"empty labels are none", `a_bytes{x="",y="1"} 5 ` + at, `{"y":"1"} 1.7e+09:5`},
		{"a quoted name", `{"a_bytes","b.c"="1"} 5 ` + at, `{"b.c":"1"} 1.7e+09:5`},
		{"an exemplar", "a_bytes 5 " + at + " # {} 1", `{} 1.7e+09:5`},
		{"labels in another order", "a_bytes{x=\"1\",y=\"2\"} 5 1700000000\na_bytes{y=\"2\",x=\"1\"} 6 1700000060\n", `{"x":"1","y":"2"} 1.7e+09:5 1.70000006e+09:6`},
		{"series that take turns", "a_bytes{x=\"1\"} 5 1700000000\na_bytes{x=\"2\"} 7 1700000000\na_bytes{x=\"1\"} 6 1700000060\n", `{"x":"1"} 1.7e+09:5 1.70000006e+09:6 {"x":"2"} 1.7e+09:7`},
		{"NaN is a gap", "a_bytes 5 1700000000\na_bytes NaN 1700000030\na_bytes 6 1700000060\n", `{} 1.7e+09:5 1.70000006e+09:6`},
		{"so are infinities, as a dump of the exporter holds them", "a_bytes +Inf 1700000000\na_bytes -Inf 1700000030\na_bytes 6 1700000060\n", `{} 1.70000006e+09:6`},
		{"MiB by name", "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 2 " + at, `{"gpu":"0"} 1.7e+09:2097152`},
		{"bytes by unit", "# TYPE mem gauge\n# UNIT mem bytes\n# HELP mem text\nmem 2 " + at, `{} 1.7e+09:2`},
		{
			"totals and other metrics", "up 1 1700000000\nup2 1 1700000000\n" +
				"gpu_memory_total_bytes{gpu=\"0\"} 100 1700000000\ngpu_memory_reserved_bytes{gpu=\"0\"} 10 1700000000\n" +
				"gpu_memory_used_bytes{gpu=\"0\"} 5 1700000000\ngpu_memory_total_bytes{gpu=\"0\"} 200 1700000060\ngpu_memory_used_bytes{gpu=\"0\"} 6 1700000090\n",
			`{"gpu":"0"} 1.7e+09:5/90 1.70000009e+09:6/190`,
		},
		{
			"two metrics", "gpu_workload_memory_used_bytes{gpu=\"0\"} 5 1700000000\ngpu_process_memory_used_bytes{gpu=\"0\"} 6 1700000000\n",
			`{"__name__":"gpu_workload_memory_used_bytes","gpu":"0"} 1.7e+09:5 {"__name__":"gpu_process_memory_used_bytes","gpu":"0"} 1.7e+09:6`,
		},
		{
			"a process has no capacity", "gpu_workload_memory_used_bytes{gpu=\"0\",pod=\"p\"} 5 1700000000\ngpu_memory_total_bytes{gpu=\"0\"} 100 1700000000\n" +
				"gpu_process_memory_used_bytes{gpu=\"0\",pid=\"7\"} 2 1700000000\n",
			`{"__name__":"gpu_workload_memory_used_bytes","gpu":"0","pod":"p"} 1.7e+09:5 {"__name__":"gpu_process_memory_used_bytes","gpu":"0","pid":"7"} 1.7e+09:2`,
		},
		{
			"a slice has its own capacity", "gpu_mig_memory_used_bytes{gpu=\"0\",gpu_instance=\"1\"} 3 1700000000\ngpu_memory_total_bytes{gpu=\"0\"} 100 1700000000\n" +
				"gpu_mig_memory_total_bytes{gpu=\"0\",gpu_instance=\"1\"} 20 1700000000\n",
			`{"gpu":"0","gpu_instance":"1"} 1.7e+09:3/20`,
		},
		{
			"what is free makes the capacity, where it was read at once", "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 1 1700000000\nDCGM_FI_DEV_FB_USED{gpu=\"0\"} 2 1700000060\nDCGM_FI_DEV_FB_USED{gpu=\"0\"} 4 1700000090\n" +
				"DCGM_FI_DEV_FB_FREE{gpu=\"0\"} 7 1700000060\n",
			`{"gpu":"0"} 1.7e+09:1048576 1.70000006e+09:2097152/9437184 1.70000009e+09:4194304/9437184`,
		},
		{
			"a capacity with the very same labels", "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 1 1700000000\nDCGM_FI_DEV_FB_USED{gpu=\"0\",pod=\"a\"} 2 1700000060\n" +
				"DCGM_FI_DEV_FB_TOTAL{gpu=\"0\"} 8 1700000000\nDCGM_FI_DEV_FB_TOTAL{gpu=\"0\",pod=\"a\"} 9 1700000060\n",
			`{"gpu":"0"} 1.7e+09:1048576/8388608 {"gpu":"0","pod":"a"} 1.70000006e+09:2097152/9437184`,
		},
		{
			"a capacity that comes after one with other labels", "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 1 1700000000\n" +
				"DCGM_FI_DEV_FB_TOTAL{gpu=\"0\",pod=\"a\"} 9 1700000000\nDCGM_FI_DEV_FB_TOTAL{gpu=\"0\",pod=\"b\"} 7 1700000000\nDCGM_FI_DEV_FB_TOTAL{gpu=\"0\"} 8 1700000000\n",
			`{"gpu":"0"} 1.7e+09:1048576/8388608`,
		},
		{
			"capacities that are the same", "gpu_memory_used_bytes{gpu=\"0\"} 1 1700000000\n" +
				"gpu_memory_total_bytes{x=\"1\"} 8 1700000000\ngpu_memory_total_bytes{x=\"2\"} 8 1700000060\n",
			`{"gpu":"0"} 1.7e+09:1/8`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := amounts(t, c.text, 0); got != c.want || err != nil {
				t.Errorf("got  %s\nwant %s\n%v", got, c.want, err)
			}
		})
	}
}

func TestOpenMetricsErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a_bytes 5\n", "f:1: no time stamp"},
		{"a_bytes 5 # {} 1 1700000000\n", "f:1: no time stamp"},
		{"\n# HELP\na_bytes\n", "f:3: no sample such as"},
		{"a_bytes{x=\"1\" 5 1700000000\n", "f:1: no sample such as"},
		{"a_bytes{x=\"1\"}\n", "f:1: no value"},
		{"a_bytes{x=1} 5 1700000000\n", "f:1: cannot read the labels"},
		{"a_bytes{x} 5 1700000000\n", "f:1: cannot read the labels"},
		{"a_bytes{x=\"1\",x=\"2\"} 5 1700000000\n", "f:1: cannot read the labels"},
		{"a_bytes{x=\"1\"y=\"2\"} 5 1700000000\n", "f:1: no comma"},
		{"{x=\"1\"} 5 1700000000\n", "f:1: no name"},
		{"5 5 1700000000\n", "f:1: no name"},
		{"a_bytes 0x5 1700000000\n", "f:1: cannot read the value"},
		{"a_bytes infinite 1700000000\n", "f:1: cannot read the value"},
		{"a_bytes 5 yesterday\n", "f:1: cannot read the time stamp"},
		{"a_bytes 5 1700\n", "f:1: cannot read the time stamp"},
		{"a_bytes 5 -1700000000\n", "f:1: cannot read the time stamp"},
		{"a_bytes 5 1700000000 7\n", "f:1: cannot read what is behind the time stamp"},
		{"a_bytes 5 1700000000\na_bytes 5 1700000000.000\n", "f:2: 2023-11-14T22:13:20.000Z is not after 2023-11-14T22:13:20.000Z"},
		{"a 1 1700000000\nb 1 1700000000\n", "f: holds several metrics, such as a and b"},
		{"# EOF\n", "f: holds no sample"},
		{"# TYPE a_bytes counter\na_bytes 1 1700000000\n", "f: a_bytes is a counter"},
		{"load 1 1700000000\n", "f: load does not tell its unit"},
		{"DCGM_FI_DEV_FB_USED 1 1700000000\ngpu_memory_used_bytes 1 1700000000\n", "in bytes and in MiB"},
		{"gpu_memory_used_bytes{gpu=\"0\"} 1 1700000000\ngpu_memory_total_bytes{x=\"1\"} 1 1700000000\ngpu_memory_total_bytes{x=\"2\"} 2 1700000000\n", "could be the capacity of"},
		{"a_bytes{" + strings.Repeat("x", maxOpenMetricsLine) + "} 1 1700000000\n", "f:1: the line is too long"},
	} {
		if _, err := amounts(t, c.text, 0); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80q: %v, want %s", c.text, err, c.want)
		}
	}
}

// TestOpenMetricsKeepsLittle reads a dump of a whole database: what is no memory is not kept.
func TestOpenMetricsKeepsLittle(t *testing.T) {
	r := &openMetrics{types: map[string]string{}, units: map[string]string{}, series: map[string]*scalar{}, known: map[string]*scalar{}}
	take := func(format string, args ...any) {
		t.Helper()
		if err := r.line(fmt.Appendf(nil, format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		take(`container_%d{id="%d"} 1 %d`, i%3, i, 1_700_000_000+i)
		take(`gpu_memory_used_bytes{gpu="0"} 5 %d`, 1_700_000_000+i)
	}
	take(`{"container.io",id="1"} 1 1700000000`)
	if len(r.order) != 1 || len(r.series) != 1 || len(r.known) != 1 || len(r.order[0].points) != 100 {
		t.Errorf("keeps %d series, %d by text, %d by labels", len(r.order), len(r.series), len(r.known))
	}
}

func TestIsOpenMetrics(t *testing.T) {
	for text, want := range map[string]bool{
		"# TYPE a gauge\n":                      true,
		"\ufeff\n# HELP":                        true,
		"a{x=\"1,2\"} 5 1":                      true,
		"a 5 1700000000\n":                      true,
		`{"a.b","c"="d"} 5`:                     true,
		"timestamp, index, memory.used [MiB]\n": false,
		`{"format":"gpu_leak_exporter recording","version":1}`: false,
		"2026/03/01 00:00:00.000, 0, 5 MiB":                    false,
		"":                                                     false,
		"index [MiB],timestamp\n0,1":                           false,
	} {
		if got := isOpenMetrics(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// FuzzOpenMetrics checks that whatever is read is in order and can be memory.
func FuzzOpenMetrics(f *testing.F) {
	for _, text := range []string{
		"# TYPE a_bytes gauge\na_bytes{x=\"1\"} 5 1700000000.5\na_bytes{x=\"1\"} 6 1700000060\n# EOF\n",
		"a_bytes 5e3 1700000000250", "{\"a_bytes\",\"b.c\"=\"\\\"\"} NaN 1.7e9", "DCGM_FI_DEV_FB_USED{} -1 1700000000",
		"gpu_memory_used_bytes 1 1700000000\ngpu_memory_total_bytes 2 1700000000\n",
		"gpu_memory_used_bytes 9 1700000000\ngpu_memory_unattributed_bytes 8 1700000000\ngpu_process_memory_used_bytes{pid=\"7\"} 1 1700000000\n" +
			"gpu_process_start_time_seconds{pid=\"7\"} 1e300 1700000000\ngpu_process_sm_utilization_ratio{pid=\"7\"} 0 1700000000\ngpu_process_idle_seconds{pid=\"7\"} 1e300 1700000000\n",
		"gpu_memory_used_bytes 9 1700000000\ngpu_mig_memory_used_bytes{gpu_instance=\"1\",profile=\"1g\"} 1 1700000000\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := readOpenMetrics(t.Context(), "f", strings.NewReader(text), 1)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("the error has more than a line: %q", err)
			}
			return
		}
		last := map[*memory]time.Duration{}
		err = h.each(t.Context(), func(m *memory, s *gpu.Sample) error {
			if s.T <= last[m] {
				t.Errorf("%s after %s", s.T, last[m])
			}
			if s.Memory.Used.V > 1<<48 {
				t.Errorf("used %v", s.Memory.Used)
			}
			last[m] = s.T
			return nil
		})
		_ = err // of an amount that is none
	})
}
