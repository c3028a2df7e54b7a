// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// lists are the driver's lists of processes. Where MPS is not offered its clients stand in the compute list.
var lists = [...]struct {
	function string
	kind     gpu.ProcessType
	optional bool
}{
	{"nvmlDeviceGetComputeRunningProcesses", gpu.Compute, false},
	{"nvmlDeviceGetGraphicsRunningProcesses", gpu.Graphics, false},
	{"nvmlDeviceGetMPSComputeRunningProcesses", gpu.MPS, true},
}

// processTable is kept of the processes of one GPU between two samples.
type processTable struct {
	buffer  [len(lists)][]processInfo
	last    [len(lists)][]processInfo // each list as it was last read
	read    [len(lists)]bool          // whether it ever was
	seen    map[uint32]*process
	samples utilizationSamples
	limits  map[string][]gpu.Limit // of control groups, by their paths, since they were asked for last
}

// listed is a process on a GPU or GPU instance, merged from all lists.
type listed struct {
	pid, instance uint32
	kind          gpu.ProcessType
	used          gpu.Opt[uint64]
	// kept says that its list could not be read this time.
	kept bool
}

// processes fills in the processes of the sample, and whether they are all.
//
// A list that cannot be read does not make its processes look as if they had ended: those that are alive stay, without their
// memory.
func (r *reading) processes(s *gpu.Sample) {
	t := &r.device.processes
	unseen := false // a list was never read, so that nobody knows what it holds
	complete := r.device.source.procs.hostNamespace() && !r.device.info.CoherentMemory
	merged := merger{mig: s.MIGEnabled.V, total: s.Memory.Total}
	for i, l := range lists {
		list, err := r.runningProcesses(l.function, &t.buffer[i])
		if err == nil || (l.optional && errors.Is(err, errAbsent)) {
			t.last[i] = slices.Clone(list)
			t.read[i] = t.read[i] || err == nil
			merged.add(list, l.kind, false)
			continue
		}
		complete = false
		unseen = unseen || (!errors.Is(err, errAbsent) && !t.read[i])
		merged.add(t.last[i], l.kind, true)
	}
	all := merged.list()
	used := r.usage(s, all)
	s.ProcessesKnown = !unseen && slices.Contains(t.read[:], true)
	s.Processes = make([]gpu.Process, 0, len(all))
	seen := make(map[uint32]*process, len(all))
	for _, l := range all {
		known := seen[l.pid]
		if known == nil {
			known = r.lookUp(l, s.T)
		}
		p, ok := r.resolve(l, known, s.T)
		if !ok {
			continue
		}
		seen[l.pid] = known
		complete = complete && l.used.OK && l.pid != 0
		u := used[l.pid]
		p.SM, p.MemoryController, p.Encoder, p.Decoder = u.sm, u.memory, u.encoder, u.decoder
		p.Limits = r.limits(known.group)
		s.Processes = append(s.Processes, p)
	}
	t.seen = seen
	s.ProcessesComplete = complete && s.ProcessesKnown
}

// lookUp returns what is known of a listed process, read for this sample or, while that holds, for an earlier one.
func (r *reading) lookUp(l listed, at time.Duration) *process {
	before := cmp.Or(r.device.processes.seen[l.pid], &process{})
	if !l.kept && before.stands(l.pid, at) {
		return before
	}
	p := r.device.source.procs.look(r.device.info.UUID, l.pid, before)
	p.readAt = at
	return p
}

// resolve returns a listed process, of which p is known. It reports false for one of an earlier list that has ended.
func (r *reading) resolve(l listed, p *process, at time.Duration) (gpu.Process, bool) {
	before := r.device.processes.seen[l.pid]
	if l.kept && (!p.alive() || before == nil || before.start != p.start) {
		return gpu.Process{}, false
	}
	out := gpu.Process{ID: gpu.ProcessID{PID: l.pid, Start: p.start}, Type: l.kind, Used: l.used, Started: p.started}
	if p.readAt == at {
		out.CPU, out.State, out.Orphaned = p.cpu, p.state, p.orphaned
	}
	if l.instance != noInstance {
		out.Instance = gpu.Some(l.instance)
	}
	return out, true
}

// merger joins lists of processes: one process on one GPU instance is one entry.
type merger struct {
	mig     bool
	total   gpu.Opt[uint64] // memory of the GPU
	entries []listed
	index   map[[2]uint32]int // instance, pid → entry
}

// add adds a list; kept is a list of an earlier sample. Of a process in several lists the largest memory counts, because each
// tells all of it or less. More memory than the GPU has was not measured. Without MIG there are no instances, whatever the
// driver says.
func (m *merger) add(list []processInfo, kind gpu.ProcessType, kept bool) {
	if m.index == nil {
		m.index = make(map[[2]uint32]int)
	}
	for _, p := range list {
		used := bounded(p.used)
		if kept || (m.total.OK && used.V > m.total.V) {
			used = gpu.Opt[uint64]{}
		}
		if !m.mig {
			p.instance = noInstance
		}
		key := [2]uint32{p.instance, p.pid}
		i, ok := m.index[key]
		if !ok {
			m.index[key] = len(m.entries)
			m.entries = append(m.entries, listed{p.pid, p.instance, kind, used, kept})
			continue
		}
		e := &m.entries[i]
		e.kind |= kind
		e.kept = e.kept && kept
		if used.OK && (!e.used.OK || used.V > e.used.V) {
			e.used = used
		}
	}
}

// list returns the processes ordered by instance and pid, those without an instance first.
func (m *merger) list() []listed {
	slices.SortFunc(m.entries, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.instance+1, b.instance+1), cmp.Compare(a.pid, b.pid)) // noInstance+1 is 0
	})
	return m.entries
}

// utilizationInterval is how often the driver is asked for the utilisation of processes. Its answer covers all time since its
// last sample, so no work is missed. A driver that gives one sample of a process averages: a second of work, told 4.9 s after
// it began, was 19 % on an H100. One call takes 1.5 ms there, and 2.5 ms on an H200. Higher values cost less, and show later
// that a process is idle or computes again.
const utilizationInterval = 5 * time.Second

// usage is the utilisation of one process in ratios; absent where the driver's number cannot be one.
type usage struct{ sm, memory, encoder, decoder gpu.Opt[float64] }

// utilizationSamples is kept of the utilisation of processes between two samples.
type utilizationSamples struct {
	buffer []nvml.ProcessUtilizationSample
	since  uint64                 // the newest time stamp that was seen, µs of Unix time
	asked  gpu.Opt[time.Duration] // when the driver was asked last
	last   map[uint32]usage       // of the processes that there were; nil: the driver did not answer
}

// usage returns the utilisation of the GPU's processes over the last utilizationInterval or since the last sample, whichever
// is longer. It is up to utilizationInterval old, and absent for a process that has come since.
//
// By nvml.h the driver gives a sample for each process "that had some non-zero utilization during the last sample period", and
// NOT_FOUND if there is none. So after an answer a process without a sample is idle, and its utilisation is 0. It is absent
// only where the driver does not offer the call (as under MIG) or the call failed.
func (r *reading) usage(s *gpu.Sample, all []listed) map[uint32]usage {
	t := &r.device.processes.samples
	if s.Step != 0 {
		t.since = 0 // the time stamps are those of the wall clock
	}
	if len(all) == 0 || t.asked.OK && s.T-t.asked.V < utilizationInterval-r.device.source.cfg.Interval/2 {
		return t.last
	}
	t.asked, t.last = gpu.Some(s.T), nil
	list, err := r.processUtilization(t.since, &t.buffer)
	if err != nil {
		t.asked.OK = errors.Is(err, errAbsent) // what has failed may work the next time
		return t.last
	}
	recent, newest := highest(list, t.since, uint64(s.Time.Add(time.Minute).UnixMicro()))
	t.last, t.since = ofListed(all, recent), newest
	return t.last
}

// ofListed returns the utilisation of the listed processes: those without a sample are idle.
func ofListed(all []listed, recent map[uint32]usage) map[uint32]usage {
	zero := gpu.Some(0.0)
	used := make(map[uint32]usage, len(all))
	for _, l := range all {
		u, ok := recent[l.pid]
		if !ok {
			u = usage{zero, zero, zero, zero}
		}
		used[l.pid] = u
	}
	return used
}

// highest returns the highest utilisation of each process in the samples newer than since. Samples over 100 % are not used. A
// process without another one has no utilisation: it is not idle.
//
// newest is the time stamp to ask from the next time. One beyond the limit would hide all samples until then.
func highest(list []nvml.ProcessUtilizationSample, since, limit uint64) (recent map[uint32]usage, newest uint64) {
	recent, newest = make(map[uint32]usage), since
	for _, q := range list {
		if q.TimeStamp <= since {
			continue
		}
		if q.TimeStamp <= limit {
			newest = max(newest, q.TimeStamp)
		}
		u := recent[q.Pid]
		if max(q.SmUtil, q.MemUtil, q.EncUtil, q.DecUtil) <= 100 {
			u.sm = higher(u.sm, q.SmUtil)
			u.memory = higher(u.memory, q.MemUtil)
			u.encoder = higher(u.encoder, q.EncUtil)
			u.decoder = higher(u.decoder, q.DecUtil)
		}
		recent[q.Pid] = u
	}
	return recent, newest
}

func higher(a gpu.Opt[float64], p uint32) gpu.Opt[float64] {
	return gpu.Some(max(a.V, float64(p)/100))
}
