// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	// usualPodResourcesSocket is where the kubelet serves the pod-resources API, unless it has another --root-dir.
	usualPodResourcesSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"
	podResourcesFlag        = "--collector.workload.pod-resources-socket"
	// maxAllotments is enough for 8 GPUs of 7 instances, each shared by 64 containers.
	maxAllotments = 4096
)

// Allotment is a GPU, or an instance of one, that the kubelet has allotted to a container, used or not.
type Allotment struct {
	// Device is the name of the device plugin or the DRA driver: a UUID (GPU-UUID, MIG-UUID), or the number of the device
	// file: nvidia0, and nvidia0/gi1 for a GPU instance, as in GKE's plugin.
	Device string
	// Namespace, Pod and Container are the kubelet's names.
	Namespace, Pod, Container string
}

// allotments asks the kubelet for its allotted GPUs, by List of its pod-resources API.
type allotments struct {
	socket string
	// given is true if a person named the socket, so that it must be there.
	given bool
}

// newAllotments takes a path or unix://PATH; "" is the usual one. That one may be missing: a host without it has no kubelet.
func newAllotments(socket string) *allotments {
	return &allotments{socket: cmp.Or(strings.TrimPrefix(socket, "unix://"), usualPodResourcesSocket), given: socket != ""}
}

// none reports that no socket is named and none is at the usual place.
func (a *allotments) none() bool { return !a.given && len(present([]string{a.socket})) == 0 }

// list returns the allotments now, at most maxAllotments. A GPU of several replicas may be there several times. It is nil, nil where there is no kubelet.
func (a *allotments) list(ctx context.Context) ([]Allotment, error) {
	var pods []*podresourcesv1.PodResources
	err := withSocket(ctx, a.socket, func(ctx context.Context, client *grpc.ClientConn) error {
		answer, err := podresourcesv1.NewPodResourcesListerClient(client).List(ctx, &podresourcesv1.ListPodResourcesRequest{})
		pods = answer.GetPodResources()
		return cmp.Or(ctx.Err(), err) // errors.Is finds no ctx.Err in gRPC's error
	})
	if errors.Is(err, fs.ErrNotExist) && !a.given {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the kubelet's pod resources at %s: %w%s", a.socket, err, advice(err, podResourcesFlag))
	}
	return allotted(pods), nil
}

// allotted returns the GPUs among the resources of pods.
func allotted(pods []*podresourcesv1.PodResources) (list []Allotment) {
	for _, pod := range pods {
		for _, c := range pod.GetContainers() {
			for _, device := range devicesOf(c) {
				if len(list) >= maxAllotments {
					return list
				}
				list = append(list, Allotment{device, label(pod.GetNamespace(), maxName), label(pod.GetName(), maxName), label(c.GetName(), maxName)})
			}
		}
	}
	return list
}

// devicesOf returns the GPUs of a container, from device plugins and from dynamic resource allocation.
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
	uuidDevice = regexp.MustCompile(`^((?:GPU|MIG)-` + uuidForm + `)(?:::.*)?$`)
	// fileDevice is one of GKE's plugin, or a replica: nvidia0/gi1/vgpu2.
	fileDevice = regexp.MustCompile(`^(nvidia[0-9]{1,3}(?:/gi[0-9]{1,3})?)(?:/vgpu[0-9]+)?$`)
	// claimDevice is a whole GPU of the DRA driver.
	claimDevice = regexp.MustCompile(`^gpu-([0-9]{1,3})$`)
)

// pluginDevice returns the GPU or instance of an ID that a device plugin offers, "" if it is none. The replicas of a GPU
// that is shared by time-slicing or MPS all stand for that GPU.
//
// A UUID counts under any resource name, a device file only under NVIDIA's. NVIDIA's other devices have IDs of other
// forms: network cards, IMEX channels, GPUs for virtual machines. So do the shares of HAMi and Volcano (GPU-UUID-3):
// their scheduler picks another GPU than the kubelet, so that the kubelet's answer would be wrong.
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

// claimDevices returns the GPUs of a claim of dynamic resource allocation: the UUIDs of its CDI devices
// (nvidia.com/gpu=GPU-UUID), or else the GPU of NVIDIA's driver, gpu-0 by the number of the device file.
//
// An instance has its profile and place as its name (gpu-0-mig-1g10gb-19-2). This does not identify the instance, so it is
// left out. So are GPUs for virtual machines (gpu-vfio-0).
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
