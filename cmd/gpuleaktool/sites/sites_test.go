// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sites

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func sitesOfTest() *allocator.Sites {
	return &allocator.Sites{Over: 5 * time.Minute, Pause: 21 * time.Millisecond, List: []allocator.Site{
		{Growth: 3 << 30, Live: 4 << 30, Blocks: 512, Line: "app/train.py:88 step", Frames: strings.Fields("a b c d e f g h i j")},
		{Growth: 1 << 20, Live: 2 << 20, Blocks: 1, UUID: "0b"},
	}}
}

func TestWriteSites(t *testing.T) {
	var b bytes.Buffer
	testkit.Must(t, writeSites(&b, sitesOfTest()))
	const want = `GREW BY   HOLDS     BLOCKS  LINE
3.00 GiB  4.00 GiB  512     app/train.py:88 step
                              a
                              b
                              c
                              d
                              e
                              f
                              g
                              h
                              … and 2 more
1.00 MiB  2.00 MiB  1       not in Python code

The longest stop of the program was 21ms.
`
	testkit.Equal(t, b.String(), want, "page")
	b.Reset()
	testkit.Must(t, writeSites(&b, &allocator.Sites{Over: time.Minute, Unsure: 2}))
	const nothing = `No line was seen to allocate what stays in 1 min.

Lines that grew and are left out: 2. Memory from before was freed meanwhile, which they may just have replaced. Watch for longer, with --for.
`
	testkit.Equal(t, b.String(), nothing, "page")
}

func TestWriteSitesJSON(t *testing.T) {
	var b bytes.Buffer
	f := sitesOfTest()
	f.List[0].Frames = f.List[0].Frames[:2]
	testkit.Must(t, writeSitesJSON(&b, f))
	const want = `{"seconds":300,"pause_seconds":0.021,"unsure_lines":0,"sites":[` +
		`{"line":"app/train.py:88 step","growth_bytes":3221225472,"live_bytes":4294967296,"blocks":512,"frames":["a","b"]},` +
		`{"line":"","growth_bytes":1048576,"live_bytes":2097152,"blocks":1,"uuid":"0b","frames":[]}]}` + "\n"
	testkit.Equal(t, b.String(), want, "page")
}

// TestSitesOfNothing asks processes that cannot tell.
func TestSitesOfNothing(t *testing.T) {
	for _, c := range []struct {
		pid    int
		procFS string
		want   error
	}{
		{os.Getpid(), "/proc", errNoProbe},
		{1 << 22, "/proc", errors.New("process 4194304: there is none of that number")},
		{1, t.TempDir() + "/none", errors.New("--path.procfs=")},
	} {
		s := &sitesCommand{pid: c.pid, over: 10 * time.Second, procFS: c.procFS}
		synctest.Test(t, func(t *testing.T) {
			var stderr bytes.Buffer
			began := time.Now()
			err := s.run(t.Context(), io.Discard, &stderr)
			if took := time.Since(began); err == nil || !strings.Contains(err.Error(), c.want.Error()) || took > time.Minute {
				t.Errorf("%+v: %v after %s", c, err, took)
			}
			if said := strings.Contains(stderr.String(), "looks for the probe of process"); said != (c.pid == os.Getpid()) {
				t.Errorf("%+v: it said %q", c, &stderr)
			}
		})
	}
}
