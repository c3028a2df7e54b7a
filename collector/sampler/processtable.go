// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/workload"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// ownersWithin bounds how long a sample waits for the owners of its new processes. The detector wants to know them with
	// the first sample: it compares a process with earlier ones of its program and pod.
	ownersWithin = 250 * time.Millisecond
	// attributionGrace bounds how long the first series of a process wait for its owner.
	attributionGrace = 3 * time.Second
	// incumbent is how many times larger a process must be to take the series of another one. Without it two of a size would
	// take turns.
	incumbent = 1.25
)

// processTable remembers what samples do not tell of a process: its owner, whether it has series of its own, since when it idles.
type processTable struct {
	cfg Config
	// uuid and index are those of the GPU. jobs returns the jobs of all GPUs; nil if nobody writes them down.
	uuid, index string
	jobs        func() *jobsState
	// entries are the processes of the last sample, and those that ended while the detector knows them.
	entries  map[processKey]*processEntry
	begun    bool            // a sample has been noted
	renamed  bool            // the owner of a process has changed with the last sample
	hidden   bool            // a limit of the last sample could not be read
	unusable map[string]bool // the sources of limits that bound nothing, as the log has them
	rank     []*processEntry // scratch
}

// processKey names a process on a GPU or GPU instance. It may be on several.
type processKey struct {
	id       gpu.ProcessID
	instance gpu.Opt[uint32]
}

// processEntry is a process. One from the state file has only an owner and busy.
type processEntry struct {
	listed      bool          // the last sample has it
	first, seen time.Duration // first and last sample, on the source's clock; 0 none
	newcomer    bool          // it was not there when the exporter started
	busy        time.Duration // when it last computed, or was first seen
	owner       *gpu.Owner
	final       bool      // owner does not change any more
	noted       time.Time // when it was first seen
	job         string    // from the mapping files, once jobSettled
	jobSettled  bool
	shown       bool
	position    int // in the sample
	used        uint64
	verdict     detector.Verdict
	share       detector.Value
	grows       detector.Inside
	history     history
	before      *gpu.Owner         // of the state file; else nil
	refusal     *allocator.Refusal // that was told last
	departed    *departed          // once it has ended
	curve       *Curve             // of history, as it was made last; nil if it is not drawn
}

var (
	unknownOwner = &gpu.Owner{}
	unknownEntry = &processEntry{owner: unknownOwner}
)

func newProcessTable(cfg Config, uuid, index string, jobs func() *jobsState) processTable {
	return processTable{cfg: cfg, uuid: uuid, index: index, jobs: jobs, entries: map[processKey]*processEntry{}, unusable: map[string]bool{}}
}

func keyOf(p *gpu.Process) processKey { return processKey{p.ID, p.Instance} }

// note fills in the owners of the sample's processes, and the limits of these. It returns how many could not be looked up.
func (t *processTable) note(sample *gpu.Sample) (unresolved int) {
	t.renamed, t.hidden = false, false
	ctx, cancel := context.WithTimeout(context.Background(), ownersWithin)
	defer cancel()
	for i := range sample.Processes {
		p := &sample.Processes[i]
		e := t.entries[keyOf(p)]
		if e == nil {
			e = &processEntry{}
			t.entries[keyOf(p)] = e
		}
		before := e.owner
		if e.seen == 0 { // it is new, or from the state file
			*e = processEntry{first: sample.T, busy: min(cmp.Or(e.busy, sample.T), sample.T), newcomer: t.begun, noted: time.Now(), before: e.owner}
		}
		e.listed, e.seen, e.position, e.used = true, sample.T, i, p.Used.V
		e.verdict, e.share = detector.Verdict{}, detector.Value{}
		e.grows = detector.InsideUnknown
		if !p.SM.OK || p.SM.V > 0 {
			e.busy = sample.T
		}
		t.attribute(ctx, e, p)
		t.limit(e.owner, p, sample.Memory)
		t.renamed = t.renamed || (before != nil && *before != *e.owner)
		p.Owner = e.owner
		if p.ID.Start == 0 {
			unresolved++
		}
	}
	for _, e := range t.entries {
		e.listed = e.listed && e.seen == sample.T
	}
	t.begun = true
	return unresolved
}

// limit adds the limits of the process's container to those of its control groups. It leaves out those that bound nothing, and says so once
// of each source.
func (t *processTable) limit(o *gpu.Owner, p *gpu.Process, m gpu.Memory) {
	all := slices.Concat(p.Limits, workload.Limits(o, t.uuid))
	p.Limits = nil
	for _, l := range all {
		if l.Of == "" {
			l.Of = fmt.Sprintf("%s%d-%d", aProcess, p.ID.PID, p.ID.Start)
		}
		if l.Bytes == 0 || m.Total.OK && l.Bytes > m.Total.V {
			if !t.unusable[l.Source] {
				level.Warn(t.cfg.Logger).Log("msg", "a limit on GPU memory cannot be read, is 0, or is above the memory of the GPU", "gpu", t.index, "uuid", t.uuid, "pod", o.Pod, "source", l.Source, "of", l.Of)
			}
			t.unusable[l.Source], t.hidden = true, t.hidden || l.Bytes == 0
			continue
		}
		// The next run of a container has another ID, and the same limits. A group without an ID may be that of a whole pod.
		if _, rest, within := strings.Cut(l.Of, o.ContainerID); within && o.ContainerID != "" && o.Container != "" {
			l.Of = o.Namespace + "/" + o.Pod + "/" + o.Container + strings.TrimPrefix(rest, ".scope")
		}
		p.Limits = append(p.Limits, l)
	}
}

// bury forgets the processes that have ended, and that the detector does not know.
func (t *processTable) bury(known func(processKey) bool) {
	maps.DeleteFunc(t.entries, func(key processKey, e *processEntry) bool { return !e.listed && !known(key) })
}

// entry returns a process that lives or has ended, to be read only.
func (t *processTable) entry(key processKey) *processEntry {
	return cmp.Or(t.entries[key], unknownEntry)
}

// attribute settles the owner of a process. Once it has series, the owner changes at most once, from unknown to known.
func (t *processTable) attribute(ctx context.Context, e *processEntry, p *gpu.Process) {
	switch {
	case e.final:
	case t.cfg.Owners == nil && !e.shown && p.Owner != nil:
		// A recording may tell the pod a moment after the process.
		e.owner = p.Owner
	case p.Owner != nil:
		e.owner, e.final = cmp.Or(e.owner, p.Owner), true
	case t.cfg.Owners == nil || p.ID.Start == 0:
		// Without a start it may be another process of that number.
		e.owner, e.final = unknownOwner, true
	default:
		owner, done := t.lookUp(ctx, e, p.ID)
		owner, done = t.addJob(e, p, e.recall(owner, done), done)
		if done || !e.shown {
			e.owner, e.final = owner, done
		}
		if e.owner == nil {
			e.owner = unknownOwner
		}
	}
}

// recall returns the owner of before a restart until the container runtime has answered, and where the runtime knows no pod: it has
// forgotten the container, or is gone.
func (e *processEntry) recall(owner *gpu.Owner, done bool) *gpu.Owner {
	if b := e.before; b != nil && b.ContainerID != "" && (!done || b.Pod != "" && owner.Pod == "") {
		return b
	}
	return owner
}

// lookUp asks for the owner of a process. If the process is new, it waits for the answer until ctx is done.
func (t *processTable) lookUp(ctx context.Context, e *processEntry, id gpu.ProcessID) (owner *gpu.Owner, done bool) {
	if e.owner != nil {
		return t.cfg.Owners.Owner(id)
	}
	return t.cfg.Owners.Await(ctx, id)
}

// addJob adds the job of the GPU, if the process does not tell its own. It decides that once, by the first reading of the
// mapping files that began after the first sample of the process.
func (t *processTable) addJob(e *processEntry, p *gpu.Process, owner *gpu.Owner, done bool) (*gpu.Owner, bool) {
	known := t.jobs()
	if known == nil || owner.SlurmJob != "" {
		return owner, done
	}
	if !e.jobSettled && known.began.After(e.noted) {
		e.job = known.jobs.Of(t.index, InstanceID(p.Instance), time.Unix(0, int64(p.Started.V)))
		e.jobSettled = true
	}
	if e.job != "" {
		with := *owner
		with.SlurmJob = e.job
		owner = &with
	}
	return owner, done && e.jobSettled
}

// judged notes the verdict on the process at that position of the sample. One within a limit counts if that ends before the GPU.
func (t *processTable) judged(sample *gpu.Sample, position int, v *detector.MemberVerdict[gpu.ProcessID], limit bool) {
	switch e := t.entries[keyOf(&sample.Processes[position])]; {
	case e == nil || e.position != position:
	case limit:
		e.verdict = earlier(e.verdict, v.Verdict)
	default:
		e.verdict, e.share, e.grows = v.Verdict, v.Share, v.Grows
	}
}

// show puts the processes that have series of their own into the state, and the sums of the others. These are too young, or over
// the cap: leaking processes come first, then large ones.
func (t *processTable) show(sample *gpu.Sample, state *DeviceState) {
	t.rank = t.rank[:0]
	for _, e := range t.entries {
		if e.listed && t.ripe(e, sample) {
			t.rank = append(t.rank, e)
		}
	}
	slices.SortFunc(t.rank, func(a, b *processEntry) int {
		return cmp.Or(-compareBool(a.verdict.Leak, b.verdict.Leak), -cmp.Compare(a.weight(), b.weight()), cmp.Compare(a.position, b.position))
	})
	for i, e := range t.rank {
		e.shown = i < t.cfg.ProcessMax
	}
	for i := range sample.Processes {
		p := &sample.Processes[i]
		e := t.entries[keyOf(p)]
		if e.position != i {
			continue // listed twice
		}
		if !e.shown {
			state.OtherProcesses++
			state.OtherUsed += p.Used.V
			continue
		}
		state.Processes = append(state.Processes, ProcessState{
			Process: *p, Idle: e.idle(p, sample.T), Verdict: e.verdict, Share: e.share, Grows: e.grows,
		})
	}
}

// ripe reports whether a process may have series: it is old enough, and its owner is known or has kept it waiting for too long.
func (t *processTable) ripe(e *processEntry, sample *gpu.Sample) bool {
	return e.shown || (t.old(e, sample) && (e.final || sample.T-e.first >= attributionGrace))
}

// old reports whether a process has reached the age for series. If its start is not known, it is old if it was there before the
// exporter.
func (t *processTable) old(e *processEntry, sample *gpu.Sample) bool {
	if started := sample.Processes[e.position].Started; started.OK {
		return sample.T-started.V >= t.cfg.ProcessMinAge
	}
	return !e.newcomer || sample.T-e.first >= t.cfg.ProcessMinAge
}

// weight is the memory by which a process competes for series.
func (e *processEntry) weight() float64 {
	if e.shown {
		return incumbent * float64(e.used)
	}
	return float64(e.used)
}

// idle returns for how long the process has computed nothing; absent if its utilisation is not known.
func (e *processEntry) idle(p *gpu.Process, now time.Duration) gpu.Opt[time.Duration] {
	if !p.SM.OK {
		return gpu.Opt[time.Duration]{}
	}
	return gpu.Some(now - e.busy)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
