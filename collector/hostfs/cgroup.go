// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package hostfs

import "strings"

// Placement is where a process is, by the paths of its control groups.
type Placement struct {
	// Container is the runtime's ID, 64 hexadecimal digits; "" is none, or one of a runtime without such IDs (LXC,
	// Apptainer, nspawn).
	Container string
	// SlurmJob is the number of the job; from Slurm 26.05 on, unless its CgroupJobIdPaths is set, the job's SLUID, because
	// the path has no number.
	SlurmJob string
	// Service means that a system service or a container manages the process. A process without it is in a session or in
	// no group, such as a job of a shell that is gone.
	Service bool
	// Group is the path in version 2 of control groups. One that begins with /.. is outside of the exporter's own cgroup namespace.
	Group string
}

// ParseCgroup parses /proc/PID/cgroup (cgroups(7)): lines of id:controllers:path, one in version 2 of control groups, one
// for each hierarchy in version 1. Of nested containers the innermost counts. An inner runtime may use only some
// hierarchies of version 1: the deepest container counts.
func ParseCgroup(file string) Placement {
	var p Placement
	deepest := -1
	for line := range strings.Lines(file) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) < 3 {
			continue
		}
		if fields[1] == "" {
			p.Group = fields[2]
		}
		// The kernel marks a group that was removed under a dead process.
		parts := strings.Split(strings.TrimSuffix(fields[2], " (deleted)"), "/")
		for i := len(parts) - 1; i > deepest; i-- {
			if id := containerID(parts[i]); id != "" {
				p.Container, deepest = id, i
				break
			}
		}
		if p.SlurmJob == "" {
			p.SlurmJob = slurmJob(parts)
		}
		p.Service = p.Service || isService(parts)
	}
	return p
}

// containerID returns the ID in one part of a path, "" if there is none. Runtimes and drivers have other forms, but the ID
// always comes last:
//
//	ID                         Docker, containerd, Kubernetes with cgroupfs
//	docker-ID.scope            Docker with systemd; likewise cri-containerd-, crio-, libpod-, nerdctl-
//	libpod-ID                  Podman with cgroupfs; crio- likewise
//	libpod-payload-ID          Podman with --cgroups=split
//	…-podUID.slice:cri-containerd:ID  containerd without its setting for systemd
//
// The runtimes' monitors (conmon) have the ID of a container, too, and are outside of it.
func containerID(part string) string {
	name := strings.TrimSuffix(part, ".scope")
	prefix, id := "", name
	if i := strings.LastIndexAny(name, "-:"); i >= 0 {
		prefix, id = name[:i], name[i+1:]
	}
	if !IsID(id) || strings.HasSuffix(prefix, "conmon") {
		return ""
	}
	return id
}

// IsID reports whether a text is an ID of a container, or a digest: 64 hexadecimal digits.
func IsID(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

func isService(parts []string) bool {
	user := false // the services in a user's slice stop with the session
	for _, part := range parts {
		user = user || part == "user.slice"
		if (!user && strings.HasSuffix(part, ".service")) || isContainer(part) {
			return true
		}
	}
	return false
}

// isContainer reports whether a part of a path belongs to a container: a runtime's scope, a bare ID, or a parent that only
// holds containers.
func isContainer(part string) bool {
	for _, prefix := range []string{"kubepods", "docker", "libpod", "crio", "cri-containerd", "nerdctl", "lxc", "machine.slice", "machine-"} {
		if strings.HasPrefix(part, prefix) {
			return true
		}
	}
	return IsID(part)
}

// slurmJob returns the job in the parts of a path, "" if there is none:
//
//	slurm/uid_1000/job_123/step_0             version 1
//	slurm_NODE/uid_1000/job_123/step_0        version 1, several slurmd on a host
//	slurmstepd.scope/job_123/step_0           version 2
//	NODE_slurmstepd.scope/job_123/step_0      version 2, several slurmd on a host
//	slurmstepd.scope/s5K1KKYAYG5D00/step_0    version 2 since Slurm 26.05
//
// A user can make such groups in the user's own slice, and Slurm makes none there.
func slurmJob(parts []string) string {
	for i, part := range parts {
		after := parts[i+1:]
		switch {
		case part == "user.slice":
			return ""
		case part == "slurmstepd.scope" || strings.HasSuffix(part, "_slurmstepd.scope"):
			if len(after) > 0 {
				return jobOf(after[0])
			}
		case part == "slurm" || strings.HasPrefix(part, "slurm_"):
			if len(after) > 1 && number(after[0], "uid_") != "" {
				return number(after[1], "job_")
			}
		}
	}
	return ""
}

func jobOf(part string) string {
	if n := number(part, "job_"); n != "" {
		return n
	}
	// Slurm's SLUID is an s and 13 digits of base 32.
	digits, ok := strings.CutPrefix(part, "s")
	if ok && len(digits) == 13 && strings.Trim(digits, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		return part
	}
	return ""
}

// number returns the decimal number after the prefix, "" if there is none. Slurm's have 32 bits.
func number(part, prefix string) string {
	n, ok := strings.CutPrefix(part, prefix)
	if !ok || n == "" || len(n) > 10 || strings.Trim(n, "0123456789") != "" {
		return ""
	}
	return n
}
