// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs holds the documentation against the repository and the programs: links lead somewhere, flags exist, and what is
// said to run does.
package docs

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// root is the root of the repository.
const root = "../.."

// page is a file of the documentation in Markdown.
type page struct {
	path    string // from the root
	blocks  []block
	spans   []string // what is set as code inside of the text
	links   []string
	anchors map[string]bool // the names by which GitHub links to headings
}

// block is a fenced block of code.
type block struct{ language, text string }

var (
	span         = regexp.MustCompile("`([^`]+)`")
	link         = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// read returns the page at a path from the root.
func read(t *testing.T, path string) *page {
	t.Helper()
	source := harness.ReadFile(t, filepath.Join(root, path))
	p := &page{path: path, anchors: map[string]bool{}}
	var outside strings.Builder // of blocks
	for i, part := range strings.Split(source, "```") {
		if i%2 == 0 {
			outside.WriteString(part)
			continue
		}
		language, code, _ := strings.Cut(part, "\n")
		p.blocks = append(p.blocks, block{language, code})
	}
	text := outside.String()
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := notInAnchors.ReplaceAllString(strings.ToLower(link.ReplaceAllString(m[1], "")), "")
		p.anchors[strings.ReplaceAll(name, " ", "-")] = true
	}
	for _, m := range span.FindAllStringSubmatch(text, -1) {
		p.spans = append(p.spans, strings.ReplaceAll(m[1], "\n", " "))
	}
	for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(text, ""), -1) {
		p.links = append(p.links, m[1])
	}
	return p
}

// pages returns all pages of the repository: what a user may read.
func pages(t *testing.T) []*page {
	t.Helper()
	var list []*page
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md", "*/*/*/*.md"} {
		paths, _ := filepath.Glob(filepath.Join(root, pattern)) // fails only if the pattern is wrong
		for _, path := range paths {
			if rel, _ := filepath.Rel(root, path); !strings.HasPrefix(rel, "bin/") && !strings.HasPrefix(rel, ".") {
				list = append(list, read(t, rel))
			}
		}
	}
	if len(list) < 15 {
		t.Fatalf("only %d pages", len(list))
	}
	return list
}

// commands returns the lines of the page's code that are commands of a shell. In a block with prompts the other lines are what the
// command prints.
func (p *page) commands() (list []string) {
	for _, b := range p.blocks {
		if b.language != "sh" && b.language != "console" {
			continue
		}
		prompted := strings.Contains("\n"+b.text, "\n$ ")
		for line := range strings.Lines(b.text) {
			command, prompt := strings.CutPrefix(line, "$ ")
			command, _, _ = strings.Cut(command, " # ")
			if command = strings.TrimSpace(command); prompt == prompted && command != "" && command[0] != '#' {
				list = append(list, command)
			}
		}
	}
	return list
}

// TestLinks follows every link inside of the repository, to the heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	links := 0
	for _, p := range pages(t) {
		for _, destination := range p.links {
			u, err := url.Parse(destination)
			if err != nil || u.Scheme != "" {
				if err != nil {
					t.Errorf("%s: %v", p.path, err)
				}
				continue
			}
			links++
			target := p
			if u.Path != "" {
				path := filepath.Join(filepath.Dir(p.path), u.Path)
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Errorf("%s: %s leads nowhere", p.path, destination)
					continue
				}
				if u.Fragment == "" {
					continue
				}
				target = read(t, path)
			}
			if !target.anchors[u.Fragment] {
				t.Errorf("%s: %s has no such heading", p.path, destination)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links", links)
	}
}

// TestSlurmScripts runs the prolog and the epilog as Slurm would, for a job on GPUs 0 and 2.
func TestSlurmScripts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gpu-jobs")
	var scripts []string
	for _, b := range read(t, "docs/operating.md").blocks {
		if strings.HasPrefix(b.text, "#!") {
			scripts = append(scripts, strings.ReplaceAll(b.text, "/run/gpu-jobs", dir))
		}
	}
	if len(scripts) != 3 {
		t.Fatalf("%d scripts", len(scripts))
	}
	run := func(script string) {
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
		cmd.Env = append(os.Environ(), "SLURM_JOB_ID=4711", "SLURM_JOB_GPUS=0,2")
		harness.Run(t, cmd)
	}
	run(scripts[0])
	for _, gpu := range []string{"0", "2"} {
		if text, err := os.ReadFile(filepath.Join(dir, gpu)); err != nil || string(text) != "4711\n" {
			t.Errorf("after the prolog GPU %s has %q, %v", gpu, text, err)
		}
	}
	run(scripts[1])
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("after the epilog there are %v, %v", left, err)
	}
}

// TestSlurmHealth runs the health check with a tool that pages, and with one that says nothing.
func TestSlurmHealth(t *testing.T) {
	t.Parallel()
	script := ""
	for _, b := range read(t, "docs/operating.md").blocks {
		if strings.Contains(b.text, "HealthCheckProgram=") {
			script = b.text
		}
	}
	for _, c := range []struct{ tool, want string }{
		{"printf 'PAGE: GPU 0 is lost\\nMEMORY\\n'; exit 2", "update nodename=node7 state=drain reason=PAGE: GPU 0 is lost\n"},
		{"exit 0", ""},
	} {
		bin := t.TempDir()
		for name, body := range map[string]string{
			"gpuleaktool": c.tool, "hostname": "echo node7", "scontrol": fmt.Sprintf("echo \"$@\" >> %s/said", bin),
		} {
			harness.Must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o700))
		}
		cmd := exec.Command("bash", "-c", script)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		harness.Run(t, cmd)
		if said, _ := os.ReadFile(filepath.Join(bin, "said")); string(said) != c.want {
			t.Errorf("Slurm is told %q, want %q", said, c.want)
		}
	}
}
