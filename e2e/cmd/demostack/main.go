// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command demostack runs the whole chain on simulated GPUs: the exporter, a Prometheus with the
// shipped rules, an Alertmanager with the shipped routes, and a receiver that prints what would
// have reached the pager. `make demo-stack` builds what it needs.
//
// A simulated hour passes in a minute, so the waits of the rules and of the routes pass as much
// faster; nothing else of them is changed.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stack is what runs, and where.
type stack struct {
	root, dir    string // of the repository; for configurations and data
	source       string
	speed        int
	exporter     string // addresses
	prometheus   string
	alertmanager string
}

func main() {
	s := stack{}
	flag.StringVar(&s.root, "root", ".", "root of the repository, with the programs that make built")
	flag.StringVar(&s.source, "source", "sim:crashloop", "GPUs of the exporter")
	flag.IntVar(&s.speed, "speed", 60, "seconds that pass in one")
	flag.StringVar(&s.exporter, "exporter", "localhost:9844", "address of the exporter")
	flag.StringVar(&s.prometheus, "prometheus", "localhost:9090", "address of Prometheus")
	flag.StringVar(&s.alertmanager, "alertmanager", "localhost:9093", "address of Alertmanager")
	check := flag.Bool("check", false, "only say whether another program has one of the addresses")
	flag.Parse()
	err := s.free()
	if err == nil && !*check {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = s.run(ctx, os.Stdout)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demostack:", err)
		os.Exit(1)
	}
}

// free returns an error if another program has an address, with the flag that chooses another one. That of the
// receiver is free always: the system chooses it.
func (s *stack) free() error {
	var taken, flags []string
	for _, a := range []struct{ program, flag, address string }{
		{"the exporter", "-exporter", s.exporter}, {"Prometheus", "-prometheus", s.prometheus}, {"Alertmanager", "-alertmanager", s.alertmanager},
	} {
		listener, err := net.Listen("tcp", a.address)
		switch {
		case err == nil:
			_ = listener.Close() // nobody has connected
		case errors.Is(err, syscall.EADDRINUSE):
			taken, flags = append(taken, a.address+" of "+a.program), append(flags, a.flag+"=HOST:PORT")
		default:
			return fmt.Errorf("%s=%s: %w", a.flag, a.address, err)
		}
	}
	if len(taken) == 0 {
		return nil
	}
	return fmt.Errorf("another program has %s: choose another with make demo-stack DEMO_STACK_FLAGS='%s'", strings.Join(taken, ", "), strings.Join(flags, " "))
}

// run runs all until ctx is done or one of them ends.
func (s *stack) run(ctx context.Context, stdout io.Writer) error {
	var err error
	if s.root, err = filepath.Abs(s.root); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "gpu-leak-demo-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return err
	}
	receiver := &http.Server{Handler: &receiver{out: stdout}, ReadHeaderTimeout: 5 * time.Second}
	defer receiver.Close()
	go func() { _ = receiver.Serve(listener) }()
	if err := s.configure("http://" + listener.Addr().String()); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\n  http://%s/predict   the exporter: which GPU runs out of memory, and when\n  http://%s/api/v1/alerts   Prometheus, as JSON: built from its module it has no pages\n  http://%s/          Alertmanager\n\n"+
		"  Simulated GPUs, %d times as fast as real ones. A page comes within half a minute, a ticket after a minute or two. Ctrl-C ends it.\n\n",
		s.exporter, s.prometheus, s.alertmanager, s.speed)
	return s.programs(ctx)
}

// programs runs them until ctx is done, which is no error, or one ends, which is.
func (s *stack) programs(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	defer running.Wait()
	for _, args := range [][]string{
		{"gpu_leak_exporter", "--source=" + s.source, fmt.Sprintf("--source.speed=%d", s.speed), "--web.listen-address=" + s.exporter, "--log.level=warn"},
		{"bin/prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=" + s.prometheus, "--log.level=warn"},
		{"bin/alertmanager", "--config.file=alertmanager.yml", "--storage.path=silences", "--web.listen-address=" + s.alertmanager, "--cluster.listen-address=", "--log.level=warn"},
	} {
		running.Go(func() { stop(s.program(ctx, args)) })
	}
	<-ctx.Done()
	stop(nil)
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// program runs one until ctx is done. What it logs is in the error alone, if it ends before.
func (s *stack) program(ctx context.Context, args []string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.root, args[0]), args[1:]...)
	cmd.Dir = s.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	// Ctrl-C reaches all of a terminal; they are to end when this program says so.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	last := ""
	for lines := bufio.NewScanner(said); lines.Scan(); {
		last = lines.Text()
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return context.Canceled
	}
	return fmt.Errorf("%s has ended: %w: %s", filepath.Base(args[0]), errors.Join(err, errors.New("it was to run until the end")), last)
}
