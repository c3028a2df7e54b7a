// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// pinned is a foreign action at a commit, with its version for the reader. Who owns an action can move a tag, but no commit.
var pinned = regexp.MustCompile(`uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

// TestWorkflowsArePinned finds an action that may be other code tomorrow.
func TestWorkflowsArePinned(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob(filepath.Join(harness.Root(), ".github/workflows/*.yml")) // fails only if the pattern is wrong
	uses := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range regexp.MustCompile(`(?m)^.*\buses:.*$`).FindAllString(string(text), -1) {
			if uses++; !pinned.MatchString(line) {
				t.Errorf("%s: not at a commit, with its version behind it: %s", filepath.Base(file), line)
			}
		}
	}
	if uses < 5 {
		t.Errorf("only %d actions", uses)
	}
}
