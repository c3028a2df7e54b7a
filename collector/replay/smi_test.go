// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// app is a process of a log of processes.
func app(pid uint32, start uint64, name string, used gpu.Opt[uint64]) gpu.Process {
	return gpu.Process{ID: gpu.ProcessID{PID: pid, Start: start}, Type: gpu.Compute, Used: used, Owner: &gpu.Owner{Process: name, Runs: (&gpu.Program{Name: name}).Hash(nil)}}
}

func apps(clock string, p ...gpu.Process) gpu.Sample {
	return gpu.Sample{Time: at(clock), T: since1970(clock), Processes: p, ProcessesKnown: true}
}

func TestReplayApps(t *testing.T) {
	m := func(n uint64) gpu.Opt[uint64] { return gpu.Some(n * mib) }
	for _, tc := range []struct {
		name, text string
		want       map[string][]gpu.Sample
	}{
		{
			"two GPUs, a process that ends and one that begins",
			`timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]
2026/03/01 10:00:00.000, GPU-a, 20, /usr/bin/python3.12, 200 MiB
2026/03/01 10:00:00.000, GPU-b, 30, /usr/bin/python3.12, 300 MiB
2026/03/01 10:00:00.000, GPU-a, 10, ./server, 100 MiB
2026/03/01 10:00:01.000, GPU-a, 20, /usr/bin/python3.12, 202 MiB
2026/03/01 10:00:02.000, GPU-a, 20, /usr/bin/python3.12, 204 MiB
2026/03/01 10:00:02.000, GPU-a, 11, C:\Program Files\App\app.exe, 110 MiB
`,
			map[string][]gpu.Sample{
				"GPU-a": {
					apps("10:00:00", app(10, 0, "server", m(100)), app(20, 0, "python3.12", m(200))),
					apps("10:00:01", app(20, 0, "python3.12", m(202))),
					apps("10:00:02", app(11, 2, "app.exe", m(110)), app(20, 0, "python3.12", m(204))),
				},
				"GPU-b": {apps("10:00:00", app(30, 0, "python3.12", m(300)))},
			},
		},
		{
			"a pid that was gone is another process",
			`timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]
2026/03/01 10:00:00.000, GPU-a, 1, a, 1
2026/03/01 10:00:00.000, GPU-a, 2, b, 2
2026/03/01 10:00:01.000, GPU-a, 1, a, 1
2026/03/01 10:00:02.000, GPU-a, 1, a, 1
2026/03/01 10:00:02.000, GPU-a, 2, b, 2
`,
			map[string][]gpu.Sample{"GPU-a": {
				apps("10:00:00", app(1, 0, "a", m(1)), app(2, 0, "b", m(2))),
				apps("10:00:01", app(1, 0, "a", m(1))),
				apps("10:00:02", app(1, 0, "a", m(1)), app(2, 2, "b", m(2))),
			}},
		},
		{
			"rows of a list whose stamps differ, lists that follow fast",
			`timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]
2026/03/01 10:00:00.000, GPU-a, 1, a, 1
2026/03/01 10:00:00.001, GPU-a, 2, b, 2
2026/03/01 10:00:01.000, GPU-a, 1, a, 3
2026/03/01 10:00:01.010, GPU-a, 1, a, 4
`,
			map[string][]gpu.Sample{"GPU-a": {
				apps("10:00:00", app(1, 0, "a", m(1)), app(2, 0, "b", m(2))),
				apps("10:00:01", app(1, 0, "a", m(3))),
				{
					Time: at("10:00:01").Add(10 * time.Millisecond), T: since1970("10:00:01") + 10*time.Millisecond,
					Processes: []gpu.Process{app(1, 0, "a", m(4))}, ProcessesKnown: true,
				},
			}},
		},
		{
			"rows of long lists whose stamps differ",
			`timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]
2026/03/01 10:00:00.000, GPU-a, 1, a, 1
2026/03/01 10:00:00.050, GPU-a, 2, b, 2
2026/03/01 10:00:00.055, GPU-b, 9, z, 9
2026/03/01 10:00:00.100, GPU-a, 3, c, 3
2026/03/01 10:00:00.150, GPU-a, 4, d, 4
2026/03/01 10:00:00.201, GPU-a, 5, e, 5
`,
			map[string][]gpu.Sample{
				"GPU-a": {
					apps("10:00:00", app(1, 0, "a", m(1)), app(2, 0, "b", m(2)), app(3, 0, "c", m(3)), app(4, 0, "d", m(4))),
					{
						Time: at("10:00:00").Add(201 * time.Millisecond), T: since1970("10:00:00") + 201*time.Millisecond,
						Processes: []gpu.Process{app(5, 1, "e", m(5))}, ProcessesKnown: true,
					},
				},
				"GPU-b": {{
					Time: at("10:00:00").Add(55 * time.Millisecond), T: since1970("10:00:00") + 55*time.Millisecond,
					Processes: []gpu.Process{app(9, 0, "z", m(9))}, ProcessesKnown: true,
				}},
			},
		},
		{
			"commas in a name, unknown names and amounts, no uuid",
			`timestamp, pid, process_name, used_memory [MiB]
2026/03/01 10:00:00.000, 1, /opt/chrome --type=gpu, --a,b, 12 MiB
2026/03/01 10:00:00.000, 2, [Not Found], [N/A]
`,
			map[string][]gpu.Sample{"unnamed": {
				apps("10:00:00", app(1, 0, "chrome --type=gpu, --a,b", m(12)), app(2, 0, "", gpu.Opt[uint64]{})),
			}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := map[string][]gpu.Sample{}
			for _, r := range replayAll(t, write(t, tc.text), nil) {
				got[r.info.UUID] = r.samples
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestReplayAppsErrors(t *testing.T) {
	const head = "timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
	const good = "2026/03/01 10:00:01.000, GPU-a, 1, a, 1 MiB\n"
	for _, tc := range []struct{ name, text, want string }{
		{"no memory", "timestamp, pid\n", "FILE:1: no used_gpu_memory column: record with nvidia-smi --query-compute-apps=timestamp,gpu_uuid,pid,process_name,used_memory --format=csv -l 1"},
		{"pid", head + "2026/03/01 10:00:01.000, GPU-a, one, a, 1 MiB\n", `FILE:2: pid: cannot read "one" as a process id: "2026/03/01 10:00:01.000, GPU-a, one, a, 1 MiB"`},
		{"no pid", head + "2026/03/01 10:00:01.000, GPU-a, [N/A], a, 1 MiB\n", `FILE:2: pid: is missing: remove the line: "2026/03/01 10:00:01.000, GPU-a, [N/A], a, 1 MiB"`},
		{"big pid", head + "2026/03/01 10:00:01.000, GPU-a, 4294967296, a, 1 MiB\n", `FILE:2: pid: cannot read "4294967296" as a process id: "2026/03/01 10:00:01.000, GPU-a, 4294967296, a, 1 MiB"`},
		{"twice", head + good + good, "FILE:3: pid: 1 stands twice in the list of GPU \"GPU-a\": record with gpu_uuid, and each GPU instance of a MIG GPU apart: \"2026/03/01 10:00:01.000, GPU-a, 1, a, 1 MiB\""},
		{"other header", head + good + "timestamp, memory.used [MiB]\n", "FILE:3: a header of another query: split the file, GPUs and processes are replayed one by one"},
		{"nothing ran", head, "FILE: holds no samples, only a header: let the recording run longer"},
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

// readFuzzed reads a recording from memory, holds what comes out of it to what
// holds for every recording, and returns it.
func readFuzzed(t *testing.T, text string) (all []reading) {
	f, err := newReader("fuzz", strings.NewReader(text), time.UTC, "", len(text)%2 == 0)
	if err != nil {
		checkErrorLine(t, err)
		return nil
	}
	last := map[string]time.Duration{}
	for {
		r, err := f.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			checkErrorLine(t, err)
			return all
		}
		if r.info.UUID == "" {
			t.Fatalf("a GPU without identity: %+v", r.info)
		}
		if old, ok := last[r.info.UUID]; ok && r.sample.T <= old || r.sample.T <= 0 {
			t.Fatalf("time %v after %v", r.sample.T, old)
		}
		last[r.info.UUID] = r.sample.T
		checkValues(t, reflect.ValueOf(r))
		checkAmounts(t, &r.sample)
		all = append(all, r)
	}
}

// checkErrorLine checks that an error is one line that says where it is.
func checkErrorLine(t *testing.T, err error) {
	t.Helper()
	if text := err.Error(); !strings.HasPrefix(text, "fuzz:") || strings.ContainsAny(text, "\n\r") {
		t.Fatalf("error %q", text)
	}
}

// checkValues checks that no float below v is NaN or infinite.
func checkValues(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			t.Fatalf("the number %v", f)
		}
	case reflect.Struct:
		if v.Type() == timeType {
			return
		}
		for _, field := range v.Fields() {
			checkValues(t, field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			checkValues(t, v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			checkValues(t, v.Elem())
		}
	}
}

// checkAmounts checks that every amount of memory is one that exists.
func checkAmounts(t *testing.T, s *gpu.Sample) {
	amounts := []gpu.Opt[uint64]{s.Memory.Total, s.Memory.Used, s.Memory.Free, s.Memory.Reserved}
	for _, in := range s.Instances {
		amounts = append(amounts, in.Memory.Total, in.Memory.Used, in.Memory.Free, in.Memory.Reserved)
	}
	for _, p := range s.Processes {
		amounts = append(amounts, p.Used)
	}
	for _, v := range amounts {
		if v.V > detector.MaxBytes || !v.OK && v.V != 0 {
			t.Fatalf("the amount %+v", v)
		}
	}
}

func FuzzReplaySMI(f *testing.F) {
	f.Add(", index, uuid, memory.used [MiB], utilization.gpu [%]\n", ", 0, GPU-a, 1826 MiB, 17 %\n", ", 0, GPU-a, 1828 MiB, [N/A]\n")
	f.Add(", memory.free [MiB], memory.total [MiB], power.draw [W], pstate\n", ", 1, 2, 71.3 W, P0\n", ", 1, 2, 71, P8\n")
	f.Add(", clocks.sm [MHz], ecc.errors.corrected.volatile.total, fan.speed [%]\n", ", 1e3, 0x1, nan\n", ", -0, inf, 1_0\n")
	f.Add(", uuid, memory.used [\riB]\n", ", GPU-a, 1 MiB\n", ", GPU-a, 2 MiB\n")
	f.Fuzz(func(t *testing.T, header, first, second string) {
		readFuzzed(t, "timestamp"+header+"2026/03/01 10:00:00.000"+first+"2026/03/01 10:00:01.000"+second)
		readFuzzed(t, header+first+second)
	})
}

func FuzzReplayApps(f *testing.F) {
	f.Add("GPU-a", "1", "python, -c", "12 MiB", "2026/03/01 10:00:01.000, GPU-a, 1, python, 14 MiB\n")
	f.Add("GPU-a", "4294967295", "[Not Found]", "[N/A]", "2026/03/01 10:00:00.000, GPU-a, 1, timestamp, 14 MiB\n")
	f.Fuzz(func(t *testing.T, uuid, pid, name, used, rest string) {
		readFuzzed(t, "timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"+
			"2026/03/01 10:00:00.000, "+uuid+", "+pid+", "+name+", "+used+"\n"+rest)
	})
}
