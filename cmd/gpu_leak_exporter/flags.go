// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/promslog"
	promslogflag "github.com/prometheus/common/promslog/flag"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpu_leak_exporter/internal/pages"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/detectorconfig"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/source"
	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sim"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const program = "gpu_leak_exporter"

// Bounds of flags that no package below has an opinion on.
const (
	minInterval     = 100 * time.Millisecond
	maxInterval     = time.Minute
	maxSlowInterval = time.Hour
	maxShown        = 1024 // processes of a GPU that are judged
	maxProcessAge   = time.Hour
	maxTimeout      = 10 * time.Minute
)

// errNoStart says that the command line asked for something else than to start,
// such as the help, and got it.
var errNoStart = errors.New("nothing to start")

// config is what the command line says.
type config struct {
	listen          *web.FlagConfig
	telemetryPath   string
	maxRequests     int
	exporterMetrics bool
	log             promslog.Config
	source          source.Config
	families        map[string]bool
	processMax      int
	processMinAge   time.Duration
	processDetail   collector.Detail
	workload        source.OwnersConfig
	detector        detector.Config
	rulesFile       string
	rules           *detectorconfig.Config
	lifecycle       bool
	stateFile       string
	stateInterval   time.Duration
	incidentDir     string
	sites           bool
}

// ofFleet reports whether the GPUs are those of a Prometheus, and not of this host.
func (c *config) ofFleet() bool { return c.source.Kind == source.Prometheus }

// groups returns the parts of the slow reading that an enabled family shows.
func (c *config) groups() []gpu.Group {
	if c.ofFleet() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(gpu.Groups), func(g gpu.Group) bool { return !c.families[string(g)] })
}

// minWindow returns the shortest window that holds enough samples; 0 where the
// interval is that of a recording.
func (c *config) minWindow() time.Duration {
	if c.source.Kind == source.Replay {
		return 0
	}
	return detectorconfig.SamplesPerWindow * c.source.Interval
}

// loadRules reads the rules of the detector; without a file there are none.
func (c *config) loadRules() (*detectorconfig.Config, error) {
	if c.rulesFile == "" {
		return detectorconfig.New(c.detector), nil
	}
	return detectorconfig.Load(c.rulesFile, detectorconfig.Options{Base: c.detector, MinWindow: c.minWindow(), Places: c.source.Fleet.Labels})
}

// parser reads a command line into a config.
type parser struct {
	app     *kingpin.Application
	config  *config
	ended   bool // --help or --version was answered
	disable bool
	chosen  map[string]*familyFlag
	speed   bool // --source.speed was given
	noOwn   bool
	fleet   fleetFlags
}

// familyFlag is --[no-]collector.NAME.
type familyFlag struct{ on, given bool }

// parseFlags reads a command line. What --help and --version print goes to
// stdout; then, the error is errNoStart. Any other error is one line that names
// the flag and says what to do.
func parseFlags(args []string, stdout io.Writer) (*config, error) {
	p := &parser{config: &config{}, chosen: map[string]*familyFlag{}}
	p.app = kingpin.New(program, "Detects GPU memory leaks, foretells when a GPU runs out of memory, and exports both to Prometheus.")
	p.app.Version(cli.Version(program))
	p.app.HelpFlag.Short('h')
	p.app.UsageWriter(stdout).ErrorWriter(stdout).Terminate(func(int) { p.ended = true })
	p.webFlags()
	p.logFlags()
	p.sourceFlags()
	p.fleetFlags()
	p.collectorFlags()
	p.detectorFlags()
	p.stateFlags()
	if err := p.checkBooleans(args); err != nil {
		return nil, err
	}
	_, err := p.app.Parse(args)
	switch {
	case p.ended:
		return nil, errNoStart
	case err != nil:
		return nil, cli.Hint(err, program)
	}
	return p.config, p.check()
}

func (p *parser) flag(name, help string, value *cli.Value, defaults ...string) *kingpin.FlagClause {
	f := p.app.Flag(name, help).Default(defaults...)
	f.SetValue(value)
	return f
}

func (p *parser) webFlags() {
	c := p.config
	c.listen = kingpinflag.AddFlags(p.app, ":9844")
	p.flag("web.telemetry-path", "Path under which to expose metrics.",
		cli.Checked("web.telemetry-path", &c.telemetryPath, checkPath), "/metrics")
	p.flag("web.max-requests", "Answers that are made at the same time. A request over the limit waits for eight seconds, then gets status 503. 0 is no limit.",
		cli.Int("web.max-requests", &c.maxRequests, 0, math.MaxInt32), "4")
	p.app.Flag("web.enable-lifecycle", "Let a POST to "+pages.ReloadPath+" read --detector.config again, as SIGHUP does.").BoolVar(&c.lifecycle)
	p.app.Flag("web.disable-exporter-metrics", "Leave out the metrics about the exporter itself (go_*, process_*, promhttp_*).").
		BoolVar(&p.noOwn)
}

func (p *parser) logFlags() {
	c := p.config
	promslogflag.AddFlags(p.app, &c.log)
	// Its own errors do not name the flag.
	p.app.GetFlag(promslogflag.LevelFlagName).SetValue(cli.Checked(promslogflag.LevelFlagName, new(string), c.log.Level.Set))
	p.app.GetFlag(promslogflag.FormatFlagName).SetValue(cli.Checked(promslogflag.FormatFlagName, new(string), c.log.Format.Set))
}

func (p *parser) sourceFlags() {
	c, s := p.config, &p.config.source
	var spec string
	p.flag("source", "Where GPUs come from: nvml, sim:SCENARIO ("+strings.Join(sim.Scenarios(), ", ")+"), replay:FILE (a recording) or prometheus:URL (a fleet).",
		cli.Checked("source", &spec, s.SetSpec), string(source.NVML))
	p.flag("source.speed", "How many seconds of a simulation or a recording pass in a real one. inf: as fast as possible.",
		cli.Float("source.speed", &s.Speed, 1e-3, math.Inf(1)), "1").IsSetByUser(&p.speed)
	p.flag("sample.interval", "Time between two samples of memory and processes. With --source=prometheus:URL the default is 15s.",
		cli.Duration("sample.interval", &s.Interval, minInterval, maxInterval), "1s").IsSetByUser(&p.fleet.interval)
	p.flag("sample.slow-interval", "Time between two samples of everything else.",
		cli.Duration("sample.slow-interval", &c.source.SlowInterval, minInterval, maxSlowInterval), "15s")
	p.app.Flag("nvml.library-path", "File or name of the driver's library. Default: libnvidia-ml.so.1.").
		StringVar(&s.LibraryPath)
	p.flag("nvml.timeout", "How long a call into the driver may take before its GPU counts as down.",
		cli.Duration("nvml.timeout", &s.Timeout, time.Second, maxTimeout), "10s")
	p.app.Flag("path.procfs", "Where the procfs of the host is mounted.").Default("/proc").StringVar(&s.ProcFS)
	p.app.Flag("path.sysfs", "Where the sysfs of the host is mounted.").Default("/sys").StringVar(&s.SysFS)
}

func (p *parser) collectorFlags() {
	c := p.config
	for _, f := range collector.Families() {
		state := "disabled"
		if f.Default {
			state = "enabled"
		}
		chosen := &familyFlag{on: f.Default}
		p.chosen[f.Name] = chosen
		p.app.Flag("collector."+f.Name, "Enable the "+f.Name+" collector (default: "+state+").").
			IsSetByUser(&chosen.given).Default(strconv.FormatBool(f.Default)).BoolVar(&chosen.on)
	}
	p.app.Flag("collector.disable-defaults", "Disable all collectors but those that a flag enables.").BoolVar(&p.disable)
	details := []string{string(collector.DetailAll), string(collector.DetailGrowing)}
	p.flag("collector.process.detail", "Which processes have all of their series: all, or growing (the others keep what alerts need). With --source=prometheus:URL, which GPUs.",
		cli.OneOf("collector.process.detail", (*string)(&c.processDetail), details...),
		details[0]).IsSetByUser(&p.fleet.details)
	p.flag("collector.process.max", "How many processes of a GPU have series of their own. The others are summed.",
		cli.Int("collector.process.max", &c.processMax, 0, maxShown), "64")
	p.flag("collector.process.min-age", "How old a process must be to have series of its own.",
		cli.Duration("collector.process.min-age", &c.processMinAge, 0, maxProcessAge), "10s")
	p.app.Flag("collector.allocator.sites", "Ask a process with a probe which lines allocate what leaks. Shows paths and functions: set authentication first.").
		BoolVar(&c.sites)
	p.app.Flag("collector.process.command", "Show the arguments of processes in gpu_process_info. They may hold secrets.").
		BoolVar(&c.workload.Command)
	p.app.Flag("collector.workload.cri-socket", "Socket of the container runtime. Repeatable. Default: those of containerd, CRI-O, k3s, k0s, MicroK8s and cri-dockerd.").StringsVar(&c.workload.RuntimeSockets)
	p.app.Flag("collector.workload.pod-resources-socket", "Socket of the kubelet's pod-resources API. Default: /var/lib/kubelet/pod-resources/kubelet.sock.").StringVar(&c.workload.PodResourcesSocket)
	p.app.Flag("collector.workload.job-mapping-dir", "Directory in which the batch system names the jobs on each GPU, as for dcgm-exporter.").StringVar(&c.workload.JobMappingDir)
}

func (p *parser) detectorFlags() {
	d := &p.config.detector
	*d = detector.DefaultConfig()
	var windows []string
	for _, w := range d.Windows {
		windows = append(windows, cli.FormatDuration(w))
	}
	d.Windows = nil // each default adds one
	p.flag("detector.window", "Window of slope, R2 and spikes, 1m to 1d. Repeatable, up to 4 times.",
		cli.Windows("detector.window", &d.Windows, detector.MaxWindows, detector.MinWindow, detector.MaxWindow), windows...)
	for _, t := range detectorconfig.Thresholds() {
		p.flag(t.Flag(), t.Help, t.Value(d), t.Default())
	}
	p.app.Flag("detector.config", "File of rules: other thresholds for some series, or none. SIGHUP reads it again.").StringVar(&p.config.rulesFile)
}

func (p *parser) stateFlags() {
	c := p.config
	p.flag("detector.state-file", "File in which the detector's windows outlive a restart. Empty: they do not.",
		cli.Checked("detector.state-file", &c.stateFile, checkSaveFile), "")
	p.flag("detector.state-interval", "How much of the detector's windows a crash may lose.",
		cli.Duration("detector.state-interval", &c.stateInterval, time.Second, time.Hour), "30s")
	p.flag("incident.dir", "Directory in which the last 64 incidents outlive a restart, a JSON file each. Empty: they do not.",
		cli.Checked("incident.dir", &c.incidentDir, func(dir string) error { return checkSaveFile(filepath.Join(dir, "incident.json")) }), "")
}

// checkSaveFile refuses a file that could never be written.
func checkSaveFile(s string) error {
	if s == "" {
		return nil
	}
	info, err := os.Stat(filepath.Dir(s))
	if err != nil {
		return fmt.Errorf("make this directory first, and give it to the user of the exporter: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no directory", filepath.Dir(s))
	}
	if info, err := os.Stat(s); err == nil && !info.Mode().IsRegular() {
		return errors.New("is not a file")
	}
	return nil
}

// checkBooleans finds --collector.x=false, of which kingpin says no more than
// that false is unexpected.
func (p *parser) checkBooleans(args []string) error {
	for _, arg := range args {
		name, value, assigned := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		f := p.app.GetFlag(strings.TrimPrefix(name, "no-"))
		if assigned && strings.HasPrefix(arg, "--") && f != nil && f.Model().IsBoolFlag() {
			name = f.Model().Name
			return fmt.Errorf("--%s takes no value (%q): write --%s or --no-%s", name, value, name, name)
		}
	}
	return nil
}

// check completes the config and holds its settings against each other.
func (p *parser) check() error {
	c := p.config
	c.exporterMetrics = !p.noOwn
	c.families = make(map[string]bool, len(p.chosen))
	for name, f := range p.chosen {
		c.families[name] = f.on && (f.given || !p.disable && (!c.ofFleet() || slices.Contains(fleetFamilies, name)))
	}
	if err := p.checkFleet(); err != nil {
		return err
	}
	d, interval := &c.detector, cli.FormatDuration(c.source.Interval)
	switch least := c.minWindow(); {
	case p.speed && (c.source.Kind == source.NVML || c.ofFleet()):
		return errors.New("--source.speed needs --source=sim:SCENARIO or --source=replay:FILE: others have no speed")
	case c.source.SlowInterval < c.source.Interval:
		return fmt.Errorf("--sample.slow-interval=%s must not be below --sample.interval=%s", cli.FormatDuration(c.source.SlowInterval), interval)
	case d.Windows[0] < least:
		return fmt.Errorf("--detector.window=%s holds fewer than %d samples at --sample.interval=%s: choose %s or more, or sample more often",
			cli.FormatDuration(d.Windows[0]), detectorconfig.SamplesPerWindow, interval, cli.FormatDuration(least))
	case c.sites && !c.families["allocator"]:
		return errors.New("--collector.allocator.sites needs --collector.allocator: it asks the probes that this one reads")
	}
	if err := d.Validate(); err != nil {
		return fmt.Errorf("--detector flags: %w", err)
	}
	var err error
	if c.rules, err = c.loadRules(); err != nil {
		return fmt.Errorf("--detector.config: %w", err)
	}
	if err := web.Validate(*c.listen.WebConfigFile); err != nil {
		return fmt.Errorf("--web.config.file=%s: %w", *c.listen.WebConfigFile, err)
	}
	return nil
}

// plainPath has nothing in it that the patterns of http.ServeMux give a meaning.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9._~/-]+$`)

// checkPath refuses a path for the metrics that is none or is taken.
func checkPath(s string) error {
	if !plainPath.MatchString(s) || path.Clean(s) != s {
		return errors.New("must be a path such as /metrics: a slash, then letters, digits and . _ ~ - /")
	}
	if slices.Contains(ownPaths, s) {
		return fmt.Errorf("is taken: choose another one than %s", strings.Join(ownPaths, ", "))
	}
	return nil
}
