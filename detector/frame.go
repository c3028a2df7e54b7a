// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"cmp"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/heights"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// The vocabulary of the rooms below; each is documented where it stands.
type (
	// Value is a number that may be absent.
	Value = stat.Value
	// Config holds the windows and thresholds of one series.
	Config = series.Config
	// Verdict is the result for one series of used memory.
	Verdict = series.Verdict
	// Fit is the plain statistics of one window.
	Fit = stat.Fit
	// Pattern names the shape of a series of used memory.
	Pattern = series.Pattern
	// Withheld is the harmless reason for which growth is not called a leak yet.
	Withheld = series.Withheld
	// ProcState is the state of a process in the kernel.
	ProcState = process.State
	// Program identifies a program.
	Program = heights.Program
	// Heights remembers the heights that programs gave back.
	Heights = heights.Book
	// Crest is the highest value of the last while.
	Crest[V cmp.Ordered] = stat.Crest[V]
)

// NewHeights returns a memory of programs that is empty.
func NewHeights() *Heights { return heights.NewBook() }

// Of returns the present Value v.
func Of(v float64) Value { return stat.Of(v) }

// The patterns, in the words of the metric's label.
const (
	PatternUnknown       = series.PatternUnknown
	PatternStable        = series.PatternStable
	PatternIdle          = series.PatternIdle
	PatternWarmup        = series.PatternWarmup
	PatternPlateau       = series.PatternPlateau
	PatternStep          = series.PatternStep
	PatternSawtooth      = series.PatternSawtooth
	PatternSpikes        = series.PatternSpikes
	PatternLeakLinear    = series.PatternLeakLinear
	PatternLeakStaircase = series.PatternLeakStaircase
	PatternLeakCyclic    = series.PatternLeakCyclic
	PatternFragmentation = series.PatternFragmentation
	PatternZombie        = series.PatternZombie
	PatternUnreleased    = series.PatternUnreleased
	PatternCrashLoop     = series.PatternCrashLoop
)

// The states of a process.
const (
	StateUnknown       = process.StateUnknown
	StateAlive         = process.StateAlive
	StateUnkillable    = process.StateUnkillable
	StateOrphaned      = process.StateOrphaned
	StateZombieProcess = process.StateZombieProcess
	StateGone          = process.StateGone
)

// Forever is Verdict.WithheldFor of a reason that does not end by itself.
const Forever = series.Forever

// WithheldSeconds returns a Verdict.WithheldFor in seconds; +Inf for Forever.
func WithheldSeconds(d time.Duration) Value { return series.Seconds(d) }

// The reasons for which growth is withheld.
const (
	WithheldNone         = series.WithheldNone
	WithheldMinSpan      = series.WithheldMinSpan
	WithheldProgramBegin = series.WithheldProgramBegin
	WithheldDailyLoad    = series.WithheldDailyLoad
	WithheldGivenBack    = series.WithheldGivenBack
	WithheldSlowing      = series.WithheldSlowing
)

// Bounds of the configuration.
const (
	// MaxWindows is how many windows a series can have.
	MaxWindows = series.MaxWindows
	// MinWindow and MaxWindow bound the length of a window.
	MinWindow = series.MinWindow
	MaxWindow = series.MaxWindow
)

// DefaultConfig returns the defaults; README.md gives the reason for each threshold.
func DefaultConfig() Config { return series.DefaultConfig() }

// MaxBytes is the largest amount of memory that the detector takes for a
// measurement: 256 TiB. Drivers mark "not available" with numbers near 2^64.
const MaxBytes = stat.MaxBytes

// Frame is one memory (of a GPU, or of a GPU instance of a MIG GPU) at one moment. Observe keeps nothing of it, so that one
// Frame may be filled again and again.
type Frame[K comparable] struct {
	// T is the moment on the source's steady clock, as time since the Unix
	// epoch at which that clock was started. It increases strictly.
	T time.Duration
	// Used is the memory in use in bytes, the driver's reserved part excluded.
	Used Value
	// Capacity is the most that Used can become, in bytes: total minus
	// reserved, or a configured limit. Without it there is no forecast.
	Capacity Value
	// Members are the processes that hold some of this memory.
	Members []Member[K]
	// Complete says that Members is the whole list and that each Used in it is
	// known. Only then there is a residual, Used minus their sum, and the
	// device is judged through its members instead of by its raw series.
	Complete bool
}

// Member is one process in a Frame.
type Member[K comparable] struct {
	// Key names the process for its whole life; it is never used again for
	// another process.
	Key K
	// Group is the pod or job that the process belongs to; "" when unknown.
	Group string
	// Program is a name of the program. Without a Group, processes that are started one after the
	// other belong together by it; "" when unknown.
	Program string
	// Runs identifies the program on all memories; 0 when unknown.
	Runs Program
	// Used is the memory that the process holds, in bytes.
	Used Value
	// Reserved is the memory of the allocator in the process, and Allocated the part of it that live
	// objects hold, in bytes. Both are absent without a probe.
	Allocated, Reserved Value
	// Split is the part of Reserved that is free and cannot be given back, because it lies beside memory in use, in bytes.
	Split Value
	// Started is when the process started, on the clock of Frame.T. It may lie
	// before the first frame; zero when unknown.
	Started time.Duration
	// SM is the highest ratio (0 to 1) of streaming multiprocessors that the
	// process kept busy since the last frame. Absent is not idle.
	SM Value
	// CPU is the processor time that the process has used so far, in seconds.
	CPU Value
	// State is the state of the process in the kernel.
	State ProcState
}

// Judgement is the result of a Frame. It and all it refers to belong
// to the Domain and are valid until the next Observe.
type Judgement[K comparable] struct {
	// T is the time of the frame that was judged.
	T time.Duration
	// Device is the verdict on the memory as a whole. Its windows are those of the raw used memory. If Attributed, the
	// rest of it combines the parts, which are the members and the residual: Confidence is that of the surest part, and
	// Withheld that of the part that waits for the shortest time. These may be two parts.
	Device Verdict
	// Attributed says that Device is judged through Members and Residual.
	Attributed bool
	// Headroom is the capacity minus the crest of the used memory, in bytes. Absent without a capacity.
	Headroom Value
	// Evidence is the reason to expect that the memory will be full, and Rate the growth in bytes per second until then, absent
	// without evidence: Headroom over Rate is Device.SecondsToOOM.
	Evidence Evidence
	Rate     Value
	// Page says that the memory is full so soon that a person should be woken, by Config.PageWithin and Config.FillsWithin.
	Page bool
	// Residual is the verdict on Used minus all members; the zero Verdict while the
	// list of members is not complete.
	Residual Verdict
	// Members are the verdicts on the members of the frame, in its order.
	Members []MemberVerdict[K]
	// Groups are the verdicts on groups that had two members or more so far, and have one now, ordered by name.
	Groups []GroupVerdict
	// Exited are the members that are gone.
	Exited []Exit[K]
	// Unreleased is the memory that stayed after its process had ended, oldest
	// first, MaxUnreleased at most.
	Unreleased []Unreleased[K]
	// Resets counts, by reason, how often the history was reset.
	Resets [NumReasons]uint64
}

// MemberVerdict is the verdict on one process.
type MemberVerdict[K comparable] struct {
	Key K
	Verdict
	// Share is the share (0 to 1) of this member in the leak rate of its domain. Absent while the member does not leak.
	Share Value
	// Peak is the highest memory that it has held, in bytes. Absent while its memory is not known.
	Peak Value
	// Grows is the part of its memory that grows.
	Grows Inside
}

// GroupVerdict is the verdict on the summed memory of one pod or job.
type GroupVerdict struct {
	Group string
	// Used is the sum in bytes.
	Used float64
	Verdict
}

// Exit is a member that is gone.
type Exit[K comparable] struct {
	Key K
	// Used is its memory in its last frame, in bytes.
	Used Value
	// NearCapacity says that within a minute before its last frame 5 % of the capacity
	// or less were free: it may have died of out-of-memory.
	NearCapacity bool
}

// MaxUnreleased bounds the length of Judgement.Unreleased.
const MaxUnreleased = process.MaxUnreleased

// Unreleased is memory that stayed after its process had ended.
type Unreleased[K comparable] struct {
	Key K
	// Used is the memory that still stays, in bytes.
	Used float64
	// Since is when the process ended.
	Since time.Duration
}

// Reason is the reason of a Reset.
type Reason uint8

// The reasons.
const (
	ReasonDeviceReset Reason = iota // the driver or the GPU was reset
	ReasonRepartition               // the MIG layout changed
	ReasonClockStep                 // the source's clock went back
	NumReasons
)

var reasonNames = [NumReasons]string{"device_reset", "repartition", "clock_step"}

// String returns the reason as the label value of the metric.
func (r Reason) String() string { return stat.Name(reasonNames[:], r) }
