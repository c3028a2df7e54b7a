// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// HoldTable holds the table that stands in a file of the repository, between two comments, against what the test has measured. With
// update it writes it there.
func HoldTable(t *testing.T, file, table string, update bool) {
	t.Helper()
	path := filepath.Join(Root(), file)
	text := ReadFile(t, path)
	from, to := "<!-- "+t.Name()+" writes this table. -->\n", "<!-- its end -->\n"
	head, rest, found := strings.Cut(text, from)
	old, tail, ended := strings.Cut(rest, to)
	switch {
	case !found || !ended:
		t.Fatalf("%s has no %q", file, from)
	case update:
		Must(t, os.WriteFile(path, []byte(head+from+table+to+tail), 0o644))
	case old != table:
		t.Errorf("the table of %s is another one; with -update the test writes it\n%s", file, table)
	}
}
