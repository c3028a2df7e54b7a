// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package finding

import "time"

// blame is a condition, its begin and its culprit.
type blame struct {
	Since time.Duration `json:"since,omitempty"` // on the clock of detector.Frame.T; 0: it does not hold
	Who   Who           `json:"who,omitzero"`
}

// holds notes whether the condition holds now, and reports whether it has held for the wait.
func (b *blame) holds(condition bool, now, wait time.Duration) bool {
	switch {
	case !condition:
		*b = blame{}
	case b.Since == 0 || b.Since > now: // the clock may have gone back
		*b = blame{Since: now}
	}
	return condition && b.Since <= now-wait
}

// pick returns the culprit among the parts. The last culprit stays until its part is 0 or another part is twice as large. It
// also stays while there are no parts, as between two lives of a crash loop, unless nobody says that no process is to blame.
func (b *blame) pick(parts shares, nobody bool) Who {
	var most, kept share
	for _, p := range parts {
		if p.amount > most.amount {
			most = p
		}
		if p.who == b.Who {
			kept = p
		}
	}
	switch {
	case len(parts) == 0 && nobody:
		b.Who = Who{}
	case len(parts) > 0 && (kept.amount == 0 || most.amount >= 2*kept.amount):
		b.Who = most.who
	}
	return b.Who
}

// share is one part, such as bytes held or bytes per second.
type share struct {
	who    Who
	amount float64
}

type shares []share

// add adds an amount above 0.
func (s *shares) add(w Who, amount float64) {
	if !(amount > 0) {
		return
	}
	for i := range *s {
		if (*s)[i].who == w {
			(*s)[i].amount += amount
			return
		}
	}
	*s = append(*s, share{w, amount})
}
