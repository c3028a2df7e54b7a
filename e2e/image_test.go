// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

var buildImage = sync.OnceValues(func() (string, error) {
	tree, err := firstRelease()
	if err != nil {
		return "", err
	}
	archive := filepath.Join(harness.Dir(), "image.tar")
	build := exec.Command(filepath.Join(harness.Root(), "deploy/image/build.sh"), filepath.Join(tree, ".build"), archive)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return archive, nil
})

// imageArchive returns the image of the working tree, for both architectures.
func imageArchive(t *testing.T) string {
	t.Helper()
	archive, err := buildImage()
	harness.Must(t, err)
	return archive
}

// content is an index or a manifest of OCI.
type content struct {
	Manifests []struct {
		Digest   string
		Platform struct{ Architecture string }
	}
	Config struct{ Digest string }
	Layers []struct{ Digest string }
}

// unpackImage returns the root of the image for this architecture.
func unpackImage(t *testing.T, architecture string) string {
	t.Helper()
	dir, root := t.TempDir(), t.TempDir()
	harness.Run(t, exec.Command("tar", "xf", imageArchive(t), "-C", dir))
	blob := func(digest string) string {
		return filepath.Join(dir, "blobs", strings.ReplaceAll(digest, ":", "/"))
	}
	read := func(path string) content {
		var c content
		harness.Must(t, json.Unmarshal([]byte(harness.ReadFile(t, path)), &c))
		return c
	}
	index := read(filepath.Join(dir, "index.json"))
	if len(index.Manifests) != 1 {
		t.Fatalf("the archive has %d images, want 1 for both architectures", len(index.Manifests))
	}
	for _, m := range read(blob(index.Manifests[0].Digest)).Manifests {
		if m.Platform.Architecture != architecture {
			continue
		}
		manifest := read(blob(m.Digest))
		if config := harness.ReadFile(t, blob(manifest.Config.Digest)); !strings.Contains(config, `"architecture":"`+architecture+`"`) || !strings.Contains(config, `"User":"65532:65532"`) {
			t.Errorf("the image for %s is made for %s", architecture, config)
		}
		for _, layer := range manifest.Layers {
			harness.Run(t, exec.Command("tar", "xf", blob(layer.Digest), "-C", root))
		}
		return root
	}
	t.Fatalf("no image for %s", architecture)
	return ""
}

// TestImageARM runs both programs of the image for ARM in an emulator, with the libc6 of the image, and scrapes one.
func TestImageARM(t *testing.T) {
	t.Parallel()
	root := unpackImage(t, "arm64")
	emulated := func(program string, args ...string) []string {
		return append([]string{"qemu-aarch64", "-L", root, filepath.Join(root, "usr/bin", program)}, args...)
	}
	for _, program := range []string{"gpu_leak_exporter", "gpuleaktool"} {
		command := emulated(program, "--version")
		if out := harness.Run(t, exec.Command(command[0], command[1:]...)); !strings.Contains(out, program+", version ") || !strings.Contains(out, "linux/arm64") {
			t.Errorf("%s --version: %s", program, out)
		}
	}
	p := harness.StartExporter(t, harness.Options{Program: emulated("gpu_leak_exporter"), Args: []string{"--source=sim:crashloop"}})
	if n := len(p.Scrape(t).All("gpu_info", nil)); n == 0 {
		t.Error("a scrape has no GPU")
	}
	// The libraries that it has mapped are those of the image.
	maps := harness.ReadFile(t, fmt.Sprintf("/proc/%d/maps", p.PID()))
	if !strings.Contains(maps, root+"/usr/lib/aarch64-linux-gnu/libc.so.6") {
		t.Errorf("it has another libc: %s", maps)
	}
	p.Stop(t)
}

// TestImage has containerd start the image with the mounts and the rights of the chart, over a driver that the runtime class
// puts into the container. It names the pod of a process, and keeps its state on the node.
func TestImage(t *testing.T) {
	t.Parallel()
	archive := imageArchive(t)
	cd := harness.StartContainerd(t)
	image := "localhost/gpu-leak-exporter:" + strings.TrimSpace(harness.ReadFile(t, filepath.Join(harness.Root(), "VERSION")))
	cd.ImportImage(t, archive, image)
	// Where the chart says that it is.
	harness.Must(t, os.Symlink(filepath.Base(cd.Socket), filepath.Join(filepath.Dir(cd.Socket), "containerd.sock")))
	k, kubeletSocket := startKubelet(t)
	m := newMachine(t, 1)
	k.allot(trainer, m.GPUs[0].UUID)
	pid := m.contain(t, cd, trainer)
	m.use(0, pid, 3*gib)
	m.apply(t)

	state := t.TempDir()
	set := chartDaemonSet(t)
	config := set.container(t, image, map[string]string{"state": state, "runtime": filepath.Dir(cd.Socket), "pod-resources": filepath.Dir(kubeletSocket)})
	// It has the host's network here, where the port may be taken.
	address := harness.FreeAddress(t)
	i := slices.Index(config.Args, "--web.listen-address=:9844")
	if i < 0 {
		t.Fatalf("the chart has it listen elsewhere: %q", config.Args)
	}
	config.Args[i] = "--web.listen-address=" + address
	// This machine may be a container itself, whose numbers of processes are no host's.
	config.Args = append(config.Args, "--path.procfs=/fake/"+filepath.Base(m.procfs))
	config.Mounts = append(config.Mounts,
		&cri.Mount{HostPath: m.library, ContainerPath: "/usr/lib/libnvidia-ml.so.1", Readonly: true},
		&cri.Mount{HostPath: filepath.Dir(m.script), ContainerPath: "/fake"})
	for _, e := range fakenvml.Env("/fake/"+filepath.Base(m.script), "/fake/"+filepath.Base(m.calls)) {
		name, value, _ := strings.Cut(e, "=")
		config.Envs = append(config.Envs, &cri.KeyValue{Key: name, Value: []byte(value)})
	}
	exporter := cd.RunContainer(t, "gpu-leak-exporter", "gpu-leak-exporter-x", config)
	harness.Eventually(t, patience, func() error {
		body, err := harness.Get("http://" + address + "/metrics")
		if err != nil {
			return err
		}
		s, err := harness.ParseMetrics(body)
		return errors.Join(err, m.isIn(s, 0, pid, 3*gib, trainer), want(s, 1, "gpu_allocated", with(m.id(0), "pod", trainer.pod)))
	})
	harness.Must(t, syscall.Kill(exporter, syscall.SIGTERM))
	harness.Eventually(t, patience, func() error {
		_, err := os.Stat(filepath.Join(state, "state"))
		return err
	})
}
