// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package fromstate makes the verdicts of a collector's state.
package fromstate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Handler answers with what the detector says of every GPU, GPU instance, process and workload. One State always gives the same
// text: lists are in the order of State and never null. A number that is not known is null, and so is the verdict of what the
// detector has not seen. labels are those of the series of the same subject. note says that the GPUs are not real.
//
// JSON has no infinity. oom says how to read seconds_to_oom, which the metrics show as +Inf where oom is never:
//
//	unknown   muted, not judged yet, or no capacity is known: seconds_to_oom is null
//	never     judged, and nothing foretells an end that it takes part in: seconds_to_oom is null
//	foreseen  seconds_to_oom is a number, seconds_to_oom_lower and _upper its 90 %
//	          interval; an end of it that is null is open
func Handler(state func() *sampler.State, note string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := state()
		data := Of(s)
		if note != "" {
			data.Note, data.Time = note, s.Clock().UTC()
		}
		Answer(w, data)
	})
}

// Answer answers with data in an envelope: {"status":"success","data":…}.
func Answer(w http.ResponseWriter, data any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(verdicts.Envelope[any]{Status: "success", Data: data}) // only the connection can fail
}

// Of returns what a state says.
func Of(s *sampler.State) verdicts.Data {
	report := s.Report()
	data := verdicts.Data{
		Time: s.Time.UTC(), Severity: report.Severity.String(), Text: report.Text(), Findings: []verdicts.Finding{},
		Driver:  verdicts.Driver{Up: s.DriverReason == "", Reason: s.DriverReason, PCIDevices: Known(s.PCIDevices)},
		Devices: []verdicts.Device{},
	}
	for i := range report.Messages {
		m := &report.Messages[i]
		data.Findings = append(data.Findings, verdicts.Finding{Severity: m.Severity.String(), Alert: m.Alert, Text: m.Text()})
	}
	if len(s.Incidents.List) > 0 {
		last := s.Incidents.List[0]
		data.Incident = &verdicts.Incident{Time: last.Time, Text: last.Text}
	}
	for _, d := range s.Devices {
		data.Devices = append(data.Devices, deviceOf(d, s))
	}
	return data
}

func deviceOf(d *sampler.DeviceState, s *sampler.State) verdicts.Device {
	device := func() map[string]string {
		labels := map[string]string{"gpu": d.Info.IndexLabel(), "uuid": d.Info.UUID}
		for i, name := range s.Places {
			labels[name] = d.Info.Place[i]
		}
		return labels
	}
	j := verdicts.Device{
		Labels: device(), Title: d.Name(), Name: d.Info.Name, Up: d.Up, SampleTime: MomentOf(d.SampleTime),
		Instances: []verdicts.Part{}, Limited: []verdicts.Part{}, Processes: []verdicts.Process{}, Workloads: []verdicts.Workload{}, Unreleased: []verdicts.Unreleased{},
	}
	if !d.Up {
		return j // nothing else means anything
	}
	j.Memory, j.Unattributed = MemoryOf(d.Memory), Known(d.Unattributed)
	addMemories(&j, d, s.Time)
	for i := range d.Processes {
		p := &d.Processes[i]
		j.Processes = append(j.Processes, processOf(device(), p))
	}
	for i := range d.Workloads {
		w := &d.Workloads[i]
		labels := device()
		labels["gpu_instance"] = sampler.InstanceID(w.Instance)
		labels["namespace"], labels["pod"], labels["slurm_job"] = w.Namespace, w.Pod, w.SlurmJob
		j.Workloads = append(j.Workloads, verdicts.Workload{Labels: labels, Used: w.Used, Verdict: VerdictOf(&w.Verdict)})
	}
	for i := range d.Unreleased {
		u := &d.Unreleased[i]
		labels, who := device(), finding.Of(u.Owner)
		NameProcess(labels, u.Instance, u.ID, &who)
		j.Unreleased = append(j.Unreleased, verdicts.Unreleased{Labels: labels, User: who.User, Used: u.Used, Ended: MomentOf(SteadyTime(u.At))})
	}
	return j
}

// addMemories adds the verdicts on the memories of a GPU: its own, and those of its instances and limits.
func addMemories(j *verdicts.Device, d *sampler.DeviceState, now time.Time) {
	for m := range d.Domains() {
		part := verdicts.Part{Labels: maps.Clone(j.Labels), Memory: MemoryOf(m.Memory), Domain: domainOf(&m, now)}
		part.Labels["gpu_instance"] = sampler.InstanceID(m.Instance)
		switch {
		case m.IsLimit():
			part.Labels["namespace"], part.Labels["pod"], part.Labels["slurm_job"] = m.Who.Namespace, m.Who.Pod, m.Who.SlurmJob
			part.Labels["container"], part.Labels["process"], part.Path = m.Who.Container, m.Who.Process, PathOf(&m)
			j.Limited = append(j.Limited, part)
		case m.Instance.OK:
			part.Labels["profile"] = m.Profile
			j.Instances = append(j.Instances, part)
		default:
			j.Domain = part.Domain
		}
	}
	if len(d.Instances) > 0 { // the GPU as a whole has statistics
		j.Domain = domainOf(&sampler.Domain{MemoryState: &d.MemoryState, Device: d}, now)
	}
}

// PathOf returns the last part of the path of the page on a memory, which is its identifier on pages, too. In a fleet many GPUs have
// the same index, so it has the UUID, or the place if there is none.
func PathOf(m *sampler.Domain) string {
	info := &m.Device.Info
	name := "gpu-" + info.IndexLabel()
	if where := info.Place[:]; strings.Join(where, "") != "" || info.Index < 0 {
		name = "gpu-" + odd.ReplaceAllString(cmp.Or(strings.TrimPrefix(info.UUID, "GPU-"), finding.Joined("-", append(slices.Clone(where), info.IndexLabel())...)), "-")
	}
	if m.Instance.OK {
		name += fmt.Sprintf("-mig-%d", m.Instance.V)
	}
	if m.IsLimit() {
		name += fmt.Sprintf("-limit-%s-%08x", odd.ReplaceAllString(path.Base(m.Of), "-"), crc32.ChecksumIEEE([]byte(m.Of))) // many groups are called main
	}
	return name
}

// odd is what an identifier and a path may not have.
var odd = regexp.MustCompile(`[^\w.-]`)

func processOf(labels map[string]string, p *sampler.ProcessState) verdicts.Process {
	who := finding.Of(p.Owner)
	NameProcess(labels, p.Instance, p.ID, &who)
	j := verdicts.Process{Labels: labels, User: who.User, Start: p.ID.Start, Used: Known(p.Used), Share: p.Share.Finite(), Verdict: VerdictOf(&p.Verdict)}
	if grows := p.Grows.String(); grows != "" {
		j.Grows = &grows
	}
	return j
}

// NameProcess adds the labels of a process, which are those of its series.
func NameProcess(labels map[string]string, instance gpu.Opt[uint32], id gpu.ProcessID, who *finding.Who) {
	labels["gpu_instance"], labels["pid"] = sampler.InstanceID(instance), strconv.FormatUint(uint64(id.PID), 10)
	labels["process"], labels["namespace"], labels["pod"] = who.Process, who.Namespace, who.Pod
	labels["container"], labels["slurm_job"] = who.Container, who.SlurmJob
}

// MemoryOf returns what a memory holds.
func MemoryOf(m gpu.Memory) verdicts.Memory {
	return verdicts.Memory{Total: Known(m.Total), Used: Known(m.Used), Free: Known(m.Free), Reserved: Known(m.Reserved)}
}

func domainOf(m *sampler.Domain, now time.Time) verdicts.Domain {
	j := &m.Judgement
	if j.T == 0 { // no frame yet
		return verdicts.Domain{}
	}
	d := verdicts.Domain{
		Attributed: j.Attributed, Headroom: j.Headroom.Finite(), Rate: j.Rate.Finite(), Page: j.Page, Verdict: VerdictOf(&j.Device),
	}
	d.Verdict.Text, d.Text = m.Verdict(now)
	if by := j.Evidence.String(); by != "" {
		d.Evidence = &by
	}
	return d
}

// VerdictOf returns the verdict on one memory series.
func VerdictOf(v *detector.Verdict) *verdicts.Verdict {
	j := &verdicts.Verdict{
		Judged: v.Judged, Muted: v.Muted, Text: finding.Word(v), OOM: "unknown", Trough: v.Trough.Finite(), Spikes: v.SpikesTotal, Windows: []verdicts.Window{},
	}
	for i := range v.Windows {
		if f := &v.Windows[i]; f.Span > 0 {
			j.Windows = append(j.Windows, verdicts.Window{
				Window: cli.FormatDuration(f.Span), Slope: f.Slope.Finite(), R2: f.R2.Finite(), Spikes: f.Spikes.Finite(), Fill: f.Fill,
			})
		}
	}
	switch {
	case !v.SecondsToOOM.OK:
	case v.SecondsToOOM.Finite() == nil:
		j.OOM = "never"
	default:
		j.OOM, j.Seconds, j.Lower, j.Upper = "foreseen", v.SecondsToOOM.Finite(), v.Lower.Finite(), v.Upper.Finite()
	}
	if !v.Judged {
		return j
	}
	if why := v.Withheld.String(); why != "" {
		j.Withheld, j.WithheldS = &why, detector.WithheldSeconds(v.WithheldFor).Finite()
	}
	j.Leak, j.Confidence, j.Pattern = v.Leak, detector.Of(v.Confidence).Finite(), v.Pattern.String()
	j.Shape = finding.Patterns[v.Pattern]
	if v.Leak {
		j.Rate, j.Leaked, j.Since = v.Rate.Finite(), v.Leaked.Finite(), MomentOf(SteadyTime(v.Since))
	}
	return j
}

// SitesOf returns the lines of code that were found. No list is null.
func SitesOf(list []allocator.Site) []verdicts.Site {
	sites := []verdicts.Site{}
	for _, s := range list {
		sites = append(sites, verdicts.Site{Line: s.Line, Growth: s.Growth, Live: s.Live, Blocks: s.Blocks, UUID: s.UUID, Frames: append([]string{}, s.Frames...)})
	}
	return sites
}

// SteadyTime returns a moment on the clock of detector.Frame.T as a time.
func SteadyTime(t time.Duration) time.Time { return time.Unix(0, int64(t)) }

// MomentOf returns a time in UTC, nil for the zero one.
func MomentOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Known returns a pointer to a value, nil if it is absent.
func Known[T any](o gpu.Opt[T]) *T {
	if !o.OK {
		return nil
	}
	return &o.V
}
