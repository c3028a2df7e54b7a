// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// Forever is the time of a wait without an end.
const Forever = time.Duration(math.MaxInt64)

// Seconds returns a Verdict.WithheldFor in seconds; +Inf for Forever.
func Seconds(withheldFor time.Duration) stat.Value {
	if withheldFor == Forever {
		return stat.Of(math.Inf(1))
	}
	return stat.Of(withheldFor.Seconds())
}

// Verdict is the result for one series of used memory.
type Verdict struct {
	// Windows are the plain statistics, one entry a window of Config.Windows
	// and in its order.
	Windows [MaxWindows]stat.Fit
	// SpikesTotal counts the spikes (up and back) since the series began.
	SpikesTotal uint64
	// Trough is the lower envelope of the memory now, in bytes. Absent until the first block has closed.
	Trough stat.Value
	// Judged says that the series has been seen for long enough to be judged.
	// Confidence, Leak, Pattern and the forecast mean nothing while it is false.
	Judged bool
	// Muted says that the series is never judged: Config.Mute.
	Muted bool
	// Confidence is the confidence (0 to 1) that the memory leaks.
	Confidence float64
	// Leak is true from the frame on in which Confidence reaches the leak threshold until a quarter of the
	// leak is given back or Confidence is below the clear threshold. A leak that has filled the memory
	// stays for a while.
	Leak bool
	// Withheld is the reason for which growth is no leak yet; WithheldNone where nothing grows,
	// or where chance, noise or give-backs are the reason. The growth has lasted for Lasted and
	// must still last for WithheldFor, which may be Forever.
	Withheld            Withheld
	Lasted, WithheldFor time.Duration
	// Pattern is the shape of the series.
	Pattern Pattern
	// Rate is the present growth of the trough in bytes per second, while Leak.
	Rate stat.Value
	// Leaked is the memory retained since the leak began, in bytes, while Leak.
	Leaked stat.Value
	// Since is when the leak began, on the clock of Frame.T, while Leak.
	Since time.Duration
	// SecondsToOOM is the time until the memory is full, for a leak and for a tenth or more of
	// the growth that fills it; +Inf otherwise. Lower and Upper bound it with 90 % confidence; Upper is
	// +Inf if the growth may stop before. All are absent without a capacity, and without a judgement if nothing fills.
	SecondsToOOM, Lower, Upper stat.Value
}

// CopyLeak copies from another verdict the leak and its confidence, but not the pattern.
func (v *Verdict) CopyLeak(of *Verdict) {
	v.Confidence, v.Leak, v.Since, v.Rate, v.Leaked = of.Confidence, of.Leak, of.Since, of.Rate, of.Leaked
}

// CopyWait copies from another verdict the reason to wait; the zero Verdict has none.
func (v *Verdict) CopyWait(of *Verdict) { v.wait(of.Withheld, of.Lasted, of.WithheldFor) }

// ShortenWait copies the reason to wait of a part, if that waits for a shorter time or v has no reason.
func (v *Verdict) ShortenWait(part *Verdict) {
	if part.Withheld != WithheldNone && (v.Withheld == WithheldNone || part.WithheldFor < v.WithheldFor) {
		v.CopyWait(part)
	}
}

func (v *Verdict) wait(why Withheld, lasted, left time.Duration) {
	v.Withheld, v.Lasted, v.WithheldFor = why, lasted, left
}
