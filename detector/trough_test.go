// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"testing"
	"time"
)

// TestTroughs draws a leak under a sawtooth of a minute, from its beginning on.
func TestTroughs(t *testing.T) {
	const hours = 3
	d := newDomain(t)
	for s := range hours * 3600 {
		tooth := float64(s%60) * 40 * mib
		observe(t, d, s, gib, map[int]float64{7: 4*gib + leaked(s)/4 + tooth})
	}
	for _, of := range []Subject[int]{{Kind: KindDevice}, {Kind: KindMember, Key: 7}} {
		for _, back := range []time.Duration{20 * time.Minute, time.Hour, hours * time.Hour} {
			since := second(hours*3600) - back
			list := d.Troughs(nil, of, since)
			if len(list) < 3 || len(list) > 100 || list[0].At < since || list[0].At > since+back/4 {
				t.Fatalf("%+v: %d troughs for %s, the first at %s", of, len(list), back, list[0].At-since)
			}
			for i, p := range list[1:] {
				if p.At <= list[i].At {
					t.Fatalf("%+v: not in order: %v", of, list)
				}
			}
		}
	}
	// The last ones tell what stays, and not where the tooth is.
	list := d.Troughs(nil, Subject[int]{Kind: KindMember, Key: 7}, start)
	last := list[len(list)-1]
	at := int((last.At - start) / time.Second)
	if held := 4*gib + leaked(at)/4; float64(last.V) > held+gib/4 {
		t.Errorf("the last trough is %.2f GiB, and %.2f GiB had leaked", float64(last.V)/gib, held/gib)
	}
	for _, of := range []Subject[int]{{Kind: KindMember, Key: 8}, {Kind: KindGroup, Group: "x"}, {Kind: KindResidual}} {
		if list := d.Troughs(nil, of, start); len(list) > 0 {
			t.Errorf("%+v has %v", of, list)
		}
	}
	if list := newDomain(t).Troughs(nil, Subject[int]{}, start); list != nil {
		t.Errorf("nothing was seen, and there is %v", list)
	}
}
