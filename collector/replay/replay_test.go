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
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// simStart is the start of the recordings in tests.
var simStart = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

var must, devicesOf, next = testkit.Must, testkit.Devices, testkit.Next

// equal checks that got is want, part by part. The format tells of what they are.
func equal[T any](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	testkit.Equal(t, got, want, format, args...)
}

// write writes a recording into a file of the test and returns its path.
func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gpu.csv")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// compress returns text as gzip does.
func compress(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	must(t, err)
	must(t, z.Close())
	return b.String()
}

// replayed is what a device of a recording gave.
type replayed struct {
	info    gpu.Info
	samples []gpu.Sample
	status  []gpu.Status
}

// replayAll replays a file to its end without sleeping.
func replayAll(t *testing.T, path string) (all []replayed) {
	t.Helper()
	src, err := New(path, math.Inf(1))
	for _, d := range devicesOf(t, src, err) {
		r := replayed{info: d.Info()}
		for {
			missed, err := d.Wait(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || missed != 0 {
				t.Fatalf("Wait: missed %d, %v", missed, err)
			}
			s, err := d.Read(t.Context())
			must(t, err)
			var st gpu.Status
			for _, g := range gpu.Groups {
				must(t, d.ReadGroup(t.Context(), g, &st))
			}
			r.samples, r.status = append(r.samples, s), append(r.status, st)
		}
		all = append(all, r)
	}
	return all
}

// TestReplayDecodesOnce checks that no GPU decodes the samples of another, unless a line does not begin with a plain name.
func TestReplayDecodesOnce(t *testing.T) {
	const samples = 3 // of each GPU
	for _, tc := range []struct {
		name, a, b string // UUIDs in JSON
		form       string // of a sample, with UUID and time
		decoded    int    // by both GPUs
	}{
		{"plain", `"GPU-a"`, `"GPU-ab"`, `{"uuid":%s,"sample":{"t":%d}}`, 2 * samples},
		{"one name is escaped", `"GPU-a"`, `"\"b\""`, `{"uuid":%s,"sample":{"t":%d}}`, 3 * samples},
		{"other spaces", `"GPU-a"`, `"GPU-b"`, `{"uuid": %s, "sample": {"t": %d}}`, 4 * samples},
		{"other order", `"GPU-a"`, `"{"`, `{"sample":{"t":%[2]d},"uuid":%[1]s}`, 4 * samples},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var text strings.Builder
			text.WriteString(`{"format":"gpu_leak_exporter recording","version":1}` + "\n")
			for i, uuid := range []string{tc.a, tc.b} {
				fmt.Fprintf(&text, `{"gpu":{"index":%d,"uuid":%s}}`+"\n", i, uuid)
			}
			for i := range samples {
				for _, uuid := range []string{tc.a, tc.b} {
					fmt.Fprintf(&text, tc.form+"\n", uuid, simStart.Add(time.Duration(i)).UnixNano())
				}
			}
			src, err := New(write(t, text.String()), math.Inf(1))
			decoded := 0
			for _, d := range devicesOf(t, src, err) {
				for range samples {
					next(t, d)
				}
				if _, err := d.Wait(t.Context()); !errors.Is(err, io.EOF) {
					t.Errorf("more than %d samples: %v", samples, err)
				}
				decoded += d.(*replayDevice).rows.rows
			}
			equal(t, decoded, tc.decoded, "samples decoded")
		})
	}
}

func TestReplayOpenErrors(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "none"), "recording: stat " + filepath.Join(dir, "none") + ": no such file or directory"},
		{"folder", dir, dir + ": is no regular file: a recording is read more than once, so write a pipe to a file first"},
	} {
		if _, err := New(tc.path, 1); err == nil || err.Error() != tc.want {
			t.Errorf("%s: error %v\nwant  %s", tc.name, err, tc.want)
		}
	}
	if _, err := New(dir, math.NaN()); err == nil || !strings.Contains(err.Error(), "speed") {
		t.Errorf("a speed that is none: %v", err)
	}
}

func TestReplayLongLine(t *testing.T) {
	path := write(t, "timestamp, memory.used, name\n2026/03/01 10:00:00.000, 5, "+strings.Repeat("x", maxLine)+"\n")
	_, err := New(path, 1)
	if want := path + ":2: the line is longer than 16777216 bytes: this is no recording"; err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
	// One that is longer than the buffer but no longer than a line may be.
	name := strings.Repeat("x", 1<<20)
	got := replayAll(t, write(t, "timestamp, memory.used, name\n2026/03/01 10:00:00.000, 5, "+name+"\n"))
	equal(t, len(got[0].info.Name), len(name), "bytes of the name")
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
		{"fast", 60, []time.Duration{0, 166666666, time.Second}, []time.Duration{8333333, 175000000}},
		{"very fast", 1e6, []time.Duration{0, 10 * time.Microsecond, time.Minute / 1e6}, []time.Duration{500, 10500}},
		{"no sleep", math.Inf(1), []time.Duration{0, 0, 0}, []time.Duration{0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, twoGPUs)
			synctest.Test(t, func(t *testing.T) {
				src, err := New(path, tc.speed)
				devices := devicesOf(t, src, err)
				time.Sleep(time.Hour) // the clock starts with the first Wait
				begin := time.Now()
				come := make([][]time.Duration, len(devices))
				var ended sync.WaitGroup
				for i, d := range devices {
					ended.Go(func() {
						for {
							if _, err := d.Wait(t.Context()); err != nil {
								if !errors.Is(err, io.EOF) {
									t.Error(err)
								}
								return
							}
							come[i] = append(come[i], time.Since(begin))
						}
					})
				}
				ended.Wait()
				equal(t, come, [][]time.Duration{tc.a, tc.b}, "rows came after")
			})
		})
	}
}

// TestReplayInterrupted checks that a Wait that was ended loses no row, and that
// Close ends one.
func TestReplayInterrupted(t *testing.T) {
	path := write(t, twoGPUs)
	synctest.Test(t, func(t *testing.T) {
		src, err := New(path, 1)
		d := devicesOf(t, src, err)[0]
		slow, err := New(path, 1e-12) // a second takes 30,000 years: no overflow
		for _, d := range []gpu.Device{d, devicesOf(t, slow, err)[0]} {
			next(t, d)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := d.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Wait: %v", err)
			}
		}
		equal(t, next(t, d).Memory.Used.V, 11*mib, "second row")
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
	src, err := New(path, math.Inf(1))
	devices := devicesOf(t, src, err)
	if err := src.Watch(t.Context(), func(gpu.Event) { t.Error("an event") }); !errors.Is(err, gpu.ErrNoEvents) {
		t.Errorf("Watch: %v", err)
	}
	if s := src.Calls().Snapshot(); len(s.Calls)+len(s.Errors)+len(s.InFlight) > 0 {
		t.Errorf("calls %+v", s)
	}
	// A log that does not tell their index has GPUs in the order of their first rows, which are mixed.
	d := devices[0]
	equal(t, []gpu.Info{d.Info(), devices[1].Info()}, []gpu.Info{{UUID: "GPU-a"}, {UUID: "GPU-b", Index: 1}}, "GPUs")
	equal(t, next(t, d).Memory.Used.V, 10*mib, "first row")
	equal(t, next(t, devices[1]).Memory.Used.V, 20*mib, "first row of the other GPU")
	equal(t, next(t, d).Memory.Used.V, 11*mib, "second row")
	again, err := src.Devices(t.Context())
	if err != nil || again[0] != d {
		t.Errorf("other devices the second time: %v, %v", again, err)
	}
	// What nvidia-smi appends while the file is replayed was not checked.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteString("2026/03/01 10:0")
	must(t, err)
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
