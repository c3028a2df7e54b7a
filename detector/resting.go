// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

// observeResting adds the sum of the members that have not computed for idleAfter to a series of
// its own: processes that are never reaped, one a request, leak together while none of them grows,
// and their pod begins anew with each of them. Who has no utilisation rests not.
func (d *Domain[K]) observeResting(f *Frame[K], o observation) {
	if !f.Complete {
		return
	}
	if d.resting == nil {
		d.resting = d.newSeries(Subject[K]{Kind: KindResidual})
	}
	var sum int64
	for i := range d.present {
		if in := &d.present[i]; in.known && in.member != nil && in.member.idle {
			sum += in.member.series.used
		}
	}
	o.used, o.started, o.sm = min(sum, MaxBytes), 0, Value{}
	d.resting.observe(&o)
}

// judgeResting adds what rests to the leaks of the device, unless one that rests leaks by itself.
func (d *Domain[K]) judgeResting() {
	if d.resting == nil {
		return
	}
	for i := range d.present {
		if m := d.present[i].member; m != nil && m.idle && m.leak.on {
			return
		}
	}
	var v Verdict
	d.resting.verdict(&v)
	d.grow(d.resting, &v)
	if v.Leak {
		d.held = max(d.held, v.Confidence)
	}
}
