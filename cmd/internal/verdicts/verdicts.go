// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package verdicts is what /api/v1/verdicts answers: what the detector says of GPUs and those who
// use them, for the exporter that writes it and the tool that reads it.
package verdicts

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Handler answers with what the detector says of every GPU, GPU instance,
// process and workload:
//
//	{"status":"success","data":{"time":…,"driver":{"up":true,"reason":""},"devices":[{
//	  "labels":{"gpu":"0","uuid":"GPU-…"},"name":…,"up":true,"sample_time":…,"memory":{…},"verdict":{…},
//	  "instances":[…],"processes":[…],"workloads":[…],"unreleased":[…]}]}}
//
// labels are those of the series of the same subject. Lists are in the order of
// State and never null, so one State always gives the same text. A number that is
// not known is null, and so is the verdict of what has not been seen by the
// detector. A verdict that is muted is never judged: a rule of --detector.config
// says so. unreleased is memory that stayed after its process had ended, with the
// labels that the process had.
//
// JSON has no infinity. oom says how to read seconds_to_oom, which the metrics
// would show as +Inf where oom is never:
//
//	unknown   muted, not judged yet, or no capacity is known: seconds_to_oom is null
//	never     judged, and no leak contributes to it: seconds_to_oom is null
//	foreseen  seconds_to_oom is a number, seconds_to_oom_lower and _upper its 90 %
//	          interval; an end of it that is null is open
//
// seconds_to_full is null where the memory does not grow; its upper end is null where
// the growth may end before. withheld is the reason for which growth is not called a
// leak yet, and null where nothing is suspected.
func Handler(state func() *collector.State) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		// The types below hold nothing that cannot be encoded, so an error is one of
		// the connection.
		_ = json.NewEncoder(w).Encode(Envelope{Status: "success", Data: Of(state())})
	})
}

type (
	// Envelope is the whole answer.
	Envelope struct {
		Status string `json:"status"`
		Data   Data   `json:"data"`
	}
	// Data has every GPU, ordered by index. Numbers are nil where nothing is known.
	Data struct {
		Time    time.Time `json:"time"`
		Driver  Driver    `json:"driver"`
		Devices []Device  `json:"devices"`
	}
	// Driver says whether the driver answers, and why not.
	Driver struct {
		Up     bool   `json:"up"`
		Reason string `json:"reason"`
	}
	// Device is a GPU. Where it is not Up the rest is empty.
	Device struct {
		Labels       map[string]string `json:"labels"`
		Name         string            `json:"name"`
		Up           bool              `json:"up"`
		SampleTime   *time.Time        `json:"sample_time"`
		Memory       Memory            `json:"memory"`
		Unattributed *uint64           `json:"unattributed_bytes"`
		Domain
		Instances  []Instance   `json:"instances"`
		Processes  []Process    `json:"processes"`
		Workloads  []Workload   `json:"workloads"`
		Unreleased []Unreleased `json:"unreleased"`
	}
	// Memory is in bytes.
	Memory struct {
		Total    *uint64 `json:"total_bytes"`
		Used     *uint64 `json:"used_bytes"`
		Free     *uint64 `json:"free_bytes"`
		Reserved *uint64 `json:"reserved_bytes"`
	}
	// Domain is what a GPU and a GPU instance have in common.
	Domain struct {
		Attributed bool     `json:"attributed"`
		Headroom   *float64 `json:"oom_headroom_bytes"`
		Verdict    *Verdict `json:"verdict"`
	}
	// Instance is a GPU instance of a GPU in MIG mode.
	Instance struct {
		Labels map[string]string `json:"labels"`
		Memory Memory            `json:"memory"`
		Domain
	}
	// Process is one that has series of its own.
	Process struct {
		Labels  map[string]string `json:"labels"`
		User    string            `json:"user"`
		Used    *uint64           `json:"memory_used_bytes"`
		Share   *float64          `json:"leak_share_ratio"`
		Grows   *string           `json:"grows"`
		Verdict *Verdict          `json:"verdict"`
	}
	// Workload is a pod or job of several processes.
	Workload struct {
		Labels  map[string]string `json:"labels"`
		Used    uint64            `json:"memory_used_bytes"`
		Verdict *Verdict          `json:"verdict"`
	}
	// Unreleased is memory that stayed after its process had ended.
	Unreleased struct {
		Labels map[string]string `json:"labels"`
		User   string            `json:"user"`
		Used   uint64            `json:"memory_used_bytes"`
		Ended  *time.Time        `json:"ended"`
	}
	// Verdict is what the detector says of one memory series.
	Verdict struct {
		Judged     bool       `json:"judged"`
		Muted      bool       `json:"muted"`
		Leak       bool       `json:"leak"`
		Confidence *float64   `json:"confidence"`
		Pattern    string     `json:"pattern"`
		Rate       *float64   `json:"leak_rate_bytes_per_second"`
		Leaked     *float64   `json:"leaked_bytes"`
		Since      *time.Time `json:"leak_start"`
		OOM        string     `json:"oom"`
		Seconds    *float64   `json:"seconds_to_oom"`
		Lower      *float64   `json:"seconds_to_oom_lower"`
		Upper      *float64   `json:"seconds_to_oom_upper"`
		Full       *float64   `json:"seconds_to_full"`
		FullLower  *float64   `json:"seconds_to_full_lower"`
		FullUpper  *float64   `json:"seconds_to_full_upper"`
		Withheld   *string    `json:"withheld"`
		WithheldS  *float64   `json:"withheld_seconds"`
		Trough     *float64   `json:"memory_trough_bytes"`
		Spikes     uint64     `json:"spikes_total"`
		Windows    []Window   `json:"windows"`
	}
	// Window has the plain statistics of a window.
	Window struct {
		Window string   `json:"window"`
		Slope  *float64 `json:"slope_bytes_per_second"`
		R2     *float64 `json:"r2"`
		Spikes *float64 `json:"spike_count"`
		Fill   float64  `json:"fill_ratio"`
	}
)

// Of returns what a state says.
func Of(s *collector.State) Data {
	data := Data{
		Time:    s.Time.UTC(),
		Driver:  Driver{Up: s.DriverReason == "", Reason: s.DriverReason},
		Devices: []Device{},
	}
	for _, d := range s.Devices {
		data.Devices = append(data.Devices, deviceOf(d))
	}
	return data
}

func deviceOf(d *collector.DeviceState) Device {
	device := func() map[string]string {
		return map[string]string{"gpu": strconv.Itoa(d.Info.Index), "uuid": d.Info.UUID}
	}
	j := Device{
		Labels: device(), Name: d.Info.Name, Up: d.Up, SampleTime: MomentOf(d.SampleTime),
		Instances: []Instance{}, Processes: []Process{}, Workloads: []Workload{}, Unreleased: []Unreleased{},
	}
	if !d.Up {
		return j // nothing else means anything
	}
	j.Memory, j.Unattributed = memoryOf(d.Memory), known(d.Unattributed)
	j.Domain = domainOf(&d.Judgement)
	for i := range d.Instances {
		in := &d.Instances[i]
		labels := device()
		labels["gpu_instance"], labels["profile"] = strconv.FormatUint(uint64(in.ID), 10), in.Profile
		j.Instances = append(j.Instances, Instance{labels, memoryOf(in.Memory), domainOf(&in.Judgement)})
	}
	for i := range d.Processes {
		p := &d.Processes[i]
		j.Processes = append(j.Processes, processOf(device(), p))
	}
	for i := range d.Workloads {
		w := &d.Workloads[i]
		labels := device()
		labels["gpu_instance"] = instanceName(w.Instance)
		labels["namespace"], labels["pod"], labels["slurm_job"] = w.Namespace, w.Pod, w.SlurmJob
		j.Workloads = append(j.Workloads, Workload{labels, w.Used, verdictOf(&w.Verdict)})
	}
	for i := range d.Unreleased {
		u := &d.Unreleased[i]
		labels, o := device(), OwnerOf(u.Owner)
		NameProcess(labels, u.Instance, u.ID, o)
		j.Unreleased = append(j.Unreleased, Unreleased{labels, o.User, u.Used, MomentOf(SteadyTime(u.Since))})
	}
	return j
}

func processOf(labels map[string]string, p *collector.ProcessState) Process {
	o := OwnerOf(p.Owner)
	NameProcess(labels, p.Instance, p.ID, o)
	j := Process{labels, o.User, known(p.Used), finite(p.Share), nil, verdictOf(&p.Verdict)}
	if grows := p.Grows.String(); grows != "" {
		j.Grows = &grows
	}
	return j
}

// NameProcess adds the labels of a process, which are those of its series.
func NameProcess(labels map[string]string, instance gpu.Opt[uint32], id gpu.ProcessID, o *gpu.Owner) {
	labels["gpu_instance"], labels["pid"] = instanceName(instance), strconv.FormatUint(uint64(id.PID), 10)
	labels["process"], labels["namespace"], labels["pod"] = o.Process, o.Namespace, o.Pod
	labels["container"], labels["slurm_job"] = o.Container, o.SlurmJob
}

// OwnerOf returns the owner of a process, an empty one for nil. It is not to be changed.
func OwnerOf(o *gpu.Owner) *gpu.Owner {
	if o == nil {
		return &gpu.Owner{}
	}
	return o
}

func instanceName(id gpu.Opt[uint32]) string {
	if !id.OK {
		return ""
	}
	return strconv.FormatUint(uint64(id.V), 10)
}

func memoryOf(m gpu.Memory) Memory {
	return Memory{known(m.Total), known(m.Used), known(m.Free), known(m.Reserved)}
}

func domainOf(j *detector.Judgement[gpu.ProcessID]) Domain {
	if j.T == 0 { // no frame yet
		return Domain{}
	}
	return Domain{j.Attributed, finite(j.Headroom), verdictOf(&j.Device)}
}

func verdictOf(v *detector.Verdict) *Verdict {
	j := &Verdict{
		Judged: v.Judged, Muted: v.Muted, OOM: "unknown", Trough: finite(v.Trough), Spikes: v.SpikesTotal, Windows: []Window{},
		Full: finite(v.SecondsToFull), FullLower: finite(v.FullLower), FullUpper: finite(v.FullUpper),
	}
	for i := range v.Windows {
		if f := &v.Windows[i]; f.Span > 0 {
			j.Windows = append(j.Windows, Window{humanize.FormatDuration(f.Span), finite(f.Slope), finite(f.R2), finite(f.Spikes), f.Fill})
		}
	}
	if !v.Judged {
		return j
	}
	if why := v.Withheld.String(); why != "" {
		j.Withheld, j.WithheldS = &why, finite(detector.Of(v.WithheldFor.Seconds()))
	}
	j.Leak, j.Confidence, j.Pattern = v.Leak, finite(detector.Of(v.Confidence)), v.Pattern.String()
	if v.Leak {
		j.Rate, j.Leaked, j.Since = finite(v.Rate), finite(v.Leaked), MomentOf(SteadyTime(v.Since))
	}
	switch {
	case !v.SecondsToOOM.OK:
	case math.IsInf(v.SecondsToOOM.V, 1):
		j.OOM = "never"
	default:
		j.OOM, j.Seconds, j.Lower, j.Upper = "foreseen", finite(v.SecondsToOOM), finite(v.Lower), finite(v.Upper)
	}
	return j
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

func known(o gpu.Opt[uint64]) *uint64 {
	if !o.OK {
		return nil
	}
	return &o.V
}

// finite returns nil for what is absent and for what JSON cannot write.
func finite(v detector.Value) *float64 {
	if !v.OK || math.IsNaN(v.V) || math.IsInf(v.V, 0) {
		return nil
	}
	return &v.V
}
