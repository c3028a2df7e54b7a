// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package docs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

var (
	flagIn   = regexp.MustCompile(`(?:^|[ "'(])--(\[no-\])?([a-z][a-z0-9.-]*)`)
	targetIn = regexp.MustCompile(`(?:^|[;&] *)make ([a-z][a-z0-9-]*)`)
)

// foreign are flags of other programs that a text names.
var foreign = []string{
	"query.max-samples", "completion-script-bash", "completion-script-zsh", "namespace", "now", "query-compute-apps", "query-gpu", "pid", "since", "native", "seeds", "max-num-seqs", "max-model-len", "gpu-memory-utilization", "model-control-mode",
}

// namesFlags reports whether a page is about the programs as they are now.
func namesFlags(path string) bool {
	return slices.Contains([]string{
		"README.md", "CONTRIBUTING.md", "SECURITY.md", "probe/README.md", "collector/README.md", "detector/README.md", "mixin/README.md", "mixin/runbook.md",
	}, path) || strings.HasPrefix(path, "docs/") || strings.HasPrefix(path, "deploy/")
}

// TestFlagsAndTargetsExist holds what is set as code against the programs and the Makefile.
func TestFlagsAndTargetsExist(t *testing.T) {
	t.Parallel()
	flags := flagsOf(t, harness.Exporter(t), harness.Tool(t))
	makefile := harness.ReadFile(t, filepath.Join(root, "Makefile"))
	found := 0
	for _, p := range pages(t) {
		if !namesFlags(p.path) {
			continue
		}
		ours := p.commands()
		ours = slices.DeleteFunc(ours, func(c string) bool {
			return !strings.Contains(c, "gpu_leak_exporter --") && !strings.Contains(c, "gpuleaktool ") && !strings.HasPrefix(c, "make ")
		})
		for _, code := range append(ours, p.spans...) {
			if strings.HasPrefix(code, "--") || strings.Contains(code, "gpu") {
				for _, m := range flagIn.FindAllStringSubmatch(code, -1) {
					found++
					name := strings.TrimPrefix(m[2], "no-")
					if isPart := strings.HasSuffix(name, "."); !isPart && !flags[name] && !slices.Contains(foreign, name) && !strings.HasPrefix(code, "nvidia-smi") {
						t.Errorf("%s: no program has the flag --%s: %s", p.path, m[2], code)
					}
				}
			}
			for _, m := range targetIn.FindAllStringSubmatch(code, -1) {
				found++
				if !regexp.MustCompile(`(?m)^(` + m[1] + `:|DETAILS :=.* ` + m[1] + `\b)`).MatchString(makefile) {
					t.Errorf("%s: the Makefile has no target %s", p.path, m[1])
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d flags and targets", found)
	}
}

// flagsOf returns the names of the flags of programs and their commands.
func flagsOf(t *testing.T, programs ...string) map[string]bool {
	t.Helper()
	flags := map[string]bool{}
	for _, program := range programs {
		help := harness.Run(t, exec.Command(program, "--help-long"))
		for _, m := range regexp.MustCompile(`--(?:\[no-\])?([a-z][a-z0-9.-]*)`).FindAllStringSubmatch(help, -1) {
			flags[m[1]] = true
		}
	}
	return flags
}

// TestDemo runs the first command of the front page, as a newcomer does.
func TestDemo(t *testing.T) {
	address := harness.FreeAddress(t)
	demo := startDemo(t, "demo", "DEMO_ADDRESS="+address)
	harness.Eventually(t, 10*time.Minute, func() error {
		page, err := harness.Get("http://" + address + "/predict")
		if err == nil && !strings.Contains(string(page), "out of memory in") {
			err = fmt.Errorf("no leak is found yet on\n%s", page)
		}
		return err
	})
	if want := "http://" + address + "/predict"; !strings.Contains(demo.String(), want) {
		t.Errorf("the demo does not say where to look: no %s in\n%s", want, demo)
	}
}

// TestDemoStack runs the second: its page must come.
func TestDemoStack(t *testing.T) {
	flags := fmt.Sprintf("-exporter=%s -prometheus=%s -alertmanager=%s", harness.FreeAddress(t), harness.FreeAddress(t), harness.FreeAddress(t))
	demo := startDemo(t, "demo-stack", "DEMO_STACK_FLAGS="+flags)
	harness.Eventually(t, 10*time.Minute, func() error {
		for _, want := range []string{"TICKET  firing  GPUOutOfMemoryCrashLoop", "PAGER  firing  GPUOutOfMemoryPredicted", "app.py (pod default/crashy-0)"} {
			if !strings.Contains(demo.String(), want) {
				return fmt.Errorf("no %q in\n%s", want, demo)
			}
		}
		return nil
	})
	for _, link := range regexp.MustCompile(`http://\S+  `).FindAllString(demo.String(), 3) {
		if _, err := harness.Get(strings.TrimSpace(link)); err != nil {
			t.Error(err)
		}
	}
}

// TestDemoPortInUse has a newcomer told what to do before anything is built for minutes, and led to no page of
// another program.
func TestDemoPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	defer taken.Close()
	address := taken.Addr().String()
	for _, args := range [][]string{
		{"demo", "DEMO_ADDRESS=" + address, "make demo DEMO_ADDRESS="},
		{"demo-stack", "DEMO_STACK_FLAGS=-prometheus=" + address, "make demo-stack DEMO_STACK_FLAGS='-prometheus="},
	} {
		demo := exec.Command("make", args[:2]...)
		demo.Dir = harness.Root()
		out, err := demo.CombinedOutput()
		if err == nil || !strings.Contains(string(out), args[2]) || strings.Contains(string(out), "http://") {
			t.Errorf("make %s: %v\n%s", args[0], err, out)
		}
	}
}

// startDemo runs a target of the Makefile until the end of the test, when it gets what Ctrl-C sends.
func startDemo(t *testing.T, target, setting string) *harness.Output {
	t.Helper()
	demo := exec.Command("make", target, setting)
	demo.Dir = harness.Root()
	demo.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	o := &harness.Output{}
	demo.Stdout = o
	harness.Must(t, demo.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-demo.Process.Pid, syscall.SIGINT)
		_ = demo.Wait() // make tells of the signal
	})
	return o
}
