// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/unicode"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// readLog reads a log and returns when its samples are, in UTC, with the used memory
// in MiB or the number of processes, and what was left out.
func readLog(t *testing.T, text string, loc *time.Location) (samples, left []string, err error) {
	t.Helper()
	r, err := NewReader("log", strings.NewReader(text), loc)
	if err != nil {
		return nil, nil, err
	}
	for {
		_, s, err := r.Next()
		if err != nil {
			for _, l := range r.LeftOut() {
				left = append(left, l.String())
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return samples, left, err
		}
		if !s.Time.Equal(time.Unix(0, int64(s.T))) {
			t.Errorf("time %v, t %v", s.Time, s.T)
		}
		value := s.Memory.Used.V / mib
		if s.ProcessesKnown {
			value = uint64(len(s.Processes))
		}
		samples = append(samples, fmt.Sprint(s.Time.Format("15:04:05.999 "), value))
	}
}

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// wide is a text as PowerShell writes it.
func wide(t *testing.T, order unicode.Endianness, text string) string {
	t.Helper()
	out, err := unicode.UTF16(order, unicode.UseBOM).NewEncoder().String(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const leftOutWhy = ": the clock was set back, as where daylight saving ends and the time zone is not known, or two recordings overlap"

func TestLeftOut(t *testing.T) {
	const head = "timestamp, uuid, memory.used [MiB]\n"
	const good = "2026/03/01 10:00:00.000, GPU-a, 10 MiB\n"
	for _, tc := range []struct {
		name, text    string
		samples, left []string
	}{
		{
			"cut inside a field", head + good + "2026/03/01 10:0",
			[]string{"10:00:00 10"},
			[]string{`left out 1 line, line 3: the file ends inside it: "2026/03/01 10:0"`},
		},
		{
			"cut, and the number looks whole", head + good + "2026/03/01 10:00:01.000, GPU-a, 1",
			[]string{"10:00:00 10"},
			[]string{`left out 1 line, line 3: the file ends inside it: "2026/03/01 10:00:01.000, GPU-a, 1"`},
		},
		{"only the line break is missing", head + good + "2026/03/01 10:00:01.000, GPU-a, 11 MiB", []string{"10:00:00 10", "10:00:01 11"}, nil},
		{
			"cut, with a field too few", "timestamp, memory.free [MiB], memory.used [MiB]\n2026/03/01 10:00:00.000, 9 MiB, 10 MiB\n2026/03/01 10:00:01.000, 11 MiB",
			[]string{"10:00:00 10"},
			[]string{`left out 1 line, line 3: the file ends inside it: "2026/03/01 10:00:01.000, 11 MiB"`},
		},
		{
			"messages", head + good + "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error\nNo devices were found\n" +
				"2026/03/01 10:00:05.000, GPU-a, 11 MiB\nFailed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.86\n",
			[]string{"10:00:00 10", "10:00:05 11"},
			[]string{`left out 4 lines, the first is line 3: "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error"`},
		},
		{
			"messages before the header",
			"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n" + head + good,
			[]string{"10:00:00 10"},
			[]string{`left out 1 line, line 1: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is…"`},
		},
		{
			"equal times, and the clock is set back",
			head + good + good + "2026/03/01 10:00:01.000, GPU-a, 11 MiB\n2026/03/01 09:59:59.000, GPU-a, 12 MiB\n2026/03/01 09:59:59.000, GPU-b, 20 MiB\n2026/03/01 10:00:01.500, GPU-a, 13 MiB\n",
			[]string{"10:00:00 10", "10:00:01 11", "09:59:59 20", "10:00:01.5 13"},
			[]string{`left out 2 lines, the first is line 3: 2026/03/01 10:00:00.000 of GPU "GPU-a" is not after 2026/03/01 10:00:00.000, its row before` + leftOutWhy},
		},
		{
			"another program's lines, and rows that are damaged",
			head + good + "epoch 1, step 20, loss=2.30\nGPU-a: No devices were found\n2026/03/01 10:0\n2026/03/01 10:00:01.000, GPU-a, 11 apples\n" +
				"2026/03/01 10:00:02.000, GPU-a, 12 MiB\n2026/03/01 10:00:03.000, GPU-a, 13 MiB\n2026/03/01 10:00:04.000, GPU-a, 14 MiB\n",
			[]string{"10:00:00 10", "10:00:02 12", "10:00:03 13", "10:00:04 14"},
			[]string{`left out 4 lines, the first is line 3: timestamp: cannot read "epoch 1" as a time with the year first, such as 2026/03/01 17:01:16.000: "epoch 1, step 20, loss=2.30"`},
		},
		{
			"killed inside a row, and started again with other columns",
			head + good + "2026/03/01 10:00:01.000, GPU-a, 1timestamp, memory.used [MiB], uuid\n2026/03/01 10:00:02.000, 12 MiB, GPU-a\n",
			[]string{"10:00:00 10", "10:00:02 12"},
			[]string{`left out 1 line, line 3: a header inside of the line: "2026/03/01 10:00:01.000, GPU-a, 1timestamp, memory.used [MiB], uuid"`},
		},
		{
			"each reason", head + good + "2026/03/01 10:00:00.500, GPU-a, 11 MiB\n2026-03-01T09:00:00, GPU-a, 10 MiB\nNo devices were found\n2026/03/01 10:00:01.000, GP",
			[]string{"10:00:00 10", "10:00:00.5 11"},
			[]string{
				`left out 1 line, line 4: 2026-03-01T09:00:00 of GPU "GPU-a" is not after 2026/03/01 10:00:00.500, its row before` + leftOutWhy,
				`left out 1 line, line 5: "No devices were found"`,
				`left out 1 line, line 6: the file ends inside it: "2026/03/01 10:00:01.000, GP"`,
			},
		},
		{
			"processes", "timestamp, gpu_uuid, pid, used_memory [MiB]\n2026/03/01 10:00:01.000, GPU-a, 1, 1 MiB\n2026/03/01 10:00:00.000, GPU-a, 2, 2 MiB\nNo devices were found\n2026/03/01 10:00:02.000, GPU-a, 1, 1 MiB\n2026/03",
			[]string{"10:00:01 1", "10:00:02 1"},
			[]string{
				`left out 1 line, line 3: 2026/03/01 10:00:00.000 of GPU "GPU-a" is not after 2026/03/01 10:00:01.000, its row before` + leftOutWhy,
				`left out 1 line, line 4: "No devices were found"`,
				`left out 1 line, line 6: the file ends inside it: "2026/03"`,
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, text := range []string{tc.text, compress(t, tc.text), wide(t, unicode.LittleEndian, tc.text), compress(t, wide(t, unicode.BigEndian, tc.text))} {
				samples, left, err := readLog(t, text, nil)
				if err != nil || !slices.Equal(samples, tc.samples) || !slices.Equal(left, tc.left) {
					t.Errorf("samples %q, left out %q, %v\nwant    %q, left out %q", samples, left, err, tc.samples, tc.left)
				}
			}
			if strings.Contains(strings.Join(tc.left, "\n"), "epoch 1") || strings.Contains(strings.Join(tc.left, "\n"), "header inside") {
				// The exporter does not begin, because a line that is left out would not be noticed.
				if _, err := New(write(t, tc.text), Options{}); err == nil || !strings.HasSuffix(err.Error(), repair) || !strings.Contains(err.Error(), ":3: ") {
					t.Errorf("replay: %v", err)
				}
				return
			}
			// The exporter replays the same samples.
			got := 0
			for _, r := range replayAll(t, write(t, tc.text), nil) {
				got += len(r.samples)
			}
			if got != len(tc.samples) {
				t.Errorf("replayed %d samples, want %d", got, len(tc.samples))
			}
		})
	}
}

// TestDamagedProcessRow has a row of a process that cannot be read: it goes on in the next list, and is no other one. And a GPU
// that is lost is the one that it was.
func TestDamagedProcessRow(t *testing.T) {
	var text strings.Builder
	text.WriteString("timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n")
	for i := range 6 {
		fmt.Fprintf(&text, "2026/03/01 10:00:0%d.000, GPU-a, 7, a, 5 MiB\n2026/03/01 10:00:0%d.000, GPU-a, 8, b, 6 MiB\n", i, i)
	}
	for _, damaged := range []string{"7, pytEpoch 3\n", "7, py2026/03/01 10:00:04.000, GPU-a, 7, a, 5 MiB\n"} {
		r, err := NewReader("log", strings.NewReader(strings.Replace(text.String(), "03.000, GPU-a, 7, a, 5 MiB\n", "03.000, GPU-a, "+damaged, 1)), nil)
		if err != nil {
			t.Fatal(err)
		}
		lists := 0
		for {
			_, s, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			lists++
			if len(s.Processes) != 2 || s.Processes[0].ID != (gpu.ProcessID{PID: 7}) || s.Processes[1].ID != (gpu.ProcessID{PID: 8}) {
				t.Errorf("processes %+v", s.Processes)
			}
		}
		if lists < 4 || len(r.LeftOut()) != 1 {
			t.Errorf("%d lists, left out %v", lists, r.LeftOut())
		}
	}
	r, err := NewReader("log", strings.NewReader("timestamp, index, uuid, memory.used [MiB]\n2026/03/01 10:00:00.000, 1, GPU-a, 5 MiB\n2026/03/01 10:00:01.000, 1, [GPU is lost], [GPU is lost]\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if info, _, err := r.Next(); err != nil || info.UUID != "GPU-a" || info.Index != 1 {
			t.Errorf("%+v, %v", info, err)
		}
	}
}

// TestMoreLeftOutThanRead has a log of which most is of another program, and two of which most rows have the time of the row
// before, or an earlier one.
func TestMoreLeftOutThanRead(t *testing.T) {
	row := func(second int) string {
		return fmt.Sprintf("2026/03/01 10:00:%02d.000, GPU-a, 10 MiB\n", second)
	}
	for name, rows := range map[string]string{
		"equal": row(1) + strings.Repeat(row(1), 2),
		"back":  row(9) + row(10) + row(11) + row(1) + row(2),
	} {
		log := "timestamp, uuid, memory.used [MiB]\n" + rows
		if _, _, err := readLog(t, log, nil); err == nil || !strings.HasPrefix(err.Error(), "log: has too many rows that cannot be used: left out 2 lines, the first is line ") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := New(write(t, log), Options{}); err != nil { // the exporter shows what there is
			t.Errorf("%s: %v", name, err)
		}
	}
	_, _, err := readLog(t, "timestamp, memory.used [MiB]\n2026/03/01 10:00:00.000, 10 MiB\nepoch 1\nepoch 2\n", nil)
	if err == nil || err.Error() != `log: has more lines that cannot be read than others: left out 2 lines, the first is line 3: has 1 fields, but the header has 2 columns: "epoch 1"` {
		t.Error(err)
	}
}

// TestNotLeftOut reads what is left out nowhere, and logs of which nothing is left.
func TestNotLeftOut(t *testing.T) {
	const head = "timestamp, uuid, memory.used [MiB]\n"
	long := "2026/03/01 10:00:00.000, GPU-a, " + strings.Repeat("ä", 100)
	for _, tc := range []struct{ name, text, want string }{
		{"another message", head + "Segmentation fault\n", `FILE:2: has 1 fields, but the header has 3 columns: remove or repair the line: "Segmentation fault"`},
		{"a message inside a line", head + "GPU-a: No devices were found\n", `FILE:2: has 1 fields, but the header has 3 columns: remove or repair the line: "GPU-a: No devices were found"`},
		{"a bad line before the end", head + "2026/03/01 10:0\n2026/03/01 10:00:00.000, GPU-a, 1 MiB\n", `FILE:2: has 1 fields, but the header has 3 columns: remove or repair the line: "2026/03/01 10:0"`},
		{"a long line", head + strings.TrimSuffix(long, "ä") + ",\n", `FILE:2: has 4 fields, but the header has 3 columns: remove or repair the line: "2026/03/01 10:00:00.000, GPU-a, ` + strings.Repeat("ä", 44) + `…"`},
		{"the only row is cut", head + "2026/03/01 10:00", `FILE: holds no samples: left out 1 line, line 2: the file ends inside it: "2026/03/01 10:00"`},
		{"only messages", "\nNo devices were found\nNo devices were found", `FILE:3: the file ends inside this line: remove the line, or end it with a line break if it is whole`},
		{"only whole messages", "\nNo devices were found\nNo devices were found\n", `FILE: holds only messages of nvidia-smi, such as "No devices were found"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, tc.text)
			_, err := New(path, Options{})
			if err == nil || strings.ReplaceAll(err.Error(), path, "FILE") != tc.want {
				t.Errorf("error %v\nwant  %s", err, tc.want)
			}
		})
	}
}
