// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

const down, upward = "\x1b[B", "\x1bOA"

// typing is a terminal that shows the recorded answer of the exporter at an address.
func typing(t testing.TB, address string) *keys {
	t.Helper()
	d, err := decode(bytes.NewReader(recorded(t)))
	testkit.Must(t, err)
	k := &keys{stdout: io.Discard, top: 3, typed: true, data: d}
	if address != "" {
		k.exporter, err = url.Parse(address)
		testkit.Must(t, err)
	}
	return k
}

// row returns the first cell of the row that is chosen.
func (k *keys) row() string {
	processes, _ := users(k.data, k.top)
	for _, r := range append(memories(k.data), processes...) {
		if r.id == k.chosen {
			name, _, _ := strings.Cut(r.cells, "\t")
			return name
		}
	}
	return ""
}

func TestKeys(t *testing.T) {
	const (
		exporter = "http://node7:9844/gpu"
		toUser   = down + down + down + down + down + down
	)
	for name, c := range map[string]struct {
		address, typed string
		chosen, answer string
		ends           bool
	}{
		"nothing chosen":        {exporter, "\rok" + upward, "", "", false},
		"the first":             {exporter, down, "GPU 2", "", false},
		"it ends at the top":    {exporter, down + down + upward + upward + upward, "GPU 2", "", false},
		"and at the bottom":     {exporter, strings.Repeat(down, 50), "vllm", "", false},
		"in one go":             {exporter, toUser, "train.py", "", false},
		"finding of a memory":   {exporter, down + down + down + "\r", "GPU 1, MIG 3 (2g.20gb)", "Save a checkpoint, then restart what grows. Runbook: GPUOutOfMemoryPredicted", false},
		"finding of a process":  {exporter, toUser + "\r", "train.py", "GPU 0 runs out of memory in 1 h 30 min (at least 1 h 21 min). train.py (pid 42)", false},
		"of a lost GPU":         {exporter, down + "\r", "GPU 2", "GPU 2 (NVIDIA H200, GPU-lost) cannot be read.", false},
		"of one not judged":     {exporter, down + down + down + down + down + "\r", "GPU 4", "No finding. ", false},
		"none":                  {exporter, toUser + down + "\r", "ddp_worker.py", "No finding. ddp_worker.py (pid 46)", false},
		"enter again goes back": {exporter, down + "\r\r", "GPU 2", "", false},
		"escape goes back":      {exporter, down + "\r\x1b", "", "", false},
		"page":                  {exporter, down + "o", "GPU 2", "http://node7:9844/gpu/predict#GPU-lost", false},
		"page of a slice":       {"http://node7", down + down + down + "o", "GPU 1, MIG 3 (2g.20gb)", "http://node7/predict#GPU-mig-mig-3", false},
		"page of a process":     {exporter, toUser + "o", "train.py", "http://node7:9844/gpu/predict#GPU-leaks", false},
		"no page":               {"", down + "o", "GPU 2", "No exporter is asked, so there is no page.", false},
		"other keys":            {exporter, down + "x\x00\x7f\x1b[3~\x1b[1;5C é\xff", "GPU 2", "", false},
		"k on a memory":         {"", down + "k", "GPU 2", "This is a memory: choose a process.", false},
		"k far away":            {exporter, toUser + "k", "train.py", "It runs on another machine: node7.", false},
		"q":                     {exporter, down + "q", "GPU 2", "", true},
		"ctrl-C":                {exporter, "\x03" + down, "", "", true},
	} {
		k := typing(t, c.address)
		if ends := k.press(c.typed); ends != c.ends || k.row() != c.chosen || !strings.Contains(k.answer, c.answer) || (c.answer == "" && k.answer != "") {
			t.Errorf("%s: %q is chosen, answer %q, ends: %t", name, k.row(), k.answer, ends)
		}
	}
}

// TestPageOfLimit leads to the cards of the limits of a pod and of its container, not to that of their GPU, which is below them.
func TestPageOfLimit(t *testing.T) {
	k := typing(t, "http://node7/gpu")
	labels := map[string]string{"gpu": "7", "uuid": "GPU-7", "pod": "agent"}
	k.data = &verdicts.Data{Devices: []verdicts.Device{{
		Labels: map[string]string{"gpu": "7", "uuid": "GPU-7"}, Title: "GPU 7 of node7", Up: true,
		Limited: []verdicts.Part{{Labels: labels, Path: "a", Domain: verdicts.Domain{Verdict: &verdicts.Verdict{Seconds: new(60.0)}}}, {Labels: labels, Path: "b"}},
	}}}
	for typed, want := range map[string]string{down + "o": "http://node7/gpu/predict#a", strings.Repeat(down, 3) + "o": "http://node7/gpu/predict#b", down + down + "o": "http://node7/gpu/predict#GPU-7"} {
		k.chosen = ""
		if k.press(typed); k.answer != want || !strings.HasPrefix(k.row(), "GPU 7 of node7") {
			t.Errorf("%s: %q, want %q", k.row(), k.answer, want)
		}
	}
}

// A row stays chosen wherever it goes, and nothing else takes its place.
func TestChosenRowMoves(t *testing.T) {
	k := typing(t, "")
	k.press(down + down + down)
	d, err := decode(bytes.NewReader(recorded(t)))
	testkit.Must(t, err)
	slices.Reverse(d.Devices)
	testkit.Must(t, k.look(d, nil))
	testkit.Equal(t, k.row(), "GPU 1, MIG 3 (2g.20gb)", "what is chosen")
	testkit.Must(t, k.look(nil, errors.New("busy")))
	testkit.Equal(t, k.row(), "GPU 1, MIG 3 (2g.20gb)", "what is chosen while the exporter does not answer")
	testkit.Must(t, k.look(&verdicts.Data{Time: d.Time, Devices: d.Devices[:1]}, nil))
	if k.press("\rok"); k.row() != "" || k.answer != "" {
		t.Errorf("%q is chosen, answer %q", k.row(), k.answer)
	}
}

// The row that is chosen has a mark, and is reversed.
func TestScreenWithChosenRow(t *testing.T) {
	k := typing(t, "")
	k.press(strings.Repeat(down, 7))
	page := Screen(k.data, 3, 100, k.chosen)
	testkit.Golden(t, "testdata/chosen.txt", page)
	testkit.Golden(t, "testdata/chosen_small.txt", Fit(page, 60, 10))
	if got := Paint(page); strings.Count(got, "\x1b[7m> ddp_worker.py") != 1 || strings.Count(got, "\x1b[7m") != 1 {
		t.Errorf("%q", got)
	}
}

// A row that is chosen is on the screen, however small that is, and a page that fits is whole.
func TestFitShowsChosenRow(t *testing.T) {
	for rows := -2; rows < 14; rows++ {
		for at := range 10 {
			page := strings.Repeat("a\n", at) + mark + "b\n" + strings.Repeat("c\n", 9-at)
			got := Fit(page, 80, rows)
			if !strings.Contains(got, mark) || strings.Count(got, "\n") > max(rows, 3)-1 || (rows > 10 && got != page) {
				t.Errorf("row %d of %d: %q", at, rows, got)
			}
		}
	}
}

// Reading keys ends with the terminal, with a key, and by a deadline, and leaves no goroutine.
func TestReadEnds(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, end := range map[string]func(in, out *os.File){
		"key":      func(_, out *os.File) { _, _ = out.WriteString("q") },
		"terminal": func(_, out *os.File) { _ = out.Close() },
		"deadline": func(in, _ *os.File) { _ = in.SetReadDeadline(time.Now()) },
	} {
		in, out, err := os.Pipe()
		testkit.Must(t, err)
		stopped := make(chan struct{})
		go typing(t, "").read(in, func() { close(stopped) })
		end(in, out)
		select {
		case <-stopped:
		case <-t.Context().Done():
			t.Error(name)
		}
		_, _ = in.Close(), out.Close()
	}
}

// FuzzKeys has somebody lean on the keyboard: in pieces, cut anywhere. The terminal gets nothing but text, what is chosen is there, and no
// process is sent anything whose name was not typed.
func FuzzKeys(f *testing.F) {
	for _, typed := range []string{"\x1b[B\x1b[B\r\x1bq", "\x1bOBo\x1b[", "\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[Bktrain.py\r", "\x1b[9999999999999999", "\xff\xfe\x1b\x1b[[A"} {
		f.Add([]byte(typed), uint8(3), true)
	}
	shown := typing(f, "http://localhost:9844")
	f.Fuzz(func(t *testing.T, typed []byte, piece uint8, asked bool) {
		var screen bytes.Buffer
		k := &keys{stdout: &screen, top: 3, typed: true, data: shown.data, exporter: shown.exporter}
		for part := range slices.Chunk(typed, int(piece)+1) {
			if asked && k.asked == nil {
				k.asked, k.name = &verdicts.Process{Labels: map[string]string{"process": "\x1b", "pid": "1"}}, ""
			}
			if k.press(string(part)) {
				return
			}
			if k.chosen != "" && k.row() == "" {
				t.Fatalf("%q is chosen, and not there", k.chosen)
			}
			if len(k.name) > 300 || strings.HasPrefix(k.answer, "SIGTERM") {
				t.Fatalf("name %q, answer %q", k.name, k.answer)
			}
			for _, r := range strings.ReplaceAll(screen.String(), Home, "") {
				if r != '\n' && !unicode.IsGraphic(r) {
					t.Fatalf("%q reaches the terminal", r)
				}
			}
			screen.Reset()
		}
	})
}
