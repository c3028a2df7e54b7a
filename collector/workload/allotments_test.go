// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	uuidA = "GPU-8c2ad4a4-2d3b-4a6e-9f0e-0c5e2d1b7f10"
	uuidB = "GPU-f1b3c7d9-5e60-4f12-8a34-6b7c8d9e0f21"
	migA  = "MIG-0a1b2c3d-4e5f-5a6b-8c7d-9e0f1a2b3c4d"
)

// lister answers List of a kubelet.
type lister func(context.Context) (*podresourcesv1.ListPodResourcesResponse, error)

type fakeKubelet struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	list lister
}

func (k fakeKubelet) List(ctx context.Context, _ *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	return k.list(ctx)
}

// serve has a kubelet listen on a new socket, or none of its API if list is nil.
func serve(t *testing.T, list lister) string {
	t.Helper()
	socket := runtimeSocket(t)
	serveAt(t, socket, func(s *grpc.Server) {
		if list != nil {
			podresourcesv1.RegisterPodResourcesListerServer(s, fakeKubelet{list: list})
		}
	})
	return socket
}

// servePods has a kubelet answer with these pods.
func servePods(t *testing.T, pods ...*podresourcesv1.PodResources) string {
	t.Helper()
	return serve(t, func(context.Context) (*podresourcesv1.ListPodResourcesResponse, error) {
		return &podresourcesv1.ListPodResourcesResponse{PodResources: pods}, nil
	})
}

// pod returns a pod of namespace ml.
func pod(name string, containers ...*podresourcesv1.ContainerResources) *podresourcesv1.PodResources {
	return &podresourcesv1.PodResources{Namespace: "ml", Name: name, Containers: containers}
}

// plugged returns a container with devices of a device plugin.
func plugged(name, resource string, ids ...string) *podresourcesv1.ContainerResources {
	return &podresourcesv1.ContainerResources{
		Name:    name,
		CpuIds:  []int64{1, 2},
		Devices: []*podresourcesv1.ContainerDevices{{ResourceName: resource, DeviceIds: ids}},
	}
}

// claim returns a claim's device with the CDI devices.
func claim(driver, device string, cdi ...string) *podresourcesv1.ClaimResource {
	c := &podresourcesv1.ClaimResource{DriverName: driver, PoolName: "node1", DeviceName: device}
	for _, name := range cdi {
		c.CdiDevices = append(c.CdiDevices, &podresourcesv1.CDIDevice{Name: name})
	}
	return c
}

// claimed returns a container with a claim.
func claimed(name string, devices ...*podresourcesv1.ClaimResource) *podresourcesv1.ContainerResources {
	return &podresourcesv1.ContainerResources{
		Name:             name,
		DynamicResources: []*podresourcesv1.DynamicResource{{ClaimName: "gpus", ClaimNamespace: "ml", ClaimResources: devices}},
	}
}

func TestAllotments(t *testing.T) {
	type pods = []*podresourcesv1.PodResources
	for _, c := range []struct {
		name string
		pods pods
		want []string // device container, of pod p in namespace ml
	}{
		{name: "no pods"},
		{name: "nothing in them", pods: pods{pod("p"), pod("p", plugged("c", "")), pod("p", claimed("c")), {}}},
		{name: "one GPU", pods: pods{pod("p", plugged("c", "nvidia.com/gpu", uuidA))}, want: []string{uuidA + " ml/p/c"}},
		{
			name: "several in a container, another without",
			pods: pods{pod("p", plugged("sidecar", "cpu"), plugged("c", "nvidia.com/gpu", uuidB, uuidA))},
			want: []string{uuidA + " ml/p/c", uuidB + " ml/p/c"},
		},
		{
			name: "time-sliced: two pods, one with two replicas",
			pods: pods{
				pod("p", plugged("c", "nvidia.com/gpu", uuidA+"::3", uuidA+"::0")),
				pod("o", plugged("c", "nvidia.com/gpu.shared", uuidA+"::12")),
			},
			want: []string{uuidA + " ml/o/c", uuidA + " ml/p/c"},
		},
		{
			name: "MIG",
			pods: pods{pod("p", plugged("a", "nvidia.com/mig-1g.5gb", migA, migA+"::1"))},
			want: []string{migA + " ml/p/a"},
		},
		{
			name: "GKE",
			pods: pods{pod("p", plugged("c", "nvidia.com/gpu", "nvidia0", "nvidia1/gi1", "nvidia2/vgpu2", "nvidia2/vgpu3", "nvidia3/gi0/vgpu11"))},
			want: []string{"nvidia0 ml/p/c", "nvidia1/gi1 ml/p/c", "nvidia2 ml/p/c", "nvidia3/gi0 ml/p/c"},
		},
		{
			name: "renamed resources",
			pods: pods{pod("p", plugged("a", "nvidia.com/h100-80gb", uuidA), plugged("b", "example.org/gpu", uuidB))},
			want: []string{uuidA + " ml/p/a", uuidB + " ml/p/b"},
		},
		{
			name: "foreign",
			pods: pods{pod(
				"p",
				plugged("a", "amd.com/gpu", "0000:83:00.0"), plugged("b", "gpu.intel.com/i915", "card0-0"),
				plugged("c", "example.org/gpu", "nvidia0"), plugged("d", "nvidia.com.example.org/gpu", "nvidia0"),
			)},
		},
		{
			name: "no GPU of NVIDIA's",
			pods: pods{pod(
				"p",
				plugged("network", "nvidia.com/hostdev", "0000:08:00.1"), plugged("IMEX", "nvidia.com/imex-channel", "channel0"),
				plugged("VM", "nvidia.com/GA102GL_A10", "42"), plugged("file", "nvidia.com/gpu", "nvidia-uvm", "nvidia", "nvidia0x", "nvidia0/gi", "nvidia1234"),
				plugged("cut", "nvidia.com/gpu", uuidA[:39], "GPU-", "MIG-"+uuidA, ""), plugged("HAMi", "nvidia.com/gpu", uuidA+"-3"),
			)},
		},
		{
			name: "DRA",
			pods: pods{pod("p", claimed(
				"c",
				claim("gpu.nvidia.com", "gpu-3"), claim("gpu.nvidia.com", "gpu-0", "k8s.gpu.nvidia.com/claim=5f0c-gpu-0"),
				claim("gpu.nvidia.com", "gpu-1-mig-1g10gb-19-2"), claim("gpu.nvidia.com", "gpu-vfio-1"), claim("gpu.nvidia.com", ""),
				claim("gpu.example.org", "gpu-5"), claim("compute-domain.nvidia.com", "channel-0"),
			))},
			want: []string{"nvidia0 ml/p/c", "nvidia3 ml/p/c"},
		},
		{
			name: "DRA, UUIDs of CDI",
			pods: pods{pod("p", claimed(
				"c",
				claim("gpu.nvidia.com", "gpu-1", "nvidia.com/gpu="+uuidA, "nvidia.com/gpu=0", "nvidia.com/gpu", ""),
				claim("gpu.nvidia.com", "gpu-0-mig-1g10gb-19-2", "nvidia.com/mig="+migA),
			))},
			want: []string{uuidA + " ml/p/c", migA + " ml/p/c"},
		},
		{
			name: "same GPU twice, by plugin and claim",
			pods: pods{pod("p", plugged("c", "nvidia.com/gpu", "nvidia0")), pod("p", claimed("c", claim("gpu.nvidia.com", "gpu-0")))},
			want: []string{"nvidia0 ml/p/c"},
		},
		{
			name: "names that do not print",
			pods: pods{{Namespace: "a\x00b", Name: strings.Repeat("p", 300), Containers: []*podresourcesv1.ContainerResources{plugged("c\nd\u202e", "nvidia.com/gpu", uuidA)}}},
			want: []string{uuidA + " a\ufffdb/" + strings.Repeat("p", maxName) + "/c d\ufffd"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAllotments("unix://" + servePods(t, c.pods...))
			for range 2 { // each call has a connection of its own
				got, err := a.list(t.Context())
				must(t, err)
				equal(t, shown(got), c.want, "allotments")
			}
		})
	}
}

// shown returns allotments as device and names, in order and each once.
func shown(allotments []Allotment) (s []string) {
	for _, a := range allotments {
		s = append(s, fmt.Sprintf("%s %s/%s/%s", a.Device, a.Namespace, a.Pod, a.Container))
	}
	slices.Sort(s)
	return slices.Compact(s)
}

func TestAllotmentsAreBounded(t *testing.T) {
	ids := make([]string, maxAllotments+5)
	for i := range ids {
		ids[i] = fmt.Sprintf("MIG-%s%04x", migA[4:36], i)
	}
	got, err := newAllotments(servePods(t, pod("p", plugged("c", "nvidia.com/gpu", ids...)))).list(t.Context())
	if err != nil || len(got) != maxAllotments {
		t.Errorf("%d, %v", len(got), err)
	}
}

func TestLargeAnswerOfKubelet(t *testing.T) {
	// The names alone are 5 MiB, more than gRPC takes by default.
	socket := servePods(t, pod(strings.Repeat("p", 5<<20), plugged("c", "nvidia.com/gpu", uuidA)))
	if got, err := newAllotments(socket).list(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("%d, %v", len(got), err)
	}
	socket = servePods(t, pod(strings.Repeat("p", maxAnswer), plugged("c", "nvidia.com/gpu", uuidA)))
	if got, err := newAllotments(socket).list(t.Context()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%d, %v", len(got), err)
	}
}

func TestNoKubelet(t *testing.T) {
	missing := runtimeSocket(t)
	if got, err := (&allotments{socket: missing}).list(t.Context()); got != nil || err != nil {
		t.Errorf("usual: %v, %v", got, err)
	}
	_, err := newAllotments(missing).list(t.Context())
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--collector.workload.pod-resources-socket") {
		t.Errorf("given: %v", err)
	}
	equal(t, newAllotments("").socket, usualPodResourcesSocket, "socket")

	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: runtimeSocket(t), Net: "unix"})
	must(t, err)
	stale.SetUnlinkOnClose(false) // as a kubelet that was killed leaves it
	stale.Close()
	_, err = (&allotments{socket: stale.Addr().String()}).list(t.Context())
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "mount the directory") {
		t.Errorf("nothing listens: %v", err)
	}
}

func TestKubeletFails(t *testing.T) {
	refused := func(context.Context) (*podresourcesv1.ListPodResourcesResponse, error) {
		return nil, status.Error(codes.PermissionDenied, "no")
	}
	for want, list := range map[string]lister{"Kubernetes 1.20": nil, "list the kubelet's pod resources at /": refused} {
		if got, err := (&allotments{socket: serve(t, list)}).list(t.Context()); got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %q", got, err, want)
		}
	}
}

func TestKubeletHangs(t *testing.T) {
	entered := make(chan struct{}, 1)
	socket := serve(t, func(ctx context.Context) (*podresourcesv1.ListPodResourcesResponse, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	a := newAllotments(socket)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-entered
		cancel()
	}()
	if got, err := a.list(ctx); got != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while the kubelet thinks: %v, %v", got, err)
	}
	if got, err := a.list(ctx); got != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v, %v", got, err)
	}
}

func FuzzAllottedDevice(f *testing.F) {
	for _, id := range []string{
		uuidA, uuidA + "::3", migA, "MIG-" + uuidA + "/7/0", "nvidia0", "nvidia0/gi1", "nvidia0/vgpu2", "nvidia7/gi13/vgpu47",
		"gpu-0", "gpu-0-mig-1g10gb-19-2", uuidA + "-3", "channel0", "::",
	} {
		f.Add("nvidia.com/gpu", id)
		f.Add("gpu.nvidia.com", id)
		f.Add("k8s.gpu.nvidia.com/claim="+id, id)
	}
	f.Fuzz(func(t *testing.T, name, id string) {
		device := pluginDevice(name, id)
		if !strings.HasPrefix(id, device) || len(device) > len("MIG-"+uuidA+"/999/999") {
			t.Errorf("%q is %q", id, device)
		}
		equal(t, pluginDevice(name, device), device, "device of %q, again", id)
		devices := claimDevices(claim(name, id, name, id, "nvidia.com/gpu="+id))
		for _, d := range devices {
			equal(t, pluginDevice("nvidia.com/gpu", d), d, "claim of %q %q", name, id)
		}
		if m := pluginDevice("", id); m != "" && !slices.Contains(devices, m) {
			t.Errorf("%q is not %q in a claim, but %q", id, m, devices)
		}
	})
}
