// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	// maxAnswer bounds an answer of the kubelet or of a runtime, in bytes. gRPC's own bound of 4 MiB is too low for large
	// nodes. The kubelet has this bound, too.
	maxAnswer     = 16 << 20
	socketTimeout = 5 * time.Second // of a connection and its call
)

// present returns the sockets that are not missing.
func present(sockets []string) []string {
	return slices.DeleteFunc(slices.Clone(sockets), func(socket string) bool {
		_, err := os.Stat(socket)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// withSocket calls use with a client of a unix socket. Each call has its own connection: calls are rare, and a server that
// starts replaces its socket. It connects first itself, because gRPC's errors do not show whether the socket is missing,
// forbidden or stale.
func withSocket(ctx context.Context, socket string, use func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, socketTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	conn.Close()
	client, err := grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the rights to the socket are the security
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return err
	}
	defer client.Close()
	return use(ctx, client)
}

// advice returns what a person can do about an error of a socket, to be added to it; "" where nothing is known. flag
// names another socket.
func advice(err error, flag string) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return " (the socket is root's: run the exporter as uid 0, in a container too, and with SELinux as spc_t; without Kubernetes on this host nothing is missing)"
	case errors.Is(err, fs.ErrNotExist):
		return " (is its server running? " + flag + " names another socket; in a container, mount the directory of the socket)"
	case errors.Is(err, syscall.ECONNREFUSED):
		return " (nothing listens there: its server does not run, or has replaced the socket. In a container, mount the directory of the socket, not the socket; " + flag + " names another)"
	case status.Code(err) == codes.Unimplemented:
		return " (version 1 of the API is missing: containerd needs its CRI plugin, the kubelet Kubernetes 1.20 or later; " + flag + " names another socket)"
	}
	return ""
}
