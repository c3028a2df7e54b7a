// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command gpuleaktool works beside gpu_leak_exporter: it watches GPUs, runs the exporter's
// detector over recorded history, records what the exporter would sample, finds the
// lines of a process that leak, and checks rules.
//
// It exits with 2 when the call was wrong or could not be carried out, with 1 when a backtest has
// found a leak, or the alert that --fail-on names, and with 3 when it could judge nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/watch"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
)

const program = "gpuleaktool"

// Exit codes.
const (
	exitOK    = 0
	exitLeak  = 1
	exitWrong = 2
	unjudged  = int(watch.Unknown)
)

// stopGrace is how long a command that was ended waits for what is under way.
const stopGrace = 2 * time.Second

func main() {
	ctx := untilSignal()
	cli.CompleteVersion()
	kingpin.ManPageTemplate = cli.ManPage(kingpin.ManPageTemplate, program, "watches GPUs for leaks of memory, and finds them in recordings")
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// untilSignal returns a context that a signal ends. A second one ends the program
// at once, but for SIGHUP: a session that drops sends it from both its shell and
// its terminal.
func untilSignal() context.Context {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	hangup := !signal.Ignored(syscall.SIGHUP) // under nohup it stays ignored
	if hangup {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() {
		if hangup {
			signal.Ignore(syscall.SIGHUP)
		}
		stop()
	})
	return ctx
}

// command is a subcommand. It says what goes wrong in one line.
type command func(ctx context.Context, stdout, stderr io.Writer) error

// run is the program: it returns the exit code. Text from elsewhere, such as a server's, cannot make a terminal act.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stdout, stderr = &cli.Terminal{Raw: stdout}, &cli.Terminal{Raw: stderr}
	ended := false
	app := kingpin.New(program, "Watches GPUs, judges recorded history with gpu_leak_exporter's detector, records history, finds lines that leak, and checks rules.")
	app.Version(cli.Version(program))
	app.HelpFlag.Short('h')
	app.UsageWriter(stdout).ErrorWriter(stdout).Terminate(func(int) {
		ended = true
		// kingpin goes on: after --version it would print the help, because no command was given.
		app.UsageWriter(io.Discard)
	})
	commands := map[string]command{}
	addBacktest(app, commands)
	addCheck(app, commands)
	addLinux(app, commands)
	addWatch(app, commands)

	err := missing(runtime.GOOS, args)
	switch {
	case len(args) == 0:
		err = cli.Hint(errors.New("choose a command"), program)
	case err == nil:
		var name string
		name, err = app.Parse(args)
		switch {
		case ended:
			return exitOK
		case err != nil:
			err = hint(err, commands, args)
		default:
			err = commands[name](ctx, stdout, stderr)
		}
	}
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: error: %s\n", program, oneLine(err))
		return wrongCall(args)
	}
	return exitOK
}

// hint adds to the error of a wrong call the command that begins like the one that is called, or else where the help is.
func hint(err error, commands map[string]command, args []string) error {
	is := called(commands, args)
	for name := range commands {
		if is == program && len(args[0]) > 2 && strings.HasPrefix(name, args[0][:3]) {
			return fmt.Errorf("%w: did you mean %s?", err, name)
		}
	}
	return cli.Hint(err, is)
}

// called returns the program with the command that is called, whose help alone has its flags.
func called(commands map[string]command, args []string) string {
	for n := min(2, len(args)); n > 0; n-- {
		if name := strings.Join(args[:n], " "); commands[name] != nil {
			return program + " " + name
		}
	}
	return program
}

// wrongCall returns the exit status of a call that could not be understood. Of watch --once 2 says that
// somebody is to be paged.
func wrongCall(args []string) int {
	if len(args) > 0 && args[0] == "watch" && slices.Contains(args, "--once") {
		return int(watch.Unknown)
	}
	return exitWrong
}

// oneLine writes an error as one: that of a YAML file has several.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", " ") }

// raw returns what is to get what a terminal is to do, such as to clear its screen.
func raw(w io.Writer) io.Writer {
	if t, ok := w.(*cli.Terminal); ok {
		return t.Raw
	}
	return w
}
