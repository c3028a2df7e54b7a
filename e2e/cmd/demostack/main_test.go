// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"strings"
	"testing"
)

// TestFree has who starts the stack told which ports are taken, and how to choose others.
func TestFree(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := listener.Addr().String()
	const free = "127.0.0.1:0"
	for _, c := range []struct {
		stack stack
		want  string
	}{
		{stack{exporter: free, prometheus: free, alertmanager: free}, ""},
		{stack{exporter: taken, prometheus: free, alertmanager: free}, "another program has TAKEN of the exporter: choose another with make demo-stack DEMO_STACK_FLAGS='-exporter=HOST:PORT'"},
		{
			stack{exporter: free, prometheus: taken, alertmanager: taken},
			"another program has TAKEN of Prometheus, TAKEN of Alertmanager: choose another with make demo-stack DEMO_STACK_FLAGS='-prometheus=HOST:PORT -alertmanager=HOST:PORT'",
		},
		{stack{exporter: free, prometheus: "9090"}, "-prometheus=9090: listen tcp: address 9090: missing port in address"},
	} {
		got := ""
		if err := c.stack.free(); err != nil {
			got = strings.ReplaceAll(err.Error(), taken, "TAKEN")
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.stack, got, c.want)
		}
	}
}
