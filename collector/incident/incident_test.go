// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = testkit.Must

const gib = 1 << 30

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// proc is a process whose course has these values in GiB; below 0 is not known.
func proc(name string, pid uint32, ended bool, course ...int) Process {
	p := Process{Who: finding.Who{Process: name}, PID: pid, Ended: ended, Course: []gpu.Opt[uint64]{}}
	for _, v := range course {
		p.Course = append(p.Course, gpu.Some(uint64(max(v, 0))*gib).If(v >= 0))
		p.Used = p.Course[len(p.Course)-1]
	}
	return p
}

// full is an incident of that kind on a full GPU.
func full(kind Kind, ended int, processes ...Process) *Incident {
	return &Incident{
		Kind: kind, Time: noon, GPU: "0", UUID: "GPU-0", Memory: "GPU 0", Capacity: gpu.Some(uint64(80 * gib)), Used: gpu.Some(uint64(79 * gib)),
		Finding: Finding{By: "nothing"}, Start: noon.Add(-20 * time.Second), Step: Step.Seconds(),
		Course: []gpu.Opt[uint64]{gpu.Some(uint64(gib)), {}, gpu.Some(uint64(79 * gib))}, Processes: processes, Ended: ended,
	}
}

// TestText has the two sentences of each kind: what filled the memory, and whether an alert came before.
func TestText(t *testing.T) {
	grew, big := proc("train.py", 7, true, 1, -1, 60), proc("serve", 8, false, 70, 70, 70)
	told := func(i *Incident, f Finding) *Incident {
		i.Finding = f
		return i
	}
	ago := func(d time.Duration) *time.Time {
		at := noon.Add(-d)
		return &at
	}
	xid := full(XID, 0, big)
	xid.XID = 31
	unknown := full(OutOfMemory, 1, grew)
	unknown.Used, unknown.Processes[0].Used = gpu.Opt[uint64]{}, gpu.Opt[uint64]{}
	inPod := proc("train.py", 7, true, 2)
	inPod.Namespace, inPod.Pod = "ml", "train-0"
	for name, c := range map[string]struct {
		incident *Incident
		want     string
	}{
		"what grew ended":      {full(OutOfMemory, 1, grew, big), "train.py (pid 7) ended when GPU 0 was full (79.0 GiB of 80.0 GiB): it held 60.0 GiB, 59.0 GiB more than 20 s before. No alert foretold it."},
		"another one fills it": {full(OutOfMemory, 1, proc("small", 9, true, 1, 1), proc("train.py", 7, false, 1, 60)), "small (pid 9) ended when GPU 0 was full (79.0 GiB of 80.0 GiB): train.py (pid 7) held 60.0 GiB, 59.0 GiB more than 10 s before. No alert foretold it."},
		"nothing grew":         {full(OutOfMemory, 1, proc("small", 9, true, 1, 1), big), "small (pid 9) ended when GPU 0 was full (79.0 GiB of 80.0 GiB): serve (pid 8) held 70.0 GiB. No alert foretold it."},
		"several ended":        {full(OutOfMemory, 3, grew, proc("train.py", 8, true, 1)), "train.py (pid 7) and 2 more ended when GPU 0 was full (79.0 GiB of 80.0 GiB): train.py (pid 7) held 60.0 GiB, 59.0 GiB more than 20 s before. No alert foretold it."},
		"no use is known":      {unknown, "train.py (pid 7) ended when GPU 0 was full. No alert foretold it."},
		"a limit":              {told(full(Limit, 1, inPod), Finding{By: "ticket", At: ago(90 * time.Minute)}), "train.py (pid 7) of pod ml/train-0 ended when GPU 0 was full (79.0 GiB of 80.0 GiB): it held 2.00 GiB. A ticket had come 1 h 30 min before."},
		"refused":              {told(full(Refused, 0, proc("train.py", 7, false, 1)), Finding{By: "page", At: ago(40 * time.Second)}), "train.py (pid 7) was refused 0 B on GPU 0 (79.0 GiB of 80.0 GiB): it held 1.00 GiB. A page had come 40 s before."},
		"withheld":             {told(full(OutOfMemory, 1), Finding{By: "nothing", Reason: "No leak yet: it may be a daily load."}), "A process ended when GPU 0 was full (79.0 GiB of 80.0 GiB). No alert foretold it. No leak yet: it may be a daily load."},
		"lost":                 {full(Lost, 0, big), "GPU 0 was lost: serve (pid 8) held 70.0 GiB."},
		"an XID error":         {xid, "GPU 0 reported XID 31: serve (pid 8) held 70.0 GiB."},
		"of an empty GPU":      {full(Lost, 0), "GPU 0 was lost."},
	} {
		testkit.Equal(t, c.incident.describe(), c.want, "%s", name)
	}
}
