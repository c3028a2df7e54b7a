// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Lost is the alert for a GPU that cannot be read.
const Lost = "GPULost"

const nvlink5 = "an error of NVLink 5"

// xids has the codes with a page or a ticket. A test compares the words with those of the mixin.
var xids = map[Severity]map[uint64]string{
	Page: {
		62: "its micro-controller has halted", 74: "an error of an NVLink connection", 79: "it has fallen off the bus",
		119: "its system processor (GSP) did not answer", 120: "an error of its system processor (GSP)", 143: "it could not be initialised",
	},
	Ticket: {
		61: "its micro-controller has stopped", 92: "many corrected errors of its memory",
		109: "a program could not be switched away from in time", 121: "an error of its link to the processor (C2C)",
		144: nvlink5, 145: nvlink5, 146: nvlink5, 147: nvlink5, 148: nvlink5, 149: nvlink5, 150: nvlink5,
	},
}

// Hardware is the health of a GPU.
type Hardware struct {
	Name    string // with its model
	Up      bool
	Error   string    // why it cannot be read; "" if unknown
	Sampled time.Time // its last sample; zero before the first
	XIDs    []uint64  // the codes of the last quarter of an hour
	ECC     gpu.ECC
	Thermal gpu.Thermal
}

// Messages returns what the alerts of the mixin say of this GPU, the most urgent first.
func (h *Hardware) Messages() (list []Message) {
	add := func(is bool, m Message) {
		if m.Summary = h.Name + " " + m.Summary; is {
			list = append(list, m)
		}
	}
	if !h.Up {
		m := Message{Severity: Page, Alert: Lost, Summary: Unreadable}
		if h.Error != "" {
			m.Detail = "Reading it fails: " + h.Error + "."
		}
		if !h.Sampled.IsZero() {
			m.Detail = Joined(" ", m.Detail, "Its last sample is of "+h.Sampled.UTC().Format("15:04:05 MST")+".")
		}
		add(true, m)
		return list
	}
	for _, code := range h.XIDs {
		reports := fmt.Sprintf("reports XID %d: ", code)
		add(xids[Page][code] != "", Message{Severity: Page, Alert: "GPUXIDCritical", Summary: reports + xids[Page][code], Advice: "Drain the node."})
		add(xids[Ticket][code] != "", Message{Severity: Ticket, Alert: "GPUXIDWarning", Summary: reports + xids[Ticket][code]})
	}
	ecc := &h.ECC
	uncorrected := slices.ContainsFunc(ecc.Errors, func(e gpu.ECCErrors) bool { return e.Type == "uncorrected" && e.Counter == "volatile" && e.Count > 0 }) ||
		slices.ContainsFunc(h.XIDs, func(code uint64) bool { return code == 48 || code == 94 || code == 95 || code == 140 })
	add(uncorrected, Message{
		Severity: Page, Alert: "GPUECCUncorrectable", Summary: "has memory errors that could not be corrected",
		Detail: "What computed with them is wrong or was killed.", Advice: "Drain the node and reset the GPU.",
	})
	add(!uncorrected && (ecc.RecoveryAction.V > 0 || ecc.RemapPending.V || ecc.RetiredPagesPending.V), Message{
		Severity: Ticket, Alert: "GPURecoveryActionNeeded", Summary: "waits for a reset",
		Detail: "The driver asks for it, or a row or page of its memory with errors is replaced only then.",
	})
	add(ecc.RemapFailed.V || slices.Contains(h.XIDs, 64), Message{
		Severity: Page, Alert: "GPURowRemapFailed", Summary: "could not replace a row of its memory that has errors",
		Advice: "Drain the node, and have the GPU replaced.",
	})
	add(h.hot(), Message{
		Severity: Page, Alert: "GPUOverTemperature", Summary: "is as hot as it may be",
		Detail: "The driver slows it down, and shuts it off before it is damaged.", Advice: "Check the fans and the air.",
	})
	slices.SortStableFunc(list, func(a, b Message) int { return a.Compare(&b) })
	return list
}

// XID returns the message on an XID error; the zero Message if it has no alert.
func XID(code uint64) Message {
	return append((&Hardware{Name: "the GPU", Up: true, XIDs: []uint64{code}}).Messages(), Message{})[0]
}

// hottest has the threshold of each sensor from which the driver slows the GPU down.
var hottest = map[string]string{"gpu": "slowdown", "memory": "memory_max"}

// hot reports whether a sensor has reached its threshold.
func (h *Hardware) hot() bool {
	t := &h.Thermal
	return t.Margin.OK && t.Margin.V <= 0 || slices.ContainsFunc(t.Temperatures, func(is gpu.Named[float64]) bool {
		return slices.ContainsFunc(t.Thresholds, func(limit gpu.Named[float64]) bool { return limit.Name == hottest[is.Name] && is.V >= limit.V })
	})
}
