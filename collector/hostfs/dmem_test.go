// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadDmem reads a control group as the kernel shows it.
func TestReadDmem(t *testing.T) {
	const bus = "00000000:3B:00.0"
	type limit struct {
		most, charged uint64
		ok            bool
	}
	for name, c := range map[string]struct {
		most, current string
		want          limit
		err           string
	}{
		"no controller": {},
		"no limit":      {most: "drm/0000:3b:00.0/vram0 max\n", current: "drm/0000:3b:00.0/vram0 5\n"},
		"among others": {
			most:    "drm/0000:1b:00.0/vram0 7\ndrm/0000:3b:00.0/stolen 8\ndrm/0000:3b:00.0/vram0 12550144\n",
			current: "drm/0000:1b:00.0/vram0 1\ndrm/0000:3b:00.0/stolen 2\ndrm/0000:3b:00.0/vram0 4096\n",
			want:    limit{12550144, 4096, true},
		},
		"more than the limit":       {most: "drm/0000:3b:00.0/vram0 100\n", current: "drm/0000:3b:00.0/vram0 110\n", want: limit{100, 110, true}},
		"nothing is charged":        {most: "drm/0000:3b:00.0/vram0 100\n", want: limit{most: 100}},
		"no number":                 {most: "drm/0000:3b:00.0/vram0 many\n", err: `dmem.max: cannot read "many" as a number of bytes`},
		"what is charged is no one": {most: "drm/0000:3b:00.0/vram0 100\n", current: "drm/0000:3b:00.0/vram0\n", want: limit{most: 100}, err: `dmem.current: cannot read "" as`},
		"another GPU":               {most: "drm/0000:3c:00.0/vram0 100\n"},
		"another domain":            {most: "drm/0001:3b:00.0/vram0 100\n"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, text := range map[string]string{"dmem.max": c.most, "dmem.current": c.current} {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); text != "" && err != nil {
					t.Fatal(err)
				}
			}
			var got limit
			var err error
			got.most, got.charged, got.ok, err = ReadDmem(folder, bus)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v %v, want %+v %q", got, err, c.want, c.err)
			}
		})
	}
	if _, _, ok, err := ReadDmem(filepath.Join(t.TempDir(), "gone"), bus); ok || err != nil {
		t.Errorf("a group that is gone: %v %v", ok, err)
	}
}

func FuzzDmem(f *testing.F) {
	f.Add("drm/0000:3b:00.0/vram0 100\n", "00000000:3B:00.0")
	f.Add("drm/0000:3b:00.0/vram0 max", ":")
	f.Fuzz(func(t *testing.T, text, bus string) {
		file := filepath.Join(t.TempDir(), "dmem.max")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if bytes, ok, err := readRegion(file, bus); !ok && bytes != 0 && err == nil {
			t.Errorf("%d bytes, though there is no limit", bytes)
		}
	})
}
