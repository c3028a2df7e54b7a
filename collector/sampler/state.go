// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/workload"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// State is everything that is known at one moment. It is immutable with all that it refers to: readers share it without a lock.
type State struct {
	Time time.Time // when the state was asked for
	// DriverReason is why no GPU can be seen; see gpu.DriverError. It is "" while the driver answers, and ReasonStarting before
	// its first answer.
	DriverReason string
	Places       []string       // as Config has them
	Devices      []*DeviceState // the GPUs seen in the last 24 h, ordered by index and UUID
	Awaited      int            // how many GPUs have no first sample yet
	PCIDevices   gpu.Opt[int]   // NVIDIA's display controllers on the PCI bus; absent where it cannot be read
	Collectors   []FamilyState  // of each enabled group, ordered by name
	Calls        gpu.CallsSnapshot
	Unresolved   int // processes of the last samples that could not be looked up in procfs
	// DeviceHolders are the processes that have a device file of the driver open, 256 at most; nil if they cannot be seen.
	DeviceHolders []DeviceHolder
	// StateFile tells how the last writing of the state file went; nil before that, and without such a file.
	StateFile *FileState
	Incidents incident.Snapshot
	// Reload tells how the last reading of the detector's rules went; nil without rules. The Sampler leaves it to its caller.
	Reload *FileState
}

// FileState tells how the last reading or writing of a file went.
type FileState struct {
	Success bool
	Time    time.Time // of the last success; zero if there was none
}

// FamilyState tells how the last reading of a family went, over all GPUs.
type FamilyState struct {
	Name     string
	Success  bool
	Duration time.Duration // summed over the GPUs
}

// DeviceHolder is a process that has a device file of the driver open.
type DeviceHolder = workload.Holder

// DeviceState is what is known of one GPU. Its moments, such as the start of a process or of a leak, are on the wall clock. Memory
// is in bytes.
type DeviceState struct {
	Info gpu.Info
	// Up says that the GPU can be read now. If not, only Info, Error, SampleTime, Who, Missed and XIDs mean anything.
	Up         bool
	Error      string     // why the GPU cannot be read; "" while it is Up, or if that is not known
	SampleTime time.Time  // the wall clock of the last sample; zero before the first
	Missed     uint64     // samples that were due and were not taken
	XIDs       []XIDState // since the exporter started, ordered by code; codes that page are there from the start

	MemoryState
	UsedPeak     gpu.Opt[uint64] // the highest used memory of the last 60 s
	Unattributed gpu.Opt[uint64] // the used memory minus that of all processes; absent if their list is not complete
	MIGEnabled   gpu.Opt[bool]
	Status       gpu.Status
	Instances    []MemoryState  // of a GPU in MIG mode
	Limited      []MemoryState  // the pods, jobs and processes with a limit
	Processes    []ProcessState // with series of their own, ordered by instance, pid and start
	// ProcessesKnown says that the driver lists the processes. If not, the next counts mean nothing. ProcessCount is of all
	// processes. OtherProcesses have no series of their own, because they are too young or over the cap. OtherUsed is their sum.
	ProcessesKnown    bool
	ProcessCount      int
	OtherProcesses    int
	OtherUsed         uint64
	ExitsNearCapacity uint64           // processes that ended within a minute after the GPU was nearly full
	Workloads         []WorkloadState  // the pods and jobs with two processes or more, or with a limit
	Unreleased        []EndState       // whose memory has stayed, ordered by instance, pid and start
	Findings          []FindingState   // what alerts say of its memories
	Allotments        []AllotmentState // ordered by instance and names

	unresolved int           // processes that could not be looked up
	readings   []FamilyState // how the last reading of each group went
}

// XIDState counts one XID error.
type XIDState struct {
	Code  uint64
	Count uint64
	Last  time.Time // zero if there was none
}

// MemoryKey names a memory of a GPU: the processes in it run out of memory together. The zero key is the GPU's own, and one with
// an instance alone is that of the instance. The others are limits.
type MemoryKey struct {
	Instance gpu.Opt[uint32] `json:"gpu_instance,omitzero"`
	Of       string          `json:"of,omitzero"` // of a limit: what it bounds
}

// IsLimit reports whether the memory is a limit, and not that of a GPU or GPU instance.
func (k MemoryKey) IsLimit() bool { return k.Of != "" }

// Scope is the value of the label scope.
func (k MemoryKey) Scope() string {
	switch {
	case k.IsLimit():
		return "workload"
	case k.Instance.OK:
		return "mig"
	}
	return "gpu"
}

// MemoryState is what is known of a memory of a GPU. The state file has a part of it.
type MemoryState struct {
	MemoryKey
	Profile string          `json:"profile,omitzero"` // of a GPU instance; of a limit, finding.LimitProfile
	Devices []gpu.MIGDevice `json:"-"`                // of a GPU instance
	// Who is the container that has the GPU or GPU instance, if the source says so: see gpu.Sample.Owner. Of a limit, it has what the
	// processes have in common, and the labels that they differ in are empty.
	Who    finding.Who `json:"labels,omitzero"`
	Limits []gpu.Limit `json:"-"`
	Memory gpu.Memory  `json:"memory,omitzero"` // Total is the smallest limit
	// Judgement is the detector's. Its fields Members, Groups, Exited and Unreleased are nil: see Processes, Workloads,
	// ExitsNearCapacity and Unreleased of the GPU.
	Judgement detector.Judgement[gpu.ProcessID] `json:"-"`
	Curve     *Curve                            `json:"-"` // of the used memory; nil if there is none yet
}

// ProcessState is what is known of one process on a GPU.
type ProcessState struct {
	gpu.Process // Owner is never nil
	// Idle is for how long the process has computed nothing; absent if its utilisation is not known.
	Idle gpu.Opt[time.Duration]
	// Verdict is the detector's. Share is the part of the process in the leak of its memory.
	Verdict detector.Verdict
	Share   detector.Value
	// Grows is the part of its memory that grows, if its allocator tells.
	Grows detector.Inside
	// Sites are the lines of code that allocate what stays; nil if it was not asked.
	Sites *allocator.Sites
	// Curve is the course of its memory; nil if it is not drawn, or not yet.
	Curve *Curve
}

// EndState is a process that has left the GPU, and whose memory has stayed.
type EndState struct {
	Instance gpu.Opt[uint32]
	ID       gpu.ProcessID
	Owner    *gpu.Owner // never nil
	// Used is what still stays, in bytes. At is when its end was noticed.
	Used uint64
	At   time.Duration
}

// WorkloadState is what is known of the processes of one pod or job on a GPU.
type WorkloadState struct {
	Instance    gpu.Opt[uint32]
	finding.Who // the pod or job
	// Used is the sum of its processes' memory in bytes.
	Used    uint64
	Verdict detector.Verdict
	Limits  []gpu.Limit // on its memory
}

// FindingState is what alerts say of a memory with the same culprit.
type FindingState struct {
	MemoryKey
	finding.Finding
}

// maxSites bounds the lines of code of a process that have a series.
const maxSites = 5

// LeakSites returns the lines that grew most, the largest first. It adds up a line that was reached by several ways.
func (p *ProcessState) LeakSites() []gpu.Line {
	if p.Sites == nil || p.Sites.State != allocator.SitesDone {
		return nil
	}
	var list []gpu.Line
	for _, s := range p.Sites.List {
		line := cmp.Or(s.Line, "not in Python code")
		if i := slices.IndexFunc(list, func(l gpu.Line) bool { return l.Line == line }); i >= 0 {
			list[i].Bytes += s.Growth
			continue
		}
		list = append(list, gpu.Line{Line: line, Bytes: s.Growth})
	}
	slices.SortStableFunc(list, func(a, b gpu.Line) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list[:min(len(list), maxSites)]
}

// toWall moves the moments of a new state from the source's clock to the wall clock. ahead changes only when the wall clock is
// set: a clock that is slewed must not make a start time tremble.
func (d *DeviceState) toWall(ahead time.Duration) {
	if ahead == 0 {
		return
	}
	move := func(v *detector.Verdict) {
		if v.Leak {
			v.Since += ahead
		}
	}
	for m := range d.memories() {
		move(&m.Judgement.Device)
		move(&m.Judgement.Residual)
	}
	for i := range d.Processes {
		p := &d.Processes[i]
		move(&p.Verdict)
		if p.Started.OK {
			p.Started.V += ahead
		}
	}
	for i := range d.Workloads {
		move(&d.Workloads[i].Verdict)
	}
	for i := range d.Unreleased {
		d.Unreleased[i].At += ahead
	}
}

// InstanceID returns the label value of a GPU instance; empty without MIG.
func InstanceID(id gpu.Opt[uint32]) string {
	if !id.OK {
		return ""
	}
	return strconv.FormatUint(uint64(id.V), 10)
}
