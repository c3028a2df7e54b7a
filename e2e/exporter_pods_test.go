// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// container names one, or with the name alone left out a pod.
type container struct{ namespace, pod, name string }

var (
	trainer = container{"ml", "trainer-0", "main"}
	server  = container{"ml", "server-1", "vllm"}
	noPod   = container{}
)

// labels are those of a container.
func (c container) labels() map[string]string {
	return map[string]string{"namespace": c.namespace, "pod": c.pod, "container": c.name}
}

// contain starts a container, lets the machine's procfs show its process and returns
// the pid.
func (m *machine) contain(t *testing.T, cd *harness.Containerd, c container, variables ...*cri.KeyValue) uint32 {
	t.Helper()
	pid := cd.RunPod(t, c.namespace, c.pod, c.name, variables...)
	link(t, fmt.Sprintf("/proc/%d", pid), filepath.Join(m.procfs, strconv.Itoa(pid)))
	return uint32(pid)
}

// use lets a process hold memory on a GPU.
func (m *machine) use(gpu int, pid uint32, memory uint64) {
	m.GPUs[gpu].Processes = append(m.GPUs[gpu].Processes, fakenvml.Process{PID: pid, Memory: fakenvml.Constant(memory)})
}

// process are the labels of a process on a GPU.
func (m *machine) process(gpu int, pid uint32) map[string]string {
	return with(m.id(gpu), "pid", strconv.FormatUint(uint64(pid), 10))
}

// isIn returns an error unless the process on the GPU has this memory, and its
// series says that it is in that container.
func (m *machine) isIn(s harness.Metrics, gpu int, pid uint32, memory float64, c container) error {
	found := s.All("gpu_process_memory_used_bytes", m.process(gpu, pid))
	if len(found) != 1 {
		return fmt.Errorf("process %d has %d series, want 1", pid, len(found))
	}
	if l := found[0]; l.Value != memory || !l.Has(c.labels()) {
		return fmt.Errorf("process %d: %g and labels %v, want %g and %v", pid, l.Value, l.Labels, memory, c)
	}
	return nil
}

// kubelet serves the pod-resources API, of which the exporter uses List.
type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer

	mu   sync.Mutex
	pods []*podresources.PodResources
}

// startKubelet serves what has been allotted on a socket, whose path it returns,
// until the end of the test.
func startKubelet(t *testing.T) (k *kubelet, socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "kubelet.sock")
	l, err := net.Listen("unix", socket)
	harness.Must(t, err)
	k = &kubelet{}
	s := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(s, k)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Errorf("kubelet: %v", err)
		}
	})
	return k, socket
}

// List tells which devices the pods have.
func (k *kubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &podresources.ListPodResourcesResponse{PodResources: k.pods}, nil
}

// allot gives a container the devices with these IDs, as the device plugin calls
// them.
func (k *kubelet) allot(c container, ids ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = append(k.pods, &podresources.PodResources{
		Namespace: c.namespace, Name: c.pod,
		Containers: []*podresources.ContainerResources{{
			Name: c.name, Devices: []*podresources.ContainerDevices{{ResourceName: "nvidia.com/gpu", DeviceIds: ids}},
		}},
	})
}

// free ends the pods of all containers.
func (k *kubelet) free() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = nil
}

// TestPods has a GPU that two pods, which it is allotted to in turns, and a process of no pod share: each process gets the pod that it
// is in, not one that the GPU is allotted to. A pod with two processes has their sum, and so has one with a limit: containerd tells the
// variables that set it. A GPU that is allotted to a pod without a process on it is wasted.
func TestPods(t *testing.T) {
	t.Parallel()
	cd := harness.StartContainerd(t)
	k, socket := startKubelet(t)
	m := newMachine(t, 4)
	m.GPUs[3].Partition("1g.10gb", "2g.20gb")
	sidecar, idle, slice := container{trainer.namespace, trainer.pod, "eval"}, container{"ml", "idle-0", "main"}, container{"ml", "slice-0", "main"}
	k.allot(trainer, m.GPUs[0].UUID+"::0")
	k.allot(server, m.GPUs[0].UUID+"::1")
	k.allot(idle, m.GPUs[2].UUID)
	k.allot(slice, m.GPUs[3].MIG.Instances[1].Devices[0].UUID)
	k.allot(container{"kube-system", "dns-0", "dns"}) // has no GPU
	inTrainer, inSidecar, inServer, inNone := m.contain(t, cd, trainer), m.contain(t, cd, sidecar), m.contain(t, cd, server), m.child(t)
	m.use(0, inTrainer, 3*gib)
	m.use(0, inSidecar, 2*gib)
	m.use(0, inServer, 4*gib)
	m.use(0, inNone, gib)
	m.use(1, inServer, 5*gib)
	limited := container{"ml", "limited-0", "main"}
	inLimited := m.contain(t, cd, limited,
		&cri.KeyValue{Key: "NVIDIA_VISIBLE_DEVICES", Value: []byte(m.GPUs[2].UUID + "," + m.GPUs[1].UUID)},
		&cri.KeyValue{Key: "CUDA_DEVICE_MEMORY_LIMIT_0", Value: []byte("9g")}, &cri.KeyValue{Key: "CUDA_DEVICE_MEMORY_LIMIT_1", Value: []byte("3000m")},
		&cri.KeyValue{Key: "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", Value: []byte("0=1G,1=4G")})
	m.use(1, inLimited, 2*gib)
	p := m.start(t, "--collector.workload.cri-socket="+cd.Socket, "--collector.workload.pod-resources-socket="+socket)
	allocated := func(s harness.Metrics, gpu int, instance string, c container) error {
		labels := with(c.labels(), "gpu_instance", instance)
		maps.Copy(labels, m.id(gpu))
		return want(s, 1, "gpu_allocated", labels)
	}
	s := eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(
			m.isIn(s, 0, inTrainer, 3*gib, trainer), m.isIn(s, 0, inSidecar, 2*gib, sidecar), m.isIn(s, 0, inServer, 4*gib, server),
			m.isIn(s, 0, inNone, gib, noPod), m.isIn(s, 1, inServer, 5*gib, server),
			want(s, 1, "gpu_process_info", with(m.process(0, inTrainer), "process", "pause", "pod", trainer.pod)),
			want(s, 5*gib, "gpu_workload_memory_used_bytes", with(m.id(0), "namespace", trainer.namespace, "pod", trainer.pod)),
			m.isIn(s, 1, inLimited, 2*gib, limited),
			want(s, 3000*mib, "gpu_process_memory_limit_bytes", with(m.process(1, inLimited), "source", "hami")),
			want(s, 4*gib, "gpu_process_memory_limit_bytes", with(m.process(1, inLimited), "source", "mps")),
			want(s, 3000*mib, "gpu_workload_memory_limit_bytes", with(m.id(1), "pod", limited.pod)),
			want(s, 2*gib, "gpu_workload_memory_used_bytes", with(m.id(1), "pod", limited.pod)),
			allocated(s, 0, "", trainer), allocated(s, 0, "", server), allocated(s, 2, "", idle),
			allocated(s, 3, strconv.FormatUint(uint64(m.GPUs[3].MIG.Instances[1].ID), 10), slice))
	})
	// A pod with one process, and no limit, is no workload of its own.
	if err := gone(s, "gpu_workload_memory_used_bytes", map[string]string{"pod": server.pod}); err != nil {
		t.Error(err)
	}
	equal(t, len(s.All("gpu_allocated", nil)), 4, "series gpu_allocated")
	k.free()
	eventually(t, p, func(s harness.Metrics) error { return gone(s, "gpu_allocated", nil) })
}
