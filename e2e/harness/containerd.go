// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package harness

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// image is what all containers are made from, those of the pods themselves too.
	image = "docker.io/e2e/pause:1"
	// runtimeTimeout bounds a request to containerd. A container starts in less than
	// a second.
	runtimeTimeout = time.Minute
	// cgroupFS is where the control groups are mounted, one below the other.
	cgroupFS = "/sys/fs/cgroup"
)

// Containerd is a real containerd with its CRI plugin, as the kubelet of a node uses
// it, with pods of its own. It shares nothing with another one on this machine.
type Containerd struct {
	// Socket is the path of its socket.
	Socket string

	// dir holds all its files. Its last part names its control groups.
	dir     string
	runtime cri.RuntimeServiceClient
	images  cri.ImageServiceClient
	pods    map[string]*pod // by namespace/name
}

// pod is one that runs.
type pod struct {
	id     string
	config *cri.PodSandboxConfig
}

// StartContainerd runs containerd with no pods until the end of the test, and what
// it has started no longer than that. It has to be root's.
func StartContainerd(t testing.TB) *Containerd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("containerd has to be run as root")
	}
	// The directory of a test has too long a name for a socket in it.
	dir, err := os.MkdirTemp("", "cd") //nolint:usetesting // see above
	Must(t, err)
	c := &Containerd{Socket: filepath.Join(dir, "c.sock"), dir: dir, pods: map[string]*pod{}}
	t.Cleanup(func() { c.clear(t) })
	config := fmt.Sprintf(containerdConfig, dir, c.Socket, image)
	Must(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600))
	conn, err := grpc.NewClient("unix://"+c.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true))) // it may be starting
	Must(t, err)
	t.Cleanup(func() { conn.Close() })
	c.runtime, c.images = cri.NewRuntimeServiceClient(conn), cri.NewImageServiceClient(conn)
	process := Start(t, "containerd", exec.Command("containerd", "--config", filepath.Join(c.dir, "config.toml")))
	// What is registered last runs first: it is needed to remove pods.
	t.Cleanup(func() { c.removePods(t) })
	err = poll(startDeadline, process.done, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.runtime.Version(ctx, &cri.VersionRequest{})
		return err
	})
	if err != nil {
		t.Fatalf("containerd: %v\n%s", err, process.Output())
	}
	c.importImage(t)
	return c
}

// containerdConfig keeps containerd to its own folder, and asks for nothing that a
// container, in which the tests may run, does not have.
const containerdConfig = `version = 2
root = "%[1]s/root"
state = "%[1]s/state"
[debug]
level = "warn"
[grpc]
address = "%[2]s"
[plugins."io.containerd.internal.v1.opt"]
path = "%[1]s/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "%[3]s"
disable_apparmor = true
disable_tcp_service = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = "%[1]s/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "%[1]s/runc"
SystemdCgroup = false
`

// RunPod starts a container in a pod, which is made if it is not there, as the
// kubelet does. It returns the number of the container's process, as the host has it.
func (c *Containerd) RunPod(t testing.TB, namespace, name, container string, variables ...*cri.KeyValue) (pid int) {
	t.Helper()
	return c.RunContainer(t, namespace, name, &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: container},
		Image:    &cri.ImageSpec{Image: image},
		Envs:     variables,
		Linux:    &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: namespaces}},
	})
}

// RunContainer is RunPod for a container of another image, or with other rights. The network is the host's.
func (c *Containerd) RunContainer(t testing.TB, namespace, name string, config *cri.ContainerConfig) (pid int) {
	t.Helper()
	p := c.pods[namespace+"/"+name]
	if p == nil {
		p = c.newPod(t, namespace, name, config.GetLinux().GetSecurityContext().GetNamespaceOptions())
	}
	config.Labels = maps.Clone(p.config.GetLabels())
	config.Labels["io.kubernetes.container.name"] = config.GetMetadata().GetName()
	ctx, cancel := context.WithTimeout(t.Context(), runtimeTimeout)
	defer cancel()
	created, err := c.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: p.id, Config: config, SandboxConfig: p.config,
	})
	Must(t, err)
	containerID := created.GetContainerId()
	if _, err := c.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: containerID}); err != nil {
		t.Fatal(err)
	}
	status, err := c.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: containerID, Verbose: true})
	Must(t, err)
	var info struct{ PID int }
	if err := json.Unmarshal([]byte(status.GetInfo()["info"]), &info); err != nil || info.PID == 0 {
		t.Fatalf("container %s has no pid: %v: %s", containerID, err, status.GetInfo())
	}
	return info.PID
}

// namespaces are those of a pod that has the host's network, for which nothing has
// to be set up.
var namespaces = &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER}

// newPod starts a pod without containers, that shares these namespaces with the host.
func (c *Containerd) newPod(t testing.TB, namespace, name string, shared *cri.NamespaceOption) *pod {
	t.Helper()
	uid := fmt.Sprintf("%08x-0000-4000-8000-000000000000", len(c.pods)+1)
	config := &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: name, Namespace: namespace, Uid: uid},
		Labels: map[string]string{
			"io.kubernetes.pod.namespace": namespace,
			"io.kubernetes.pod.name":      name,
			"io.kubernetes.pod.uid":       uid,
		},
		Linux: &cri.LinuxPodSandboxConfig{
			// Where the kubelet has it with --cgroup-root.
			CgroupParent:    "/" + filepath.Base(c.dir) + "/kubepods/besteffort/pod" + uid,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: shared},
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), runtimeTimeout)
	defer cancel()
	r, err := c.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	Must(t, err)
	p := &pod{r.GetPodSandboxId(), config}
	c.pods[namespace+"/"+name] = p
	return p
}

// removePods ends all pods.
func (c *Containerd) removePods(t testing.TB) {
	for name, p := range c.pods {
		ctx, cancel := context.WithTimeout(context.Background(), runtimeTimeout) // the test is over
		_, err := c.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.id})
		if err == nil {
			_, err = c.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.id})
		}
		cancel()
		if err != nil {
			t.Errorf("remove pod %s: %v", name, err)
			continue
		}
		delete(c.pods, name)
	}
}

// importImage builds the image of the pods, in the form of `docker save`, and makes it known to containerd.
func (c *Containerd) importImage(t testing.TB) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "pause")
	cmd := exec.Command("go", "build", "-o", program, "./cmd/pause")
	cmd.Dir = filepath.Join(Root(), "e2e")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // there is no libc in the image
	Run(t, cmd)
	layer := archive(t, fstest.MapFS{"pause": {Data: []byte(ReadFile(t, program)), Mode: 0o755}})
	config := fmt.Appendf(nil, `{"architecture": %q, "os": %q, "config": {"Entrypoint": ["/pause"]}, "rootfs": {"type": "layers", "diff_ids": ["sha256:%x"]}}`,
		runtime.GOARCH, runtime.GOOS, sha256.Sum256(layer))
	manifest := fmt.Appendf(nil, `[{"Config": "config.json", "RepoTags": [%q], "Layers": ["layer.tar"]}]`, image)
	whole := archive(t, fstest.MapFS{"manifest.json": {Data: manifest}, "config.json": {Data: config}, "layer.tar": {Data: layer}})
	file := program + ".tar"
	Must(t, os.WriteFile(file, whole, 0o600))
	c.ImportImage(t, file, image)
}

// archive returns a tar archive of files.
func archive(t testing.TB, files fs.FS) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	Must(t, w.AddFS(files))
	Must(t, w.Close())
	return b.Bytes()
}

// ImportImage makes an image in a file known to containerd. There is no registry to pull it
// from.
func (c *Containerd) ImportImage(t testing.TB, file, name string) {
	t.Helper()
	Run(t, exec.Command("ctr", "--address", c.Socket, "--namespace", "k8s.io", "images", "import", "--snapshotter", "native", file))
	Eventually(t, startDeadline, func() error { // its CRI plugin hears of it later
		ctx, cancel := context.WithTimeout(t.Context(), runtimeTimeout)
		defer cancel()
		r, err := c.images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
		if err == nil && r.GetImage() == nil {
			err = fmt.Errorf("there is no image %s", name)
		}
		return err
	})
}

// clear takes away what is left of containerd without pods: its folders and the control groups of the pods. Nothing of it is
// mounted any more, or it may be the host's what RemoveAll would take away. A pod that is left ends by itself after an hour.
func (c *Containerd) clear(t testing.TB) {
	if len(c.pods) > 0 {
		t.Errorf("pods are left of containerd in %s", c.dir)
		return
	}
	base := filepath.Base(c.dir)
	Eventually(t, stopDeadline, func() error { // a group is busy for a moment after its last process
		out, err := exec.Command("find", cgroupFS, "-depth", "-type", "d", "(", "-name", base, "-o", "-path", "*/"+base+"/*", ")", "-delete").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil && bytes.Contains(mounts, []byte(c.dir+"/")) {
		err = errors.New("something is mounted there")
	}
	if err == nil {
		err = os.RemoveAll(c.dir)
	}
	if err != nil {
		t.Errorf("left of containerd in %s: %v", c.dir, err)
	}
}
