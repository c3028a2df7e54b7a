// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	// usualPodResourcesSocket is where the kubelet serves the pod-resources API,
	// unless it was given another --root-dir.
	usualPodResourcesSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"
	// podResourcesTimeout is the most that an answer may take. The kubelet gives it
	// out of its memory.
	podResourcesTimeout = 5 * time.Second
	// maxAllotments is enough for 8 GPUs of 7 instances, each shared by 64 containers.
	maxAllotments = 4096
)

// Allotment is a GPU, or an instance of one, that the kubelet has allotted to a
// container, whether the container uses it or not.
type Allotment struct {
	// Device names it as the device plugin or the DRA driver does: by UUID
	// (GPU-UUID, MIG-UUID or, before driver 470, MIG-GPU-UUID/7/0 by the IDs of the
	// GPU instance and the compute instance), or by the number of the device file:
	// nvidia0, and nvidia0/gi1 for a GPU instance, as GKE's plugin has them.
	Device string
	// Namespace, Pod and Container are the names that the kubelet has for it.
	Namespace, Pod, Container string
}

// allotments asks the kubelet which containers it has allotted GPUs to, by List of
// its pod-resources API.
type allotments struct {
	socket string
	// given says that a person named the socket, so that it must be there.
	given bool
	// timeout is a field so that tests need not wait.
	timeout time.Duration
}

// newAllotments returns what asks the kubelet at socket, a path or unix://PATH; ""
// is the usual one. If it is not given by a person, it may be missing: a host
// without it has no kubelet.
func newAllotments(socket string, given bool) *allotments {
	socket = cmp.Or(strings.TrimPrefix(socket, "unix://"), usualPodResourcesSocket)
	return &allotments{socket: socket, given: given, timeout: podResourcesTimeout}
}

// none says that no socket is named and none is at the usual place.
func (a *allotments) none() bool {
	return !a.given && lookAt([]string{a.socket})[0].missing
}

// list returns what is allotted now, sorted, each once, and no more than
// maxAllotments. It is nil, nil where there is no kubelet.
//
// Each call has a connection of its own: calls are rare, and the kubelet makes its
// socket anew whenever it starts.
func (a *allotments) list(ctx context.Context) ([]Allotment, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	client, hangUp, err := dialSocket(ctx, a.socket)
	if errors.Is(err, fs.ErrNotExist) && !a.given {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the kubelet's pod-resources API: %w%s", err, dialAdvice(err))
	}
	defer hangUp()
	pods, err := listPods(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("list the kubelet's pod resources at %s: %w", a.socket, err)
	}
	return allotted(pods), nil
}

// dialAdvice returns what a person can do about an error of connecting, to be added
// to it; "" where nothing is known.
func dialAdvice(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return " (name the kubelet's socket with --collector.workload.pod-resources-socket; in a container, mount the directory that it is in)"
	case errors.Is(err, fs.ErrPermission):
		return " (the socket is root's: the exporter needs uid 0, and SELinux, if it is enforcing, must allow it)"
	case errors.Is(err, syscall.ECONNREFUSED):
		return " (the kubelet does not run or has made its socket anew: in a container, mount the directory that it is in, not the socket)"
	}
	return ""
}

// listPods calls List.
func listPods(ctx context.Context, client *grpc.ClientConn) ([]*podresourcesv1.PodResources, error) {
	r, err := podresourcesv1.NewPodResourcesListerClient(client).List(ctx, &podresourcesv1.ListPodResourcesRequest{})
	switch {
	case err == nil:
		return r.GetPodResources(), nil
	case ctx.Err() != nil:
		return nil, ctx.Err() // gRPC's error would not say so to errors.Is
	case status.Code(err) == codes.DeadlineExceeded:
		return nil, context.DeadlineExceeded // gRPC's clock was faster
	case status.Code(err) == codes.Unimplemented:
		return nil, fmt.Errorf("%w (version 1 of the API needs Kubernetes 1.20 or later; is this the kubelet's socket?)", err)
	}
	return nil, err
}

// allotted returns the GPUs among the resources of pods.
func allotted(pods []*podresourcesv1.PodResources) []Allotment {
	found := map[Allotment]bool{}
	for _, pod := range pods {
		for _, c := range pod.GetContainers() {
			for _, device := range devicesOf(c) {
				if len(found) >= maxAllotments {
					return sorted(found)
				}
				found[Allotment{
					Device:    device,
					Namespace: label(pod.GetNamespace(), maxName),
					Pod:       label(pod.GetName(), maxName),
					Container: label(c.GetName(), maxName),
				}] = true
			}
		}
	}
	return sorted(found)
}

// sorted returns allotments in order of device, then of names.
func sorted(found map[Allotment]bool) []Allotment {
	return slices.SortedFunc(maps.Keys(found), func(a, b Allotment) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
}

// devicesOf returns the GPUs of a container, those of device plugins and those of
// dynamic resource allocation.
func devicesOf(c *podresourcesv1.ContainerResources) (devices []string) {
	for _, d := range c.GetDevices() {
		for _, id := range d.GetDeviceIds() {
			if device := pluginDevice(d.GetResourceName(), id); device != "" {
				devices = append(devices, device)
			}
		}
	}
	for _, r := range c.GetDynamicResources() {
		for _, claim := range r.GetClaimResources() {
			devices = append(devices, claimDevices(claim)...)
		}
	}
	return devices
}

const uuidForm = `[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`

var (
	// uuidDevice is a GPU or an instance, or a replica of one: GPU-UUID::3.
	uuidDevice = regexp.MustCompile(`^((?:GPU|MIG)-` + uuidForm + `|MIG-GPU-` + uuidForm + `/[0-9]{1,3}/[0-9]{1,3})(?:::.*)?$`)
	// fileDevice is one of GKE's plugin, or a replica: nvidia0/gi1/vgpu2.
	fileDevice = regexp.MustCompile(`^(nvidia[0-9]{1,3}(?:/gi[0-9]{1,3})?)(?:/vgpu[0-9]+)?$`)
	// claimDevice is a whole GPU of the DRA driver.
	claimDevice = regexp.MustCompile(`^gpu-([0-9]{1,3})$`)
)

// pluginDevice returns the GPU, or the instance, that a device plugin offers as id
// of a resource, "" if it is none. Of a GPU that is shared by time-slicing or MPS it
// offers replicas; what it stands for is the GPU.
//
// A UUID tells a GPU under any name, such as a renamed resource's; a device file
// only under NVIDIA's. Other devices of NVIDIA's have IDs of other forms: network
// cards, IMEX channels, GPUs that are passed to virtual machines. So have the
// shares of plugins whose scheduler picks another GPU than the kubelet knows of
// (HAMi, Volcano: GPU-UUID-3), for which the kubelet's answer would be wrong.
func pluginDevice(resource, id string) string {
	if m := uuidDevice.FindStringSubmatch(id); m != nil {
		return m[1]
	}
	domain, _, _ := strings.Cut(resource, "/")
	if m := fileDevice.FindStringSubmatch(id); m != nil && domain == "nvidia.com" {
		return m[1]
	}
	return ""
}

// claimDevices returns the GPUs of a claim of dynamic resource allocation: those
// that its CDI devices name by UUID (nvidia.com/gpu=GPU-UUID), or else that of
// NVIDIA's driver, which calls a GPU gpu-0 by the number of the device file.
//
// An instance is called after its profile and place (gpu-0-mig-1g10gb-19-2), which
// does not tell which of the GPU's instances it is: it is left out, and so are GPUs
// for virtual machines (gpu-vfio-0).
func claimDevices(claim *podresourcesv1.ClaimResource) (devices []string) {
	for _, cdi := range claim.GetCdiDevices() {
		_, name, _ := strings.Cut(cdi.GetName(), "=")
		if m := uuidDevice.FindStringSubmatch(name); m != nil {
			devices = append(devices, m[1])
		}
	}
	if m := claimDevice.FindStringSubmatch(claim.GetDeviceName()); m != nil && len(devices) == 0 && claim.GetDriverName() == "gpu.nvidia.com" {
		return []string{"nvidia" + m[1]}
	}
	return devices
}
