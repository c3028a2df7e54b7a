// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadDmem reads control groups as the kernel shows them: /pods, /pods/a and /pods/a/main.
func TestReadDmem(t *testing.T) {
	const bus = "00000000:3B:00.0"
	for name, c := range map[string]struct {
		files map[string]string
		want  Dmem // the zero Dmem is none
		err   string
	}{
		"no controller": {},
		"no limit":      {files: map[string]string{"pods/a/main/dmem.max": "drm/0000:3b:00.0/vram0 max\n", "pods/a/main/dmem.current": "drm/0000:3b:00.0/vram0 5\n"}},
		"its own": {
			files: map[string]string{
				"pods/a/main/dmem.max":     "drm/0000:1b:00.0/vram0 7\ndrm/0000:3b:00.0/stolen 8\ndrm/0000:3b:00.0/vram0 12550144\n",
				"pods/a/main/dmem.current": "drm/0000:1b:00.0/vram0 1\ndrm/0000:3b:00.0/stolen 2\ndrm/0000:3b:00.0/vram0 4096\n",
				"pods/a/dmem.max":          "drm/0000:3b:00.0/vram0 max\n",
			},
			want: Dmem{"/pods/a/main", 12550144, 4096},
		},
		"what the group above leaves is less": {
			files: map[string]string{
				"pods/a/main/dmem.max": "drm/0000:3b:00.0/vram0 100\n", "pods/a/main/dmem.current": "drm/0000:3b:00.0/vram0 10\n",
				"pods/dmem.max": "drm/0000:3b:00.0/vram0 200\n", "pods/dmem.current": "drm/0000:3b:00.0/vram0 150\n",
			},
			want: Dmem{"/pods", 200, 150},
		},
		"more than the limit": {
			files: map[string]string{"pods/a/main/dmem.max": "drm/0000:3b:00.0/vram0 100\n", "pods/a/main/dmem.current": "drm/0000:3b:00.0/vram0 110\n"},
			want:  Dmem{"/pods/a/main", 100, 110},
		},
		"no number":      {files: map[string]string{"pods/a/main/dmem.max": "drm/0000:3b:00.0/vram0 many\n"}, err: `dmem.max: cannot read "many" as a number of bytes`},
		"another GPU":    {files: map[string]string{"pods/a/main/dmem.max": "drm/0000:3c:00.0/vram0 100\n"}},
		"another domain": {files: map[string]string{"pods/a/main/dmem.max": "drm/0001:3b:00.0/vram0 100\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range c.files {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, ok, err := ReadDmem(root, "/pods/a/main", bus)
			if got != c.want || ok != (c.want != Dmem{}) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v %v %v, want %+v %q", got, ok, err, c.want, c.err)
			}
		})
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
