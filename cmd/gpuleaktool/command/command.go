// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package command runs a subcommand of gpuleaktool, and says what goes wrong in one line.
package command

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

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
)

// Program is the name of the program.
const Program = "gpuleaktool"

// Exit codes. A backtest exits with Leak where it has found one; watch --once has codes of its own.
const (
	OK       = 0
	Leak     = 1
	Wrong    = 2
	Unjudged = 3
)

// StopGrace is how long a command that was told to end waits for its work.
const StopGrace = 2 * time.Second

// ExitStatus is an exit status without an error message.
type ExitStatus int

// Error implements error.
func (s ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// Func carries a command out. Its error is said in one line.
type Func func(ctx context.Context, stdout, stderr io.Writer) error

// Commands are the commands by their names.
type Commands map[string]Func

// UntilSignal returns a context that a signal ends. A second one ends the program
// at once, but for SIGHUP: a session that drops sends it from both its shell and
// its terminal.
func UntilSignal() context.Context {
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

// Run is a program with the commands that add adds: it returns the exit code. Text from elsewhere, such as a server's, cannot
// make a terminal act.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, add ...func(*kingpin.Application, Commands)) int {
	stdout, stderr = &cli.Terminal{Raw: stdout}, &cli.Terminal{Raw: stderr}
	ended := false
	app := kingpin.New(Program, "Watches GPUs, judges recorded history with gpu_leak_exporter's detector, records history, finds lines that leak, and checks rules.")
	app.Version(cli.Version(Program))
	app.HelpFlag.Short('h')
	app.UsageWriter(stdout).ErrorWriter(stdout).Terminate(func(int) {
		ended = true
		// kingpin goes on: after --version it would print the help, because no command was given.
		app.UsageWriter(io.Discard)
	})
	commands := Commands{}
	for _, add := range add {
		add(app, commands)
	}

	err := missing(runtime.GOOS, args)
	switch {
	case len(args) == 0:
		err = cli.Hint(errors.New("choose a command"), Program)
	case err == nil:
		var name string
		name, err = app.Parse(args)
		switch {
		case ended:
			return OK
		case err != nil:
			err = hint(err, commands, args)
		default:
			err = commands[name](ctx, stdout, stderr)
		}
	}
	if status, ok := errors.AsType[ExitStatus](err); ok {
		return int(status)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: error: %s\n", Program, OneLine(err))
		return wrongCall(args)
	}
	return OK
}

// hint adds to the error of a wrong call the command that begins like the one that is called, or else where the help is.
func hint(err error, commands Commands, args []string) error {
	is := called(commands, args)
	for name := range commands {
		if is == Program && len(args[0]) > 2 && strings.HasPrefix(name, args[0][:3]) {
			return fmt.Errorf("%w: did you mean %s?", err, name)
		}
	}
	return cli.Hint(err, is)
}

// called returns the program with the command that is called, whose help alone has its flags.
func called(commands Commands, args []string) string {
	for n := min(2, len(args)); n > 0; n-- {
		if name := strings.Join(args[:n], " "); commands[name] != nil {
			return Program + " " + name
		}
	}
	return Program
}

// wrongCall returns the exit status of a call that could not be understood. Of watch --once 2 says that
// somebody is to be paged.
func wrongCall(args []string) int {
	if len(args) > 0 && args[0] == "watch" && slices.Contains(args, "--once") {
		return Unjudged
	}
	return Wrong
}

// OneLine writes an error as one: that of a YAML file has several.
func OneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", " ") }

// Raw returns the writer for control codes of a terminal, such as the one that clears its screen.
func Raw(w io.Writer) io.Writer {
	if t, ok := w.(*cli.Terminal); ok {
		return t.Raw
	}
	return w
}

// LinuxOnly are the commands that look into the machine which they run on.
var LinuxOnly = []string{"record", "sites"}

// missing returns what to do in place of a command that the build for this system does not have, as Go names
// it. It is asked before the flags are read: such a build does not know them either.
func missing(system string, args []string) error {
	if system == "linux" || len(args) == 0 || !slices.Contains(LinuxOnly, args[0]) {
		return nil
	}
	return fmt.Errorf("%s runs on Linux alone, on the machine with the GPU: this build for %s has backtest, check and watch URL, for files that you copy here and exporters elsewhere", args[0], system)
}
