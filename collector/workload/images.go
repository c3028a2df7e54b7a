// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

const (
	// maxImage bounds an image in bytes. Distribution allows 255 for a repository.
	maxImage = 255 + len("@"+digestForm) + shortDigest
	// shortDigest is how many digits of a digest are shown, as by docker images.
	shortDigest = 12
	digestForm  = "sha256:"
)

// listImages returns the repositories with digests under which a runtime knows each
// image, by its ID. It is empty, not nil, if the runtime does not tell.
func listImages(ctx context.Context, client *grpc.ClientConn) map[string][]string {
	known := map[string][]string{}
	answer, err := runtimeapi.NewImageServiceClient(client).ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return known // images are then known by their IDs
	}
	for _, image := range answer.GetImages() {
		digests := slices.Clone(image.GetRepoDigests())
		slices.Sort(digests) // so that of several always the same one is taken
		known[strings.TrimPrefix(image.GetId(), digestForm)] = digests
	}
	return known
}

// imageOf returns the image of a container as repository@sha256: and the first digits of
// its digest: that by which the registry has it, or else that of its configuration, which
// is its ID. Without a digest it is the repository alone, without a repository it is "".
//
// The kubelet gives the runtime the name that the pod has and the ID that was pulled. What
// runtimes make of that differs: containerd lists the ID, CRI-O repository@digest.
func imageOf(c *runtimeapi.Container, known map[string][]string) string {
	var repository, id string
	for _, reference := range []string{c.GetImage().GetUserSpecifiedImage(), c.GetImage().GetImage(), c.GetImageRef(), c.GetImageId()} {
		of, digest := parseImage(reference)
		switch {
		case of != "" && digest != "":
			return shortImage(longer(repository, of), digest)
		case of != "":
			repository = cmp.Or(repository, of)
		default:
			id = cmp.Or(id, digest)
		}
	}
	for _, same := range []func(of string) bool{
		func(of string) bool { return of == repository },
		func(of string) bool { return strings.HasSuffix(of, "/"+repository) }, // the pod leaves out docker.io/library
		func(string) bool { return true },
	} {
		for _, reference := range known[id] {
			if of, digest := parseImage(reference); of != "" && digest != "" && same(of) {
				return shortImage(longer(repository, of), digest)
			}
		}
	}
	return shortImage(repository, id)
}

// longer returns the repository of a registry, if the pod's name is a part of it.
func longer(named, registered string) string {
	if named == "" || strings.HasSuffix(registered, "/"+named) {
		return registered
	}
	return named
}

// shortImage returns an image as it is shown.
func shortImage(repository, digest string) string {
	if repository == "" || digest == "" {
		return repository
	}
	return repository + "@" + digestForm + digest[:shortDigest]
}

// parseImage returns the repository and the digest of a reference to an image, each empty
// if it has none: registry/name:tag, registry/name@sha256:digest, or an ID, which is
// sha256:digest or the digest alone.
func parseImage(reference string) (repository, digest string) {
	if _, rest, ok := strings.Cut(reference, "://"); ok { // docker-pullable:// of cri-dockerd
		reference = rest
	}
	if hostfs.IsID(strings.TrimPrefix(reference, digestForm)) {
		return "", strings.TrimPrefix(reference, digestForm)
	}
	repository, digest, _ = strings.Cut(reference, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository = repository[:i]
	}
	if digest = strings.TrimPrefix(digest, digestForm); !hostfs.IsID(digest) {
		digest = ""
	}
	return repository, digest
}
