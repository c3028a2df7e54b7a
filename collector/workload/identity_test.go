// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// executing returns a process, whose arguments are split at |.
func executing(exe, args string) process {
	return process{comm: "x", start: 100, exe: "/bin/" + exe, args: strings.Split(args, "|"), uid: 1000, cgroup: "0::/user.slice\n"}
}

// with changes a process.
func (p process) with(change func(p *process)) process {
	change(&p)
	return p
}

const slurmGroup = "0::/system.slice/slurmstepd.scope/job_481516/step_0\n"

func TestPrograms(t *testing.T) {
	base := executing("python3", "python3|train.py|--bs|32|--port|29500")
	inSlurm := base.with(func(p *process) { p.cgroup = slurmGroup })
	const spawned = "python3|-c|from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)|--multiprocessing-fork"
	const forking = "python3|-c|from multiprocessing.forkserver import main; main(3, 5, ['__main__'], **{'sys_path': ['/srv']})"
	childOf := func(parent uint32) process {
		return executing("python3", spawned).with(func(p *process) { p.parent, p.start = parent, 200 })
	}
	parents := func(tr tree) {
		tr.add(10, executing("python3", "python3|/srv/train.py|--bs|32"))
		tr.add(11, executing("python3", "python3|/srv/serve.py"))
		tr.add(12, executing("python3", "python3|/srv/train.py|--bs|32|--seed|8"))
		tr.add(13, childOf(10))
		tr.add(15, executing("python3", forking).with(func(p *process) { p.parent, p.start = 10, 150 }))
		tr.add(14, executing("python3", "python3|/srv/late.py").with(func(p *process) { p.start = 300 }))
	}
	for _, c := range []struct {
		name  string
		a, b  process
		same  bool
		setUp func(tr tree) // what else there is
	}{
		{"another port", base, executing("python3", "python3|train.py|--bs|32|--port|40123"), true, nil},
		{"another batch size", base, executing("python3", "python3|train.py|--bs|64|--port|29500"), false, nil},
		{"another program", base, executing("python3", "python3|serve.py|--bs|32|--port|29500"), false, nil},
		{"no interpreter", executing("gmx", "gmx|mdrun|-s|a"), executing("gmx", "gmx|mdrun|-s|b"), false, nil},
		{"no arguments", executing("gmx", "gmx"), executing("gmx", "/opt/gmx"), true, nil},
		{"another rank in a title", executing("python3", "VLLM::Worker_TP0"), executing("python3", "VLLM::Worker_TP1"), false, nil},
		{
			"one job", inSlurm, inSlurm, true,
			func(tr tree) {
				tr.write("5/environ", "A=SLURM_JOB_NAME=x\x00SLURM_JOB_NAME=nightly-2024-05-01\x00SLURM_JOB_NAME=y\x00")
				tr.write("6/environ", "SLURM_JOB_NAME=nightly-2024-05-02\x00")
			},
		},
		{
			"another job", inSlurm, inSlurm, false,
			func(tr tree) {
				tr.write("5/environ", "SLURM_JOB_NAME=nightly\x00")
				tr.write("6/environ", "SLURM_JOB_NAME=hourly\x00")
			},
		},
		{"a job that is not told", inSlurm, base, true, nil},
		{"no job", base, base, true, func(tr tree) { tr.write("5/environ", "SLURM_JOB_NAME=nightly\x00") }},
		{"children of a program", childOf(10), childOf(12), false, parents},
		{"children of two programs", childOf(10), childOf(11), false, parents},
		{"a child of a child", childOf(10), childOf(13), true, parents},
		{
			"a child that a server has forked", childOf(10), executing("python3", forking).with(func(p *process) { p.parent, p.start = 15, 200 }),
			true, parents,
		},
		{"a child and its program", childOf(10), executing("python3", "python3|/srv/train.py|--bs|32"), false, parents},
		{"children whose parents are gone", childOf(9), childOf(14), true, parents},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree(t)
			a, b := tr.add(5, c.a), tr.add(6, c.b)
			if c.setUp != nil {
				c.setUp(tr)
			}
			r := tr.resolver(Config{Secret: []byte("secret")})
			first, second := mustOwn(r, a).Runs, mustOwn(r, b).Runs
			if first == 0 || (first == second) != c.same {
				t.Errorf("%d and %d", first, second)
			}
			if again := mustOwn(r, a).Runs; again != first {
				t.Errorf("it has another name each time: %d, %d", again, first)
			}
		})
	}
}

// What a person types, and what cannot be read, has no name.
func TestNoPrograms(t *testing.T) {
	secret := []byte("secret")
	for name, c := range map[string]struct {
		process process
		secret  []byte
	}{
		"no secret":  {executing("python3", "python3|train.py"), nil},
		"a notebook": {executing("python3", "python3|-m|ipykernel_launcher|-f|/x/kernel-1.json"), secret},
		"a prompt":   {executing("python3", "python3"), secret},
		"of nobody":  {process{start: 100}, secret},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			id := tr.add(5, c.process)
			if got := mustOwn(tr.resolver(Config{Secret: c.secret}), id).Runs; got != 0 {
				t.Errorf("%d", got)
			}
		})
	}
}

// The environment may hold secrets: it is read for the name of a Slurm job alone. That it
// may not be read is no failure.
func TestEnvironmentIsReadOnlyIfNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup string
		secret []byte
		read   bool
	}{
		"no Slurm job": {"0::/user.slice\n", []byte{}, false},
		"no secret":    {slurmGroup, nil, false},
		"both":         {slurmGroup, []byte{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			id := tr.add(5, executing("gmx", "gmx").with(func(p *process) { p.cgroup = c.cgroup }))
			tr.write("5/environ", "SLURM_JOB_NAME=x\x00")
			r := tr.resolver(Config{Secret: c.secret})
			read := false
			r.hook(func(name string) error {
				if name != "environ" {
					return nil
				}
				read = true
				return &fs.PathError{Op: "openat", Path: name, Err: syscall.EACCES}
			})
			o, done := r.lookUp(id)
			want := uint64(0)
			if c.secret != nil {
				want = (&gpu.Program{Name: "gmx"}).Hash(nil)
			}
			if read != c.read || !done || o.Runs != want {
				t.Errorf("read %t, done %t: %+v", read, done, o)
			}
		})
	}
}

// A lack of file descriptors is no reason to name a process by less than will be known.
func TestProgramsAreNamedOnce(t *testing.T) {
	for _, file := range []string{"stat", "exe", "cmdline", "status", "cgroup", "environ"} {
		t.Run(file, func(t *testing.T) {
			tr := newTree(t)
			id := tr.add(5, executing("gmx", "gmx|mdrun").with(func(p *process) { p.cgroup = slurmGroup }))
			tr.write("5/environ", "SLURM_JOB_NAME=x\x00")
			r := tr.resolver(Config{Secret: []byte{}})
			works := r.failing(file, syscall.EMFILE)
			if o, done := r.lookUp(id); done || o.Runs != 0 {
				t.Errorf("done %t: %+v", done, o)
			}
			works()
			o, done := r.lookUp(id)
			want := gpu.Program{Name: "gmx", Job: "x", Arguments: hashOf([]string{"mdrun"})}
			if !done || o.Runs != want.Hash(nil) {
				t.Errorf("done %t: %+v", done, o)
			}
		})
	}
}

// A process in a container has no name until it is known which image it is of.
func TestProgramsInAContainer(t *testing.T) {
	const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	listed := inPod(idA, "ml", "train-0", "main")
	listed.Image = &runtimeapi.ImageSpec{Image: digestForm + idB, UserSpecifiedImage: "registry.example/ml/train:v1"}
	listed.ImageRef = digestForm + idB
	for name, c := range map[string]struct {
		runtime *fakeRuntime
		want    string
	}{
		"the registry's digest": {&fakeRuntime{
			list: having(listed).list,
			images: &fakeImages{list: []*runtimeapi.Image{nil, {Id: digestForm + idB, RepoDigests: []string{
				"registry.example/ml/train@sha256:" + digest, "mirror.example/ml/train@sha256:" + idA,
			}}}},
		}, "registry.example/ml/train@sha256:0123456789ab"},
		"no images":  {having(listed), "registry.example/ml/train@sha256:" + idB[:12]},
		"not listed": {having(inPod(idB, "a", "b", "c")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			id := tr.add(5, executing("gmx", "gmx").with(func(p *process) { p.cgroup = "0::/cri-containerd-" + idA + ".scope\n" }))
			socket := runtimeSocket(t)
			c.runtime.start(t, socket)
			r := tr.resolver(Config{Secret: []byte{}, RuntimeSockets: []string{socket}})
			if o, done := r.lookUp(id); done || o.Runs != 0 {
				t.Errorf("done %t: %+v", done, o)
			}
			<-running(t, r.containers)
			o, done := r.lookUp(id)
			if want := (&gpu.Program{Name: "gmx", Image: c.want}).Hash(nil); !done || o.Runs != want {
				t.Errorf("done %t: %d, want %d", done, o.Runs, want)
			}
			if again := mustOwn(r, id); again != o {
				t.Error("the owner is another one each time")
			}
		})
	}
}

// Where no image is asked for, none is listed.
func TestImagesAreListedOnlyIfNeeded(t *testing.T) {
	r, socket := having(inPod(idA, "ml", "train-0", "main")), runtimeSocket(t)
	r.start(t, socket)
	l, err := list(t.Context(), socket, false)
	if err != nil || l.images != nil || len(l.containers) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err = list(t.Context(), socket, true); err != nil || l.images == nil {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestImageOf(t *testing.T) {
	const a, b = digestForm + idA, digestForm + idB
	short := func(digest string) string { return digest[:len(digestForm)+shortDigest] }
	for _, c := range []struct {
		name                       string
		specified, image, ref, own string
		digests                    []string // of idA
		want                       string
	}{
		{"containerd", "nvcr.io/nvidia/tritonserver:24.05-py3", a, a, "", []string{"nvcr.io/nvidia/tritonserver@" + b}, "nvcr.io/nvidia/tritonserver@" + short(b)},
		{"an older containerd", "", "nvcr.io/nvidia/tritonserver:24.05-py3", a, "", []string{"nvcr.io/nvidia/tritonserver@" + b}, "nvcr.io/nvidia/tritonserver@" + short(b)},
		{"CRI-O", "quay.io/x/y:1", "quay.io/x/y:1", "quay.io/x/y@" + b, idA, nil, "quay.io/x/y@" + short(b)},
		{"cri-dockerd", "x/y", a, "docker-pullable://docker.io/x/y@" + b, "", nil, "docker.io/x/y@" + short(b)},
		{"pinned by the pod", "quay.io/x/y:1@" + b, a, a, "", []string{"quay.io/x/y@" + a}, "quay.io/x/y@" + short(b)},
		{"a registry with a port", "host:5000/x", a, a, "", nil, "host:5000/x@" + short(a)},
		{"the registry is implied", "python:3.12", a, a, "", []string{"docker.io/library/python@" + b}, "docker.io/library/python@" + short(b)},
		{"pulled from a mirror", "quay.io/x/y:1", a, a, "", []string{"mirror/x/z@" + b}, "quay.io/x/y@" + short(b)},
		{"only an ID, whose repository is known", "", a, a, idA, []string{"quay.io/x/y@" + b}, "quay.io/x/y@" + short(b)},
		{"only an ID", "", a, idA, "", nil, ""},
		{"only a name", "quay.io/x/y:1", "", "", "", nil, "quay.io/x/y"},
		{"a digest of another kind", "quay.io/x/y@sha512:12", "", "", "", nil, "quay.io/x/y"},
		{"nothing", "", "", "", "", nil, ""},
		{"what a registry would not have", "quay.io/x/y:1", a, a, "", []string{"", "@", "@" + b, "x@sha256:1"}, "quay.io/x/y@" + short(a)},
	} {
		container := &runtimeapi.Container{
			Image:    &runtimeapi.ImageSpec{Image: c.image, UserSpecifiedImage: c.specified},
			ImageRef: c.ref, ImageId: c.own,
		}
		if got := imageOf(container, map[string][]string{idA: c.digests}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := imageOf(nil, nil); got != "" {
		t.Errorf("of no container: %q", got)
	}
}

// A name tells nothing to who does not know the secret, and nothing of it is kept but that.
func TestArgumentsAreNotKept(t *testing.T) {
	tr := newTree(t)
	id := tr.add(5, executing("gmx", "gmx|--hunter2|secretword"))
	r := tr.resolver(Config{Secret: []byte("secret")})
	o := mustOwn(r, id)
	if r.answers.young[id].program != (gpu.Program{}) || o.Command != "" || o.Runs == 0 {
		t.Errorf("kept %+v, %+v", r.answers.young[id], o)
	}
	if p, err := r.toName(nil, hostfs.Stat{}, "gmx", []string{"gmx", "secretword"}, ""); err != nil || p.Arguments == "" || strings.Contains(p.Arguments, "secretword") {
		t.Errorf("%+v, %v", p, err)
	}
	if other := mustOwn(tr.resolver(Config{Secret: []byte("another")}), id); other.Runs == o.Runs {
		t.Error("another secret, the same name")
	}
}
