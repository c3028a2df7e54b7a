// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "testing"

// Processes come one after the other, compute for three minutes, and then hold 512 MiB and compute no
// more. Where none of them ends the memory leaks, and their pod, though no process does.
func TestWhatRests(t *testing.T) {
	for _, c := range []struct {
		name  string
		every int   // seconds between two that come
		stays int   // seconds for which each stays; 0 to the end
		sm    Value // of those that rest
		want  bool
	}{
		{"children that nobody reaps", 240, 0, Of(0), true},
		{"they work", 240, 0, Of(0.2), false},
		{"it is not known whether they work", 240, 0, Value{}, false},
		{"they end after half an hour", 240, 1800, Of(0), false},
		{"a few that stay", 4 * 3600, 0, Of(0), false},
	} {
		d, device := newDomain(t), toggles(nil)
		for s := 0; s < 5*3600; s += 10 {
			var members []Member[int]
			for n := range 1 + s/c.every {
				age := s - n*c.every
				if c.stays > 0 && age >= c.stays {
					continue
				}
				m := Member[int]{Key: n, Group: "ml/pool", Used: Of(512 * mib), Started: second(n * c.every), SM: Of(0.5), State: StateAlive}
				if age > 180 {
					m.SM = c.sm
				}
				members = append(members, m)
			}
			j := show(t, d, frame(s, gib, members...))
			device.note(s, j.Device.Leak)
			if len(j.Groups) > 0 && j.Groups[0].Leak != j.Device.Leak {
				t.Fatalf("%s: second %d: the pod %+v, the GPU %+v", c.name, s, j.Groups[0].Verdict, j.Device)
			}
			for i := range j.Members {
				if j.Members[i].Leak {
					t.Fatalf("%s: second %d: process %d leaks", c.name, s, j.Members[i].Key)
				}
			}
		}
		if c.want && (len(device) != 1 || device[0] > 2*3600) || !c.want && len(device) > 0 {
			t.Errorf("%s: a leak from and to %v", c.name, device)
		}
	}
}
