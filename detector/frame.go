// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "time"

// Value is a number that may be absent: what a driver does not offer is
// neither zero nor NaN. The zero Value is absent.
type Value struct {
	V  float64
	OK bool
}

// Of returns the present Value v.
func Of(v float64) Value { return Value{V: v, OK: true} }

// MaxBytes is the largest amount of memory that the detector takes for a
// measurement: 256 TiB. Drivers mark "not available" with numbers near 2^64,
// and the exact sums of a window are proven for values up to this bound.
const MaxBytes = 1 << 48

// Frame is everything that is known about one memory (a GPU, or a GPU instance
// of a MIG GPU) at one moment. Observe reads it and keeps nothing of it, so one
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
	// known. Only then is Used minus their sum a residual, and only then is the
	// device judged through its members instead of by its raw series.
	Complete bool
}

// Member is one process in a Frame.
type Member[K comparable] struct {
	// Key names the process for its whole life; it is never used again for
	// another process.
	Key K
	// Group is the pod or job that the process belongs to; "" when unknown.
	Group string
	// Program is the name of what the process runs. In no Group, one that is started again
	// and again is known by it; "" when unknown.
	Program string
	// Used is the memory that the process holds, in bytes.
	Used Value
	// Started is when the process started, on the clock of Frame.T. It may lie
	// before the first frame; zero when unknown.
	Started time.Duration
	// SM is the highest ratio (0 to 1) of streaming multiprocessors that the
	// process kept busy since the last frame. Absent is not idle.
	SM Value
	// CPU is the processor time that the process has used so far, in seconds.
	CPU Value
	// State is what the kernel says about the process.
	State ProcState
}

// ProcState is what the kernel says about a process, as far as it matters for
// memory that nobody will use again.
type ProcState uint8

// The states of a process.
const (
	StateUnknown       ProcState = iota
	StateAlive                   // runs, sleeps or is stopped
	StateUnkillable              // D: in an uninterruptible wait
	StateOrphaned                // its parent is gone and it is no service
	StateZombieProcess           // Z: it has exited and holds no GPU memory of its own
	StateGone                    // there is no such process any more, and yet it is a member
)

// Judgement is what a Domain says after a Frame. It and all it refers to belong
// to the Domain and are valid until the next Observe.
type Judgement[K comparable] struct {
	// T is the time of the frame that was judged.
	T time.Duration
	// Device is the verdict on the memory as a whole. Its windows are those of
	// the raw used memory; its judgement is composed of the members and the
	// residual where Attributed, and is the raw series' own otherwise.
	Device Verdict
	// Attributed says that Device is judged through Members and Residual.
	Attributed bool
	// Headroom is what can still be allocated before the crest of the used
	// memory meets the capacity, in bytes. Absent without a capacity.
	Headroom Value
	// Residual is the verdict on Used minus all members; the zero Verdict while the
	// list of members is not complete.
	Residual Verdict
	// Members are the verdicts on the members of the frame, in its order.
	Members []MemberVerdict[K]
	// Groups are the verdicts on the sums of groups of two members or more, at once or
	// one after the other, ordered by name. One without a member has none.
	Groups []GroupVerdict
	// Exited are the members that are gone, in no order. One whose memory stays in use is told
	// once it was waited for: up to 10 s, or three frames, later.
	Exited []Exit[K]
	// Unreleased is the memory that stayed after its process had ended, oldest
	// first, MaxUnreleased at most.
	Unreleased []Unreleased[K]
	// Resets counts, by reason, how often history was thrown away.
	Resets [NumReasons]uint64
}

// MemberVerdict is the verdict on one process.
type MemberVerdict[K comparable] struct {
	Key K
	Verdict
	// Share is the part (0 to 1) that this member contributes to the leak rate
	// of its domain. Absent while the member does not leak.
	Share Value
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
	// Used is what it held when it was last seen, in bytes.
	Used Value
	// NearCapacity says that at its last frame the device had 5 % of its capacity
	// free or less: it may have died of out-of-memory.
	NearCapacity bool
}

// Verdict is what the detector says about one series of used memory.
type Verdict struct {
	// Windows are the plain statistics, one entry a window of Config.Windows
	// and in its order.
	Windows [MaxWindows]Fit
	// SpikesTotal counts the spikes (up and back) since the series began.
	SpikesTotal uint64
	// Trough is the lower envelope of the memory now, in bytes: what is held
	// and has not been given back. Absent until a first block has closed.
	Trough Value
	// Judged says that the series has been seen for long enough to be judged.
	// Confidence, Leak, Pattern and the forecast mean nothing while it is false.
	Judged bool
	// Muted says that the series is not to be judged, however long it is seen.
	Muted bool
	// Confidence is how sure the detector is of a leak, 0 to 1.
	Confidence float64
	// Leak holds from the frame at which Confidence has been at the leak threshold or
	// above for 45 s until a quarter of the leak is given back, or Confidence is below the
	// clear threshold and the leak does not merely pause.
	Leak bool
	// Withheld is why growth that is suspected is not called a leak yet, and WithheldFor for how
	// long it must still last; WithheldNone where nothing is suspected, or only chance, noise or
	// give-backs speak against it. Lasted is for how long that growth has lasted.
	Withheld            Withheld
	WithheldFor, Lasted time.Duration
	// Pattern is the shape of the series.
	Pattern Pattern
	// Rate is the growth of the trough in bytes per second, while Leak.
	Rate Value
	// Leaked is what has been retained since the leak began, in bytes, while Leak.
	Leaked Value
	// Since is when the leak began, on the clock of Frame.T, while Leak.
	Since time.Duration
	// SecondsToOOM is the time until the crest meets the capacity; +Inf when no
	// leak contributes to it. Lower and Upper bound it with 90 % confidence.
	// All are absent while the series is not judged or has no capacity.
	SecondsToOOM, Lower, Upper Value
	// SecondsToFull is the time until the memory as a whole is full if the present growth of its
	// crest goes on, leak or not, of whatever contributes to that growth. FullLower and FullUpper
	// bound it with 90 % confidence; FullUpper is +Inf where the growth may end before. All are
	// absent where the crest has not grown for five minutes, and without a capacity.
	SecondsToFull, FullLower, FullUpper Value
}

// Fit is the plain statistics of one window.
type Fit struct {
	// Span is the length of the window; 0 in a Verdict for one that is not there.
	Span time.Duration
	// Slope is the least-squares slope of used memory over time in bytes per
	// second, and R2 its coefficient of determination (0 for a constant series).
	Slope, R2 Value
	// Spikes is the number of spikes that ended inside the window.
	Spikes Value
	// Fill is the share (0 to 1) of the window that holds samples.
	Fill float64
	// N is the number of samples in the window.
	N int64
}

// Pattern names the shape of a series of used memory.
type Pattern uint8

// The patterns, in the words of the metric's label.
const (
	PatternUnknown Pattern = iota
	PatternStable
	PatternIdle
	PatternWarmup
	PatternPlateau
	PatternStep
	PatternSawtooth
	PatternSpikes
	PatternLeakLinear
	PatternLeakStaircase
	PatternLeakCyclic
	PatternFragmentation
	PatternZombie
	PatternUnreleased
	numPatterns
)

var patternNames = [numPatterns]string{
	"", "stable", "idle", "warmup", "plateau", "step", "sawtooth", "spikes",
	"leak_linear", "leak_staircase", "leak_cyclic", "fragmentation", "zombie", "unreleased",
}

// String returns the pattern as the label value of the metric; "" for
// PatternUnknown.
func (p Pattern) String() string {
	if p >= numPatterns {
		return ""
	}
	return patternNames[p]
}

// Reason says why a Domain threw history away.
type Reason uint8

// The reasons of a reset.
const (
	ReasonDeviceReset Reason = iota // the driver or the GPU was reset
	ReasonRepartition               // the MIG layout changed
	ReasonClockStep                 // the source's clock went back
	NumReasons
)

var reasonNames = [NumReasons]string{"device_reset", "repartition", "clock_step"}

// String returns the reason as the label value of the metric.
func (r Reason) String() string {
	if r >= NumReasons {
		return ""
	}
	return reasonNames[r]
}
