// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package tracer

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
)

func TestArgument(t *testing.T) {
	x86, arm := machines["amd64"], machines["arm64"]
	for _, c := range []struct {
		machine *machine
		text    string
		want    argument
	}{
		{x86, "8@%rax", argument{size: 8, register: register{80, 8}}},
		{x86, "-4@%r15d", argument{size: 4, signed: true, register: register{0, 4}}},
		{x86, "1@%dil", argument{size: 1, register: register{112, 1}}},
		{x86, "-2@%bx", argument{size: 2, signed: true, register: register{40, 2}}},
		{x86, "8@-24(%rbp)", argument{size: 8, register: register{32, 8}, memory: true, offset: -24}},
		{x86, "8@(%rsp)", argument{size: 8, register: register{152, 8}, memory: true}},
		{x86, "8@$-3", argument{size: 8, constant: true, number: -3}},
		{arm, "8@x19", argument{size: 8, register: register{152, 8}}},
		{arm, "-4@w0", argument{size: 4, signed: true, register: register{0, 4}}},
		{arm, "8@[sp, 24]", argument{size: 8, register: register{248, 8}, memory: true, offset: 24}},
		{arm, "8@[x1]", argument{size: 8, register: register{8, 8}, memory: true}},
		{arm, "8@0", argument{size: 8, constant: true}},
	} {
		if got, err := c.machine.argument(c.text); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.text, got, err)
		}
	}
	for _, text := range []string{"", "8", "8@", "@%rax", "3@%rax", "8@%xmm0", "8@%nothing", "8@(%rax,%rbx,8)", "8@name(%rip)", "8@99999999999(%rax)", "8@$99999999999999999999"} {
		if got, err := x86.argument(text); !errors.Is(err, errArgument) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func FuzzArgument(f *testing.F) {
	f.Add("8@-24(%rbp)")
	f.Add("-4@[x1, 8]")
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range machines {
			if a, err := m.argument(text); err == nil {
				if len(a.load(valueAt)) == 0 {
					t.Errorf("%q has no program", text)
				}
			}
		}
	})
}

// FuzzMarks reads files that a hostile process maps.
func FuzzMarks(f *testing.F) {
	self, err := os.ReadFile("/bin/true")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(self[:min(len(self), 4096)])
	f.Fuzz(func(_ *testing.T, b []byte) {
		file, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			return
		}
		_, _ = marks(file) // it may be none
	})
}

func TestGrown(t *testing.T) {
	at := func(sums ...int64) reading { // by the number of the stack
		m := map[int64]total{}
		for stack, n := range sums {
			m[int64(stack)] = total{n, n / 2}
		}
		return reading{sums: m}
	}
	// The first grows, the second stands still, the third comes and goes, the fourth grows a little, and the
	// fifth came late and is gone at times.
	taken := []reading{
		at(10, 5, 100, 7), at(20, 5, 300, 8), at(30, 5, 100, 8),
		at(40, 5, 300, 9, 1), at(50, 5, 100, 10, 0), at(60, 5, 301, 12, 1),
	}
	got, unsure := grown(taken)
	if want := []growth{{0, 30, total{60, 30}}, {3, 2, total{12, 6}}}; unsure != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v and %d, want %+v", got, unsure, want)
	}
	// As many older blocks are freed as the fourth has new ones, and half as many as the first has.
	for i := range taken {
		taken[i].older = int64(i) * 2
	}
	got, unsure = grown(taken)
	if want := []growth{{0, 30, total{60, 30}}}; unsure != 1 || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v and %d, want %+v", got, unsure, want)
	}
	many := make([]int64, 100)
	later := make([]int64, 100)
	for i := range later {
		later[i] = int64(i + 1)
	}
	if got, _ := grown([]reading{at(many...), at(later...)}); len(got) != maxSites || got[0].growth != 100 {
		t.Errorf("%d, the first %+v", len(got), got[0])
	}
}

// TestLiveTable takes its memory as it runs where the kernel lets it.
func TestLiveTable(t *testing.T) {
	for kernel, want := range map[uint32]ebpf.MapSpec{
		5<<16 | 8<<8:      {MaxEntries: maxFixed},
		5<<16 | 14<<8 | 9: {MaxEntries: maxFixed},
		6<<16 | 255:       {MaxEntries: maxFixed},
		6<<16 | 1<<8:      {MaxEntries: maxLive, Flags: noPrealloc},
		7 << 16:           {MaxEntries: maxLive, Flags: noPrealloc},
	} {
		if got := liveTable(kernel); got.MaxEntries != want.MaxEntries || got.Flags != want.Flags {
			t.Errorf("%x: %+v", kernel, got)
		}
	}
}

func TestFollowsThreads(t *testing.T) {
	for err, want := range map[error]bool{
		fmt.Errorf("%w (specified pid not found?)", os.ErrNotExist): true,
		fmt.Errorf("%w (invalid pid)", syscall.EINVAL):              false,
		ebpf.ErrNotSupported: false,
		syscall.EPERM:        false,
	} {
		if got := followsThreads(nil, err); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
}

func TestFind(t *testing.T) {
	list := []symbol{{10, 20, "a"}, {20, 30, "b"}, {40, 50, "c"}}
	for address, want := range map[uint64]string{0: "", 9: "", 10: "a", 19: "a", 20: "b", 30: "", 39: "", 49: "c", 50: ""} {
		if got := find(list, address); got != want {
			t.Errorf("%d: %q, want %q", address, got, want)
		}
	}
}

// process is a folder as procfs has it for a process.
func process(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "4711")
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestMappings(t *testing.T) {
	proc := process(t, map[string]string{"maps": `55d0a0000000-55d0a0001000 r--p 00000000 08:01 42 /usr/bin/a program
55d0a0001000-55d0a0003000 r-xp 00001000 08:01 42 /usr/bin/a program
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7f0000002000-7f0000003000 rwxp 00000000 00:00 0
7fff00000000-7fff00001000 r-xp 00000000 00:00 0 [vdso]
`})
	got, err := mappings(proc)
	want := []mapping{
		{0x55d0a0001000, 0x55d0a0003000, 0x1000, "/usr/bin/a program"},
		{0x7f0000002000, 0x7f0000003000, 0, ""},
		{0x7fff00000000, 0x7fff00001000, 0, ""},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := mappings(process(t, map[string]string{"maps": "x-y r-xp 0 0 0 /a\n"})); err == nil {
		t.Error("a line that is none is read")
	}
}

// TestLibrariesOfHostile has a process map what hangs, what is no library, and what is larger than any memory: each is
// left out with a reason.
func TestLibrariesOfHostile(t *testing.T) {
	proc := process(t, map[string]string{
		"maps": `1000-2000 r-xp 00000000 08:01 1 /lib/libcuda.so.1
3000-4000 r-xp 00000000 08:01 2 /lib/libcudart.so.12
5000-6000 r-xp 00000000 08:01 3 /lib/libcuda.so.2 (deleted)
7000-8000 r-xp 00000000 08:01 4 /lib/libc10.so
9000-a000 r-xp 00000000 08:01 5 /lib/libtorch.so
`,
		"root/lib/libc10.so": "no library of any kind",
	})
	lib := filepath.Join(proc, "root", "lib")
	if err := syscall.Mkfifo(filepath.Join(lib, "libcuda.so.1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/true", filepath.Join(lib, "libtorch.so")); err != nil {
		t.Fatal(err)
	}
	const size = 1 << 40
	var b bytes.Buffer
	for _, part := range []any{
		elf.Header64{
			Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1}, Version: 1,
			Shoff: 64, Shentsize: 64, Shnum: 2, Shstrndx: 1,
		},
		elf.Section64{},
		elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 4096, Size: size},
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	sparse := filepath.Join(lib, "libcudart.so.12")
	if err := errors.Join(os.WriteFile(sparse, b.Bytes(), 0o600), os.Truncate(sparse, size+4096)); err != nil {
		t.Fatal(err)
	}
	list, skipped, err := libraries(proc)
	if err != nil || len(list) != 0 || len(skipped) != 5 {
		t.Fatalf("%+v, %v, %v", list, skipped, err)
	}
	for i, want := range []string{"libcuda.so.1: it is no regular file", "libcudart.so.12: it is too large", "libcuda.so.2 (deleted): open ", "libc10.so: bad magic", "libtorch.so: it is no regular file"} {
		if !strings.Contains(skipped[i].Error(), want) {
			t.Errorf("%v, want %s", skipped[i], want)
		}
	}
	n, err := newNames(proc)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []uint64{0x1000, 0x3000, 0x5000, 0x7000, 0x9000} {
		if f := n.frame(at); f.function != "" {
			t.Errorf("%+v", f)
		}
	}
}

// TestNames names a function of Python, one of a file that has none, and an address of nothing.
func TestNames(t *testing.T) {
	proc := process(t, map[string]string{
		"maps":                   "1000-2000 r-xp 00000000 08:01 42 /usr/bin/gone\n",
		"status":                 "Name:\tpython3\nNSpid:\t4711\t9\n",
		"root/tmp/perf-9.map":    "5000 100 py::step:/srv/app/train.py\nnot a line\n5200 zz x\n4000 10 py::<module>:/srv/app/train.py\n",
		"root/tmp/perf-4711.map": "5000 100 another's\n",
	})
	n, err := newNames(proc)
	if err != nil {
		t.Fatal(err)
	}
	var list []frame
	for _, a := range []uint64{0x1010, 0x5010, 0x4000, 0x9000} {
		list = append(list, n.frame(a))
	}
	want := []string{"gone+0x10", "/srv/app/train.py step", "/srv/app/train.py <module>", "0x9000"}
	if got := texts(list); !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	if got := lineOf(list); got != want[1] {
		t.Errorf("the line is %q", got)
	}
	allocator := []frame{{file: "/usr/lib/libcudart.so.12", function: "cudaMalloc"}, {file: "/opt/libc10_cuda.so", function: "_ZN3c104cuda5startEv"}}
	program := frame{file: "/srv/app", function: "main"}
	if got := lineOf(append(allocator, program)); got != "app main" {
		t.Errorf("the line is %q", got)
	}
	if got := lineOf(allocator); got != "libc10_cuda.so c10::cuda::start()" {
		t.Errorf("the line is %q", got)
	}
	if got := allocator[1].text(); got != "libc10_cuda.so c10::cuda::start()" {
		t.Errorf("a name of C++ is %q", got)
	}
	for i, want := range []bool{true, true, true, false} {
		if list[i].code != want {
			t.Errorf("%q holds code: %t", list[i].text(), list[i].code)
		}
	}
	if got := lineOf(nil); got != "" {
		t.Errorf("the line of no stack is %q", got)
	}
}
