// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package gpu is the model: GPUs at one moment, and the source of such samples, be it a driver, a script or a recording. It
// imports nothing of this module.
//
// Everything that a driver may not offer is an Opt: absent is not zero, and a call that failed leaves its field absent. All
// quantities are in base units (bytes, seconds, watts, joules, hertz, degrees Celsius, ratios of 0 to 1).
package gpu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Opt is a value that may be absent. The zero Opt is absent.
type Opt[T any] struct {
	V  T
	OK bool
}

// Some returns the present value v.
func Some[T any](v T) Opt[T] { return Opt[T]{V: v, OK: true} }

// If returns the value if ok is true, and an absent one if not.
func (o Opt[T]) If(ok bool) Opt[T] {
	if ok {
		return o
	}
	return Opt[T]{}
}

// IsZero reports whether the value is absent: a recording leaves it out.
func (o Opt[T]) IsZero() bool { return !o.OK }

// MarshalJSON returns the value; null if it is absent, as in a list.
func (o Opt[T]) MarshalJSON() ([]byte, error) {
	if !o.OK {
		return []byte("null"), nil
	}
	return json.Marshal(o.V)
}

// UnmarshalJSON takes a value, or null for one that is absent.
func (o *Opt[T]) UnmarshalJSON(text []byte) error {
	if o.OK = string(text) != "null"; !o.OK {
		return nil
	}
	var err error
	switch v := any(&o.V).(type) { // half of all that a recording holds, and without that half of the time
	case *uint64:
		*v, err = strconv.ParseUint(string(text), 10, 64)
	case *float64:
		*v, err = strconv.ParseFloat(string(text), 64)
	case *time.Duration:
		var n int64
		n, err = strconv.ParseInt(string(text), 10, 64)
		*v = time.Duration(n)
	default:
		return json.Unmarshal(text, &o.V)
	}
	if err != nil {
		return json.Unmarshal(text, &o.V) // it says what is wrong
	}
	return nil
}

// Source is a set of GPUs. Its methods may be called from several goroutines.
type Source interface {
	// Devices lists the GPUs that can be seen now, ordered by index. It is asked again to notice GPUs that come and go. A GPU
	// that stayed is the same Device value as before, unless its index has changed, or its kind of memory
	// (Info.CoherentMemory, Info.UnifiedMemory). It may block as long as the driver does. A *DriverError means that no GPU can
	// be seen at all, and why.
	Devices(ctx context.Context) ([]Device, error)
	// Watch reports events until ctx is done, one call of report at a time and none after its end. It returns nil then, and an
	// error if this source has no events. An event tells which GPUs it watches; once it has returned it watches none.
	Watch(ctx context.Context, report func(Event)) error
	// Calls are the statistics of the calls into the driver. It never blocks.
	Calls() *Calls
	// Close releases the source once no call is under way any more. It never pulls the driver from under a call that has not
	// returned.
	Close() error
}

// Device is one GPU. One goroutine at a time calls Wait, Read and ReadGroup.
type Device interface {
	// Info identifies the GPU. It never blocks and never changes.
	Info() Info
	// Wait returns when the next sample is due: after the sampling interval, or at the next row of a recording. missed counts
	// the samples that were due since the last call and are lost, because the reader was late. The error is ctx's, or io.EOF
	// once a recording has no more rows.
	Wait(ctx context.Context) (missed int, err error)
	// Read takes the sample that is due: memory, processes, MIG instances. It may block as long as the driver does, whatever
	// ctx says. errors.Is(err, ErrLost) tells a GPU that is gone.
	Read(ctx context.Context) (Sample, error)
	// ReadGroup fills one part of s, on the same terms as Read. A value that the GPU does not offer is absent and no error.
	ReadGroup(ctx context.Context, g Group, s *Status) error
}

// ErrLost says that a GPU does not answer any more, though the driver does: it has fallen off the bus, or needs a reset.
var ErrLost = errors.New("GPU is lost")

// ErrSilent says that nothing is known of a GPU for now, neither up nor down, nor of its neighbours. Its series are left out
// until there is a sample.
var ErrSilent = errors.New("nothing is known of the GPU for now")

// ErrNoEvents says that a source cannot report events.
var ErrNoEvents = errors.New("a recording holds no events")

// ReasonMismatch is the reason of a DriverError where library and driver are of different versions.
const ReasonMismatch = "lib_rm_version_mismatch"

// DriverError says why no GPU can be seen at all.
type DriverError struct {
	// Reason is one word for the metric's label, such as library_not_found, driver_not_loaded, no_permission or
	// lib_rm_version_mismatch.
	Reason string
	// Fatal says that this process could use the driver before and never can again: only a new
	// process loads the library of another version.
	Fatal bool
	Err   error
}

// Error returns the reason and the cause.
func (e *DriverError) Error() string { return fmt.Sprintf("driver: %s: %v", e.Reason, e.Err) }

// Unwrap returns the cause.
func (e *DriverError) Unwrap() error { return e.Err }

// EventKind says what an Event tells of its GPU.
type EventKind uint8

const (
	// XIDError is an error that the driver reported.
	XIDError EventKind = iota
	// Watched says that the XID errors of the GPU are reported from now on: only then does silence mean that there are none.
	Watched
	// Unwatched says that they are not any more.
	Unwatched
)

// Event is a report of the driver outside of a sample, or a change of whether there are such reports.
type Event struct {
	Kind EventKind
	// Time is the wall clock when the driver reported an XIDError.
	Time time.Time
	// UUID is that of the GPU; PCIBusID stands in where only the bus address is
	// known, as in the kernel log. One of them may be empty.
	UUID, PCIBusID string
	// XID is the code of an XIDError, as NVIDIA's XID catalogue lists it.
	XID uint64
}

// Info identifies a GPU. Fields that the driver does not offer are empty.
type Info struct {
	Index          int      `json:"index"`         // position in the driver's list; may change when the driver is initialised; -1 is unknown
	UUID           string   `json:"uuid,omitzero"` // with its GPU- prefix
	Name           string   `json:"name,omitzero"`
	PCIBusID       string   `json:"pci_bus_id,omitzero"` // as NVML prints it, 00000000:3B:00.0
	Serial         string   `json:"serial,omitzero"`
	VBIOSVersion   string   `json:"vbios_version,omitzero"`
	Architecture   string   `json:"architecture,omitzero"` // hopper, ada, …
	DriverVersion  string   `json:"driver_version,omitzero"`
	CUDAVersion    string   `json:"cuda_version,omitzero"`
	Minor          Opt[int] `json:"minor,omitzero"`           // the number of its device file, /dev/nvidia0
	CoherentMemory bool     `json:"coherent_memory,omitzero"` // NUMA-coherent, such as GH200: freed pages stay allocated
	// UnifiedMemory says that the GPU has no memory of its own, such as GB10: Memory is the host's, which all programs there
	// use. It is coherent, too.
	UnifiedMemory bool `json:"unified_memory,omitzero"`
	// Place is where in a fleet the GPU is: the values of labels whose names the source has. Empty on the host that reads it.
	Place [MaxPlaceLabels]string `json:"-"`
}

// MaxPlaceLabels is how many labels can tell where in a fleet a GPU is.
const MaxPlaceLabels = 4

// IndexLabel returns the index as the value of a label; empty if it is not known.
func (i *Info) IndexLabel() string {
	if i.Index < 0 {
		return ""
	}
	return strconv.Itoa(i.Index)
}

// Unnamed is the Info.UUID of the GPU of a log that does not tell which it is.
const Unnamed = "unnamed"

// Named reports whether the name of the GPU is known: a log of a single GPU may not tell it.
func (i *Info) Named() bool { return i.UUID != "" && i.UUID != Unnamed }

var fullUUID = regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Title names the GPU for people: by its index or, where that is not known, by its UUID.
func (i *Info) Title() string {
	switch {
	case i.Index >= 0:
		return "GPU " + i.IndexLabel()
	case !i.Named():
		return "the GPU"
	case fullUUID.MatchString(i.UUID): // its first part is enough, as for nvidia-smi -i
		return i.UUID[:len("GPU-12345678")]
	case len(i.UUID) >= 3 && strings.EqualFold(i.UUID[:3], "gpu"):
		return i.UUID
	}
	return "GPU " + i.UUID
}

// Sample is one fast reading of a GPU.
type Sample struct {
	// Time is the wall clock of the reading.
	Time time.Time `json:"time,omitzero"`
	// T is the same moment on the source's steady clock: the wall clock at the source's start plus the monotonic time since,
	// as time since the Unix epoch; in a recording its own time stamps. It increases strictly.
	T time.Duration `json:"t"`
	// Step is how far the wall clock was set against the steady clock since the last sample, where that is more than 2 s;
	// otherwise 0.
	Step   time.Duration `json:"step"`
	Memory Memory        `json:"memory,omitzero"`
	// Processes are those that hold memory or run on the GPU, ordered by instance, pid and start. A process on two GPU
	// instances is listed twice.
	Processes []Process `json:"processes,omitzero"`
	// ProcessesKnown says that the driver tells which processes there are. Without it Processes is empty because nothing is
	// known.
	ProcessesKnown bool `json:"processes_known,omitzero"`
	// ProcessesComplete says that every list could be read, that this is the host's pid namespace, and that the memory of each
	// entry is known. Only then does memory beyond their sum belong to no process.
	ProcessesComplete bool `json:"processes_complete,omitzero"`
	// MIGEnabled is absent where the GPU has no MIG.
	MIGEnabled Opt[bool] `json:"mig_enabled,omitzero"`
	// Instances are the GPU instances of a GPU in MIG mode, ordered by ID.
	Instances []Instance `json:"instances,omitzero"`
	// Owner has the GPU as its allotment, if the source says so and lists no processes. A driver does not know: nil.
	Owner *Owner `json:"owner,omitzero"`
	// More says that the next sample is there already, as in a history that is read at the start: no verdict on this one is
	// shown.
	More bool `json:"more,omitzero"`
}

// Memory is the frame buffer of a GPU or of a GPU instance, in bytes; with Info.UnifiedMemory that of the host.
type Memory struct {
	// Used is Total − Free − Reserved. Where the driver does not tell Reserved, it is absent and Used includes it.
	Total    Opt[uint64] `json:"total,omitzero"`
	Used     Opt[uint64] `json:"used,omitzero"`
	Free     Opt[uint64] `json:"free,omitzero"`
	Reserved Opt[uint64] `json:"reserved,omitzero"`
}

// Capacity is the most that Used can become: Total − Reserved.
func (m Memory) Capacity() Opt[uint64] {
	return Some(m.Total.V - m.Reserved.V).If(m.Total.OK && m.Reserved.V <= m.Total.V)
}

// Instance is a GPU instance of a GPU in MIG mode. Its compute instances share its memory.
type Instance struct {
	ID      uint32 `json:"id"`
	Profile string `json:"profile,omitzero"` // as nvidia-smi names it, 1g.10gb
	Memory  Memory `json:"memory,omitzero"`
	// Devices are the MIG devices (compute instances) of this instance.
	Devices []MIGDevice `json:"devices,omitzero"`
	// Owner has the instance as its allotment; see Sample.Owner.
	Owner *Owner `json:"owner,omitzero"`
}

// MIGDevice is a compute instance, the unit that CUDA programs see.
type MIGDevice struct {
	ComputeInstance uint32 `json:"compute_instance"`
	UUID            string `json:"uuid,omitzero"` // with its MIG- prefix
}

// ProcessID tells a process from an earlier one of the same number.
type ProcessID struct {
	// PID is the number in the namespace that the driver reports in.
	PID uint32 `json:"pid"`
	// Start is field 22 of /proc/PID/stat: clock ticks from boot to the start of the process. 0 if the process could not be
	// looked up.
	Start uint64 `json:"start"`
}

// ProcessType is the list of the driver in which a process stands.
type ProcessType uint8

// The lists. A process may stand in several.
const (
	Compute ProcessType = 1 << iota
	Graphics
	MPS
)

// String returns the type as the label value of the metric.
func (t ProcessType) String() string {
	switch {
	case t&MPS != 0:
		return "mps"
	case t&Compute != 0 && t&Graphics != 0:
		return "compute+graphics"
	case t&Graphics != 0:
		return "graphics"
	case t&Compute != 0:
		return "compute"
	}
	return ""
}

// Process is one process on a GPU.
type Process struct {
	ID   ProcessID   `json:"id"`
	Type ProcessType `json:"type,omitzero"`
	// Instance is the GPU instance that it runs on; absent without MIG.
	Instance Opt[uint32] `json:"instance,omitzero"`
	// Started is its start on the clock of Sample.T; absent if it could not be looked up.
	Started Opt[time.Duration] `json:"started,omitzero"`
	// Used is its memory in bytes; the larger one if it stands in several lists.
	Used Opt[uint64] `json:"used,omitzero"`
	// SM, MemoryController, Encoder and Decoder are utilisation ratios, the highest since the sample before, or of the last
	// five seconds, which is how often a driver is asked for them. Absent is not idle.
	SM               Opt[float64] `json:"sm,omitzero"`
	MemoryController Opt[float64] `json:"memory_controller,omitzero"`
	Encoder          Opt[float64] `json:"encoder,omitzero"`
	Decoder          Opt[float64] `json:"decoder,omitzero"`
	// CPU is the processor time that it has used so far. Like State it need not be in every sample.
	CPU Opt[time.Duration] `json:"cpu,omitzero"`
	// State is the letter of /proc/PID/stat; "" if it was not read this time, X if the process has ended and the driver lists
	// it all the same. Orphaned says that its parent is gone and that it is no service.
	State    string `json:"state,omitzero"`
	Orphaned bool   `json:"orphaned,omitzero"`
	// Owner is the owner of the process. A driver does not know it: nil, until the reader of the sample looks it up.
	Owner *Owner `json:"owner,omitzero"`
	// Allocator is the state of the memory allocator in the process, for this GPU; nil from a driver, and without a probe.
	Allocator *Allocator `json:"allocator,omitzero"`
	// Limits bound its memory on this GPU. The source tells those of its control groups, the reader of the sample adds the others.
	Limits []Limit `json:"limits,omitzero"`
}

// CompareProcesses orders processes as Sample.Processes has them.
func CompareProcesses(a, b Process) int {
	return cmp.Or(
		cmp.Compare(a.Instance.V, b.Instance.V),
		cmp.Compare(a.ID.PID, b.ID.PID),
		cmp.Compare(a.ID.Start, b.ID.Start),
	)
}

// Allocator is the state of a memory allocator that keeps freed memory for itself, as that of PyTorch, on one GPU. It is
// immutable once it is shared. A value that the framework does not tell is absent.
type Allocator struct {
	Framework string `json:"framework,omitzero"` // torch, tensorflow, jax, cupy, or what another program calls itself
	Version   string `json:"version,omitzero"`   // of the framework
	Backend   string `json:"backend,omitzero"`   // as PyTorch names it: native, cudaMallocAsync
	// Allocated are the bytes of live tensors, Reserved those that the allocator has from the driver, Active those in blocks
	// that are in use or wait for a stream, and InactiveSplit the free ones beside used ones in one segment, which cannot be
	// given back. Limit is the most that Reserved may become, by the program's own setting.
	Allocated     Opt[uint64] `json:"allocated,omitzero"`
	Reserved      Opt[uint64] `json:"reserved,omitzero"`
	Active        Opt[uint64] `json:"active,omitzero"`
	InactiveSplit Opt[uint64] `json:"inactive_split,omitzero"`
	// Retries counts allocations that succeeded only after the cache was emptied, OOMs those that failed.
	Retries Opt[uint64] `json:"retries,omitzero"`
	OOMs    Opt[uint64] `json:"ooms,omitzero"`
	Limit   Opt[uint64] `json:"limit,omitzero"`
}

// Line is a line of code, and the memory that it allocated.
type Line struct {
	Line  string `json:"line"`
	Bytes uint64 `json:"bytes"`
}

// Owner is the owner of a process. Fields that do not apply or are not known are empty. An Owner is immutable once it is
// shared.
type Owner struct {
	Process     string `json:"process,omitzero"` // base name of the executable, or of the program of an interpreter
	User        string `json:"user,omitzero"`
	Command     string `json:"command,omitzero"` // the arguments; only if the operator asked for them
	ContainerID string `json:"container_id,omitzero"`
	Namespace   string `json:"namespace,omitzero"`
	Pod         string `json:"pod,omitzero"`
	Container   string `json:"container,omitzero"`
	SlurmJob    string `json:"slurm_job,omitzero"`
	// Variables are those of its container that limit its memory, in lines of NAME=VALUE.
	Variables string `json:"variables,omitzero"`
	// Runs is a salted hash of what the process runs, without the GPU's model; 0 is unknown.
	Runs uint64 `json:"runs,omitzero"`
}

// Group returns the name under which the memory of several processes is summed: the pod or the Slurm job; "" without either.
func (o *Owner) Group() string {
	switch {
	case o == nil:
		return ""
	case o.Pod != "":
		return o.Namespace + "/" + o.Pod
	case o.SlurmJob != "":
		return "slurm/" + o.SlurmJob
	}
	return ""
}
