// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"slices"
	"strings"
)

// otherFormats are those of files that are often given instead, by how they begin.
var otherFormats = []struct{ magic, what string }{
	{"\x28\xb5\x2f\xfd", "is compressed with zstd"},
	{"\xfd7zXZ\x00", "is compressed with xz"},
	{"PK\x03\x04", "is a zip archive"},
	{"PK\x05\x06", "is a zip archive"}, // an empty one
}

// Unreadable returns why a file that begins with head holds no history that can be
// read, and what to do; it is empty if it may hold one.
func Unreadable(head []byte) string {
	what := ""
	for _, f := range otherFormats {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			what = f.what
		}
	}
	if rest, ok := bytes.CutPrefix(head, []byte("BZh")); ok && len(rest) > 0 && rest[0] >= '1' && rest[0] <= '9' {
		what = "is compressed with bzip2"
	}
	if what != "" {
		return what + ": unpack it, or compress it with gzip instead"
	}
	return smiMonitor(head)
}

// smiMonitor returns what to record instead of the output of nvidia-smi dmon or pmon,
// whose first line is "# gpu" and the names of columns, behind those of date and time
// if it was asked for them.
func smiMonitor(head []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\ufeff"))), []byte("\n"))
	names, ok := strings.CutPrefix(string(line), "#")
	if !ok {
		return ""
	}
	columns := strings.Fields(names)
	for len(columns) > 0 && (columns[0] == "Date" || columns[0] == "Time") {
		columns = columns[1:]
	}
	// A comment may begin with gpu, too.
	if len(columns) < 2 || columns[0] != "gpu" || !slices.Contains(smiMonitorColumns, columns[1]) {
		return ""
	}
	tool, query := "dmon", smiQueryGPUs
	if columns[1] == "pid" {
		tool, query = "pmon", smiQueryApps
	}
	return "is of nvidia-smi " + tool + ", which does not tell the memory in bytes over time in a form that can be read: record with " + query
}

// smiMonitorColumns are the first columns of the groups of metrics of dmon, and that
// of pmon.
var smiMonitorColumns = []string{"pwr", "gtemp", "sm", "mem", "mclk", "pclk", "pviol", "fb", "sbecc", "rxpci", "pid"}
