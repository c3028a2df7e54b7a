// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package watch says on a terminal what the detector thinks of a node now.
package watch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/wording"
)

// Status is how a node is. Its number is the exit status by which Nagios plugins and Slurm's
// HealthCheckProgram tell it.
type Status int

// The statuses.
const (
	Well Status = iota
	Ticket
	Page
	Unknown
)

// String returns the word for it.
func (s Status) String() string { return [...]string{"well", "ticket", "page", "not known"}[s] }

// urgency orders them: what is not known is worse than well, and hides nothing.
func (s Status) urgency() int { return [...]int{Well: 0, Ticket: 2, Page: 3, Unknown: 1}[s] }

// Thresholds are those of the mixin's tickets: for a leak that ends within OOMTicket, in seconds, and for
// more than Held bytes that nobody will use again.
type Thresholds struct {
	OOMTicket float64
	Held      uint64
}

// Finding is one thing that somebody should know.
type Finding struct {
	Status Status
	Text   string
	left   float64 // seconds, for the order
}

// Findings returns what is to be said of a node, the most urgent first; nothing if all is well. The
// alerts of the mixin wait until it has been so for minutes: this is what is so now.
func Findings(d *verdicts.Data, t Thresholds) []Finding {
	var list []Finding
	switch {
	case d.Driver.Up && len(d.Devices) > 0:
	case d.Driver.Up:
		list = append(list, Finding{Status: Unknown, Text: "The driver answers, and lists no GPU."})
	case d.Driver.Reason == "starting":
		list = append(list, Finding{Status: Unknown, Text: "The exporter has just started, and waits for the driver."})
	case NoGPU(d): // it needs no driver
		list = append(list, Finding{Status: Unknown, Text: wording.Driver(plain(d.Driver.Reason)) + " The PCI bus shows no NVIDIA GPU."})
	default:
		list = append(list, Finding{Status: Page, Text: wording.Driver(plain(d.Driver.Reason))})
	}
	unjudged := 0
	for i := range d.Devices {
		list = append(list, ofDevice(&d.Devices[i], t)...)
		unjudged += unjudgedOf(&d.Devices[i])
	}
	switch {
	case unjudged == 1:
		list = append(list, Finding{Status: Unknown, Text: "1 memory is not judged yet."})
	case unjudged > 1:
		list = append(list, Finding{Status: Unknown, Text: fmt.Sprintf("%d memories are not judged yet.", unjudged)})
	}
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Status.urgency(), a.Status.urgency()), cmp.Compare(a.when(), b.when()))
	})
	return list
}

// NoGPU reports whether no GPU is seen, and there is none on the bus that would need a driver.
func NoGPU(d *verdicts.Data) bool {
	return !d.Driver.Up && d.Driver.Reason != "starting" && len(d.Devices) == 0 && d.Driver.PCIDevices != nil && *d.Driver.PCIDevices == 0
}

// when is how far ahead it is, in seconds: what has no forecast comes after what has one, unless it
// has happened already.
func (f *Finding) when() float64 {
	if f.left == 0 && f.Status == Ticket {
		return math.Inf(1)
	}
	return f.left
}

// Overall returns the status of the most urgent finding.
func Overall(list []Finding) Status {
	if len(list) == 0 {
		return Well
	}
	return list[0].Status
}

// domain is a memory of its own: that of a GPU, or of a slice of one.
type domain struct {
	name     string
	instance string
	memory   verdicts.Memory
	page     bool
	verdict  *verdicts.Verdict
	device   *verdicts.Device
}

// domainsOf returns the memories of a GPU.
func domainsOf(d *verdicts.Device) []domain {
	name := gpuName(d)
	if len(d.Instances) == 0 {
		return []domain{{name: name, memory: d.Memory, page: d.Page, verdict: d.Verdict, device: d}}
	}
	var list []domain
	for i := range d.Instances {
		in := &d.Instances[i]
		id := in.Labels["gpu_instance"]
		list = append(list, domain{
			name: fmt.Sprintf("%s, MIG %s (%s)", name, plain(id), plain(in.Labels["profile"])), instance: id, memory: in.Memory, page: in.Page, verdict: in.Verdict, device: d,
		})
	}
	return list
}

// ofDevice returns what is to be said of a GPU.
func ofDevice(d *verdicts.Device, t Thresholds) []Finding {
	if !d.Up {
		return []Finding{{Status: Page, Text: fmt.Sprintf("%s (%s) cannot be read.", gpuName(d), plain(cmp.Or(d.Name, d.Labels["uuid"])))}}
	}
	var list []Finding
	for _, m := range domainsOf(d) {
		list = append(list, m.findings(t)...)
	}
	for i := range d.Unreleased {
		u := &d.Unreleased[i]
		if u.Used <= t.Held {
			continue
		}
		list = append(list, Finding{Status: Ticket, Text: fmt.Sprintf("%s: %s of %s stay in use after its end.", gpuName(d), humanize.Bytes(float64(u.Used)), who(u.Labels, u.User))})
	}
	return list
}

// isJudged reports whether there is a verdict that is not muted.
func isJudged(v *verdicts.Verdict) bool { return v != nil && v.Judged }

// unjudgedOf counts the memories of a GPU that were not watched for long enough.
func unjudgedOf(d *verdicts.Device) (n int) {
	if !d.Up {
		return 0
	}
	for _, m := range domainsOf(d) {
		if !isJudged(m.verdict) && (m.verdict == nil || !m.verdict.Muted) {
			n++
		}
	}
	return n
}

// findings returns what is to be said of a memory, and of those who hold it.
func (m *domain) findings(t Thresholds) []Finding {
	v := m.verdict
	list := m.held(t.Held)
	switch {
	case m.page && v != nil && v.Seconds != nil:
		list = append(list, Finding{Page, m.end("runs out of memory in "+left(v.Seconds, v.Lower, v.Upper)) + m.grows(), *v.Seconds})
	case !isJudged(v):
	case v.Leak && v.Seconds != nil && *v.Seconds < t.OOMTicket:
		list = append(list, Finding{Ticket, m.end("runs out of memory in "+left(v.Seconds, v.Lower, v.Upper)) + m.grows(), *v.Seconds})
	case v.Leak:
		list = append(list, Finding{Status: Ticket, Text: m.end("leaks") + m.grows()})
	default:
		list = append(list, m.leaks()...)
	}
	return list
}

func (m *domain) end(what string) string { return m.name + " " + what }

// grows names the process that has the largest share in the growth.
func (m *domain) grows() string {
	var most *verdicts.Process
	for i := range m.device.Processes {
		p := &m.device.Processes[i]
		if p.Labels["gpu_instance"] == m.instance && p.Share != nil && (most == nil || *p.Share > *most.Share) {
			most = p
		}
	}
	if most == nil || *most.Share <= 0 {
		return "."
	}
	text := ": " + who(most.Labels, most.User)
	if v := most.Verdict; v != nil && v.Rate != nil {
		text += " grows by " + strings.TrimPrefix(humanize.Rate(*v.Rate), "+")
	}
	return text + "."
}

// leaks returns the processes that leak on a memory that does not leak as a whole.
func (m *domain) leaks() (list []Finding) {
	for i := range m.device.Processes {
		p := &m.device.Processes[i]
		if p.Labels["gpu_instance"] == m.instance && p.Verdict != nil && p.Verdict.Leak {
			list = append(list, Finding{Status: Ticket, Text: m.name + ": " + who(p.Labels, p.User) + " leaks."})
		}
	}
	return list
}

// held returns the processes that hold more than that many bytes and will not use them again.
func (m *domain) held(most uint64) (list []Finding) {
	for i := range m.device.Processes {
		p := &m.device.Processes[i]
		if p.Labels["gpu_instance"] == m.instance && p.Verdict != nil && p.Verdict.Judged && p.Verdict.Pattern == "zombie" && p.Used != nil && *p.Used > most {
			list = append(list, Finding{Status: Ticket, Text: fmt.Sprintf("%s: %s holds %s, and shows no sign of going on.", m.name, who(p.Labels, p.User), humanize.Bytes(float64(*p.Used)))})
		}
	}
	return list
}

// left writes a time left and its interval.
func left(seconds, lower, upper *float64) string {
	text := humanize.Seconds(*seconds)
	if interval := wording.Interval(lower, upper); interval != "" {
		text += " (" + interval + ")"
	}
	return text
}

// who names a process and where it runs. Names come from other users: they may hold anything.
func who(labels map[string]string, user string) string {
	name := wording.Process(plain(labels["process"]), plain(labels["pid"]))
	if place := place(labels, user); place != "" {
		name = strings.TrimSuffix(name, ")") + ", " + place + ")"
	}
	return name
}

// place says in which pod or job a process runs, and whose it is.
func place(labels map[string]string, user string) string {
	return wording.Place(plain(labels["namespace"]), plain(labels["pod"]), plain(labels["container"]), plain(labels["slurm_job"]), plain(user))
}

// gpuName names a GPU.
func gpuName(d *verdicts.Device) string { return "GPU " + plain(d.Labels["gpu"]) }

// plain returns a name that a terminal can show, of 40 characters at most.
func plain(name string) string { return humanize.Printable(name, 40) }
