// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-kit/log"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// logged returns the lines that a log writes of states, without their time stamps.
func logged(l *findingLog, states ...*DeviceState) []string {
	var out bytes.Buffer
	logger := log.NewLogfmtLogger(&out)
	for _, s := range states {
		s.Judgement.T = time.Hour
		l.update(logger, s)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		before, after, _ := strings.Cut(line, "at=")
		_, after, _ = strings.Cut(after, " ")
		lines = append(lines, before+strings.TrimSpace(after))
	}
	return lines
}

// expect compares lines, each by its beginning.
func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	same := len(got) == len(want)
	for i := range got {
		same = same && strings.HasPrefix(got[i], want[i])
	}
	if !same {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// fixtureAt is a moment n seconds after the first of a test.
func fixtureAt(n int) time.Time { return time.Date(2026, 3, 1, 12, 0, n, 0, time.UTC) }

// said is a GPU of which that is said.
func said(f ...finding.Finding) *DeviceState {
	s := &DeviceState{SampleTime: fixtureAt(0)}
	s.Judgement.Device = detector.Verdict{Judged: true}
	for i := range f {
		v := &s.Judgement.Device
		v.Leak, v.Leaked, v.SecondsToOOM, s.Judgement.Page = true, detector.Of(1<<30), f[i].OOM, f[i].OOM.OK && f[i].OOM.V < 3600
		s.Findings = append(s.Findings, FindingState{Finding: f[i]})
	}
	return s
}

// TestFindingLog has a leak from its first line to its last: what becomes worse is said again, what becomes better is not.
func TestFindingLog(t *testing.T) {
	leak := func(f finding.Finding) *DeviceState {
		f.Who, f.Leaking = finding.Who{Process: "train.py", User: "alice"}, detector.Of(1<<20)
		return said(f)
	}
	out := func(seconds float64, due bool) *DeviceState {
		return leak(finding.Finding{OOM: detector.Of(seconds), Evidence: detector.EvidenceLeak, OOMDue: due})
	}
	const (
		leaks  = `level=warn msg="GPU 0 leaks. train.py of user alice grows`
		ticket = `level=warn msg="GPU 0 runs out of memory in 2 h. `
		page   = `level=warn msg="GPU 0 runs out of memory in 50 min. `
		over   = `level=info msg="it is over" alert=GPUMemoryLeakDetected who="train.py of user alice"`
		paged  = `level=info msg="it is over" alert=GPUOutOfMemoryPredicted who="train.py of user alice"`
	)
	little := leak(finding.Finding{})
	little.Judgement.Device.Leaked = detector.Of(1 << 20) // a note
	unread := &DeviceState{SampleTime: fixtureAt(0)}
	blind := func(leaks bool) *DeviceState {
		d := &DeviceState{SampleTime: fixtureAt(0), Processes: []ProcessState{{Process: gpu.Process{Owner: &gpu.Owner{}}, Verdict: detector.Verdict{Judged: true}}}}
		if leaks {
			d.Findings = []FindingState{{Finding: finding.Finding{Who: finding.Who{Process: "train.py", User: "alice"}, Leaking: detector.Of(1)}}}
		}
		return d
	}
	for name, c := range map[string]struct {
		states []*DeviceState
		want   []string
	}{
		"once":                        {[]*DeviceState{leak(finding.Finding{}), leak(finding.Finding{}), said(), said()}, []string{leaks, over}},
		"a reading that fails":        {[]*DeviceState{leak(finding.Finding{}), unread, leak(finding.Finding{})}, []string{leaks}},
		"it becomes a page":           {[]*DeviceState{out(7200, false), out(3000, false), out(3000, true), out(7200, true), said()}, []string{ticket, page, paged}},
		"the page comes again":        {[]*DeviceState{out(3000, true), out(7200, true), out(3000, false), out(3000, true), out(3000, true)}, []string{page, page}},
		"the page was away briefly":   {[]*DeviceState{out(3000, true), out(7200, true), out(3000, true)}, []string{page}},
		"a page that waits no more":   {[]*DeviceState{little, out(3000, false), out(7200, true), out(3000, false), out(7200, true)}, []string{leaks, ticket}},
		"a page that did not last":    {[]*DeviceState{out(3000, false), said()}, nil},
		"somebody else is to blame":   {[]*DeviceState{leak(finding.Finding{}), said(finding.Finding{Leaking: detector.Of(1)})}, []string{leaks, `level=warn msg="GPU 0 leaks. The memory as a whole grows`, over}},
		"memory that is held":         {[]*DeviceState{said(finding.Finding{Zombie: detector.Of(2 << 30)}), said()}, []string{`level=warn msg="2.00 GiB of GPU 0 are held, and nobody uses them. `, `level=info msg="it is over" alert=GPUMemoryHeldByNobody`}},
		"a GPU that tells no memory":  {[]*DeviceState{blind(true), blind(false), blind(true)}, []string{leaks, over, leaks}},
		"so little that none is told": {[]*DeviceState{said(finding.Finding{Zombie: detector.Of(2 << 20)}), said()}, nil},
	} {
		expect(t, name, logged(&findingLog{}, c.states...), c.want...)
	}
}

// TestWithheldLeaksAreLogged has growth from the start of the exporter on, as its loop sees it.
func TestWithheldLeaksAreLogged(t *testing.T) {
	for name, c := range map[string]struct {
		full int // MiB at which it dies
		want string
	}{
		"reported": {80000, "alert=GPU"},
		"dies":     {17800, "No alert foretold it. No leak yet: it may be the start of a program, and must grow for another "},
	} {
		t.Run(name, func(t *testing.T) {
			dead := false
			d := newGPU(0, func(second int) (gpu.Sample, error) {
				used := 15000 + 500*float64(second)/60
				if dead = dead || int(used) > c.full; dead {
					return flat(1 << 30)(second)
				}
				p := process(1, uint64(used)<<20)
				s, err := flat(p.Used.V, p)(second)
				s.Memory.Total = gpu.Some(uint64(c.full+300) << 20)
				return s, err
			})
			runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(_ *Sampler, out *lines) {
				after(90 * time.Minute)
				if out.count(c.want) == 0 {
					t.Errorf("no %q:\n%s", c.want, out.b.String())
				}
			})
		})
	}
}

// TestLeakSites has lines become labels once a process has told all: not while it records.
func TestLeakSites(t *testing.T) {
	list := []allocator.Site{{Line: "a", Growth: 1}, {Line: "b", Growth: 2}, {Growth: 9}, {Line: "a", Growth: 3}}
	for state, want := range map[allocator.SitesState][]gpu.Line{
		allocator.SitesAsked:     nil,
		allocator.SitesRecording: nil,
		allocator.SitesRefused:   nil,
		allocator.SitesDone:      {{Line: "not in Python code", Bytes: 9}, {Line: "a", Bytes: 4}, {Line: "b", Bytes: 2}},
	} {
		p := &ProcessState{Sites: &allocator.Sites{State: state, List: list}}
		equal(t, p.LeakSites(), want, "%s", state)
	}
}
