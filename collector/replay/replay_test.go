// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// write writes a recording into a file of the test and returns its path.
func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gpu.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// compress returns text as gzip does.
func compress(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// replayed is what a device of a recording gave.
type replayed struct {
	info    gpu.Info
	samples []gpu.Sample
	status  []gpu.Status
}

// replayAll replays a file to its end without sleeping.
func replayAll(t testing.TB, path string, loc *time.Location) []replayed {
	t.Helper()
	src, err := New(path, Options{Speed: math.Inf(1), Location: loc})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	devices, err := src.Devices(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var out []replayed
	for _, d := range devices {
		out = append(out, drain(t, d))
	}
	return out
}

// drain reads a device to its end.
func drain(t testing.TB, d gpu.Device) replayed {
	t.Helper()
	r := replayed{info: d.Info()}
	ctx := context.Background()
	for {
		missed, err := d.Wait(ctx)
		if errors.Is(err, io.EOF) {
			return r
		}
		if err != nil || missed != 0 {
			t.Fatalf("Wait: missed %d, %v", missed, err)
		}
		s, err := d.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var st gpu.Status
		for _, g := range gpu.Groups {
			if err := d.ReadGroup(ctx, g, &st); err != nil {
				t.Fatal(err)
			}
		}
		r.samples, r.status = append(r.samples, s), append(r.status, st)
	}
}

func at(clock string) time.Time {
	t, err := time.Parse(time.DateTime, "2026-03-01 "+clock)
	if err != nil {
		panic(err)
	}
	return t
}

func since1970(clock string) time.Duration { return time.Duration(at(clock).UnixNano()) }

func TestReplayColumns(t *testing.T) {
	row := func(m gpu.Memory) gpu.Sample {
		return gpu.Sample{Time: at("10:00:00"), T: since1970("10:00:00"), Memory: m}
	}
	used := gpu.Some(uint64(1826 * mib))
	for _, tc := range []struct {
		name, text string
		info       gpu.Info
		sample     gpu.Sample
	}{
		{
			"plain",
			"timestamp, index, uuid, memory.used [MiB], memory.total [MiB], utilization.gpu [%]\n2026/03/01 10:00:00.000, 3, GPU-a, 1826 MiB, 81920 MiB, 17 %\n",
			gpu.Info{Index: 3, UUID: "GPU-a"},
			row(gpu.Memory{Used: used, Total: gpu.Some(uint64(81920 * mib))}),
		},
		{
			"without units and in another order",
			"memory.used [MiB], utilization.gpu [%], uuid, timestamp\n1826, 17, GPU-a, 2026/03/01 10:00:00.000\n",
			gpu.Info{UUID: "GPU-a"},
			row(gpu.Memory{Used: used}),
		},
		{
			"units only in the rows, no blanks, Windows line breaks",
			"timestamp,uuid,memory.used\r\n2026/03/01 10:00:00.000,GPU-a,1826 MiB\r\n",
			gpu.Info{UUID: "GPU-a"},
			row(gpu.Memory{Used: used}),
		},
		{
			"other units", "timestamp, memory.used [B], memory.total [GiB]\n2026/03/01 10:00:00.000, 1914699776, 80\n",
			gpu.Info{UUID: "unnamed"},
			row(gpu.Memory{Used: used, Total: gpu.Some(uint64(80 * gib))}),
		},
		{
			"nothing is known",
			"timestamp, uuid, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%], pstate, fan.speed [%], ecc.mode.current, mig.mode.current\n" +
				"2026/03/01 10:00:00.000, GPU-a, [Unknown Error], [N/A], [Not Supported], N/A, [GPU is lost], [N/A], [N/A], [N/A]\n",
			gpu.Info{UUID: "GPU-a"},
			row(gpu.Memory{}),
		},
		{
			"unknown columns", "timestamp, compute_cap, gom.current, memory.used [MiB], clocks.future.sm [MHz], clocks_event_reasons.active\n2026/03/01 10:00:00.000, 9.0, All On, 1826, 12, 0x4\n",
			gpu.Info{UUID: "unnamed"},
			row(gpu.Memory{Used: used}),
		},
		{
			"only free memory", "timestamp, memory.free [MiB], memory.total [MiB], memory.reserved [MiB]\n2026/03/01 10:00:00.000, 100, 2000, 74\n",
			gpu.Info{UUID: "unnamed"},
			row(gpu.Memory{Used: used, Total: gpu.Some(uint64(2000 * mib)), Free: gpu.Some(uint64(100 * mib)), Reserved: gpu.Some(uint64(74 * mib))}),
		},
		{
			"used memory that failed is not worked out", "timestamp, memory.used [MiB], memory.free [MiB], memory.total [MiB]\n2026/03/01 10:00:00.000, [N/A], 100, 2000\n",
			gpu.Info{UUID: "unnamed"},
			row(gpu.Memory{Total: gpu.Some(uint64(2000 * mib)), Free: gpu.Some(uint64(100 * mib))}),
		},
		{"byte order mark, blank lines", "\ufefftimestamp, memory.used [MiB]\n\n2026/03/01 10:00:00.000, 1826\n\n \n", gpu.Info{UUID: "unnamed"}, row(gpu.Memory{Used: used})},
		{"ISO 8601", "timestamp, memory.used [MiB]\n2026-03-01T11:00:00+01:00, 1826\n", gpu.Info{UUID: "unnamed"}, row(gpu.Memory{Used: used})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, text := range []string{tc.text, compress(t, tc.text)} {
				got := replayAll(t, write(t, text), nil)
				want := []replayed{{tc.info, []gpu.Sample{tc.sample}, []gpu.Status{{}}}}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
			}
		})
	}
}

// TestReplayEverything reads a log with all columns that nvidia-smi has: those that tell the GPU and its memory are read.
func TestReplayEverything(t *testing.T) {
	got := replayAll(t, "testdata/smi-all.csv", nil)
	if len(got) != 1 || len(got[0].samples) != 1 {
		t.Fatalf("got %+v", got)
	}
	info := gpu.Info{
		Index: 2, UUID: "GPU-00000000-1111-2222-3333-444444444444", Name: "NVIDIA H100 80GB HBM3",
		PCIBusID: "00000000:4C:00.0", Serial: "1650000000000", VBIOSVersion: "96.00.99.00.01", DriverVersion: "580.95.05",
	}
	if got[0].info != info {
		t.Errorf("info %+v\nwant %+v", got[0].info, info)
	}
	if s := got[0].samples[0]; s.MIGEnabled != gpu.Some(false) || s.Memory != (gpu.Memory{Total: gpu.Some[uint64](81559 * mib), Reserved: gpu.Some[uint64](551 * mib), Used: gpu.Some[uint64](1004 * mib), Free: gpu.Some[uint64](80004 * mib)}) {
		t.Errorf("sample %+v", s)
	}
}

// TestReplaySeveralGPUs checks that rows of several GPUs may be mixed, and how
// they are told apart.
func TestReplaySeveralGPUs(t *testing.T) {
	for _, tc := range []struct {
		name, id string
		a, b     string
		uuids    []string
		indices  []int
	}{
		{"uuid and index", "uuid, index", "GPU-b, 0", "GPU-a, 1", []string{"GPU-b", "GPU-a"}, []int{0, 1}},
		{"uuid", "uuid", "GPU-b", "GPU-a", []string{"GPU-b", "GPU-a"}, []int{0, 1}},
		{"process query's name", "gpu_uuid", "GPU-b", "GPU-a", []string{"GPU-b", "GPU-a"}, []int{0, 1}},
		{"one index, two hosts", "uuid, index", "GPU-b, 0", "GPU-a, 0", []string{"GPU-a", "GPU-b"}, []int{0, 0}},
		{"index", "index", "4", "2", []string{"index-2", "index-4"}, []int{2, 4}},
		{"bus", "pci.bus_id", "00000000:3B:00.0", "00000000:19:00.0", []string{"pci-00000000:3B:00.0", "pci-00000000:19:00.0"}, []int{0, 1}},
		{"serial", "serial", "1650", "1651", []string{"serial-1650", "serial-1651"}, []int{0, 1}},
		{"uuid unknown", "uuid, index", "[N/A], 0", "[N/A], 1", []string{"index-0", "index-1"}, []int{0, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var text strings.Builder
			text.WriteString("timestamp, " + tc.id + ", memory.used [MiB]\n")
			for i := range 3 {
				fmt.Fprintf(&text, "2026/03/01 10:00:0%d.000, %s, %d\n", i, tc.a, 10+i)
				fmt.Fprintf(&text, "2026/03/01 10:00:0%d.000, %s, %d\n", i, tc.b, 20+i)
			}
			got := replayAll(t, write(t, text.String()), nil)
			if len(got) != 2 {
				t.Fatalf("%d GPUs, want 2", len(got))
			}
			tens := map[uint64]bool{}
			for i, r := range got {
				if r.info.UUID != tc.uuids[i] || r.info.Index != tc.indices[i] || len(r.samples) != 3 {
					t.Errorf("GPU %d: %d samples of %+v, want %s %d", i, len(r.samples), r.info, tc.uuids[i], tc.indices[i])
				}
				for j, s := range r.samples {
					if s.Memory.Used.V/mib%10 != uint64(j) {
						t.Errorf("GPU %d, sample %d: %+v", i, j, s.Memory)
					}
					tens[s.Memory.Used.V/mib/10] = true
				}
			}
			if len(tens) != 2 {
				t.Errorf("rows of both GPUs were not seen: %v", tens)
			}
		})
	}
}

func TestReplayHeaderAgain(t *testing.T) {
	got := replayAll(t, write(t, `timestamp, uuid, memory.used [MiB]
2026/03/01 10:00:00.000, GPU-a, 10 MiB
timestamp, uuid, memory.used [MiB]
2026/03/01 10:00:01.000, GPU-a, 11 MiB
uuid, memory.used [MiB], memory.total [MiB], timestamp
GPU-a, 12 MiB, 100 MiB, 2026/03/01 10:00:02.000
`), nil)
	if len(got) != 1 || len(got[0].samples) != 3 {
		t.Fatalf("got %+v", got)
	}
	for i, s := range got[0].samples {
		if s.Memory.Used.V != uint64(10+i)*mib || s.Memory.Total.OK != (i == 2) {
			t.Errorf("sample %d: %+v", i, s.Memory)
		}
	}
}

func TestReplayLocation(t *testing.T) {
	text := "timestamp, memory.used [MiB]\n2026/03/01 10:00:00.250, 1\n"
	got := replayAll(t, write(t, text), time.FixedZone("", 2*60*60))
	want := at("08:00:00").Add(250 * time.Millisecond)
	if s := got[0].samples[0]; !s.Time.Equal(want) || s.T != time.Duration(want.UnixNano()) {
		t.Errorf("sample at %v, want %v", s.Time, want)
	}
}

// TestReplayErrors pins the text of every error that a user can meet.
func TestReplayErrors(t *testing.T) {
	const head = "timestamp, uuid, memory.used [MiB], memory.total [MiB]\n"
	const good = "2026/03/01 10:00:00.000, GPU-a, 10 MiB, 100 MiB\n"
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "FILE: is empty"},
		{"blank", "\n \n", "FILE: is empty"},
		{"header only", head, "FILE: holds no samples, only a header: let the recording run longer"},
		{"no header", good, "FILE:1: no header line of nvidia-smi, and no recording of gpu_leak_exporter: leave noheader out of --format=csv,… when recording"},
		{"another file", "#!/bin/sh\n", "FILE:1: no header line of nvidia-smi, and no recording of gpu_leak_exporter: leave noheader out of --format=csv,… when recording"},
		{"no timestamp", "uuid, memory.used [MiB]\nGPU-a, 10 MiB\n", "FILE:1: no timestamp column: record with nvidia-smi --query-gpu=timestamp,index,uuid,memory.used,memory.total --format=csv -l 1"},
		{"fruit", head + "2026/03/01 10:00:01.000, GPU-a, 12 apples, 100 MiB\n" + good, `FILE:2: memory.used: cannot read "12 apples" as MiB: "2026/03/01 10:00:01.000, GPU-a, 12 apples, 100 MiB"`},
		{"unit of another quantity", head + "2026/03/01 10:00:01.000, GPU-a, 12 W, 100 MiB\n", `FILE:2: memory.used: cannot read "12 W" as MiB: "2026/03/01 10:00:01.000, GPU-a, 12 W, 100 MiB"`},
		{"unit of another size", head + "2026/03/01 10:00:01.000, GPU-a, 12 GiB, 100 MiB\n", `FILE:2: memory.used: cannot read "12 GiB": the header says "MiB": "2026/03/01 10:00:01.000, GPU-a, 12 GiB, 100 MiB"`},
		{"unknown unit", "timestamp, memory.used [stone]\n2026/03/01 10:00:01.000, 12\n", `FILE:2: memory.used: cannot read "12" as MiB: "2026/03/01 10:00:01.000, 12"`},
		{"negative", head + "2026/03/01 10:00:01.000, GPU-a, -12, 100 MiB\n", `FILE:2: memory.used: cannot read "-12" as MiB: "2026/03/01 10:00:01.000, GPU-a, -12, 100 MiB"`},
		{"not a number", head + "2026/03/01 10:00:01.000, GPU-a, nan, 100 MiB\n", `FILE:2: memory.used: cannot read "nan" as MiB: "2026/03/01 10:00:01.000, GPU-a, nan, 100 MiB"`},
		{"all ones", head + "2026/03/01 10:00:01.000, GPU-a, 17592186044415 MiB, 100 MiB\n", `FILE:2: memory.used: cannot read "17592186044415 MiB" as MiB: "2026/03/01 10:00:01.000, GPU-a, 17592186044415 MiB, 100 MiB"`},
		{"part of a byte", head + "2026/03/01 10:00:01.000, GPU-a, 0.3 MiB, 100 MiB\n", `FILE:2: memory.used: cannot read "0.3 MiB" as MiB: "2026/03/01 10:00:01.000, GPU-a, 0.3 MiB, 100 MiB"`},
		{"too few fields", head + "2026/03/01 10:00:01.000, GPU-a, 12 MiB\n" + good, `FILE:2: has 3 fields, but the header has 4 columns: remove or repair the line: "2026/03/01 10:00:01.000, GPU-a, 12 MiB"`},
		{"too many fields", head + "2026/03/01 10:00:01.000, GPU-a, 12 MiB, 100 MiB, 7\n" + good, `FILE:2: has 5 fields, but the header has 4 columns: remove or repair the line: "2026/03/01 10:00:01.000, GPU-a, 12 MiB, 100 MiB, 7"`},
		{"a line below a row", head + good + "epoch 1\n" + good, `FILE:3: has 1 fields, but the header has 4 columns: "epoch 1": remove or repair the line`},
		{"time", head + "yesterday, GPU-a, 12 MiB, 100 MiB\n", `FILE:2: timestamp: cannot read "yesterday" as a time with the year first, such as 2026/03/01 17:01:16.000: "yesterday, GPU-a, 12 MiB, 100 MiB"`},
		{"no time", head + "[N/A], GPU-a, 12 MiB, 100 MiB\n", `FILE:2: timestamp: cannot read "[N/A]" as a time with the year first, such as 2026/03/01 17:01:16.000: "[N/A], GPU-a, 12 MiB, 100 MiB"`},
		{"a time before there were GPUs", head + "0001/03/01 10:00:01.000, GPU-a, 12 MiB, 100 MiB\n", `FILE:2: timestamp: "0001/03/01 10:00:01.000" is not between 1971 and 2200: "0001/03/01 10:00:01.000, GPU-a, 12 MiB, 100 MiB"`},
		{"ends inside the header", "timestamp, uuid", "FILE:1: the file ends inside this line: remove the line, or end it with a line break if it is whole"},
		{"header of another query", head + good + "timestamp, pid, used_gpu_memory [MiB]\n", "FILE:3: a header of another query: split the file, GPUs and processes are replayed one by one"},
		{"flag", "timestamp, mig.mode.current\n2026/03/01 10:00:01.000, maybe\n", `FILE:2: mig.mode.current: cannot read "maybe" as Enabled or Disabled: "2026/03/01 10:00:01.000, maybe"`},
		{"index", "timestamp, index\n2026/03/01 10:00:01.000, one\n", `FILE:2: index: cannot read "one" as a whole number: "2026/03/01 10:00:01.000, one"`},
		{"compressed and cut off", compress(t, head+good)[:40], "FILE:1: the compressed file is cut off: save its whole lines with zcat FILE | head -n -1 > NEW"},
		{"compressed badly", "\x1f\x8bxyz", "FILE: gzip: unexpected EOF"},
		{"JSON", "{\"a\":1}\n", `FILE:1: is no recording of gpu_leak_exporter, whose first line has the format "gpu_leak_exporter recording"`},
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

func TestReplayOpenErrors(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "none"), "recording: stat " + filepath.Join(dir, "none") + ": no such file or directory"},
		{"folder", dir, dir + ": is no regular file: a recording is read more than once, so write a pipe to a file first"},
	} {
		if _, err := New(tc.path, Options{}); err == nil || err.Error() != tc.want {
			t.Errorf("%s: error %v\nwant  %s", tc.name, err, tc.want)
		}
	}
	for _, speed := range []float64{-1, math.NaN(), math.Inf(-1)} {
		if _, err := New(dir, Options{Speed: speed}); err == nil || !strings.Contains(err.Error(), "speed") {
			t.Errorf("speed %g: %v", speed, err)
		}
	}
}

func TestReplayTooManyGPUs(t *testing.T) {
	var b strings.Builder
	b.WriteString("timestamp, uuid\n")
	for i := range maxReplayGPUs + 1 {
		fmt.Fprintf(&b, "2026/03/01 10:00:00.000, GPU-%d\n", i)
	}
	path := write(t, b.String())
	_, err := New(path, Options{})
	if want := path + ":1026: more than 1024 GPUs: check that the columns are what the header says"; err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
}

func TestReplayLongLine(t *testing.T) {
	path := write(t, "timestamp, name\n2026/03/01 10:00:00.000, "+strings.Repeat("x", maxLine)+"\n")
	_, err := New(path, Options{})
	if want := path + ":2: the line is longer than 16777216 bytes: this is no recording"; err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
	// One that is longer than the buffer but no longer than a line may be.
	name := strings.Repeat("x", 1<<20)
	got := replayAll(t, write(t, "timestamp, name\n2026/03/01 10:00:00.000, "+name+"\n"), nil)
	if got[0].info.Name != name {
		t.Errorf("name of %d bytes", len(got[0].info.Name))
	}
}

const twoGPUs = `timestamp, uuid, memory.used [MiB]
2026/03/01 10:00:00.000, GPU-a, 10
2026/03/01 10:00:00.500, GPU-b, 20
2026/03/01 10:00:10.000, GPU-a, 11
2026/03/01 10:00:10.500, GPU-b, 21
2026/03/01 10:01:00.000, GPU-a, 12
`

func TestReplayPace(t *testing.T) {
	for _, tc := range []struct {
		name  string
		speed float64
		a, b  []time.Duration // when the rows come, in real time
	}{
		{"default is real time", 0, []time.Duration{0, 10 * time.Second, time.Minute}, []time.Duration{500 * time.Millisecond, 10500 * time.Millisecond}},
		{"slow", 0.5, []time.Duration{0, 20 * time.Second, 2 * time.Minute}, []time.Duration{time.Second, 21 * time.Second}},
		{"real time", 1, []time.Duration{0, 10 * time.Second, time.Minute}, []time.Duration{500 * time.Millisecond, 10500 * time.Millisecond}},
		{"fast", 60, []time.Duration{0, 166666666, time.Second}, []time.Duration{8333333, 175000000}},
		{"very fast", 1e6, []time.Duration{0, 10 * time.Microsecond, time.Minute / 1e6}, []time.Duration{500, 10500}},
		{"no sleep", math.Inf(1), []time.Duration{0, 0, 0}, []time.Duration{0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, twoGPUs)
			synctest.Test(t, func(t *testing.T) {
				src, err := New(path, Options{Speed: tc.speed})
				devices := devicesOf(t, src, err)
				time.Sleep(time.Hour) // the clock starts with the first Wait
				begin := time.Now()
				come := make([][]time.Duration, len(devices))
				done := make(chan struct{})
				for i, d := range devices {
					go func() {
						defer func() { done <- struct{}{} }()
						for {
							if _, err := d.Wait(t.Context()); err != nil {
								if !errors.Is(err, io.EOF) {
									t.Error(err)
								}
								return
							}
							come[i] = append(come[i], time.Since(begin))
						}
					}()
				}
				<-done
				<-done
				if want := [][]time.Duration{tc.a, tc.b}; !reflect.DeepEqual(come, want) {
					t.Errorf("rows came after %v, want %v", come, want)
				}
			})
		})
	}
}

// TestReplayInterrupted checks that a Wait that was ended loses no row, and that
// Close ends one.
func TestReplayInterrupted(t *testing.T) {
	path := write(t, twoGPUs)
	synctest.Test(t, func(t *testing.T) {
		src, err := New(path, Options{})
		d := devicesOf(t, src, err)[0]
		slow, err := New(path, Options{Speed: 1e-12}) // a second takes 30,000 years: no overflow
		for _, d := range []gpu.Device{d, devicesOf(t, slow, err)[0]} {
			next(t, d)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := d.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Wait: %v", err)
			}
		}
		if s := next(t, d); s.Memory.Used.V != 11*mib {
			t.Errorf("lost a row: %+v", s.Memory)
		}
		got := make(chan error)
		go func() {
			_, err := d.Wait(t.Context())
			got <- err
		}()
		synctest.Wait()
		src.Close()
		if err := <-got; !errors.Is(err, gpu.ErrClosed) {
			t.Errorf("Wait: %v", err)
		}
		if _, err := d.Read(t.Context()); !errors.Is(err, gpu.ErrClosed) {
			t.Errorf("Read after Close: %v", err)
		}
		if _, err := src.Devices(t.Context()); !errors.Is(err, gpu.ErrClosed) {
			t.Errorf("Devices after Close: %v", err)
		}
	})
}

func TestReplaySource(t *testing.T) {
	path := write(t, twoGPUs)
	src, err := New(path, Options{Speed: math.Inf(1)})
	devices := devicesOf(t, src, err)
	if err := src.Watch(t.Context(), func(gpu.Event) { t.Error("an event") }); !errors.Is(err, gpu.ErrNoEvents) {
		t.Errorf("Watch: %v", err)
	}
	if s := src.Calls().Snapshot(); len(s.Calls)+len(s.Errors)+len(s.InFlight) > 0 {
		t.Errorf("calls %+v", s)
	}
	d := devices[0]
	s, err := d.Read(t.Context())
	if err != nil || s.Memory.Used.V != 10*mib {
		t.Errorf("Read before Wait: %+v, %v", s.Memory, err)
	}
	if s := next(t, d); s.Memory.Used.V != 11*mib {
		t.Errorf("second row: %+v", s.Memory)
	}
	again, err := src.Devices(t.Context())
	if err != nil || again[0] != d {
		t.Errorf("other devices the second time: %v, %v", again, err)
	}
	// What nvidia-smi appends while the file is replayed was not checked.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("2026/03/01 10:0"); err != nil {
		t.Fatal(err)
	}
	next(t, d)
	for range 2 {
		if _, err := d.Wait(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("Wait at the end: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if _, err := d.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Read: %v", err)
	}
	if err := d.ReadGroup(ctx, gpu.GroupPower, new(gpu.Status)); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadGroup: %v", err)
	}
}
