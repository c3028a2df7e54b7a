// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

var detectorFamily = family{name: "detector", enabled: true, metrics: slices.Concat(
	verdictMetrics("gpu_", map[string]string{
		"{memory}": "the used memory of the GPU",
		"{owner}":  "the GPU (its leaking processes and what no process accounts for, together)",
		"{oom}":    "the memory of the GPU is full: gpu_oom_headroom_bytes / gpu_oom_rate_bytes_per_second; +Inf: judged, and nothing foretells an end",
	}, func(d *sampler.DeviceState) *detector.Verdict { return domainVerdict(&d.Judgement) }),
	verdictMetrics("gpu_mig_", map[string]string{
		"{memory}": "the used memory of the GPU instance",
		"{owner}":  "the GPU instance (its leaking processes and what no process accounts for, together)",
		"{oom}":    "the memory of the GPU instance is full: gpu_mig_oom_headroom_bytes / gpu_mig_oom_rate_bytes_per_second; +Inf: judged, and nothing foretells an end",
	}, func(in *sampler.MemoryState) *detector.Verdict { return domainVerdict(&in.Judgement) }),
	verdictMetrics("gpu_process_", map[string]string{
		"{memory}": "the GPU memory of the process",
		"{owner}":  "the process",
		"{oom}":    "the memory of the GPU or GPU instance is full, if this process leaks or brings a tenth of the growth or more; +Inf: judged, and it does not",
	}, func(p *sampler.ProcessState) *detector.Verdict { return &p.Verdict }),
	verdictMetrics("gpu_workload_", map[string]string{
		"{memory}": "the summed GPU memory of the pod or job",
		"{owner}":  "the pod or job",
		"{oom}":    "the memory of the GPU or GPU instance is full, if this pod or job leaks or brings a tenth of the growth or more; +Inf: judged, and it does not",
	}, func(w *sampler.WorkloadState) *detector.Verdict { return &w.Verdict }),
	domainMetrics("gpu_", "GPU", func(d *sampler.DeviceState) *detector.Judgement[gpu.ProcessID] { return &d.Judgement }),
	domainMetrics("gpu_mig_", "GPU instance", func(in *sampler.MemoryState) *detector.Judgement[gpu.ProcessID] { return &in.Judgement }),
	otherMetrics,
	findingMetrics,
	incidentMetrics,
)}

// domainMetrics are the series of a forecast: those of a GPU or of a GPU instance.
func domainMetrics[T subject](prefix, what string, of func(*T) *detector.Judgement[gpu.ProcessID]) []metric {
	return []metric{
		gauge(prefix+"oom_headroom_bytes",
			"What can still be allocated on the "+what+" before the crest of its used memory meets the capacity, in bytes: total - reserved - crest.",
			func(x *T) optional { return value(of(x).Headroom) }),
		gauges(prefix+"oom_evidence",
			"1 for what foretells that the memory will be full: leak, or filling (it grows, leak or not). Absent where nothing does.",
			[]string{"evidence"},
			func(x *T, e *emitter) {
				if j := of(x); j.Evidence != detector.EvidenceNone {
					e.emit(1, j.Evidence.String())
				}
			}),
		gauge(prefix+"oom_rate_bytes_per_second",
			"Growth that "+prefix+"seconds_to_oom rests on, in bytes per second. Absent without "+prefix+"oom_evidence.",
			func(x *T) optional { return value(of(x).Rate) }),
	}
}

// otherMetrics are of one scope alone.
var otherMetrics = []metric{
	gauge("gpu_process_leak_share_ratio",
		"Share (0 to 1) of the process in the leak rate of its GPU or GPU instance. Absent while nothing leaks there.",
		func(p *sampler.ProcessState) optional { return value(p.Share) }),
	gauges("gpu_detector_window_fill_ratio",
		"Share (0 to 1) of the window that holds samples of the GPU. Slope, R2 and spike count of a window are estimates of this part only.",
		[]string{"window"},
		func(d *sampler.DeviceState, e *emitter) {
			if v := domainVerdict(&d.Judgement); v != nil {
				eachWindow(v, e, func(f *detector.Fit) optional { return gpu.Some(f.Fill) })
			}
		}),
	counters("gpu_detector_resets_total",
		"How often the detector threw away the GPU's history, by reason: device_reset, repartition (of MIG), clock_step.",
		[]string{"reason"},
		func(d *sampler.DeviceState, e *emitter) {
			for reason, n := range d.Judgement.Resets {
				e.emit(float64(n), detector.Reason(reason).String())
			}
		}),
	gauge("gpu_detector_attributed",
		"Whether (1 or 0) the GPU is judged through its processes and what none of them accounts for. "+
			"With 0 the list of processes is not complete, so its used memory is judged as one: a job that arrives may look like growth.",
		func(d *sampler.DeviceState) optional {
			return optional{V: oneIf(d.Judgement.Attributed), OK: domainVerdict(&d.Judgement) != nil}
		}),
	gauge("gpu_unreleased_memory_bytes",
		"Memory in bytes that has stayed since this process left the GPU, and that no process accounts for. The labels are those that the process had. "+
			"Present while it stays, for 8 processes of a GPU or GPU instance at most.",
		func(u *sampler.EndState) optional { return gpu.Some(float64(u.Used)) }),
}

// incidentMetrics count what has ended: the exporter's own record of what it foretold.
var incidentMetrics = []metric{
	counters("gpu_incidents_total",
		"Incidents since the exporter started: oom (a process ended while the memory was full), limit (the same at the limit of its container), "+
			"allocator (a probe saw an out-of-memory), gpu_lost, xid (an XID error that ends programs).",
		[]string{"kind"},
		func(s *sampler.State, e *emitter) {
			for kind := range incident.Kinds { // increase() does not see the first one of a series that begins with it
				e.emit(float64(s.Incidents.Counts[incident.Count{Kind: kind}]), string(kind))
			}
		}),
	counters("gpu_incidents_foreseen_total",
		"Incidents of the kinds that growth can foretell, by the most urgent alert that was there before: page, ticket or nothing.",
		[]string{"kind", "by"},
		func(s *sampler.State, e *emitter) {
			for kind, foreseeable := range incident.Kinds {
				for _, by := range [...]string{"page", "ticket", "nothing"} {
					if foreseeable {
						e.emit(float64(s.Incidents.Counts[incident.Count{Kind: kind, By: by}]), string(kind), by)
					}
				}
			}
		}),
}

// domainVerdict returns the verdict on a whole memory, nil before the detector
// has seen a frame of it: its zero would claim that there were no spikes.
func domainVerdict(j *detector.Judgement[gpu.ProcessID]) *detector.Verdict {
	if j.T == 0 {
		return nil
	}
	return &j.Device
}

// verdictRow is a series of the detector that every scope has. The scope puts its
// prefix before the name, and its words into the help.
type verdictRow struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	each       func(v *detector.Verdict, e *emitter)
}

// ofWindows is the row of a series a window.
func ofWindows(name, help string, get func(*detector.Fit) optional) verdictRow {
	return verdictRow{name, help, prometheus.GaugeValue, []string{"window"}, func(v *detector.Verdict, e *emitter) { eachWindow(v, e, get) }}
}

// once is the row of at most one series, which is there when its value means something.
func once(name, help string, when func(*detector.Verdict) bool, get func(*detector.Verdict) optional) verdictRow {
	return verdictRow{name, help, prometheus.GaugeValue, nil, func(v *detector.Verdict, e *emitter) {
		if when(v) {
			e.maybe(get(v))
		}
	}}
}

func always(*detector.Verdict) bool { return true }

func judged(v *detector.Verdict) bool { return v.Judged }

func leaks(v *detector.Verdict) bool { return v.Judged && v.Leak }

var verdictRows = []verdictRow{
	ofWindows("leak_slope_bytes_per_second",
		"Least-squares slope of {memory} over the window, in bytes per second, as deriv() has it. Absent until the window holds enough samples.",
		func(f *detector.Fit) optional { return value(f.Slope) }),
	ofWindows("leak_r2",
		"Coefficient of determination (0 to 1) of {prefix}leak_slope_bytes_per_second: the share of the variance of {memory} that a straight line explains. "+
			"A constant series has 0.",
		func(f *detector.Fit) optional { return value(f.R2) }),
	ofWindows("spike_count",
		"Spikes of {memory}, up and back, that ended inside the window.",
		func(f *detector.Fit) optional { return value(f.Spikes) }),
	{
		"spikes_total", "Spikes of {memory}, up and back, since it has been watched.", prometheus.CounterValue, nil,
		func(v *detector.Verdict, e *emitter) {
			// Memory that was not known this time has no verdict. A 0 would claim that
			// there were no spikes, and count the earlier ones anew afterwards.
			if v.Windows[0].N > 0 {
				e.emit(float64(v.SpikesTotal))
			}
		},
	},
	once("memory_trough_bytes",
		"Lower envelope of {memory} now, in bytes: what is held and is never given back.",
		always, func(v *detector.Verdict) optional { return value(v.Trough) }),
	once("leak_rate_bytes_per_second",
		"Growth of the memory that {owner} never gives back, in bytes per second. Present only while a leak is detected.",
		leaks, func(v *detector.Verdict) optional { return value(v.Rate) }),
	once("leaked_bytes",
		"Memory that {owner} has retained since the leak began, in bytes. Present only while a leak is detected.",
		leaks, func(v *detector.Verdict) optional { return value(v.Leaked) }),
	once("leak_start_timestamp_seconds",
		"When the leak in {memory} began, in seconds since the Unix epoch. Present only while a leak is detected.",
		leaks, func(v *detector.Verdict) optional { return gpu.Some(v.Since.Seconds()) }),
	once("leak_confidence",
		"How sure the detector is that {memory} leaks, 0 to 1. Absent until it has been watched for long enough to be judged.",
		judged, func(v *detector.Verdict) optional { return gpu.Some(v.Confidence) }),
	once("leak_detected",
		"Whether (1 or 0) {memory} leaks. That begins when the confidence reaches --detector.leak-threshold, and ends when it falls below "+
			"half of that, or a quarter of the leak is given back. Absent until judged.",
		judged, func(v *detector.Verdict) optional { return gpu.Some(oneIf(v.Leak)) }),
	once("seconds_to_oom",
		"Seconds until {oom}. Absent where the capacity is not known, and until judged where nothing foretells an end.",
		always, func(v *detector.Verdict) optional { return value(v.SecondsToOOM) }),
	once("seconds_to_oom_lower",
		"Lower end of the 90 % interval of {prefix}seconds_to_oom, in seconds. It is there with it.",
		always, func(v *detector.Verdict) optional { return value(v.Lower) }),
	once("seconds_to_oom_upper",
		"Upper end of the 90 % interval of {prefix}seconds_to_oom, in seconds; +Inf: the growth may end before. It is there with it.",
		always, func(v *detector.Verdict) optional { return value(v.Upper) }),
	{
		"leak_withheld_seconds",
		"Seconds that growth of {memory} must still last before this reason no longer keeps it from being called a leak: min_span (any growth must last), " +
			"program_begin, daily_load, given_back (the height was reached and given back before), slowing (it would end before the memory is full: +Inf). Present only while growth is suspected.",
		prometheus.GaugeValue,
		[]string{"reason"},
		func(v *detector.Verdict, e *emitter) {
			if v.Judged && v.Withheld != detector.WithheldNone {
				e.emit(detector.WithheldSeconds(v.WithheldFor).V, v.Withheld.String())
			}
		},
	},
	{
		"memory_pattern",
		"1 for the pattern that {memory} follows, for 60 seconds at least: stable, idle, warmup, plateau, step, sawtooth, spikes, " +
			"leak_linear, leak_staircase, leak_cyclic, fragmentation, zombie (held, and nobody will use it again) or unreleased " +
			"(held after the end of its process). The others are absent.",
		prometheus.GaugeValue,
		[]string{"pattern"},
		func(v *detector.Verdict, e *emitter) {
			if v.Judged && v.Pattern != detector.PatternUnknown {
				e.emit(1, v.Pattern.String())
			}
		},
	},
}

// eachWindow emits what get says of each window, with its length as the only label.
func eachWindow(v *detector.Verdict, e *emitter, get func(*detector.Fit) optional) {
	for i := range v.Windows {
		if f := &v.Windows[i]; f.Span > 0 {
			e.maybe(get(f), e.windowName(f.Span))
		}
	}
}

// verdictMetrics returns the metrics of one scope, one a row. words replace those in braces in the help. of returns the
// verdict on a subject, nil if there is none.
func verdictMetrics[T subject](prefix string, words map[string]string, of func(*T) *detector.Verdict) []metric {
	metrics := make([]metric, len(verdictRows))
	for i, r := range verdictRows {
		help := strings.ReplaceAll(r.help, "{prefix}", prefix)
		for word, s := range words {
			help = strings.ReplaceAll(help, word, s)
		}
		metrics[i] = gauges(prefix+r.name, help, r.labels, func(x *T, e *emitter) {
			if v := of(x); v != nil {
				r.each(v, e)
			}
		})
		metrics[i].kind = r.kind
	}
	return metrics
}

const findingHelp = " The other labels are those of the culprit, empty where it is not known."

// findingMetrics are the series for alerts. There is nothing of a memory that there is nothing to say of.
var findingMetrics = []metric{
	gauges("gpu_predicted_oom_seconds", "Seconds until the memory is full, and what foretells it: leak or filling. There once a page has lasted for 3 minutes, or a leak that is none for 30."+findingHelp,
		[]string{"evidence"}, func(f *sampler.FindingState, e *emitter) {
			if f.OOMDue {
				e.maybe(value(f.OOM), f.Evidence.String())
			}
		}),
	gauge("gpu_leaking_bytes_per_second", "Growth of the memory that is never given back, in bytes per second, once that has lasted for 30 minutes. process is empty where a pod or job leaks as a whole, and none of its processes does. Absent where nothing leaks."+findingHelp,
		func(f *sampler.FindingState) optional {
			if !f.LeakDue {
				return optional{}
			}
			return value(f.Leaking)
		}),
	gauges("gpu_memory_held_bytes", "Memory in bytes that has been held by nobody for 15 minutes: zombie (its processes live, and do not use it) or unreleased (it stayed after they left)."+findingHelp,
		[]string{"state"}, func(f *sampler.FindingState, e *emitter) {
			e.maybe(value(f.Zombie), "zombie")
			e.maybe(value(f.Unreleased), "unreleased")
		}),
	gauges("gpu_memory_state", "1 while the memory is nearly_full (95 % in use for 10 minutes, without a forecast, and not held on purpose), or in a crash_loop (processes failed three times in an hour while it was full)."+findingHelp,
		[]string{"state"}, func(f *sampler.FindingState, e *emitter) {
			if f.NearlyFull {
				e.emit(1, "nearly_full")
			}
			if f.CrashLoop {
				e.emit(1, "crash_loop")
			}
		}),
}
