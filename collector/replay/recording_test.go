// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sim"
)

// TestRecordingRoundTrip records every scenario and replays it.
func TestRecordingRoundTrip(t *testing.T) {
	for _, name := range sim.Scenarios() {
		t.Run(name, func(t *testing.T) {
			src, err := sim.New(name, sim.Options{Speed: math.Inf(1), Start: simStart})
			devices := devicesOf(t, src, err)
			want := make([]replayed, len(devices))
			var b bytes.Buffer
			w := NewWriter(&b)
			for i := range 30 {
				for j, d := range devices {
					r := &want[j]
					r.info = d.Info()
					var status *gpu.Status
					sample := next(t, d)
					// The status is read less often, and holds until the next one.
					if i%15 == 0 {
						status = new(gpu.Status)
						for _, g := range gpu.Groups {
							_ = d.ReadGroup(t.Context(), g, status) // one fails in the scenario faulty
						}
						r.status = append(r.status, *status)
					} else {
						r.status = append(r.status, r.status[i-1])
					}
					r.samples = append(r.samples, sample)
					must(t, w.Write(d.Info(), sample, status))
				}
			}
			for _, text := range []string{b.String(), compress(t, b.String())} {
				got := replayAll(t, write(t, text))
				if !reflect.DeepEqual(got, want) {
					t.Errorf("differs after %d bytes", len(text))
				}
			}
		})
	}
}

var timeType = reflect.TypeFor[time.Time]()

// fill sets everything below v to a value that is not zero, each a different one.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint8:
		v.SetUint(uint64(*n%7 + 1))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Array: // a place in a fleet, which is not recorded
	case reflect.Struct:
		if v.Type() == timeType {
			v.Set(reflect.ValueOf(simStart.Add(time.Duration(*n))))
			return
		}
		for _, field := range v.Fields() {
			fill(field, n)
		}
	default:
		panic(v.Type().String())
	}
}

// written returns a recording of one sample.
func written(tb testing.TB, info gpu.Info, s gpu.Sample, st *gpu.Status) string {
	tb.Helper()
	var b strings.Builder
	must(tb, NewWriter(&b).Write(info, s, st))
	return b.String()
}

// TestRecordingKeepsEveryField pins the name of every field, and fails when a field of Info, Sample or Status does not come
// back: a file of today is read by every release that reads version 1.
func TestRecordingKeepsEveryField(t *testing.T) {
	const golden = "testdata/every-field.jsonl"
	text, err := os.ReadFile(golden)
	must(t, err)
	var n int64
	var info gpu.Info
	var s gpu.Sample
	var st gpu.Status
	for _, all := range []any{&info, &s, &st} {
		fill(reflect.ValueOf(all).Elem(), &n)
	}
	s.T = time.Duration(simStart.UnixNano())
	s.Processes[0].State, s.Processes[1].State = "R", "S"
	equal(t, written(t, info, s, &st), string(text), "recording")
	want := []replayed{{info, []gpu.Sample{s}, []gpu.Status{st}}}
	equal(t, replayAll(t, golden), want, "replayed")
}

// TestRecordingKeepsAbsence checks that absent, zero, nil and empty stay apart.
func TestRecordingKeepsAbsence(t *testing.T) {
	s := gpu.Sample{
		Time: simStart, T: time.Duration(simStart.UnixNano()), Step: -3 * time.Second,
		Memory: gpu.Memory{Used: gpu.Some(uint64(0)), Total: gpu.Some(uint64(1 << 48))},
		Processes: []gpu.Process{
			{ID: gpu.ProcessID{PID: 1, Start: math.MaxUint64}, State: "Z", Owner: &gpu.Owner{}, Started: gpu.Some(-time.Second)},
			{ID: gpu.ProcessID{PID: 2}, Allocator: &gpu.Allocator{Framework: "torch", Version: "2.9.0", Backend: "native", Allocated: gpu.Some(uint64(1)), OOMs: gpu.Some(uint64(0))}},
			{ID: gpu.ProcessID{PID: math.MaxUint32}, SM: gpu.Some(0.0), Instance: gpu.Some(uint32(0)), Used: gpu.Some(uint64(0))},
		},
		MIGEnabled: gpu.Some(false),
		Instances:  []gpu.Instance{},
	}
	st := gpu.Status{
		Thermal:     gpu.Thermal{ClockEvents: []gpu.ClockEvent{}, Fans: []gpu.Opt[float64]{{}, gpu.Some(0.5), gpu.Some(0.0)}},
		Utilization: gpu.Utilization{GPU: gpu.Some(0.0)},
		ECC:         gpu.ECC{RemappedRows: []gpu.Named[uint64]{{Name: "corrected", V: 0}}},
		NVLinks:     []gpu.NVLink{},
	}
	info := gpu.Info{UUID: "GPU-a", Name: "a \"quoted\" name \u2028 <&>"}
	want := []replayed{{info, []gpu.Sample{s}, []gpu.Status{st}}}
	equal(t, replayAll(t, write(t, written(t, info, s, &st))), want, "replayed")
}

func TestRecordingErrors(t *testing.T) {
	const head = `{"format":"gpu_leak_exporter recording","version":1}` + "\n"
	const gpu = `{"gpu":{"index":0,"uuid":"GPU-a"}}` + "\n"
	sample := func(rest string) string {
		return `{"uuid":"GPU-a","sample":{"time":"2026-03-01T10:00:00Z","t":1772359200000000000` + rest + "}}\n"
	}
	const release = "replay it with the release that wrote it"
	const wrong, other = "cannot read the line: ", ": if another release wrote it, replay it with that"
	for _, tc := range []struct{ name, text, want string }{
		{"version", `{"format":"gpu_leak_exporter recording","version":2,"more":[]}` + "\n", "FILE:1: recording of version 2: this program reads version 1; " + release},
		{"no version", `{"format":"gpu_leak_exporter recording"}` + "\n", "FILE:1: recording of version 0: this program reads version 1; " + release},
		{"other format", `{"format":"trace","version":1}` + "\n", `FILE:1: is no recording of gpu_leak_exporter, whose first line has the format "gpu_leak_exporter recording"`},
		{"version inside", head + gpu + `{"format":"gpu_leak_exporter recording","version":2}` + "\n", "FILE:3: recording of version 2: this program reads version 1; " + release},
		{"only a header", head + gpu, "FILE: holds no samples: let the recording run longer"},
		{"no gpu line", head + sample(""), `FILE:2: sample of GPU "GPU-a", of which no gpu line was before: the start of the recording is missing`},
		{"no uuid", head + `{"gpu":{"index":0}}` + "\n", "FILE:2: gpu: has no uuid"},
		{"nothing", head + "{}\n", "FILE:2: holds neither a gpu nor a sample"},
		{"null", head + "null\n", "FILE:2: holds neither a gpu nor a sample"},
		{"no JSON", head + "hello\n", "FILE:2: " + wrong + "invalid character 'h' looking for beginning of value" + other},
		{"two objects", head + "{} {}\n", "FILE:2: " + wrong + "there is something behind it" + other},
		{"unknown field", head + gpu + sample(`,"colour":"green"`), "FILE:3: " + wrong + `json: unknown field "colour"` + other},
		{"unknown kind of line", head + `{"event":{}}` + "\n", "FILE:2: " + wrong + `json: unknown field "event"` + other},
		{"a text for a number", head + gpu + sample(`,"memory":{"used":"1"}`), "FILE:3: " + wrong + "sample.memory.used: cannot take a JSON string for a uint64" + other},
		{"null for a time", head + gpu + `{"uuid":"GPU-a","sample":{"t":null}}` + "\n", "FILE:3: sample.t: 0 ns is not between 1971 and 2200"},
		{"a fraction of a byte", head + gpu + sample(`,"memory":{"used":1.5}`), "FILE:3: " + wrong + "sample.memory.used: cannot take a JSON number 1.5 for a uint64" + other},
		{"all ones", head + gpu + sample(`,"memory":{"used":18446744073709551615}`), "FILE:3: sample.memory: no GPU has 18446744073709551615 bytes"},
		{"all ones in a process", head + gpu + sample(`,"processes":[{"used":18446744073709551615}]`), "FILE:3: sample.processes[0].used: no GPU has 18446744073709551615 bytes"},
		{"type", head + gpu + sample(`,"processes":[{"type":8}]`), "FILE:3: sample.processes[0].type: 8 is no sum of 1, 2 and 4"},
		{"state", head + gpu + sample(`,"processes":[{"state":"running"}]`), `FILE:3: sample.processes[0].state: "running" is no letter`},
		{"list", head + gpu + sample(`,"processes":{}`), "FILE:3: " + wrong + "sample.processes: cannot take a JSON object for a []gpu.Process" + other},
		{"object", head + gpu + sample(`,"memory":[]`), "FILE:3: " + wrong + "sample.memory: cannot take a JSON array for a gpu.Memory" + other},
		{"wall time", head + gpu + `{"uuid":"GPU-a","sample":{"time":"noon","t":1}}` + "\n", "FILE:3: " + wrong + `parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"` + other},
		{"late wall time", head + gpu + `{"uuid":"GPU-a","sample":{"time":"9999-12-31T23:59:59-23:00","t":1772359200000000000}}` + "\n", "FILE:3: sample.time: 10000-01-01 22:59:59 +0000 UTC is not between 1971 and 2200"},
		{"no time", head + gpu + `{"uuid":"GPU-a","sample":{}}` + "\n", "FILE:3: sample.t: 0 ns is not between 1971 and 2200"},
		{"cut off", head + gpu + sample("")[:30], "FILE:3: the file ends inside this line: remove the line, or end it with a line break if it is whole"},
		{"equal times", head + gpu + sample("") + sample(""), "FILE:4: timestamp: 2026-03-01 10:00:00.000 of GPU \"GPU-a\" is not after 2026-03-01 10:00:00.000, its row before: split the file where the clock was set back or two recordings overlap, and record with the uuid if rows of several GPUs are mixed"},
	} {
		path := write(t, tc.text)
		_, err := New(path, 1)
		if err == nil || strings.ReplaceAll(err.Error(), path, "FILE") != tc.want {
			t.Errorf("%s: error %v\nwant  %s", tc.name, err, tc.want)
		}
	}
}

// failingWriter fails after n bytes.
type failingWriter struct{ n int }

var errFull = errors.New("no space left")

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.n < len(b) {
		return w.n, errFull
	}
	w.n -= len(b)
	return len(b), nil
}

func TestWriterErrors(t *testing.T) {
	info, s := gpu.Info{UUID: "GPU-a"}, gpu.Sample{Time: simStart, T: time.Duration(simStart.UnixNano())}
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := w.Write(gpu.Info{Index: 3}, s, nil); err == nil || err.Error() != "recording: GPU 3 has no UUID" {
		t.Errorf("no UUID: %v", err)
	}
	bad := &gpu.Status{Power: gpu.Power{Watts: gpu.Some(math.NaN())}}
	if err := w.Write(info, s, bad); err == nil || err.Error() != "recording: json: error calling MarshalJSON for type gpu.Opt[float64]: json: unsupported value: NaN" {
		t.Errorf("NaN: %v", err)
	}
	if b.Len() > 0 {
		t.Errorf("wrote %q for what cannot be recorded", b.String())
	}
	if err := w.Write(info, s, nil); err != nil || strings.Count(b.String(), "\n") != 3 {
		t.Errorf("%q, %v", b.String(), err)
	}
	full := &failingWriter{n: b.Len()}
	w = NewWriter(full)
	for i, want := range []error{nil, errFull, errFull} {
		if err := w.Write(info, s, nil); !errors.Is(err, want) {
			t.Errorf("write %d: %v, want %v", i, err, want)
		}
		if i == 1 {
			full.n = 1 << 20 // the disk has room again, but the file ends inside a line
		}
	}
}

// TestRecordingsInOneFile replays two recordings that were put together.
func TestRecordingsInOneFile(t *testing.T) {
	var b bytes.Buffer
	for i := range 2 {
		w := NewWriter(&b)
		for j := range 2 {
			now := simStart.Add(time.Duration(2*i+j) * time.Second)
			info := gpu.Info{UUID: "GPU-a", DriverVersion: strconv.Itoa(i)}
			must(t, w.Write(info, gpu.Sample{Time: now, T: time.Duration(now.UnixNano())}, nil))
		}
	}
	got := replayAll(t, write(t, b.String()))
	if len(got) != 1 || len(got[0].samples) != 4 || got[0].info.DriverVersion != "0" {
		t.Errorf("got %+v", got)
	}
}

// TestPartialRecording cuts a recording off anywhere: under a name that says so,
// what is whole is read.
func TestPartialRecording(t *testing.T) {
	var plain, packed bytes.Buffer
	w := NewWriter(&plain)
	whole := 0 // bytes of packed that hold all but the last member
	for i := range 9 {
		from := plain.Len()
		now := simStart.Add(time.Duration(i) * time.Second)
		must(t, w.Write(gpu.Info{UUID: "GPU-a"}, gpu.Sample{Time: now, T: time.Duration(now.UnixNano())}, nil))
		whole = packed.Len()
		packed.WriteString(compress(t, plain.String()[from:]))
	}
	begin := bytes.Index(plain.Bytes(), []byte(`{"uuid"`))
	for _, c := range []struct {
		name, text string
		from       int // where the first sample may be whole
		last       int // from where 8 samples are whole
	}{
		{"plain", plain.String(), begin, bytes.LastIndexByte(plain.Bytes()[:plain.Len()-1], '\n') + 1},
		{"compressed", packed.String(), 1, whole},
	} {
		before := 0
		for size := c.from; size <= len(c.text); size++ {
			got, _, err := readNamed("r.partial", strings.NewReader(c.text[:size]), nil)
			n := len(got)
			if n < before || n < 8 && size >= c.last || n < 9 && size == len(c.text) {
				t.Fatalf("%s: %d samples in %d of %d bytes, %d in fewer", c.name, n, size, len(c.text), before)
			}
			// A file without a whole line is empty, which is said.
			if err != nil && (n > 0 || err.Error() != "r.partial: is empty") {
				t.Fatalf("%s: %d of %d bytes: %v", c.name, size, len(c.text), err)
			}
			before = n
		}
		if got, _, err := readNamed("r", strings.NewReader(c.text[:len(c.text)-1]), nil); err == nil || !strings.Contains(err.Error(), "this line") && !strings.Contains(err.Error(), "cut off") {
			t.Errorf("%s, under another name: %q, %v", c.name, got, err)
		}
	}
}

func FuzzRecording(f *testing.F) {
	const head = `{"format":"gpu_leak_exporter recording","version":1}` + "\n"
	text, err := os.ReadFile("testdata/every-field.jsonl")
	must(f, err)
	_, rest, _ := strings.Cut(string(text), "\n")
	gpu, line, _ := strings.Cut(rest, "\n")
	sample, status, _ := strings.Cut(line, `,"status":`)
	f.Add(gpu, sample, strings.TrimSpace(status))
	f.Add(`{"gpu":{"uuid":"a"}}`, `{"uuid":"a","sample":{"t":1772359200000000000,"memory":{"used":1e3}}`, "{}}")
	f.Add(`{"gpu":{"uuid":"a"}}`, `{"uuid":"a","sample":{"t":1772359200000000000,"instances":[]}`, `{"clocks":[{"name":"sm","current":1e9}]}}`)
	f.Fuzz(func(t *testing.T, gpu, sample, status string) {
		readFuzzed(t, head+gpu+"\n"+sample+"\n", nil)
		want := readFuzzed(t, head+gpu+"\n"+sample+`,"status":`+status+"\n", nil)
		if len(want) == 0 {
			return
		}
		var b bytes.Buffer // what was read is written and read as it was
		w := NewWriter(&b)
		for _, r := range want {
			must(t, w.Write(r.info, r.sample, r.status))
		}
		equal(t, readFuzzed(t, b.String(), nil), want, "read again")
	})
}
