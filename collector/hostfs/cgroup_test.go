// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"strings"
	"testing"
)

// idA and idB are IDs of containers.
var (
	idA = strings.Repeat("0123456789abcdef", 4)
	idB = strings.Repeat("fedcba9876543210", 4)
)

func TestParseCgroup(t *testing.T) {
	const (
		podSystemd = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda5c1f8d5_1919_434d_add7_4afaafdaef89.slice"
		podFS      = "/kubepods/burstable/poda5c1f8d5-1919-434d-add7-4afaafdaef89"
	)
	for _, c := range []struct {
		name, cgroup     string
		container, slurm string
		service          bool // or a container
	}{
		{name: "none", cgroup: ""},
		{name: "root", cgroup: "0::/\n"},
		{name: "login", cgroup: "0::/user.slice/user-1000.slice/session-3.scope\n"},
		{name: "service", cgroup: "0::/system.slice/ollama.service\n", service: true},
		{name: "service, seen from a container", cgroup: "0::/../../system.slice/triton.service\n", service: true},
		{name: "service in a slice of its own", cgroup: "0::/system.slice/system-getty.slice/getty@tty1.service\n", service: true},
		{name: "service of a user", cgroup: "0::/user.slice/user-1000.slice/user@1000.service/app.slice/tmux.service\n"},
		{name: "service, version 1", cgroup: "12:memory:/\n1:name=systemd:/system.slice/ssh.service\n", service: true},
		{name: "login, version 1", cgroup: "12:memory:/user.slice\n4:devices:/user.slice\n1:name=systemd:/user.slice/user-0.slice/session-1.scope\n0::/user.slice/user-0.slice/session-1.scope\n"},
		{name: "virtual machine", cgroup: "0::/machine.slice/machine-qemu.scope\n", service: true},
		{name: "no line of a group file", cgroup: "garbage\n"},
		{name: "not a group file", cgroup: idA + "\n:\n::\n"},

		{name: "Docker, systemd", cgroup: "0::/system.slice/docker-" + idA + ".scope\n", container: idA, service: true},
		{name: "Docker, cgroupfs", cgroup: "0::/docker/" + idA + "\n", container: idA, service: true},
		{name: "Docker, version 1", cgroup: "10:devices:/docker/" + idA + "\n9:cpu,cpuacct:/docker/" + idA + "\n1:name=systemd:/docker/" + idA + "\n", container: idA, service: true},
		{name: "Docker, rootless", cgroup: "0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + idA + ".scope\n", container: idA, service: true},
		{name: "Docker, systemd inside", cgroup: "0::/system.slice/docker-" + idA + ".scope/system.slice/sshd.service\n", container: idA, service: true},
		{name: "Docker, seen from another container", cgroup: "0::/../" + idA + "\n", container: idA, service: true},
		{name: "Docker, seen from a container of systemd's", cgroup: "0::/../docker-" + idA + ".scope\n", container: idA, service: true},
		{name: "Docker, group removed", cgroup: "0::/system.slice/docker-" + idA + ".scope (deleted)\n", container: idA, service: true},
		{name: "Amazon ECS", cgroup: "9:memory:/ecs/6b4a5cf3c5e54cb7bd4d2b9b2d9e8d2a/" + idA + "\n", container: idA, service: true},

		{name: "containerd, systemd", cgroup: "0::" + podSystemd + "/cri-containerd-" + idA + ".scope\n", container: idA, service: true},
		{name: "containerd, cgroupfs", cgroup: "0::" + podFS + "/" + idA + "\n", container: idA, service: true},
		{name: "containerd that was not told of systemd", cgroup: "0::/system.slice/containerd.service/kubepods-burstable-poda5c1f8d5_1919.slice:cri-containerd:" + idA + "\n", container: idA, service: true},
		{name: "containerd, ctr", cgroup: "0::/default/" + idA + "\n", container: idA, service: true},
		{name: "nerdctl", cgroup: "0::/system.slice/nerdctl-" + idA + ".scope\n", container: idA, service: true},
		{name: "dockershim", cgroup: "1:name=systemd:" + podSystemd + "/docker-" + idA + ".scope\n", container: idA, service: true},
		{name: "pod without a container", cgroup: "0::" + podSystemd + "\n", service: true},

		{name: "CRI-O, systemd", cgroup: "0::" + podSystemd + "/crio-" + idA + ".scope\n", container: idA, service: true},
		{name: "CRI-O, crun", cgroup: "0::" + podSystemd + "/crio-" + idA + ".scope/container\n", container: idA, service: true},
		{name: "CRI-O, cgroupfs", cgroup: "0::" + podFS + "/crio-" + idA + "\n", container: idA, service: true},
		{name: "CRI-O, monitor", cgroup: "1:name=systemd:" + podSystemd + "/crio-conmon-" + idA + ".scope\n", service: true},

		{name: "Podman, systemd", cgroup: "0::/machine.slice/libpod-" + idA + ".scope/container\n", container: idA, service: true},
		{name: "Podman, pod's own group", cgroup: "0::/machine.slice/machine-libpod_pod_" + idB + ".slice\n", service: true},
		{name: "Podman, cgroupfs", cgroup: "0::/libpod_parent/libpod-" + idA + "\n", container: idA, service: true},
		{name: "Podman, split", cgroup: "0::/system.slice/vllm.service/libpod-payload-" + idA + "\n", container: idA, service: true},
		{name: "Podman, monitor", cgroup: "0::/machine.slice/libpod-conmon-" + idA + ".scope\n", service: true},
		{name: "Podman, health check", cgroup: "0::/system.slice/" + idA + "-1b2c3d4e5f607182.service\n", service: true},

		{name: "kind", cgroup: "0::/system.slice/docker-" + idB + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod1e597579_417e.slice/cri-containerd-" + idA + ".scope\n", container: idA, service: true},
		{name: "Docker in Docker", cgroup: "0::/docker/" + idB + "/docker/" + idA + "\n", container: idA, service: true},
		{name: "Docker in Docker, some of version 1", cgroup: "4:devices:/docker/" + idB + "\n3:memory:/docker/" + idB + "/docker/" + idA + "\n1:name=systemd:/system.slice/docker.service\n", container: idA, service: true},
		{name: "Docker in Docker, order reversed", cgroup: "4:memory:/docker/" + idB + "/docker/" + idA + "\n3:devices:/docker/" + idB + "\n", container: idA, service: true},

		{name: "too short", cgroup: "0::/docker/" + idA[1:] + "\n", service: true},
		{name: "too long", cgroup: "0::/docker/a" + idA + "\n", service: true},
		{name: "upper case", cgroup: "0::/docker/" + strings.ToUpper(idA) + "\n", service: true},
		{name: "LXC", cgroup: "0::/lxc.payload.gpu01/system.slice/jupyter.service\n", service: true},
		{name: "nspawn", cgroup: "0::/machine.slice/machine-gpu01.scope/payload\n", service: true},
		{name: "Apptainer", cgroup: "0::/user.slice/user-1000.slice/user@1000.service/user.slice/apptainer-4711.scope\n"},

		{name: "Slurm, version 1", cgroup: "9:devices:/slurm/uid_1000/job_123/step_0\n6:memory:/slurm/uid_1000/job_123/step_0/task_0\n1:name=systemd:/system.slice/slurmd.service\n", slurm: "123", service: true},
		{name: "Slurm, version 1, several", cgroup: "9:devices:/slurm_gpu01/uid_1000/job_123/step_batch\n", slurm: "123"},
		{name: "Slurm, version 2", cgroup: "0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0\n", slurm: "123"},
		{name: "Slurm, version 2, several", cgroup: "0::/system.slice/gpu01_slurmstepd.scope/job_4294901760/step_extern/user/task_special\n", slurm: "4294901760"},
		{name: "Slurm 26.05", cgroup: "0::/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0/user/task_0\n", slurm: "s5K1KKYAYG5D00"},
		{name: "Slurm, its own part", cgroup: "0::/system.slice/slurmstepd.scope/system\n"},
		{name: "Slurm, the daemon", cgroup: "0::/system.slice/slurmd.service\n", service: true},
		{name: "Slurm, scope alone", cgroup: "0::/system.slice/slurmstepd.scope\n"},
		{name: "Slurm, no number", cgroup: "0::/system.slice/slurmstepd.scope/job_12x\n9:devices:/slurm/uid_1000/job_/step_0\n8:cpu:/slurm/uid_1000\n"},
		{name: "Slurm in Kubernetes", cgroup: "0::" + podSystemd + "/cri-containerd-" + idA + ".scope/system.slice/slurmstepd.scope/job_7/step_0\n", container: idA, slurm: "7", service: true},
		{name: "container in a Slurm job", cgroup: "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0/libpod-" + idA + "\n", container: idA, slurm: "7", service: true},
		{name: "Slurm, as a user makes believe", cgroup: "0::/user.slice/user-1000.slice/user@1000.service/app.slice/slurmstepd.scope/job_7\n"},
		{name: "Slurm, job of another manager", cgroup: "0::/pbs/job_7\n"},
	} {
		want := Placement{Container: c.container, SlurmJob: c.slurm, Service: c.service}
		got := ParseCgroup(c.cgroup)
		if got.Group = ""; got != want { // see TestGroup
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
	}
}

func FuzzParseCgroup(f *testing.F) {
	f.Add("0::/system.slice/docker-" + idA + ".scope/kubelet.slice/cri-containerd-" + idB + ".scope (deleted)\n")
	f.Add("4:memory:/slurm/uid_1000/job_123/step_0\n1:name=systemd:/system.slice/slurmd.service\n")
	f.Add("0::/system.slice/n_slurmstepd.scope/s5K1KKYAYG5D00/step_0\n")
	f.Add("0::/..//../a.slice:cri-containerd:" + idA)
	f.Fuzz(func(t *testing.T, file string) {
		p := ParseCgroup(file)
		if p.Container != "" && (len(p.Container) != 64 || containerID(p.Container) != p.Container) {
			t.Errorf("container %q", p.Container)
		}
		if !strings.Contains(file, p.Container) || !strings.Contains(file, p.SlurmJob) {
			t.Errorf("%+v is not in %q", p, file)
		}
		if len(p.SlurmJob) > 14 || strings.ContainsFunc(p.SlurmJob, func(r rune) bool { return r > 'z' || r < '0' }) {
			t.Errorf("job %q", p.SlurmJob)
		}
		// Other lines change nothing.
		if again := ParseCgroup("7:freezer:/\n" + file); again != p {
			t.Errorf("%+v, and %+v after a line more", p, again)
		}
	})
}

// TestGroup finds the group in version 2.
func TestGroup(t *testing.T) {
	for cgroup, want := range map[string]string{
		"12:memory:/a\n1:name=systemd:/b\n0::/pods/c\n": "/pods/c",
		"12:memory:/a\n":  "",
		"0::/../pods/c\n": "/../pods/c",
	} {
		if got := ParseCgroup(cgroup).Group; got != want {
			t.Errorf("%q: %q, want %q", cgroup, got, want)
		}
	}
}
