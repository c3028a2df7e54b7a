// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"fmt"
	"math"
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

// EndsPrograms reports whether the programs that used a GPU, or one of them, end with an XID error. Source: NVIDIA's catalogue of XID
// errors. 45, which comes after the end of any program, tells nothing.
func EndsPrograms(xid uint64) bool {
	return slices.Contains([]uint64{13, 31, 43, 48, 62, 79, 94, 95, 109, 119, 120}, xid)
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
	add := func(severity Severity, alert, summary, detail, advice string) {
		list = append(list, Message{Severity: severity, Alert: alert, Summary: h.Name + " " + summary, Detail: detail, Advice: advice, Left: math.Inf(1)})
	}
	if !h.Up {
		why, xid, sampled := "", "", ""
		if h.Error != "" {
			why = "Reading it fails: " + h.Error + "."
		}
		if slices.Contains(h.XIDs, 79) {
			xid = "XID 79: " + xids[Page][79] + "."
		}
		if !h.Sampled.IsZero() {
			sampled = "Its last sample is of " + h.Sampled.UTC().Format("15:04:05 MST") + "."
		}
		add(Page, Lost, "cannot be read", Joined(" ", why, xid, sampled), "")
		return list
	}
	for _, code := range h.XIDs {
		switch critical, warning := xids[Page][code], xids[Ticket][code]; {
		case critical != "":
			add(Page, "GPUXIDCritical", fmt.Sprintf("reports XID %d: %s", code, critical), "", "Drain the node.")
		case warning != "":
			add(Ticket, "GPUXIDWarning", fmt.Sprintf("reports XID %d: %s", code, warning), "", "")
		}
	}
	ecc := &h.ECC
	counted := func(e gpu.ECCErrors) bool { return e.Type == "uncorrected" && e.Counter == "volatile" && e.Count > 0 }
	told := func(code uint64) bool { return code == 48 || code == 94 || code == 95 || code == 140 }
	switch {
	case slices.ContainsFunc(ecc.Errors, counted) || slices.ContainsFunc(h.XIDs, told):
		add(Page, "GPUECCUncorrectable", "has memory errors that could not be corrected", "What computed with them is wrong or was killed.", "Drain the node and reset the GPU.")
	case ecc.RecoveryAction.V > 0 || ecc.RemapPending.V || ecc.RetiredPagesPending.V:
		add(Ticket, "GPURecoveryActionNeeded", "waits for a reset", "The driver asks for it, or a row or page of its memory with errors is replaced only then.", "")
	}
	if ecc.RemapFailed.V || slices.Contains(h.XIDs, 64) {
		add(Page, "GPURowRemapFailed", "could not replace a row of its memory that has errors", "", "Drain the node, and have the GPU replaced.")
	}
	if h.hot() {
		add(Page, "GPUOverTemperature", "is as hot as it may be", "The driver slows it down, and shuts it off before it is damaged.", "Check the fans and the air.")
	}
	slices.SortStableFunc(list, func(a, b Message) int { return a.Compare(&b) })
	return list
}

// XID returns the message on an XID error; the zero Message if it has no alert.
func XID(code uint64) Message {
	return append((&Hardware{Name: "the GPU", Up: true, XIDs: []uint64{code}}).Messages(), Message{})[0]
}

// hot reports whether a sensor has reached the temperature from which the driver slows the GPU down.
func (h *Hardware) hot() bool {
	of := func(list []gpu.Named[float64], name string) float64 {
		for _, v := range list {
			if v.Name == name {
				return v.V
			}
		}
		return math.NaN()
	}
	t := &h.Thermal
	return t.Margin.OK && t.Margin.V <= 0 || of(t.Temperatures, "gpu") >= of(t.Thresholds, "slowdown") ||
		of(t.Temperatures, "memory") >= of(t.Thresholds, "memory_max")
}
