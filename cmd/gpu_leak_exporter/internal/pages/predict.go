// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/fleet"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/wording"
	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// view is what the template shows, in words.
type view struct {
	Style     template.CSS // of the curves
	Only      bool         // it is of one memory, and all of that is shown
	Note      string
	Headline  string
	Urgent    bool // the headline is bad news
	Detail    string
	Problems  []string
	Notes     []string // what a reader should know of the figures
	Culprit   string   // who brings the bad news, and when it ends
	Leaks     []leakRow
	Undrawn   int // listed leaks that have no curve
	Unlisted  int // leaks that are not listed at all
	Idle      []idleRow
	GPUs      []gpuRow
	More      string // what of these lists is left out of the page; "" is nothing
	Window    string // over which GPUs has slopes, unless a row says another one
	Refreshed string
}

// leakRow is one process, or what no process accounts for, that leaks.
type leakRow struct {
	GPU, Model   string
	Who, Where   string
	Left, At     string
	Range        string
	Growth, Held string
	Confidence   string
	Pattern      string
	Why          string
	Sites        []siteRow
	Located      string // how the search for these lines goes
	Memory       bar
	ID           string // begins the identifiers of its elements
	Page         string // of its memory
	Runbook      string
	Plot         template.HTML
	order, rate  float64 // seconds left, and bytes per second
	headline     string
	culprit      string
	draw         func() template.HTML
}

// siteRow is a line that allocates what leaks.
type siteRow struct {
	Line, Growth string
	Frames       []string
}

// idleRow is memory that nobody will use again: a process has left it behind, or
// holds it and does nothing.
type idleRow struct {
	GPU, Model string
	Who, Where string
	Held, Why  string
	bytes      float64
}

// gpuRow is one GPU, or one GPU instance of a GPU in MIG mode.
type gpuRow struct {
	ID, Page    string
	GPU, Model  string
	Memory      bar
	Class       string // ok, bad, warn, wait (or muted) or down
	Verdict     string
	Why         string // it is a leak, or is none
	Runbook     string
	Pattern     string
	Confidence  string
	Slope       string
	Spikes      string
	Plot        template.HTML
	Ends        string
	Culprits    []culprit
	Accomplices int // how many more leak
	Suspects    []curveRow
	Largest     []curveRow
	Undrawn     string
	of          *domain // nil of a GPU that cannot be read
}

// bar is used memory as a part of the total. Part is the share of it, in percent
// of the total, that the row is about.
type bar struct {
	Text       string
	Rest, Part float64
	Known      bool
}

// domain is a memory of its own: a GPU, or a GPU instance of one in MIG mode.
type domain struct {
	device    *collector.DeviceState
	name      string
	instance  gpu.Opt[uint32]
	memory    gpu.Memory
	judgement *detector.Judgement[gpu.ProcessID]
	curve     *collector.Curve
}

// domainsOf returns the memories of a GPU. One in MIG mode has only those of its
// instances: the GPU itself cannot run out of memory.
func domainsOf(d *collector.DeviceState) []domain {
	name := gpuName(d)
	if len(d.Instances) == 0 {
		return []domain{{device: d, name: name, memory: d.Memory, judgement: &d.Judgement, curve: d.Curve}}
	}
	var list []domain
	for i := range d.Instances {
		in := &d.Instances[i]
		list = append(list, domain{
			device: d, name: fmt.Sprintf("%s, MIG\u00a0%d (%s)", name, in.ID, in.Profile),
			instance: gpu.Some(in.ID), memory: in.Memory, judgement: &in.Judgement, curve: in.Curve,
		})
	}
	return list
}

// gpuName names a GPU by its index, and one of a fleet also by the first label that tells where it is.
func gpuName(d *collector.DeviceState) string {
	name := "GPU\u00a0" + cmp.Or(d.Info.IndexLabel(), d.Info.UUID)
	for _, place := range d.Info.Place {
		if place != "" {
			return name + " of " + place
		}
	}
	return name
}

// view puts a State into words: that of all memories, or of the only one of that name in every detail.
func (h *predictor) view(s *collector.State, only string) *view {
	v := h.found(s, only)
	v.Style, v.Only = plot.Style, only != ""
	if len(s.Windows) > 0 {
		v.Window = s.Windows[0]
	}
	for _, d := range s.Devices {
		h.describe(v, d, only)
	}
	v.rank()
	h.draw(v)
	v.headline(s)
	v.shorten()
	if v.Only && len(v.Leaks) == 0 && len(v.GPUs) > 0 {
		v.Headline, v.Detail, v.Urgent = v.GPUs[0].GPU+": "+v.GPUs[0].Verdict, v.GPUs[0].Why, v.GPUs[0].Class == "down"
	}
	return v
}

// found puts into words what is not well, the most urgent first: leaks, what is held for nothing, and what
// cannot be read.
func (h *predictor) found(s *collector.State, only string) *view {
	v := &view{Note: h.Note, Refreshed: h.refreshed(s)}
	if s.DriverReason != "" {
		v.Problems = append(v.Problems, driverProblem(s.DriverReason))
	}
	for _, d := range s.Devices {
		if !d.Up {
			if only == "" || only == nameOf(&domain{device: d}, nil) {
				v.Problems = append(v.Problems, h.lost(s, d))
			}
			continue
		}
		for _, m := range domainsOf(d) {
			if only != "" && only != nameOf(&m, nil) {
				continue
			}
			if !m.memory.Used.OK {
				v.Problems = append(v.Problems, blind(s, &m))
			}
			v.Leaks = append(v.Leaks, h.leaksOf(m)...)
			v.Idle = append(v.Idle, h.idleOf(m)...)
		}
	}
	slices.SortStableFunc(v.Leaks, func(a, b leakRow) int {
		return cmp.Or(cmp.Compare(a.order, b.order), -cmp.Compare(a.rate, b.rate))
	})
	return v
}

// describe adds a GPU, its memories, and what a reader should know of its figures.
func (h *predictor) describe(v *view, d *collector.DeviceState, only string) {
	whole := only == "" || only == nameOf(&domain{device: d}, nil)
	switch {
	case !d.Up && whole:
		v.GPUs = append(v.GPUs, gpuRow{GPU: gpuName(d), Model: d.Info.Name, Class: "down", Verdict: wording.Unreadable})
	case d.Up && whole && d.Info.UnifiedMemory:
		v.Notes = append(v.Notes, gpuName(d)+" has no memory of its own. What is shown is the memory of the host, and all its programs use it.")
	}
	if !d.Up {
		return
	}
	for _, m := range domainsOf(d) {
		if only == "" || only == nameOf(&m, nil) {
			v.GPUs = append(v.GPUs, h.gpuRow(m, v.Window))
		}
	}
}

// draw draws the leaks, the most urgent first, then the memories, then other processes, as far as
// there is room.
func (h *predictor) draw(v *view) {
	left := room{mostMemories, mostProcesses, map[string]bool{}}
	if more := len(v.Leaks) - mostLeaks; more > 0 {
		v.Leaks, v.Unlisted = v.Leaks[:mostLeaks], more
	}
	for i := range v.Leaks {
		row := &v.Leaks[i]
		left.listed[row.ID] = true
		if left.processes > 0 {
			row.Plot = row.draw()
		}
		if row.Plot == "" {
			v.Undrawn++
		} else {
			left.processes--
		}
	}
	for i := range v.GPUs {
		row := &v.GPUs[i]
		m := row.of
		if m == nil {
			continue
		}
		if left.memories > 0 {
			left.memories--
			height := memoryHeight
			if v.Only {
				height = leakHeight
			}
			row.Plot = h.memoryCurve(m, row.ID+"-curve", height)
		}
		row.Ends = h.endWords(m)
		row.Culprits, row.Accomplices = culpritsOn(m, left.listed)
		h.others(m, row, &left, v.Only)
	}
}

// Bounds of the lists of the page: a fleet has thousands of GPUs.
const (
	maxRows     = 256
	maxProblems = 32
)

// urgency orders the classes of GPUs: those that a long list keeps come first.
var urgency = []string{"bad", "down", "warn", "wait", "ok"}

// rank brings the most urgent GPUs to the front of a list that is too long, so that they are drawn and stay.
func (v *view) rank() {
	if len(v.GPUs) > maxRows {
		slices.SortStableFunc(v.GPUs, func(a, b gpuRow) int {
			return cmp.Compare(slices.Index(urgency, a.Class), slices.Index(urgency, b.Class))
		})
	}
}

// shorten cuts lists that are too long, and says so. Of leaks the page says it itself.
func (v *view) shorten() {
	var left []string
	cut := func(n, most int, what string) int {
		if n > most {
			left = append(left, plural(n-most, "more "+what))
		}
		return min(n, most)
	}
	v.Problems = v.Problems[:cut(len(v.Problems), maxProblems, "problem")]
	v.Idle = v.Idle[:cut(len(v.Idle), maxRows, "idle holder")]
	v.GPUs = v.GPUs[:cut(len(v.GPUs), maxRows, "GPU")]
	if len(left) > 0 {
		v.More = "Not on this page: " + strings.Join(left, ", ") + ". The metrics and the JSON have all."
	}
}

// refreshed says when the page was made, and the time of the GPUs if their clock
// is another one.
func (h *predictor) refreshed(s *collector.State) string {
	const format = "2006-01-02 15:04:05 MST"
	text := s.Time.In(h.Location).Format(format)
	var latest time.Time
	for _, d := range s.Devices {
		if d.SampleTime.After(latest) {
			latest = d.SampleTime
		}
	}
	if h.Note != "" && !latest.IsZero() {
		text += ", when the clock of these GPUs showed " + latest.In(h.Location).Format(format)
	}
	return text
}

// headline sums the page up in one sentence.
func (v *view) headline(s *collector.State) {
	up, waiting, muted, watched := overview(s)
	switch {
	case len(v.Leaks) > 0:
		v.Urgent = true
		v.Headline, v.Culprit = v.Leaks[0].headline, v.Leaks[0].culprit
		n := len(v.Leaks) + v.Unlisted
		v.Detail = plural(n, "leak") + " on " + plural(up, "GPU") + "."
		if v.Only {
			v.Detail = plural(n, "leak") + " on " + v.GPUs[0].GPU + "."
			break
		}
		if n > 1 {
			v.Detail = plural(n, "leak") + " on " + plural(up, "GPU") + ", the most urgent first."
		}
	case s.DriverReason == collector.ReasonStarting:
		v.Headline, v.Detail = "Waiting for the driver", "This takes a few seconds."
	case s.DriverReason == "" && len(s.Devices) == 0 && s.Awaited > 0:
		v.Headline, v.Detail = "Waiting for "+plural(s.Awaited, "GPU"), "This takes a few seconds."
	case up == 0 && s.DriverReason != "":
		v.Headline, v.Detail = "No GPU can be seen", "GPUs are picked up as soon as the driver answers."
	case up == 0 && len(s.Devices) > 0:
		v.Headline, v.Detail = "No GPU can be read", "GPUs are picked up as soon as they answer."
	case up == 0:
		v.Headline, v.Detail = "No GPU found", "The driver answers, but lists no GPU."
	case muted == up:
		v.Headline, v.Detail = plural(up, "muted GPU"), "The rules of --detector.config say that nothing here is to be judged."
	case waiting == up && watched == 0 && blindGPUs(s) == up:
		v.Headline, v.Detail = "No GPU can be judged", "The driver does not tell how much memory is used."
	case waiting+muted == up:
		v.Headline = "Watching " + plural(waiting, "GPU")
		v.Detail = "No judgement yet: watched for " + solid(humanize.Duration(watched)) + " so far."
	default:
		v.Headline = "No leak found on " + plural(up-waiting-muted, "GPU")
		v.Detail = "The longest window holds " + solid(humanize.Duration(watched)) + "."
		if waiting > 0 {
			v.Detail += " " + plural(waiting, "more GPU") + " not judged yet."
		}
	}
	v.others(len(s.Devices)-up, muted, up)
}

// others adds what the headline does not count: GPUs that are muted or down, and memory that is held for nothing.
func (v *view) others(down, muted, up int) {
	if muted > 0 && muted < up {
		v.Detail += " " + plural(muted, "more GPU") + " muted."
	}
	if bytes := idleBytes(v.Idle); bytes > 0 {
		v.Detail += " " + solid(humanize.Bytes(bytes)) + " are held that nobody will use again."
	}
	if down > 0 && up > 0 {
		v.Detail += " " + plural(down, "more GPU") + " cannot be read."
	}
}

func idleBytes(rows []idleRow) (sum float64) {
	for _, r := range rows {
		sum += r.bytes
	}
	return sum
}

// overview counts the GPUs that can be read, those of them of which no memory was
// judged yet and those whose memories are all muted, and says how far the fullest
// window looks back.
func overview(s *collector.State) (up, waiting, muted int, watched time.Duration) {
	for _, d := range s.Devices {
		if !d.Up {
			continue
		}
		up++
		judged, silent := false, true
		for _, m := range domainsOf(d) {
			watched = max(watched, watchedFor(m.judgement))
			judged = judged || m.judgement.Device.Judged
			silent = silent && m.judgement.Device.Muted
		}
		switch {
		case silent:
			muted++
		case !judged:
			waiting++
		}
	}
	return up, waiting, muted, watched
}

// blindGPUs counts the GPUs of which nothing tells how much memory is used.
func blindGPUs(s *collector.State) (n int) {
	for _, d := range s.Devices {
		if d.Up && !slices.ContainsFunc(domainsOf(d), func(m domain) bool { return m.memory.Used.OK }) {
			n++
		}
	}
	return n
}

// solid keeps the parts of an amount on one line.
func solid(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// watchedFor returns how far the fullest window looks back.
func watchedFor(j *detector.Judgement[gpu.ProcessID]) (d time.Duration) {
	for _, f := range j.Device.Windows {
		d = max(d, time.Duration(float64(f.Span)*f.Fill))
	}
	return d
}

// lost says of a GPU that cannot be read since when.
func (h *predictor) lost(s *collector.State, d *collector.DeviceState) string {
	text := fmt.Sprintf("%s (%s) cannot be read", strings.ReplaceAll(gpuName(d), "\u00a0", " "), wording.Joined(d.Info.Name, d.Info.UUID))
	if d.SampleTime.IsZero() {
		return text + "."
	}
	text += "; its last sample is of " + h.moment(d.SampleTime, s.Time, "15:04:05 MST")
	if h.Note == "" { // else it is of another clock than the state
		text += ", " + humanize.Duration(max(0, s.Time.Sub(d.SampleTime))) + " ago"
	}
	return text + "."
}

// blind says of a memory that nothing tells how much of it is used, and why as far as that is known.
func blind(s *collector.State, m *domain) string {
	info := m.device.Info
	text := fmt.Sprintf("%s (%s) does not tell how much memory is used, so that it is not judged", m.name, wording.Joined(info.Name, info.UUID))
	var errs []string
	for _, e := range s.Calls.Errors {
		if e.UUID == info.UUID && strings.HasPrefix(e.Call, "nvmlDeviceGetMemoryInfo") && !slices.Contains(errs, e.Error) {
			errs = append(errs, e.Error)
		}
	}
	if len(errs) > 0 {
		text += ": the driver answered " + strings.Join(errs, ", ")
	}
	return text + "."
}

// hints say what to do about the driver's reasons that have a usual cause.
var hints = map[string]string{
	collector.ReasonStarting:   "the exporter has just started",
	"library_not_found":        "libnvidia-ml.so.1 was not found. Install the driver; in a container, NVIDIA_DRIVER_CAPABILITIES must hold utility; --nvml.library-path names the file elsewhere",
	"driver_not_loaded":        "the kernel module is not loaded. Load it with modprobe nvidia, or see dmesg for why it cannot be",
	"no_permission":            "this user may not open /dev/nvidiactl",
	"lib_rm_version_mismatch":  "the driver was updated and its old kernel module is still loaded. Unload it or reboot",
	"call_does_not_return":     "a call into the driver hangs; see dmesg for XID errors",
	"gpu_not_found":            "the driver is loaded but finds no GPU that it can use",
	"driver_does_not_initiate": "see dmesg",
}

func driverProblem(reason string) string {
	if reason == fleet.ReasonDown {
		return "The Prometheus of --source=prometheus: does not answer. The log says why."
	}
	text := "The driver does not answer (" + reason + ")"
	if hint := hints[reason]; hint != "" {
		text += ": " + hint
	}
	return text + "."
}

// leaksOf returns a row for each part of a memory that leaks.
func (h *predictor) leaksOf(m domain) []leakRow {
	var rows []leakRow
	for i := range m.device.Processes {
		p := &m.device.Processes[i]
		if p.Instance != m.instance || !p.Verdict.Judged || !p.Verdict.Leak {
			continue
		}
		row := h.row(m, &p.Verdict)
		row.Who, row.Where = whoIs(p.ID, p.Owner)
		row.ID = nameOf(&m, p)
		row.draw = func() template.HTML { return h.processCurve(&m, p, leakHeight) }
		row.blame(row.Who, row.Where)
		row.Where = wording.Joined(row.Where, growsInside[p.Grows])
		if p.Used.OK {
			row.Held, row.Memory = humanize.Bytes(float64(p.Used.V)), barOf(m.memory, p.Used.V)
		}
		row.Sites, row.Located = h.located(p.Sites, m.device.SampleTime)
		row.Why = joinedBy(" · ", h.called(p.Curve, m.device.SampleTime), row.Why)
		rows = append(rows, row)
	}
	j := m.judgement
	if j.Residual.Judged && j.Residual.Leak {
		row := h.row(m, &j.Residual)
		row.Who, row.Where = "no process", "memory that no process on the GPU accounts for"
		row.blame("what no process accounts for", "")
		rows = append(rows, row)
	}
	if len(rows) == 0 && j.Device.Judged && j.Device.Leak {
		row := h.row(m, &j.Device)
		row.Who, row.Where = "not known", "no single process that is shown leaks, or their memory cannot be told apart"
		row.blame("its memory as a whole", "")
		rows = append(rows, row)
	}
	return rows
}

// blame says when a leak ends, who brings it, and where that runs.
func (r *leakRow) blame(who, where string) {
	r.culprit = who + " grows"
	if r.Growth != "" {
		r.culprit += " by " + strings.TrimPrefix(solid(r.Growth), "+")
	}
	if r.At != "" {
		r.culprit = "Out of memory at " + r.At + ": " + r.culprit
	}
	if where != "" {
		r.culprit += " (" + where + ")"
	}
	r.culprit += "."
}

// called says when a leak was found; "" if that is not known.
func (h *predictor) called(c *collector.Curve, now time.Time) string {
	if c == nil || c.Called == 0 {
		return ""
	}
	t := fromstate.SteadyTime(c.Called)
	return fmt.Sprintf("Found at %s (%s ago)", h.moment(t, now, "15:04"), humanize.Duration(max(0, now.Sub(t))))
}

// shownSites is how many lines a leak shows.
const shownSites = 3

// located says which lines allocate what leaks, or how far the search for them is.
func (h *predictor) located(s *allocator.Sites, now time.Time) (rows []siteRow, text string) {
	if s == nil {
		return nil, ""
	}
	over := humanize.Duration(s.Over)
	switch {
	case s.State == allocator.SitesRefused:
		return nil, "Which lines allocate it is not known: " + s.Reason + "."
	case s.State != allocator.SitesDone:
		return nil, "The process records where it allocates, until " + h.moment(s.Asked.Add(s.Over), now, "15:04") + "."
	case len(s.List) == 0 && s.Unsure > 0:
		return nil, fmt.Sprintf("Lines that may allocate it: %d, none of them sure. What was there before was freed meanwhile, so they may only have taken its place.", s.Unsure)
	case len(s.List) == 0:
		return nil, "No line was seen to allocate what stays in " + over + "."
	}
	for i := range s.List[:min(len(s.List), shownSites)] {
		site := &s.List[i]
		rows = append(rows, siteRow{Line: cmp.Or(site.Line, "not in Python code"), Growth: "+" + humanize.Bytes(float64(site.Growth)), Frames: site.Frames})
	}
	return rows, "Lines that allocate what stays (recorded from " + h.moment(s.Asked, now, "15:04") + " on for " + over + "):"
}

// growsInside says what of a process grows that has a probe.
var growsInside = map[detector.Inside]string{
	detector.InsideTensors:   "its tensors grow",
	detector.InsideUntracked: "its tensors do not grow, a library does",
}

// idleOf returns a row for each process that has left memory behind, and for each
// that will not use its own again.
func (h *predictor) idleOf(m domain) []idleRow {
	var rows []idleRow
	add := func(id gpu.ProcessID, o *gpu.Owner, bytes uint64, why string) {
		row := idleRow{
			GPU: m.name, Model: m.device.Info.Name, bytes: float64(bytes), Held: humanize.Bytes(float64(bytes)), Why: why,
		}
		row.Who, row.Where = whoIs(id, o)
		rows = append(rows, row)
	}
	for i := range m.device.Unreleased {
		u := &m.device.Unreleased[i]
		if u.Instance == m.instance {
			add(u.ID, u.Owner, u.Used, "has ended, and its memory has stayed "+h.since(fromstate.SteadyTime(u.Since), m.device.SampleTime))
		}
	}
	for i := range m.device.Processes {
		p := &m.device.Processes[i]
		if p.Instance != m.instance || !p.Verdict.Judged || p.Verdict.Pattern != detector.PatternZombie {
			continue
		}
		why := "shows no sign of going on"
		if p.Idle.OK {
			why = "has computed nothing " + h.since(m.device.SampleTime.Add(-p.Idle.V), m.device.SampleTime) + ", and shows no sign of going on"
		}
		add(p.ID, p.Owner, p.Used.V, why)
	}
	return rows
}

// since writes a moment, and how long ago it was.
func (h *predictor) since(t, now time.Time) string {
	return fmt.Sprintf("since %s (%s)", h.moment(t, now, "15:04"), humanize.Duration(max(0, now.Sub(t))))
}

// whoIs names a process, and says in which pod or job it runs and whose it is.
func whoIs(id gpu.ProcessID, owner *gpu.Owner) (who, where string) {
	o := fromstate.OwnerOf(owner)
	return wording.Process(o.Process, strconv.FormatUint(uint64(id.PID), 10)), wording.Place(o.Namespace, o.Pod, o.Container, o.SlurmJob, o.User)
}

// row fills what all leaks have in common.
func (h *predictor) row(m domain, v *detector.Verdict) leakRow {
	row := leakRow{
		GPU: m.name, Model: m.device.Info.Name, Left: "not known", order: math.Inf(1),
		Confidence: wording.Percent(v.Confidence), Pattern: wording.Pattern(v.Pattern.String()), Memory: barOf(m.memory, 0),
		Why: h.why(m, v), headline: m.name + " leaks", ID: "leak-" + nameOf(&m, nil), Page: PredictPath + "/" + nameOf(&m, nil), Runbook: headingOf(v),
	}
	row.draw = func() template.HTML { return h.memoryCurve(&m, row.ID+"-curve", leakHeight) }
	if v.Rate.OK {
		row.Growth, row.rate = humanize.Rate(v.Rate.V), v.Rate.V
	}
	if s := v.SecondsToOOM; s.OK && !math.IsInf(s.V, 1) {
		row.order, row.Left = s.V, solid(humanize.Seconds(s.V))
		row.headline = m.name + " runs out of memory in " + row.Left
		if s.V < time.Minute.Seconds() {
			row.headline = m.name + " is about to run out of memory"
		}
		row.At = h.clock(m.device.SampleTime, s.V)
		told := fromstate.VerdictOf(v)
		row.Range = strings.ReplaceAll(solid(wording.Interval(told.Lower, told.Upper)), "\u00a0to\u00a0", " to ")
	}
	return row
}

// clock returns the wall clock s seconds after t; "" where that is a year or more.
func (h *predictor) clock(t time.Time, s float64) string {
	if s > (365 * 24 * time.Hour).Seconds() {
		return ""
	}
	return h.moment(t.Add(time.Duration(s*float64(time.Second))), t, "15:04 MST")
}

// moment writes t in the format, with the date if that is not the one of now.
func (h *predictor) moment(t, now time.Time, format string) string {
	t, now = t.In(h.Location), now.In(h.Location)
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		format = "Mon 2 Jan " + format
	}
	return t.Format(format)
}

// joinedBy writes those of the parts that are known.
func joinedBy(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// why says what the judgement rests on.
func (h *predictor) why(m domain, v *detector.Verdict) string {
	var parts []string
	if v.Leaked.OK && v.Leaked.V > 0 {
		parts = append(parts, "Kept "+humanize.Bytes(v.Leaked.V)+" "+h.since(fromstate.SteadyTime(v.Since), m.device.SampleTime))
	}
	for i := range v.Windows {
		if f := &v.Windows[i]; f.Slope.OK && f.R2.OK {
			parts = append(parts, fmt.Sprintf("slope over %s: %s, R² %.2f", humanize.FormatDuration(f.Span), humanize.Rate(f.Slope.V), f.R2.V))
		}
	}
	return strings.Join(parts, " · ")
}

// barOf returns the bar of a memory, of which part bytes are the row's.
func barOf(m gpu.Memory, part uint64) bar {
	total, text := m.Capacity(), wording.Memory(fromstate.MemoryOf(m))
	if !total.OK || !m.Used.OK || total.V == 0 {
		return bar{Text: text}
	}
	share := func(v uint64) float64 { return 100 * float64(min(v, total.V)) / float64(total.V) }
	part = min(part, m.Used.V)
	return bar{Text: text, Known: true, Part: share(part), Rest: share(m.Used.V - part)}
}

func (h *predictor) gpuRow(m domain, window string) gpuRow {
	v := &m.judgement.Device
	row := gpuRow{ID: nameOf(&m, nil), Page: PredictPath + "/" + nameOf(&m, nil), GPU: m.name, Memory: barOf(m.memory, 0), Why: h.because(&m), Runbook: headingOf(v), of: &m}
	row.Model = wording.Joined(m.device.Info.Name, processesOf(m))
	if f := &v.Windows[0]; f.Slope.OK {
		row.Slope = humanize.Rate(f.Slope.V)
		if name := humanize.FormatDuration(f.Span); name != window {
			row.Slope += " over " + name
		}
	}
	if n := v.Windows[0].Spikes; n.OK {
		row.Spikes = strconv.FormatFloat(n.V, 'f', 0, 64)
	}
	row.Verdict, row.Class = wording.Verdict(fromstate.VerdictOf(v), h.ClearThreshold), h.classOf(v)
	if v.Judged && !v.Muted {
		row.Pattern, row.Confidence = wording.Pattern(v.Pattern.String()), wording.Percent(v.Confidence)
	}
	return row
}

// classOf returns how urgent a verdict is.
func (h *predictor) classOf(v *detector.Verdict) string {
	switch {
	case v.Muted || !v.Judged:
		return "wait"
	case v.Leak:
		return "bad"
	case v.Confidence >= h.ClearThreshold:
		return "warn"
	case v.Withheld != detector.WithheldNone:
		return "wait"
	}
	return "ok"
}

// earlierOf returns what earlier lives say of the process whose growth is that of a memory. It says
// nothing where that is of no process that is shown.
func earlierOf(m domain) *detector.Earlier {
	v := &m.judgement.Device
	for i := range m.device.Processes {
		p := &m.device.Processes[i]
		if p.Instance == m.instance && p.Verdict.Withheld == v.Withheld && p.Verdict.WithheldFor == v.WithheldFor && p.Verdict.Lasted == v.Lasted {
			return &p.Earlier
		}
	}
	return &detector.Earlier{}
}

// processesOf says how many processes are on a memory.
func processesOf(m domain) string {
	n, muted := countOf(&m), 0
	for i := range m.device.Processes {
		if p := &m.device.Processes[i]; p.Instance == m.instance && p.Verdict.Muted {
			muted++
		}
	}
	text := processes(n)
	if muted > 0 {
		text += fmt.Sprintf(" (%d muted)", muted)
	}
	return text
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

// countOf returns how many processes are on a memory; on a GPU instance, how many are shown.
func countOf(m *domain) (n int) {
	if !m.instance.OK {
		n = m.device.ProcessCount - len(m.device.Processes) // those that are not shown
	}
	for i := range m.device.Processes {
		if m.device.Processes[i].Instance == m.instance {
			n++
		}
	}
	return n
}
