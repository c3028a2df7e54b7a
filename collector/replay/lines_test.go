// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"strings"
	"testing"
)

func TestUnreadable(t *testing.T) {
	const unpack = ": unpack it, or compress it with gzip instead"
	const dmon = "is of nvidia-smi dmon, which does not tell the memory in bytes over time in a form that can be read: record with nvidia-smi --query-gpu=timestamp,index,uuid,memory.used,memory.total --format=csv -l 1"
	const pmon = "is of nvidia-smi pmon, which does not tell the memory in bytes over time in a form that can be read: record with nvidia-smi --query-compute-apps=timestamp,gpu_uuid,pid,process_name,used_memory --format=csv -l 1"
	for _, tc := range []struct{ name, text, want string }{
		{"zstd", "\x28\xb5\x2f\xfd\x04\x00", "is compressed with zstd" + unpack},
		{"xz", "\xfd7zXZ\x00\x00\x04", "is compressed with xz" + unpack},
		{"bzip2", "BZh91AY&SY", "is compressed with bzip2" + unpack},
		{"zip", "PK\x03\x04\x14\x00", "is a zip archive" + unpack},
		{"empty zip", "PK\x05\x06\x00\x00", "is a zip archive" + unpack},
		{"dmon", "# gpu    pwr  gtemp  mtemp     sm\n# Idx      W      C      C      %\n    0     43     48      -      1\n", dmon},
		{"dmon of memory", "# gpu     fb   bar1\n", dmon},
		{"dmon with times", "#Date       Time        gpu    pwr  gtemp\n", dmon},
		{"pmon", "\ufeff# gpu         pid   type     sm    mem    command \r\n# Idx           #    C/G      %      %    name \r\n", pmon},
		{"a comment", "# gpu memory of the node\nx_bytes 1 1700000000\n", ""},
		{"OpenMetrics", "# TYPE x_bytes gauge\n", ""},
		{"a log", "timestamp, uuid\n", ""},
		{"text", "BZhou\n", ""},
		{"empty", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Unreadable([]byte(tc.text)); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if tc.want == "" {
				return
			}
			for _, text := range []string{tc.text, compress(t, tc.text)} {
				if _, err := NewReader("log", strings.NewReader(text), nil); err == nil || err.Error() != "log: "+tc.want {
					t.Errorf("error %v", err)
				}
			}
		})
	}
}
