// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = testkit.Must

// equal checks that got is want, part by part. The format tells of what they are.
func equal[T any](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	testkit.Equal(t, got, want, format, args...)
}

const (
	idA = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"
	idB = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d"
)

// kernelThread is what the flags of a thread of the kernel have.
const kernelThread = 0x00200000

// process is what a tree shows of one process.
type process struct {
	comm   string
	start  uint64
	parent uint32 // 0 stands for 77
	flags  uint64
	exe    string // "" leaves the link out, as it is for the dead and for the kernel's
	args   []string
	uid    int
	cgroup string
	fds    []string
}

// tree is a procfs of our own making.
type tree struct {
	testing.TB
	root string
}

func newTree(t testing.TB) tree {
	t.Helper()
	tr := tree{t, t.TempDir()}
	tr.write("1/root/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nalice:x:1000:1000::/home/alice:/bin/bash\n")
	return tr
}

func (t tree) write(name, content string) {
	t.Helper()
	testkit.Write(t, filepath.Join(t.root, name), content)
}

func (t tree) link(name, target string) {
	t.Helper()
	path := filepath.Join(t.root, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.Symlink(target, path))
}

func (t tree) add(pid uint32, p process) gpu.ProcessID {
	t.Helper()
	dir := strconv.FormatUint(uint64(pid), 10)
	t.write(dir+"/stat", fmt.Sprintf("%d (%s) S %d %d 77 0 -1 %d 1000 0 3 0 250 150 9 9 20 0 8 0 %d 123456789 4321\n",
		pid, p.comm, cmp.Or(p.parent, 77), pid, p.flags, p.start))
	t.write(dir+"/status", fmt.Sprintf("Name:\t%s\nUmask:\t0022\nUid:\t7\t%d\t8\t9\nGid:\t0\t0\t0\t0\n", p.comm, p.uid))
	t.write(dir+"/cmdline", strings.Join(append(p.args, ""), "\x00"))
	t.write(dir+"/cgroup", p.cgroup)
	if p.exe != "" {
		t.link(dir+"/exe", p.exe)
	}
	must(t, os.MkdirAll(filepath.Join(t.root, dir, "fd"), 0o755))
	for i, target := range p.fds {
		t.link(fmt.Sprintf("%s/fd/%d", dir, i), target)
	}
	return gpu.ProcessID{PID: pid, Start: p.start}
}

func (t tree) remove(pid uint32) {
	t.Helper()
	must(t, os.RemoveAll(filepath.Join(t.root, strconv.FormatUint(uint64(pid), 10))))
}

func (t tree) resolver(cfg Config) *Resolver {
	t.Helper()
	cfg.ProcFS = t.root
	r, err := New(cfg)
	must(t, err)
	if len(cfg.RuntimeSockets) == 0 {
		r.containers = newContainers(nil, false) // that of the machine is not asked
	}
	return r
}

// expect asks for the owner of id.
func expect(t *testing.T, r *Resolver, id gpu.ProcessID, want gpu.Owner, done bool) *gpu.Owner {
	t.Helper()
	o, d := r.lookUp(id)
	if o == nil || *o != want || d != done {
		t.Errorf("owner %+v, done %t; want %+v, %t", o, d, want, done)
	}
	return o
}

func TestNew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o644))
	for _, c := range []struct {
		cfg  Config
		says string
	}{
		{Config{}, ""},
		{Config{ProcFS: "/nowhere/proc"}, "ProcFS"},
		{Config{ProcFS: file}, "not a directory"},
	} {
		_, err := New(c.cfg)
		if (err == nil) != (c.says == "") || (err != nil && !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.says)
		}
	}
}

func TestOwner(t *testing.T) {
	for _, c := range []struct {
		name    string
		process process
		command bool
		want    gpu.Owner
	}{
		{
			name: "script in a container, with the command", command: true,
			process: process{
				comm: "pt_main_thread", exe: "/usr/bin/python3.11", args: []string{"python", "-u", "/app/train.py", "--lr", "1e-4"},
				uid: 1000, cgroup: "0::/system.slice/docker-" + idA + ".scope\n",
			},
			want: gpu.Owner{Process: "train.py", User: "alice", Command: "python -u /app/train.py --lr 1e-4", ContainerID: idA},
		},
		{
			name: "Slurm job of a user whom a directory knows",
			process: process{
				comm: "gmx", exe: "/sw/gromacs/bin/gmx", uid: 20017,
				cgroup: "0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0\n",
			},
			want: gpu.Owner{Process: "gmx", User: "20017", SlurmJob: "123"},
		},
		{
			name:    "upgraded while it runs",
			process: process{comm: "Xorg", exe: "/usr/lib/xorg/Xorg (deleted)"},
			want:    gpu.Owner{Process: "Xorg", User: "root"},
		},
		{
			name:    "dead, nobody has waited for it",
			process: process{comm: "train (v2) R 1", cgroup: "0::/docker/" + idA + " (deleted)\n"},
			want:    gpu.Owner{Process: "train (v2) R 1", User: "root", ContainerID: idA},
		},
		{
			name:    "not UTF-8, control and direction marks",
			process: process{comm: "x", exe: "/bin/a\xffb\nc\u202ed\x1b[31m", args: []string{"a\tb", "\x00", "c\xfe"}},
			command: true,
			want:    gpu.Owner{Process: "a\uFFFDb c\uFFFDd\uFFFD[31m", User: "root", Command: "a b   c\uFFFD"},
		},
		{
			name:    "long",
			process: process{comm: "x", exe: "/bin/" + strings.Repeat("ä", 100), args: []string{strings.Repeat("é", 1000)}},
			command: true,
			want:    gpu.Owner{Process: strings.Repeat("ä", 64), User: "root", Command: strings.Repeat("é", 128)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree(t)
			c.process.start = 4711
			id := tr.add(1234, c.process)
			expect(t, tr.resolver(Config{Command: c.command}), id, c.want, true)
		})
	}
}

func TestReusedPIDIsAnother(t *testing.T) {
	tr := newTree(t)
	r := tr.resolver(Config{})
	first := tr.add(5, process{comm: "one", start: 100, exe: "/bin/one"})
	expect(t, r, first, gpu.Owner{Process: "one", User: "root"}, true)
	tr.remove(5)
	second := tr.add(5, process{comm: "two", start: 200, exe: "/bin/two", uid: 1000})
	expect(t, r, second, gpu.Owner{Process: "two", User: "alice"}, true)
	expect(t, r, first, gpu.Owner{Process: "one", User: "root"}, true)
	expect(t, r, gpu.ProcessID{PID: 5, Start: 150}, gpu.Owner{}, true) // between them, never seen
	expect(t, r, gpu.ProcessID{PID: 6, Start: 1}, gpu.Owner{}, true)   // gone
	expect(t, r, gpu.ProcessID{PID: 5}, gpu.Owner{}, true)             // not identified
	expect(t, r, gpu.ProcessID{PID: 5, Start: 200}, *mustOwn(r, second), true)
}

func mustOwn(r *Resolver, id gpu.ProcessID) *gpu.Owner {
	o, _ := r.lookUp(id)
	return o
}

// hookedDir calls before ahead of every read; an error of it is the read's.
type hookedDir struct {
	procDir
	before func(name string) error
}

func (d hookedDir) read(name string, limit int64) ([]byte, error) {
	if err := d.before(name); err != nil {
		return nil, err
	}
	return d.procDir.read(name, limit)
}

func (d hookedDir) Readlink(name string) (string, error) {
	if err := d.before(name); err != nil {
		return "", err
	}
	return d.procDir.Readlink(name)
}

func (r *Resolver) hook(before func(name string) error) {
	open := r.open
	r.open = func(pid uint32) (procDir, error) {
		d, err := open(pid)
		if err != nil {
			return nil, err
		}
		return hookedDir{d, before}, nil
	}
}

// The files that were read of a process that exits meanwhile count. Its arguments, which are behind a lock of the process, are read
// only where its executable is not its name.
func TestProcessEndsWhileReading(t *testing.T) {
	tr := newTree(t)
	id := tr.add(5, process{comm: "one", start: 100, exe: "/bin/one", uid: 1000})
	r := tr.resolver(Config{})
	r.hook(func(name string) error {
		switch name {
		case "cgroup":
			tr.remove(5)
		case "cmdline":
			t.Error("cmdline was read")
		}
		return nil
	})
	expect(t, r, id, gpu.Owner{Process: "one", User: "alice"}, true)
}

// failing has reads of a file fail until works is called.
func (r *Resolver) failing(file string, why error) (works func()) {
	fails := true
	r.hook(func(name string) error {
		if fails && name == file {
			return &fs.PathError{Op: "openat", Path: name, Err: why}
		}
		return nil
	})
	return func() { fails = false }
}

// A lack of file descriptors is not the process's end: it is read again. Missing rights are final, and cost only what they hide.
func TestFilesThatCannotBeRead(t *testing.T) {
	whole := gpu.Owner{Process: "train.py", User: "alice", ContainerID: idA}
	for _, c := range []struct {
		file   string
		denied gpu.Owner
	}{
		{"stat", gpu.Owner{}},
		{"exe", whole},
		{"cmdline", gpu.Owner{Process: "python3", User: "alice", ContainerID: idA}},
		{"status", gpu.Owner{Process: "train.py", ContainerID: idA}},
		{"cgroup", gpu.Owner{Process: "train.py", User: "alice"}},
	} {
		for _, why := range []error{syscall.EMFILE, syscall.EACCES} {
			t.Run(fmt.Sprintf("%s: %v", c.file, why), func(t *testing.T) {
				tr := newTree(t)
				id := tr.add(5, process{
					comm: "pt_main_thread", start: 100, exe: "/usr/bin/python3", args: []string{"python3", "train.py"}, uid: 1000,
					cgroup: "0::/docker/" + idA + "\n",
				})
				if errors.Is(why, fs.ErrPermission) {
					r := tr.resolver(Config{})
					r.failing(c.file, why)
					expect(t, r, id, c.denied, true)
					return
				}
				r := tr.resolver(Config{Secret: []byte{}})
				works := r.failing(c.file, why)
				expect(t, r, id, gpu.Owner{}, false)
				works()
				want := whole // it is not named by less before
				want.Runs = (&gpu.Program{Name: "train.py", Arguments: hashOf([]string{"train.py"})}).Hash(nil)
				expect(t, r, id, want, true)
			})
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	tr := newTree(t)
	r := tr.resolver(Config{})
	r.answers.half = 5
	kept := tr.add(1000, process{comm: "kept", start: 1, exe: "/bin/kept"})
	first, _ := r.lookUp(kept)
	for i := range uint32(100) {
		r.lookUp(gpu.ProcessID{PID: i + 2000, Start: 1})
		if n := len(r.answers.young) + len(r.answers.old); n > 10 {
			t.Fatalf("%d answers are kept", n)
		}
		if o, _ := r.lookUp(kept); o != first {
			t.Fatalf("one that is asked for was forgotten after %d others", i+1)
		}
	}
}

func TestAnswersAreForgotten(t *testing.T) {
	tr := newTree(t)
	asked := tr.add(5, process{comm: "asked", start: 1, exe: "/bin/asked"})
	idle := tr.add(6, process{comm: "idle", start: 1, exe: "/bin/idle"})
	synctest.Test(t, func(t *testing.T) {
		r := tr.resolver(Config{})
		first, _ := r.lookUp(asked)
		r.lookUp(idle)
		for range 5 {
			time.Sleep(forgetAfter / 2)
			if o, _ := r.lookUp(asked); o != first {
				t.Error("one that is asked for was forgotten")
			}
		}
		equal(t, len(r.answers.young)+len(r.answers.old), 1, "answers are kept")
	})
}

func TestOwnerIsShared(t *testing.T) {
	tr := newTree(t)
	ids := make([]gpu.ProcessID, 50)
	for i := range ids {
		ids[i] = tr.add(uint32(i+10), process{comm: "p", start: 1, exe: fmt.Sprintf("/bin/p%d", i)})
	}
	r := tr.resolver(Config{})
	got := make([][]*gpu.Owner, 8)
	var wg sync.WaitGroup
	for g := range got {
		wg.Go(func() {
			for _, id := range ids {
				o, _ := r.lookUp(id)
				got[g] = append(got[g], o)
			}
			if _, err := r.Holders(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for g := range got {
		for i, o := range got[g] {
			if o != got[0][i] || o.Process != fmt.Sprintf("p%d", i) {
				t.Errorf("goroutine %d has %+v for process %d", g, o, i)
			}
		}
	}
}

// A real program. Once it has exited, its directory, opened before, shows no other process.
func TestProgramThatEnds(t *testing.T) {
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	r, err := New(Config{})
	must(t, err)
	d, err := r.open(uint32(cmd.Process.Pid))
	must(t, err)
	defer d.Close()
	s, err := readStat(d)
	must(t, err)
	id := gpu.ProcessID{PID: uint32(cmd.Process.Pid), Start: s.Start}
	if o, done := r.lookUp(id); !done || o.Process != "cat" {
		t.Errorf("%+v, done %t", o, done)
	}
	stdin.Close()
	must(t, cmd.Wait())
	if _, err := readStat(d); !gone(err) {
		t.Errorf("its directory says %v", err)
	}
	if a := r.look(id); !a.read || *a.owner != (gpu.Owner{}) {
		t.Errorf("%+v, read %t", a.owner, a.read)
	}
}

func TestParseUID(t *testing.T) {
	for _, c := range []struct {
		status string
		want   uint32
		fails  bool
	}{
		{status: "Name:\tx\nUid:\t1\t4294967294\t3\t4\n", want: 4294967294},
		{status: "Name:\tUid:\nUid:\t0\t0\t0\t0\n"},
		{status: "", fails: true},
		{status: "Uid:\t1\n", fails: true},
		{status: "Uid:\tx\ty\tz\n", fails: true},
	} {
		got, err := parseUID([]byte(c.status))
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%q: %d, %v", c.status, got, err)
		}
	}
}

// checkLabel fails the test unless s can be the value of a label.
func checkLabel(t *testing.T, s string, limit int) {
	t.Helper()
	if len(s) > limit || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) || strings.TrimSpace(s) != s {
		t.Errorf("%d bytes as a label: %q", len(s), s)
	}
}

func FuzzLabel(f *testing.F) {
	f.Add("train.py")
	f.Add("\xff\x00\u202e" + strings.Repeat("日本", 100))
	f.Add(strings.Repeat("\u2003", 200) + "x")
	f.Fuzz(func(t *testing.T, s string) {
		checkLabel(t, label(s, maxLabel), maxLabel)
		equal(t, label(label(s, maxLabel), maxLabel), label(s, maxLabel), "changes again to")
	})
}

// The pod of a process comes from the runtime, a moment later. Until then the rest is known, and procfs is not read again.
func TestOwnerInAPod(t *testing.T) {
	tr := newTree(t)
	in := func(container string) string {
		return "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + container + ".scope\n"
	}
	trainer := tr.add(100, process{comm: "python3", exe: "/usr/bin/train", uid: 1000, start: 5, cgroup: in(idA)})
	sidecar := tr.add(101, process{comm: "python3", exe: "/usr/bin/copy", uid: 1000, start: 6, cgroup: in(idB)})
	daemon := tr.add(102, process{comm: "daemon", exe: "/usr/bin/daemon", uid: 1000, start: 7, cgroup: "0::/system.slice/d.service\n"})
	socket := runtimeSocket(t)
	having(inPod(idA, "ml", "train-0", "main")).start(t, socket)
	r := tr.resolver(Config{RuntimeSockets: []string{"unix://" + socket}})
	expect(t, r, daemon, gpu.Owner{Process: "daemon", User: "alice"}, true)
	expect(t, r, trainer, gpu.Owner{Process: "train", User: "alice", ContainerID: idA}, false)
	expect(t, r, sidecar, gpu.Owner{Process: "copy", User: "alice", ContainerID: idB}, false)
	tr.remove(100) // what is known stays, though the process is gone
	pauses := running(t, r.containers)
	<-pauses
	want := gpu.Owner{Process: "train", User: "alice", ContainerID: idA, Namespace: "ml", Pod: "train-0", Container: "main"}
	first := expect(t, r, trainer, want, true)
	// The runtime does not know it: a container of Docker's.
	expect(t, r, sidecar, gpu.Owner{Process: "copy", User: "alice", ContainerID: idB}, true)
	if again := expect(t, r, trainer, want, true); again != first {
		t.Error("the owner is another one each time")
	}
	must(t, r.RuntimeProblem())
}

func TestLacking(t *testing.T) {
	tr, socket := newTree(t), runtimeSocket(t)
	equal(t, len(tr.resolver(Config{}).Lacking()), 2, "on a host without Kubernetes")
	tr.write("1/cgroup", "0::/../../init.scope\n")
	equal(t, len(tr.resolver(Config{}).Lacking()), 3, "in a cgroup namespace")
	tr.write("1/cgroup", "0::/init.scope\n")
	equal(t, len(tr.resolver(Config{}).Lacking()), 2, "in that of the host")
	// A named socket that is missing is an error, when it is asked.
	equal(t, len(tr.resolver(Config{RuntimeSockets: []string{socket}, PodResourcesSocket: socket}).Lacking()), 0, "with named sockets")
	r := tr.resolver(Config{})
	must(t, os.WriteFile(socket, nil, 0o600)) // it is only looked at
	r.containers, r.allotments = newContainers([]string{socket}, false), &allotments{socket: socket}
	equal(t, len(r.Lacking()), 0, "with sockets at the usual places")
}
