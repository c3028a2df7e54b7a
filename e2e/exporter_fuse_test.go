// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// Requests of the kernel to a file system, as linux/fuse.h numbers them.
const (
	fuseLookup  = 1
	fuseForget  = 2
	fuseGetattr = 3
	fuseOpen    = 14
	fuseRead    = 15
	fuseInit    = 26
)

// fuseFile is the inode of the only file, dev/nvidia0; its folder is one less.
const fuseFile = 3

// deafFS is a file system that answers until its file is read, and to open it once more after that. Then it hangs.
type deafFS struct {
	fd   int
	read chan struct{} // closed once the file is read
	deaf atomic.Bool
	// opened is how often the file was opened.
	opened atomic.Int32
}

// mountDeaf mounts it.
func mountDeaf(t *testing.T, dir string) *deafFS {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("deaf", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatal(err)
	}
	d := &deafFS{fd: fd, read: make(chan struct{})}
	go d.serve()
	return d
}

// end lets all go that wait for it.
func (d *deafFS) end(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH), unix.Close(d.fd)); err != nil {
		t.Error(err)
	}
}

// serve answers until the file system is unmounted.
func (d *deafFS) serve() {
	b := make([]byte, 1<<17)
	for {
		n, err := unix.Read(d.fd, b)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil || n < 40 {
			return
		}
		opcode, unique, node := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
		switch {
		case opcode == fuseForget || d.deaf.Load():
		case opcode == fuseRead:
			close(d.read)
		case opcode == fuseOpen && node == fuseFile:
			go d.open(unique)
		default:
			d.reply(unique, fuseAnswer(opcode, node, string(bytes.TrimRight(b[40:n], "\x00"))))
		}
	}
}

// open opens the file. The second time it waits until the first is being read, and has the kernel drop what it has of the
// file when it is mapped, not yet when it is opened: it waits for the page that is being read, then.
func (d *deafFS) open(unique uint64) {
	const direct = 1 | 2 // FOPEN_DIRECT_IO, FOPEN_KEEP_CACHE
	flags := uint32(0)
	if d.opened.Add(1) > 1 {
		<-d.read
		flags = direct
	}
	d.reply(unique, words(uint64(0), flags, uint32(0)))
}

// reply answers a request; nil is that there is no such thing.
func (d *deafFS) reply(unique uint64, body []byte) {
	code := int32(0)
	if body == nil {
		code = -int32(unix.ENOENT)
	}
	_, _ = unix.Write(d.fd, append(words(uint32(16+len(body)), code, unique), body...)) // it may be gone
}

// fuseAnswer returns the answer to a request about a folder dev and the file nvidia0 in it.
func fuseAnswer(opcode uint32, node uint64, name string) []byte {
	const folder, file = unix.S_IFDIR | 0o755, unix.S_IFREG | 0o644
	attributes := func(node uint64) []byte {
		mode := uint32(folder)
		if node == fuseFile {
			mode = file
		}
		return words(node, uint64(4096), uint64(8), uint64(0), uint64(0), uint64(0), uint32(0), uint32(0), uint32(0), mode, uint32(1), [5]uint32{})
	}
	next := map[string]uint64{"dev": fuseFile - 1, "nvidia0": fuseFile}[name]
	switch {
	case opcode == fuseInit:
		return words(uint32(7), uint32(31), uint32(4096), [5]uint32{0, 0, 4096, 1}, [8]uint32{}) // one request of 4 KiB at a time
	case opcode == fuseLookup && next != 0:
		return append(words(next, uint64(0), uint64(0), uint64(0), uint64(0)), attributes(next)...)
	case opcode == fuseLookup:
		return nil
	case opcode == fuseGetattr:
		return append(words(uint64(0), uint64(0)), attributes(node)...)
	}
	return words(uint64(0), uint64(0)) // to open a folder
}

// words are the bytes of numbers.
func words(numbers ...any) []byte {
	var b bytes.Buffer
	for _, n := range numbers {
		_ = binary.Write(&b, binary.LittleEndian, n) // a buffer takes all
	}
	return b.Bytes()
}

// stuckVariable names a file of a deafFS to this test binary, which holds the lock of its memory from then on: it maps
// the file anew while a page of it is being read.
const stuckVariable = "E2E_STUCK"

func init() {
	path := os.Getenv(stuckVariable)
	if path == "" {
		return
	}
	if f, err := os.Open(path); err == nil {
		go func() { _, _ = f.Read(make([]byte, 4096)) }()
	}
	if f, err := os.Open(path); err == nil {
		_, _ = syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_PRIVATE)
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // ends with the test
	os.Exit(0)
}

// stuckChild starts a process that holds the lock of its own memory, and has a file open that has the name of a GPU's and
// that no question about ever comes back. It lets the machine's procfs show it.
func (m *machine) stuckChild(t *testing.T) uint32 {
	t.Helper()
	dir := t.TempDir()
	fs := mountDeaf(t, dir)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), stuckVariable+"="+filepath.Join(dir, "dev/nvidia0"))
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	t.Cleanup(func() {
		fs.end(t, dir)
		if in != nil {
			in.Close()
			_ = cmd.Wait() // how it ended does not matter
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	proc := fmt.Sprintf("/proc/%d", cmd.Process.Pid)
	harness.Eventually(t, patience, func() error { // until a thread is inside its mmap
		threads, err := filepath.Glob(proc + "/task/*/syscall")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			if text, err := os.ReadFile(thread); err == nil && strings.HasPrefix(string(text), fmt.Sprintf("%d 0x0 0x1000 0x1 0x2 ", unix.SYS_MMAP)) {
				return nil
			}
		}
		return fmt.Errorf("no thread of %s is inside mmap", proc)
	})
	fs.deaf.Store(true)
	link(t, proc, filepath.Join(m.procfs, strconv.Itoa(cmd.Process.Pid)))
	return uint32(cmd.Process.Pid)
}

// TestHungFileSystem has a process on a GPU that holds the lock of its own memory, by an mmap that never returns, and a
// file open on a file system that never answers. To read its arguments hangs, and so does to ask what that file is: the
// GPU is read as ever, the open files of all processes are looked at, and the exporter ends when it is told to.
func TestHungFileSystem(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 1)
	stuck, well := m.stuckChild(t), m.child(t)
	m.GPUs[0].Processes = []fakenvml.Process{{PID: stuck, Memory: fakenvml.Constant(gib)}, {PID: well, Memory: fakenvml.Constant(2 * gib)}}
	p := m.start(t, "--nvml.timeout=1s", "--collector.process.command") // so that the arguments of a program that is no script are read
	before := eventually(t, p, func(s harness.Metrics) error {          // which is said after a look at all open files
		return errors.Join(want(s, 1, "gpu_processes_unresolved", nil), want(s, 0, "gpu_collector_success", map[string]string{"collector": "workload"}))
	})
	s := m.goesOn(t, p, before, 0, 3, nil)
	known := with(m.id(0), "pid", strconv.Itoa(int(well)), "process", filepath.Base(os.Args[0]))
	unknown := with(m.id(0), "pid", strconv.Itoa(int(stuck)), "process", "")
	if err := errors.Join(m.up(s, 1), want(s, 2*gib, "gpu_process_memory_used_bytes", known), want(s, gib, "gpu_process_memory_used_bytes", unknown)); err != nil {
		t.Error(err)
	}
	if line := fmt.Sprintf("pid=%d", stuck); strings.Count(p.Output(), line) != 1 {
		t.Errorf("the log names %s %d times", line, strings.Count(p.Output(), line))
	}
	p.Stop(t)
}
