// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package watch shows on a terminal what an exporter says of a node now.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/version"
	"golang.org/x/term"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/source"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
)

// watchTimeout is how long an exporter may take for its answer.
const watchTimeout = 10 * time.Second

// watchCommand shows what the detector thinks now, again and again or once.
type watchCommand struct {
	address    string
	once       bool
	failOn     string
	interval   time.Duration
	top        int
	httpConfig string
	local      source.Config
}

// failOn has the statuses that --fail-on names.
var failOn = map[string]Status{"ticket": Ticket, "page": Page}

// Add adds the command watch.
func Add(app *kingpin.Application, commands command.Commands) {
	w := &watchCommand{local: source.Config{Kind: source.NVML, Speed: 1, Interval: time.Second, Timeout: watchTimeout}}
	cmd := app.Command("watch", "Show on the terminal which GPU runs out of memory, and when: as a running exporter says, or, without an address, as NVML shows it from now on. Its last line has its keys. "+
		"With --once the exit status is 0 if all is well, 1 for a ticket, 2 for a page and 3 if it is not known.")
	cmd.Arg("address", "A running exporter, such as http://node7:9844.").StringVar(&w.address)
	cmd.Flag("once", "Say it once, and end.").BoolVar(&w.once)
	cmd.Flag("fail-on", "With --once: say nothing and end with 0 unless it is at least a ticket, or a page. For a prolog, whose failure drains the node.").
		PlaceHolder("ticket|page").SetValue(cli.OneOf("fail-on", &w.failOn, "ticket", "page"))
	cmd.Flag("interval", "Time between two looks.").Default("2s").SetValue(cli.Duration("interval", &w.interval, time.Second, time.Hour))
	cmd.Flag("top", "Processes that are listed, those that hold most.").Default("10").SetValue(cli.Int("top", &w.top, 0, 1000))
	cmd.Flag("http.config.file", "Basic authentication, TLS and so on for the exporter: the http_config of Prometheus's configuration.").StringVar(&w.httpConfig)
	cmd.Flag("nvml.library-path", "File or name of the driver's library.").StringVar(&w.local.LibraryPath)
	cmd.Flag("path.procfs", "Where the procfs of the host is mounted.").Default("/proc").StringVar(&w.local.ProcFS)
	cmd.Flag("path.sysfs", "Where the sysfs of the host is mounted.").Default("/sys").StringVar(&w.local.SysFS)
	commands["watch"] = func(ctx context.Context, stdout, stderr io.Writer) error { return w.run(ctx, stdout, stderr) }
}

// look returns the verdicts now.
type look func(context.Context) (*verdicts.Data, error)

// run looks. With --once what goes wrong is not known, and never the exit status of a page.
func (w *watchCommand) run(ctx context.Context, stdout, stderr io.Writer) error {
	err := w.look(ctx, stdout)
	_, said := errors.AsType[command.ExitStatus](err)
	switch {
	case err == nil || said || !w.once:
		return err
	case w.failOn != "":
		fmt.Fprintf(stderr, "%s: %s\n", command.Program, command.OneLine(err))
		return nil
	}
	fmt.Fprintf(stdout, "NOT KNOWN: %s\n", command.OneLine(err))
	return command.ExitStatus(Unknown)
}

func (w *watchCommand) look(ctx context.Context, stdout io.Writer) error {
	switch {
	case w.failOn != "" && !w.once:
		return errors.New("--fail-on needs --once")
	case w.httpConfig != "" && w.address == "":
		return errors.New("--http.config.file needs the address of an exporter")
	}
	now, exporter, end, err := w.looker(ctx)
	if err != nil {
		return err
	}
	defer end()
	if w.once {
		return w.say(ctx, now, stdout)
	}
	return w.follow(ctx, now, exporter, stdout)
}

// looker returns what looks, the address before the paths of the exporter if there is one, and what ends it.
func (w *watchCommand) looker(ctx context.Context) (now look, exporter *url.URL, end func(), err error) {
	if w.address == "" {
		now, end, err = lookHere(ctx, w.local)
		return now, nil, end, err
	}
	cfg, err := promapi.LoadHTTP(w.httpConfig)
	if err != nil {
		return nil, nil, nil, err
	}
	client, err := config.NewClientFromConfig(cfg, command.Program, config.WithUserAgent(version.ComponentUserAgent(command.Program)))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("--http.config.file=%s: %w", w.httpConfig, err)
	}
	client.Timeout = watchTimeout
	now, exporter, err = lookThere(w.address, client)
	return now, exporter, client.CloseIdleConnections, err
}

// say looks once.
func (w *watchCommand) say(ctx context.Context, now look, stdout io.Writer) error {
	data, err := now(ctx)
	if err != nil {
		return err
	}
	status := Of(data.Severity)
	if w.failOn != "" && (status == Unknown || status < failOn[w.failOn]) {
		return nil
	}
	if _, err := io.WriteString(stdout, Screen(data, w.top, 0, "")); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	if status == Well {
		return nil
	}
	return command.ExitStatus(status)
}

// Home moves the cursor to the first line and clears the screen.
const Home = "\x1b[H\x1b[2J"

// follow looks again and again until ctx is done, or a key ends it.
func (w *watchCommand) follow(ctx context.Context, now look, exporter *url.URL, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &keys{stdout: command.Raw(stdout), top: w.top, exporter: exporter, data: &verdicts.Data{}}
	if columns, _ := size(k.stdout); columns > 0 {
		defer k.listen(cancel)()
	}
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		data, err := now(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := k.look(data, err); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// size returns the columns and lines of a terminal, 0 of a file or a pipe.
func size(w io.Writer) (columns, rows int) {
	if file, ok := w.(*os.File); ok {
		columns, rows, _ = term.GetSize(int(file.Fd()))
	}
	return columns, rows
}
