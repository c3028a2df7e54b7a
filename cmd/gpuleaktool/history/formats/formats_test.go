// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/unicode"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
)

// written writes a sample in one line: GPU, time, MiB of used and total memory, processes.
func written(info gpu.Info, s *gpu.Sample) string {
	var b strings.Builder
	mib := func(v gpu.Opt[uint64]) string {
		if !v.OK {
			return "?"
		}
		return strconv.FormatUint(v.V>>20, 10)
	}
	fmt.Fprintf(&b, "%s %s %s/%s", info.UUID, s.Time.Format("02 15:04:05"), mib(s.Memory.Used), mib(s.Memory.Capacity()))
	if s.ProcessesKnown {
		b.WriteString(" [")
		for i, p := range s.Processes {
			if i > 0 {
				b.WriteString(" ")
			}
			fmt.Fprintf(&b, "%s:%d.%d=%s", p.Owner.Process, p.ID.PID, p.ID.Start, mib(p.Used))
		}
		b.WriteString("]")
	}
	return b.String()
}

// read reads a log as written.
func read(text string, o Options) (got []string, left []replay.LeftOut, err error) {
	left, err = each(strings.NewReader(text), o, func(info gpu.Info, s *gpu.Sample) {
		got = append(got, written(info, s))
	})
	return got, left, err
}

// each reads a log to its end.
func each(in io.Reader, o Options, take func(gpu.Info, *gpu.Sample)) ([]replay.LeftOut, error) {
	r, err := NewReader("log", in, o)
	if err != nil {
		return nil, err
	}
	for {
		info, s, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.LeftOut(), nil
		}
		if err != nil {
			return r.LeftOut(), err
		}
		take(info, &s)
	}
}

// readCase is a log, and what is read of it.
type readCase struct {
	name    string
	options Options
	text    string
	want    []string
	left    string // parts of what is told of what was left out, between |
}

func (c *readCase) check(t *testing.T) {
	t.Helper()
	got, left, err := read(c.text, c.options)
	if err != nil || !slices.Equal(got, c.want) {
		t.Errorf("%v\ngot  %q\nwant %q", err, got, c.want)
	}
	var told []string
	for _, l := range left {
		told = append(told, l.String())
	}
	if c.left == "" && len(told) > 0 || !containsAll(strings.Join(told, "\n"), strings.Split(c.left, "|")) {
		t.Errorf("left out %q, want %q", told, c.left)
	}
}

func containsAll(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// crlf is a text as Windows writes it.
func crlf(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }

var start = time.Date(2026, 3, 1, 23, 59, 0, 0, time.UTC)

func TestRead(t *testing.T) {
	for _, c := range csvCases() {
		t.Run(c.name, c.check)
	}
}

// TestText reads UTF-16 of both orders with CRLF, as PowerShell writes it, and UTF-8 with a mark.
func TestText(t *testing.T) {
	c := csvCases()[1]
	for _, order := range []unicode.Endianness{unicode.LittleEndian, unicode.BigEndian} {
		wide, err := unicode.UTF16(order, unicode.UseBOM).NewEncoder().String(crlf(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := read(wide, c.options); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %q", order, err, got)
		}
	}
	if got, _, err := read("\ufeff"+crlf(c.text), c.options); err != nil || !slices.Equal(got, c.want) {
		t.Errorf("UTF-8: %v, %q", err, got)
	}
}

func TestReadErrors(t *testing.T) {
	for _, c := range []struct {
		options Options
		text    string
		want    string
	}{
		{Options{Columns: []string{"time", "used[MiB]"}}, "10:00:00,5\n", "log:1: tells the time of day and no date: give the day on which it begins, as --log.start=2026-03-01"},
		{Options{Columns: []string{"time", "used[MiB]"}, Start: start}, "10:00:00,99999999999\n", "log:1: used: \"99999999999\" is more memory than any GPU has: check the unit"},
		{Options{Columns: []string{"time", "used[MiB]"}, Start: start}, "when,used\n10:00:99,5\n", "log:2: cannot read \"10:00:99\" as a time"},
		{Options{Columns: []string{"timestamp", "gpu"}}, "", "--columns: names no used memory"},
		{Options{Columns: []string{"gpu", "used"}}, "", "--columns: names no timestamp"},
		{Options{Columns: []string{"timestamp", "usage"}}, "", `--columns: does not know "usage": choose of timestamp`},
		{Options{Columns: []string{"timestamp", "used[miles]"}}, "", "has no unit such as used[MiB]"},
		{Options{Columns: []string{"timestamp", "used", "mem_used"}}, "", "two columns are used"},
		{Options{Columns: []string{"timestamp", "used"}}, "2026-03-01 10:00:00,5\n", "log:1: used: tells no unit"},
		{Options{Columns: []string{"timestamp", "used[B]"}}, "2026-03-01 10:00:00,5,6\n", "has 3 fields, but --columns names 2"},
		{Options{Columns: []string{"timestamp", "used[B]"}}, "time,used\n03/01/2026 10:00,5\n", "log:2: cannot read \"03/01/2026 10:00\" as a time: whether the day comes first or the month is not guessed. Write the year first, as sed -E 's#(..)[./](..)[./](....)#\\3-\\2-\\1#' does"},
		{Options{Columns: []string{"used[B]"}}, "5\n", "--columns: names no timestamp: say which column it is; or, if there is none, when the log begins"},
		{Options{Columns: []string{"used[B]"}, Start: start}, "5\n", "--log.interval=1s"},
		{Options{Columns: []string{"timestamp", "used[B]"}}, "2026-03-01 10:00:00,0x10\n", "cannot read \"0x10\" as memory"},
		{Options{Columns: []string{"timestamp", "used[B]"}}, "2026-03-01 10:00:00,-5\n", "cannot read \"-5\" as memory"},
		{Options{Columns: []string{"timestamp", "used[B]"}}, strings.Repeat("x", 2<<20), "the line is longer than 1048576 bytes"},
		{Options{Columns: []string{"timestamp", "used[B]"}}, "4.123456789,5\n5.123456789,5\n", "log:2: cannot read \"5.123456789\" as a time"},
		{Options{Columns: []string{"timestamp", "used[B]"}}, "time,used\n0000000005.5,5\n", "log:2: \"0000000005.5\" is not between 1971 and 2199"},
		{Options{Columns: []string{"timestamp", "used[B]"}}, "time,used\n" + strings.Repeat("9", 300) + ",5\n", "is after the year 2199"},
		{Options{Columns: []string{"timestamp", "pid", "used[B]"}}, strings.Repeat("1772362800,7,5\n", 65536+1), "lists more than 65536 processes at one time"},
		{Options{Columns: []string{"timestamp", "gpu", "used[B]"}}, manyGPUs("5"), "log:4097: names more than 4096 GPUs"},
		{Options{Columns: []string{"timestamp", "gpu", "pid", "used[B]"}}, manyGPUs("7,5"), "log:4097: names more than 4096 GPUs"},
	} {
		_, _, err := read(c.text, c.options)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v, want %q", c.text, err, c.want)
		}
	}
}

// manyGPUs writes a row of each of more GPUs than a log may have.
func manyGPUs(rest string) string {
	var text strings.Builder
	for i := range 4097 {
		fmt.Fprintf(&text, "1772362800,%d,%s\n", i, rest)
	}
	return text.String()
}

// TestTwoForOne has rows of four GPUs and no column that tells which: nothing is said of them.
func TestTwoForOne(t *testing.T) {
	for _, gpus := range []int{2, 4} {
		for _, apart := range []int{0, 3} { // ms between two rows of a round
			var text strings.Builder
			for i := range 20 {
				for k := range gpus {
					fmt.Fprintf(&text, "2026-03-01 10:00:%02d.%03d,%d MiB\n", i, k*apart, 5+k)
				}
			}
			_, _, err := read(text.String(), Options{Columns: []string{"timestamp", "used"}})
			if err == nil || !strings.Contains(err.Error(), "the rows come in bursts, as of several GPUs, and no column tells which") {
				t.Errorf("%d GPUs, %d ms apart: %v", gpus, apart, err)
			}
		}
	}
}

// TestGoesOn reads on below a line that another program wrote, or that was damaged; a line that says the whole log is of
// something else is an error.
func TestGoesOn(t *testing.T) {
	columns := Options{Columns: []string{"timestamp", "used[B]"}}
	good := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "2026-03-01 10:00:%02d,5\n", i)
		}
		return b.String()
	}
	if got, left, err := read(good(4)+"epoch 1, loss=2\ncurl: Connection refused\nwarning\n2026-03-01 10:00:04,5 apples\n2026-03-01 10:00:05,6\n", columns); err != nil || len(got) != 5 || len(left) != 1 || left[0].Lines != 4 || left[0].First != 5 {
		t.Errorf("%q, %v, %v", got, left, err)
	}
	if _, _, err := read(good(3)+strings.Repeat("epoch 1, loss=2\n", 4), columns); err == nil || !strings.Contains(err.Error(), "log: has more lines that cannot be read than others: left out 4 lines, the first is line 4: cannot read \"epoch 1\" as a time") {
		t.Error(err)
	}
	if _, _, err := read(good(3)+"10:00:04,5\n", columns); !errors.Is(err, errNoDate) {
		t.Error(err)
	}
}

// TestReadFails has an input that cannot be read.
func TestReadFails(t *testing.T) {
	o := Options{Columns: []string{"timestamp", "used[B]"}}
	broken := errors.New("broken")
	if _, err := each(io.MultiReader(strings.NewReader("a"), failing{broken}), o, nil); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestDamagedList has a row of a process that cannot be read: it goes on in the next list, and is no other one.
func TestDamagedList(t *testing.T) {
	var text strings.Builder
	for i := range 6 {
		fmt.Fprintf(&text, "2026-03-01 10:00:0%d,7,5 MiB\n2026-03-01 10:00:0%d,8,6 MiB\n", i, i)
	}
	log := strings.Replace(text.String(), "03,7,5 MiB", "03,7,epoch 3", 1)
	got, left, err := read(log, Options{Columns: []string{"timestamp", "pid", "used"}})
	if err != nil || len(left) != 1 || len(got) < 4 {
		t.Fatalf("%q, %v, %v", got, left, err)
	}
	for _, line := range got {
		if !strings.HasSuffix(line, "[:7.0=5 :8.0=6]") {
			t.Errorf("%q", line)
		}
	}
}

// TestUnnumbered has logs that do not tell the index of a GPU: none is made up.
func TestUnnumbered(t *testing.T) {
	for _, c := range []struct {
		columns string
		text    string
		index   int
		uuid    string
	}{
		{"timestamp,used", "2026-03-01 10:00:00,5 MiB\n", -1, gpu.Unnamed},
		{"timestamp,gpu,used", "2026-03-01 10:00:00,3,5 MiB\n", 3, "index-3"},
		{"timestamp,gpu,used", "2026-03-01 10:00:00,node1:3,5 MiB\n", -1, "node1:3"},
		{"timestamp,uuid,used", "2026-03-01 10:00:00,GPU-a,5 MiB\n", -1, "GPU-a"},
		{"timestamp,gpu,uuid,used", "2026-03-01 10:00:00,3,GPU-a,5 MiB\n", 3, "GPU-a"},
	} {
		_, err := each(strings.NewReader(c.text), Options{Columns: strings.Split(c.columns, ",")}, func(info gpu.Info, _ *gpu.Sample) {
			if info.Index != c.index || info.UUID != c.uuid {
				t.Errorf("%s: GPU %d %q, want %d %q", c.text, info.Index, info.UUID, c.index, c.uuid)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// FuzzRead reads anything by any columns: it ends, and hands over the samples of each GPU in order.
func FuzzRead(f *testing.F) {
	for _, c := range csvCases() {
		f.Add(strings.Join(c.options.Columns, ","), c.text)
	}
	f.Add("", "timestamp;\"memory.used [MiB]\";power.draw [W]\n2026/03/01 12:00:00.000;5 MiB;7 W\n")
	f.Fuzz(func(t *testing.T, columns, text string) {
		last := map[string]time.Duration{}
		o := Options{Start: start, Interval: time.Second, Columns: strings.Split(columns, ",")}
		_, err := each(strings.NewReader(text), o, func(info gpu.Info, s *gpu.Sample) {
			if before, ok := last[info.UUID]; ok && s.T <= before {
				t.Errorf("%s of %s after %s", s.T, info.UUID, before)
			}
			last[info.UUID] = s.T
			if !slices.IsSortedFunc(s.Processes, func(a, b gpu.Process) int { return cmp.Compare(a.ID.PID, b.ID.PID) }) {
				t.Error("the processes are in no order")
			}
		})
		if err != nil && !strings.Contains(err.Error(), "log") && !strings.HasPrefix(err.Error(), "--columns: ") {
			t.Errorf("the error does not name the file: %v", err)
		}
		if columns := SavedAgain(strings.SplitN(text, "\n", 2)[0]); columns != nil {
			if _, err := parseColumns(columns, &clock{start: start, interval: time.Second}); err != nil && !strings.Contains(err.Error(), "names no used memory") && !strings.Contains(err.Error(), "has no unit") {
				t.Error(err)
			}
		}
	})
}
