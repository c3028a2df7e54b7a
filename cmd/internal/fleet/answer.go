// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"errors"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Bounds of an answer, besides its size.
const (
	// maxInstances bounds the memories of one GPU: its own, and those of its GPU instances. MIG has 7.
	maxInstances = 16
	// maxLabel and maxPodLabel bound labels in bytes: longer ones would be cut where they are exported, and two
	// GPUs might have the same.
	maxLabel    = 128
	maxPodLabel = 253
)

// stream has the new samples of one series.
type stream struct {
	points      []model.SamplePair // later than all that was taken before
	metric      model.Metric
	fingerprint model.Fingerprint
}

func (s *stream) first() time.Duration { return timeOf(s.points[0]) }
func (s *stream) last() time.Duration  { return timeOf(s.points[len(s.points)-1]) }

// rank is 1 for a stream of the series that was taken before, and else 0.
func (s *stream) rank(m *memory) int {
	if s.fingerprint == m.follows {
		return 1
	}
	return 0
}

func timeOf(p model.SamplePair) time.Duration { return time.Duration(p.Timestamp) * time.Millisecond }

// identity is what the labels of a series say of which memory it is.
type identity struct {
	key      string // of the GPU: its UUID or, without one, its place and index
	info     gpu.Info
	instance gpu.Opt[uint32]
	profile  string
}

// errUnidentified says that it is not known of which GPU a series is; errLabel that one of its labels is too long.
var (
	errUnidentified = errors.New("a series has neither the label UUID or uuid, nor gpu and one that tells the place")
	errLabel        = errors.New("a label is too long")
)

// label returns the first of the labels that is there.
func label(m model.Metric, names ...model.LabelName) string {
	for _, name := range names {
		if v := m[name]; v != "" {
			return string(v)
		}
	}
	return ""
}

// identify finds out of which memory a series is.
func (s *Source) identify(m model.Metric) (identity, error) {
	id := identity{info: gpu.Info{
		Index: -1, UUID: uuidOf(m), Name: label(m, "modelName", "name"), PCIBusID: label(m, "pci_bus_id"), DriverVersion: label(m, "DCGM_FI_DRIVER_VERSION"),
	}}
	if n, err := strconv.ParseUint(label(m, "gpu"), 10, 16); err == nil {
		id.info.Index = int(n)
	}
	where := false
	for i, name := range s.cfg.Labels {
		v := label(m, model.LabelName(name), renamed[name])
		id.info.Place[i], where = v, where || v != ""
	}
	s.nameNode(id.info.Place[:])
	for _, v := range slices.Concat(id.info.Place[:], []string{id.info.UUID, id.info.Name, id.info.PCIBusID, id.info.DriverVersion, label(m, "GPU_I_PROFILE")}) {
		if len(v) > maxLabel {
			return id, errLabel
		}
	}
	if id.key = id.info.UUID; id.key == "" {
		if id.info.Index < 0 || !where {
			return id, errUnidentified
		}
		id.key = strings.Join(append(id.info.Place[:], id.info.IndexLabel()), "\x00")
	}
	if text := label(m, "GPU_I_ID"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return id, errUnidentified
		}
		id.instance, id.profile = gpu.Some(uint32(n)), label(m, "GPU_I_PROFILE")
	}
	return id, nil
}

// renamed is what newer versions of DCGM exporter call a label (NVIDIA/dcgm-exporter#655).
var renamed = map[string]model.LabelName{"Hostname": "hostname"}

// nameNode gives a node's name, where a label tells it, to the instance whose name is an IP address. That may be the address
// of a pod, which says nothing to a reader of an alert and goes with the pod.
func (s *Source) nameNode(place []string) {
	at := slices.Index(s.cfg.Labels, "instance")
	if at < 0 {
		return
	}
	if _, err := netip.ParseAddrPort(place[at]); err != nil {
		return
	}
	for _, name := range []string{"hostname", "Hostname", "node"} { // the last that is there
		if i := slices.Index(s.cfg.Labels, name); i >= 0 {
			place[at] = cmp.Or(place[i], place[at])
		}
	}
}

// uuidOf returns the UUID with its prefix, which nvidia_gpu_exporter leaves out.
func uuidOf(m model.Metric) string {
	uuid := label(m, "uuid", "UUID")
	if len(uuid) == len("df6e7a7c-7314-46f8-abc4-b88b36dcf3ef") && uuid[8] == '-' {
		return "GPU-" + uuid
	}
	return uuid
}

// exporterPods are parts of the names of pods that only tell of GPUs: where Prometheus gives them to the
// series of a GPU that nobody has, the GPU is still nobody's.
var exporterPods = []string{"dcgm-exporter", "nvidia-gpu-exporter", "nvidia-smi-exporter"}

// ownerOf returns whom the GPU is allotted to; nil for nobody. Where Prometheus has renamed the labels of DCGM
// exporter, those under the plain name are the ones of its own pod.
func (s *Source) ownerOf(m model.Metric) (*gpu.Owner, error) {
	o := &gpu.Owner{Namespace: label(m, "exported_namespace"), Pod: label(m, "exported_pod"), Container: label(m, "exported_container")}
	if o.Pod != "" {
		s.exported = true
	} else if !s.exported {
		o.Namespace, o.Pod, o.Container = label(m, "namespace", "pod_namespace"), label(m, "pod", "pod_name"), label(m, "container", "container_name")
	}
	switch {
	case o.Pod == "" || slices.ContainsFunc(exporterPods, func(name string) bool { return strings.Contains(o.Pod, name) }):
		return nil, nil //nolint:nilnil // nobody has it, and that is no error
	case len(o.Pod) > maxPodLabel || len(o.Namespace) > maxLabel || len(o.Container) > maxLabel:
		return nil, errLabel
	}
	return o, nil
}

// spread adds an answer to the queues and returns how many samples it had.
func (s *Source) spread(matrix model.Matrix, live bool) (samples int) {
	touched := map[*feed]bool{}
	for _, series := range matrix {
		samples += len(series.Values)
		if err := promapi.CheckTimes(series); err != nil {
			s.note(reasonType, 1, "A series is left out", "err", err)
			continue
		}
		if len(series.Histograms) > 0 {
			s.note(reasonValue, len(series.Histograms), "A series is a histogram, and no amount", "series", promExcerpt(series.Metric))
		}
		m := s.place(series.Metric, live)
		if m == nil {
			continue
		}
		i, _ := slices.BinarySearchFunc(series.Values, m.last, func(p model.SamplePair, t time.Duration) int {
			if timeOf(p) <= t {
				return -1
			}
			return 1
		})
		// A pod that comes back has its series again. The samples between are of another pod.
		for rest := series.Values[i:]; len(rest) > 0; touched[m.feed] = true {
			n := 1
			for n < len(rest) && timeOf(rest[n])-timeOf(rest[n-1]) <= s.cfg.MaxAge {
				n++
			}
			m.streams = append(m.streams, stream{rest[:n], series.Metric, series.Metric.FastFingerprint()})
			rest = rest[n:]
		}
	}
	for f := range touched {
		f.push(s.merge(f, live))
	}
	return samples
}

// place returns the memory that a series is of; nil where it is none of this source's. wanted makes those that are new.
func (s *Source) place(metric model.Metric, wanted bool) *memory {
	id, err := s.identify(metric)
	if err != nil {
		s.note(reasonLabels, 1, "A series is left out", "err", err, "series", promExcerpt(metric))
		return nil
	}
	f := s.feeds[id.key]
	if f == nil {
		if !wanted || !s.cfg.Shard.has(id.key) {
			return nil
		}
		if len(s.feeds) == MaxGPUs {
			s.note(reasonTooMany, 1, "There are too many GPUs, some are left out: use --shard", "most", MaxGPUs)
			return nil
		}
		f = &feed{source: s, key: id.key, wake: make(chan struct{}, 1)}
		s.feeds[id.key] = f
	}
	m := f.memoryOf(id.instance, id.profile, wanted)
	if m == nil && wanted {
		s.note(reasonTooMany, 1, "A GPU has too many GPU instances, some are left out", "series", promExcerpt(metric), "most", maxInstances)
	}
	if m != nil && !m.total.OK && !m.asked {
		m.asked, s.bounded = true, time.Time{} // how much there is has to be asked for
	}
	return m
}

// merge returns the new samples of a GPU, in order.
func (s *Source) merge(f *feed, live bool) (rows []row) {
	for _, m := range f.memories {
		chosen := s.choose(m)
		m.streams = nil
		for i := range chosen {
			rows = s.appendRows(rows, m, &chosen[i])
		}
		if len(chosen) == 0 {
			continue
		}
		last := &chosen[len(chosen)-1]
		m.last = last.last()
		if live && (f.device == nil || m.follows != last.fingerprint) {
			m.follows = last.fingerprint
			s.follow(f, m, last.metric)
		}
	}
	if len(f.memories) > 1 {
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.t, b.t) })
		// The instances of a GPU are scraped together: what comes alone and later is no part of a sample.
		late := 0
		for late < len(rows) && rows[late].t <= f.last {
			late++
		}
		if late > 0 {
			s.note(reasonLate, late, "Samples of GPU instances came after later ones", "gpu", f.key)
			rows = rows[late:]
		}
	}
	for _, m := range f.memories {
		f.last = max(f.last, m.last)
	}
	if live && f.last > s.newest { // the end of a part of the past is not now
		s.newest, s.advanced = f.last, time.Now()
	}
	return rows
}

// choose returns the streams of a memory that follow each other, in order. A GPU has another series once another pod
// has it. Two at a time are one too many: that which was taken before is taken again, and else the newest.
func (s *Source) choose(m *memory) (chosen []stream) {
	slices.SortFunc(m.streams, func(a, b stream) int {
		return cmp.Or(cmp.Compare(b.rank(m), a.rank(m)), cmp.Compare(b.last(), a.last()), cmp.Compare(a.fingerprint, b.fingerprint))
	})
	for _, x := range m.streams {
		// chosen is in order: at is the first that does not end before x.
		at, _ := slices.BinarySearchFunc(chosen, x.first(), func(c stream, t time.Duration) int { return cmp.Compare(c.last(), t) })
		if at < len(chosen) && chosen[at].first() <= x.last() {
			s.note(reasonDuplicate, 1, "Two series are of one GPU at the same time, and one is left out: is it scraped twice?", "series", promExcerpt(x.metric))
			continue
		}
		chosen = slices.Insert(chosen, at, x)
	}
	return chosen
}

// appendRows appends the amounts of a stream. It leaves out impossible values, and counts them.
func (s *Source) appendRows(rows []row, m *memory, from *stream) []row {
	capacity := gpu.Memory{Total: m.total, Reserved: m.reserved}.Capacity()
	rows = slices.Grow(rows, len(from.points))
	for _, p := range from.points {
		v := math.Round(float64(p.Value) * s.unit)
		switch {
		case !(v >= 0 && v <= detector.MaxBytes): // NaN, too
			s.note(reasonValue, 1, "A sample is no used memory, and is left out", "value", float64(p.Value), "series", promExcerpt(from.metric))
		case capacity.OK && v > float64(capacity.V):
			s.note(reasonAbove, 1, "A sample is above the capacity, and is left out", "value", float64(p.Value), "capacity_bytes", capacity.V, "series", promExcerpt(from.metric))
		default:
			rows = append(rows, row{timeOf(p), uint64(v), m})
		}
	}
	return rows
}

// follow takes over what the labels of the newest series of a memory say of its GPU.
func (s *Source) follow(f *feed, m *memory, metric model.Metric) {
	id, err := s.identify(metric)
	owner, ownerErr := s.ownerOf(metric)
	if err = cmp.Or(err, ownerErr); err != nil {
		s.note(reasonLabels, 1, "The pod of a series is left out", "err", err, "series", promExcerpt(metric))
	}
	f.mu.Lock()
	m.owner = owner
	f.mu.Unlock()
	if f.device == nil || f.device.info != id.info {
		f.device, f.place = &device{id.info, f}, strings.Join(id.info.Place[:], "\x00")
		s.changed = true
	}
}

// promExcerpt is the beginning of a series' name.
func promExcerpt(m model.Metric) string { return promapi.Excerpt(m.String()) }
