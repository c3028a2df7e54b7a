// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
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

func TestLives(t *testing.T) {
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
		name       string
		a, b       process
		exact, kin bool // whether they are the same
		basis      lives.Basis
		setUp      func(tr tree) // what else there is
	}{
		{"another port", base, executing("python3", "python3|train.py|--bs|32|--port|40123"), true, true, lives.BasisProgram | lives.BasisArguments, nil},
		{"another batch size", base, executing("python3", "python3|train.py|--bs|64|--port|29500"), false, true, lives.BasisProgram | lives.BasisArguments, nil},
		{"another program", base, executing("python3", "python3|serve.py|--bs|32|--port|29500"), false, false, lives.BasisProgram | lives.BasisArguments, nil},
		{"no interpreter", executing("gmx", "gmx|mdrun|-s|a"), executing("gmx", "gmx|mdrun|-s|b"), false, true, lives.BasisProgram | lives.BasisArguments, nil},
		{"no arguments", executing("gmx", "gmx"), executing("gmx", "/opt/gmx"), true, true, lives.BasisProgram, nil},
		{"another rank in a title", executing("python3", "VLLM::Worker_TP0"), executing("python3", "VLLM::Worker_TP1"), false, true, lives.BasisProgram | lives.BasisArguments, nil},
		{
			"one job", inSlurm, inSlurm, true, true, lives.BasisProgram | lives.BasisArguments | lives.BasisJob,
			func(tr tree) {
				tr.write("5/environ", "A=SLURM_JOB_NAME=x\x00SLURM_JOB_NAME=nightly-2024-05-01\x00SLURM_JOB_NAME=y\x00")
				tr.write("6/environ", "SLURM_JOB_NAME=nightly-2024-05-02\x00")
			},
		},
		{
			"another job", inSlurm, inSlurm, false, false, lives.BasisProgram | lives.BasisArguments | lives.BasisJob,
			func(tr tree) {
				tr.write("5/environ", "SLURM_JOB_NAME=nightly\x00")
				tr.write("6/environ", "SLURM_JOB_NAME=hourly\x00")
			},
		},
		{"a job that is not told", inSlurm, base, true, true, lives.BasisProgram | lives.BasisArguments, nil},
		{"no job", base, base, true, true, lives.BasisProgram | lives.BasisArguments, func(tr tree) { tr.write("5/environ", "SLURM_JOB_NAME=nightly\x00") }},
		{"children of a program", childOf(10), childOf(12), false, true, lives.BasisProgram | lives.BasisArguments, parents},
		{"children of two programs", childOf(10), childOf(11), false, false, lives.BasisProgram | lives.BasisArguments, parents},
		{"a child of a child", childOf(10), childOf(13), true, true, lives.BasisProgram | lives.BasisArguments, parents},
		{
			"a child that a server has forked", childOf(10), executing("python3", forking).with(func(p *process) { p.parent, p.start = 15, 200 }),
			true, true, lives.BasisProgram | lives.BasisArguments, parents,
		},
		{"a child and its program", childOf(10), executing("python3", "python3|/srv/train.py|--bs|32"), false, true, lives.BasisProgram | lives.BasisArguments, parents},
		{"children whose parents are gone", childOf(9), childOf(14), true, true, lives.BasisProgram | lives.BasisArguments, parents},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree(t)
			a, b := tr.add(5, c.a), tr.add(6, c.b)
			if c.setUp != nil {
				c.setUp(tr)
			}
			r := tr.resolver(Config{Namer: lives.NewNamer([]byte("secret"))})
			first, second := mustOwn(r, a).Lives, mustOwn(r, b).Lives
			if first.Exact == 0 || first.Basis != c.basis {
				t.Errorf("%+v, made of %s, want %s", first, first.Basis, c.basis)
			}
			if (first.Exact == second.Exact) != c.exact || (first.Kin == second.Kin) != c.kin {
				t.Errorf("%+v\n%+v", first, second)
			}
			if again := mustOwn(r, a).Lives; again != first {
				t.Errorf("it has another name each time: %+v, %+v", again, first)
			}
		})
	}
}

// What a person types, and what cannot be read, has no name.
func TestNoLives(t *testing.T) {
	namer := lives.NewNamer([]byte("secret"))
	for name, c := range map[string]struct {
		process process
		namer   *lives.Namer
	}{
		"no Namer":   {executing("python3", "python3|train.py"), nil},
		"a notebook": {executing("python3", "python3|-m|ipykernel_launcher|-f|/x/kernel-1.json"), namer},
		"a prompt":   {executing("python3", "python3"), namer},
		"of nobody":  {process{start: 100}, namer},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			id := tr.add(5, c.process)
			if got := mustOwn(tr.resolver(Config{Namer: c.namer}), id).Lives; got != (lives.ID{}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Code that an interpreter runs is no kin of other code that it runs.
func TestInterpretersAreNoKin(t *testing.T) {
	tr := newTree(t)
	id := tr.add(5, executing("python3", "python3|-c|import x; x.run()"))
	if got := mustOwn(tr.resolver(Config{Namer: lives.NewNamer(nil)}), id).Lives; got.Exact == 0 || got.Kin != 0 {
		t.Errorf("%+v", got)
	}
}

// The environment may hold secrets: it is read for the name of a Slurm job alone. That it
// may not be read is no failure.
func TestEnvironmentIsReadOnlyIfNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup string
		namer  *lives.Namer
		read   bool
	}{
		"no Slurm job": {"0::/user.slice\n", lives.NewNamer(nil), false},
		"no Namer":     {slurmGroup, nil, false},
		"both":         {slurmGroup, lives.NewNamer(nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			id := tr.add(5, executing("gmx", "gmx").with(func(p *process) { p.cgroup = c.cgroup }))
			tr.write("5/environ", "SLURM_JOB_NAME=x\x00")
			r := tr.resolver(Config{Namer: c.namer})
			read := false
			r.hook(func(name string) error {
				if name != "environ" {
					return nil
				}
				read = true
				return &fs.PathError{Op: "openat", Path: name, Err: syscall.EACCES}
			})
			o, done := r.lookUp(id)
			if read != c.read || !done || (o.Lives.Exact != 0) != (c.namer != nil) || o.Lives.Basis&lives.BasisJob != 0 {
				t.Errorf("read %t, done %t: %+v", read, done, o)
			}
		})
	}
}

// A lack of file descriptors is no reason to name a process by less than will be known.
func TestLivesAreNamedOnce(t *testing.T) {
	for _, file := range []string{"stat", "exe", "cmdline", "status", "cgroup", "environ"} {
		t.Run(file, func(t *testing.T) {
			tr := newTree(t)
			id := tr.add(5, executing("gmx", "gmx|mdrun").with(func(p *process) { p.cgroup = slurmGroup }))
			tr.write("5/environ", "SLURM_JOB_NAME=x\x00")
			r := tr.resolver(Config{Namer: lives.NewNamer(nil)})
			works := r.failing(file, syscall.EMFILE)
			if o, done := r.lookUp(id); done || o.Lives != (lives.ID{}) {
				t.Errorf("done %t: %+v", done, o)
			}
			works()
			o, done := r.lookUp(id)
			if want := lives.BasisProgram | lives.BasisArguments | lives.BasisJob; !done || o.Lives.Basis != want {
				t.Errorf("done %t: %+v, made of %s", done, o, o.Lives.Basis)
			}
		})
	}
}

// A process in a container has no name until it is known which image it is of.
func TestLivesInAContainer(t *testing.T) {
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
			r := tr.resolver(Config{Namer: lives.NewNamer(nil), RuntimeSockets: []string{socket}})
			if o, done := r.lookUp(id); done || o.Lives != (lives.ID{}) {
				t.Errorf("done %t: %+v", done, o)
			}
			<-running(t, r.containers)
			o, done := r.lookUp(id)
			want := lives.NewNamer(nil).ID(lives.Identity{Program: "gmx", Image: c.want})
			if !done || o.Lives != want {
				t.Errorf("done %t: %+v, want %+v", done, o.Lives, want)
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
	r := tr.resolver(Config{Namer: lives.NewNamer([]byte("secret"))})
	o := mustOwn(r, id)
	if r.answers.young[id].identity != nil || o.Command != "" || o.Lives.Program != "gmx" {
		t.Errorf("kept %+v, %+v", r.answers.young[id], o)
	}
	if i, err := r.identity(nil, hostfs.Stat{}, "gmx", []string{"gmx", "secretword"}, ""); err != nil || len(i.Arguments) != 1 || strings.Contains(i.Arguments[0], "secretword") {
		t.Errorf("%+v, %v", i, err)
	}
	if other := mustOwn(tr.resolver(Config{Namer: lives.NewNamer([]byte("another"))}), id); other.Lives.Exact == o.Lives.Exact {
		t.Error("another secret, the same name")
	}
}
