// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/detectorconfig"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// judge runs the detector over a history, as the exporter runs it over its GPUs,
// and notes its verdicts at every step, and between two that are far apart.
type judge struct {
	rules    *detectorconfig.Config
	interval time.Duration     // between two verdicts
	output   string            // what of the verdicts is kept
	heights  *detector.Heights // what programs gave back in this history
	gpus     map[*history.Memory]*judgedGPU
	series   []*series // in the order in which they were first seen
}

// newJudge returns a judge for one of the outputs, whose steps are so far apart.
func newJudge(rules *detectorconfig.Config, step time.Duration, output string) *judge {
	return &judge{rules: rules, interval: within(step), output: output, heights: detector.NewHeights(), gpus: map[*history.Memory]*judgedGPU{}}
}

// mostApart is how far two verdicts may be apart, whatever step is asked for: an alarm
// that begins and ends between two steps was an alarm.
const mostApart = time.Minute

// within returns the longest whole part of a step that is mostApart at most.
func within(step time.Duration) time.Duration {
	n := max(1, ceil(step, mostApart)/mostApart)
	for step%n != 0 {
		n++
	}
	return step / n
}

// judgedGPU is a GPU and, in MIG mode, its GPU instances.
type judgedGPU struct {
	*judgedMemory
	frames    finding.Frames
	instances map[string]*judgedMemory // by ID and profile
	order     []*judgedMemory
}

// judgedMemory is one memory that can run out.
type judgedMemory struct {
	judge  *judge
	info   gpu.Info
	labels history.Labels
	scope  string // as in memory
	domain *detector.Domain[gpu.ProcessID]
	slices bool // its instances are judged instead: there are statistics and no verdict

	begun     bool
	last, due time.Duration // of the last sample, and the step that tells of it
	used      *series       // nil as long as its memory is not known
	members   map[gpu.ProcessID]*series
	groups    map[string]*judgedGroup
	// Of the last frame: its capacity, and its processes in order.
	capacity detector.Value
	listed   []listing
}

// listing is a process in the list of a frame. group is nil if it belongs to none.
type listing struct {
	id     gpu.ProcessID
	series *series
	group  *judgedGroup
}

// judgedGroup is a pod or job.
type judgedGroup struct {
	labels history.Labels
	series *series // nil until the detector tells of it: it has had two processes
	// Of the last frame.
	sum     float64
	unknown bool // as is the memory of one of its processes
}

// add judges a sample.
func (j *judge) add(m *history.Memory, s *gpu.Sample) error {
	g := j.gpus[m]
	if g == nil {
		first, err := j.newMemory(m.Info, m.Labels, m.Scope)
		if err != nil {
			return err
		}
		g = &judgedGPU{judgedMemory: first}
		j.gpus[m] = g
	}
	if err := g.partition(s); err != nil {
		return err
	}
	frame, index := g.frames.Device(m.Info, s)
	if err := g.observe(frame, s, index); err != nil {
		return err
	}
	for i := range g.order {
		frame, index := g.frames.Instance(m.Info, s, &s.Instances[i])
		if err := g.order[i].observe(frame, s, index); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) newMemory(info gpu.Info, l history.Labels, scope string) (*judgedMemory, error) {
	m := &judgedMemory{judge: j, info: info, labels: l, scope: scope, members: map[gpu.ProcessID]*series{}, groups: map[string]*judgedGroup{}}
	var err error
	if m.domain, err = detector.NewDomain(m.config); err != nil {
		return nil, err
	}
	m.domain.Remember(j.heights)
	return m, nil
}

// kind says what its used memory is of.
func (m *judgedMemory) kind() kind {
	switch m.scope {
	case promapi.ScopeProcess:
		return kindProcess
	case promapi.ScopeWorkload:
		return kindWorkload
	}
	return kindMemory
}

// partition follows the MIG layout. A new one leaves nothing of the old histories
// valid.
func (g *judgedGPU) partition(s *gpu.Sample) error {
	same := len(s.Instances) == len(g.order)
	for i := range s.Instances {
		same = same && g.order[i] == g.instances[instanceName(&s.Instances[i])]
	}
	if same {
		return nil
	}
	g.end()
	if g.begun {
		g.domain.Reset(detector.ReasonRepartition)
	}
	g.slices, g.order, g.instances = len(s.Instances) > 0, nil, map[string]*judgedMemory{}
	for i := range s.Instances {
		in := &s.Instances[i]
		m, err := g.judge.newMemory(g.info, g.labels.With("gpu_instance", strconv.FormatUint(uint64(in.ID), 10), "profile", in.Profile), "")
		if err != nil {
			return err
		}
		g.instances[instanceName(in)] = m
		g.order = append(g.order, m)
	}
	return nil
}

func instanceName(in *gpu.Instance) string { return fmt.Sprint(in.ID, " ", in.Profile) }

// end tells of the last samples.
func (g *judgedGPU) end() {
	g.judgedMemory.end()
	for _, m := range g.order {
		m.end()
	}
}

// tellUnknown has a GPU of whose memory nothing was ever known among the series: it was not judged, which shall be seen.
func (g *judgedGPU) tellUnknown() {
	if g.used == nil && len(g.members) == 0 && len(g.order) == 0 {
		g.used = g.newSeries(g.labels, g.kind())
	}
}

// end tells of the last samples of all memories and returns the series: by GPU and
// GPU instance, the memory before who is on it.
func (j *judge) end() []*series {
	for _, g := range j.gpus {
		g.end()
		g.tellUnknown()
	}
	slices.SortStableFunc(j.series, func(a, b *series) int {
		return cmp.Or(cmp.Compare(a.number("gpu"), b.number("gpu")), cmp.Compare(a.labels["uuid"], b.labels["uuid"]),
			cmp.Compare(a.number("gpu_instance"), b.number("gpu_instance")), cmp.Compare(a.kind, b.kind))
	})
	return j.series
}

// number returns the value of a label that is one. What is none comes before all others.
func (x *series) number(label string) int {
	n, err := strconv.Atoi(x.labels[label])
	if err != nil {
		return -1
	}
	return n
}

// observe judges a frame.
func (m *judgedMemory) observe(f *detector.Frame[gpu.ProcessID], s *gpu.Sample, index []int) error {
	if f.Used.OK && m.used == nil {
		m.used = m.newSeries(m.labels, m.kind())
	}
	listed := m.listed
	if !m.sameProcesses(f) {
		listed = m.list(f, s, index)
		m.tellGone(listed)
	}
	if f.T > m.due {
		if m.begun {
			m.tell(m.due, false, nil)
		}
		m.due = ceil(f.T, m.judge.interval)
	}
	if err := m.domain.Observe(f); err != nil {
		return err
	}
	m.begun, m.last, m.capacity, m.listed = true, f.T, f.Capacity, listed
	if f.Used.OK {
		m.used.add(f.T, f.Used.V, f.Capacity)
	}
	m.addMembers(f)
	return nil
}

// addMembers notes the samples of the processes, and of the groups that are told
// of.
func (m *judgedMemory) addMembers(f *detector.Frame[gpu.ProcessID]) {
	for i := range m.listed {
		l, used := &m.listed[i], f.Members[i].Used
		if used.OK {
			l.series.add(f.T, used.V, f.Capacity)
		}
		if l.group != nil {
			l.group.sum += used.V
			l.group.unknown = l.group.unknown || !used.OK
		}
	}
	for _, l := range m.listed {
		g := l.group
		if g == nil {
			continue
		}
		if g.series != nil && !g.unknown && g.series.last < f.T {
			g.series.add(f.T, g.sum, f.Capacity)
		}
	}
	for _, l := range m.listed {
		if l.group != nil {
			l.group.sum, l.group.unknown = 0, false
		}
	}
}

// ceil returns the first multiple of step that is not before t.
func ceil(t, step time.Duration) time.Duration { return t + (step-t%step)%step }

// sameProcesses reports whether the frame lists the processes of the one before.
func (m *judgedMemory) sameProcesses(f *detector.Frame[gpu.ProcessID]) bool {
	if len(f.Members) != len(m.listed) {
		return false
	}
	for i := range f.Members {
		if f.Members[i].Key != m.listed[i].id {
			return false
		}
	}
	return true
}

// list returns the processes of a frame.
func (m *judgedMemory) list(f *detector.Frame[gpu.ProcessID], s *gpu.Sample, index []int) []listing {
	listed := make([]listing, len(f.Members))
	for i := range f.Members {
		p := &s.Processes[index[i]]
		listed[i] = listing{id: p.ID, series: m.member(p), group: m.group(p.Owner)}
	}
	return listed
}

// tellGone tells of what is not in the next list any more, with its last sample.
func (m *judgedMemory) tellGone(next []listing) {
	if !m.begun {
		return
	}
	stays := map[*series]bool{m.used: true}
	for _, l := range next {
		stays[l.series] = true
		if l.group != nil {
			stays[l.group.series] = true
		}
	}
	m.tell(m.last, true, stays)
}

// member returns the series of a process.
func (m *judgedMemory) member(p *gpu.Process) *series {
	x := m.members[p.ID]
	if x == nil {
		o := p.Owner
		if o == nil {
			o = &gpu.Owner{}
		}
		x = m.newSeries(m.owned("pid", strconv.FormatUint(uint64(p.ID.PID), 10), "process", o.Process,
			"namespace", o.Namespace, "pod", o.Pod, "container", o.Container, "slurm_job", o.SlurmJob), kindProcess)
		m.members[p.ID] = x
	}
	return x
}

// group returns the pod or job that a process belongs to, nil if to none. Members
// of a pod may be of several jobs: a pod has no job.
func (m *judgedMemory) group(o *gpu.Owner) *judgedGroup {
	name := o.Group()
	if name == "" {
		return nil
	}
	g := m.groups[name]
	if g == nil {
		g = &judgedGroup{labels: m.owned("namespace", o.Namespace, "pod", o.Pod)}
		if o.Pod == "" {
			g.labels = m.owned("slurm_job", o.SlurmJob)
		}
		m.groups[name] = g
	}
	return g
}

// owned returns the labels of what is on this memory. The profile of an instance
// is not among them.
func (m *judgedMemory) owned(pairs ...string) history.Labels {
	return m.labels.Without("profile").With(pairs...)
}

// end tells of the last samples.
func (m *judgedMemory) end() {
	if m.begun {
		m.tell(m.last, true, nil)
	}
}

// tell notes what the detector says after the last frame, at time t, of all series
// but those that stay on. last says that it is the end of them.
func (m *judgedMemory) tell(t time.Duration, last bool, stays map[*series]bool) {
	j := m.domain.Judgement()
	if m.slices {
		v := &j.Device
		*v = detector.Verdict{Windows: v.Windows, SpikesTotal: v.SpikesTotal, Trough: v.Trough}
	}
	if m.used != nil && !stays[m.used] {
		m.used.sliced = m.slices
		m.used.tell(t, m.last, last, &j.Device, j)
	}
	for i, l := range m.listed {
		if !stays[l.series] {
			l.series.tell(t, m.last, last, &j.Members[i].Verdict, j)
		}
	}
	for i := range j.Groups {
		told := &j.Groups[i]
		g := m.groups[told.Group]
		if g == nil {
			continue
		}
		if g.series == nil {
			g.series = m.newSeries(g.labels, kindWorkload)
			g.series.add(m.last, told.Used, m.capacity)
		}
		if !stays[g.series] {
			g.series.tell(t, m.last, last, &told.Verdict, j)
		}
	}
}
