// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// maxAnswer bounds an answer of the kubelet or of a runtime, in bytes. gRPC's own
// bound of 4 MiB is too low for large nodes; the kubelet takes no more than this.
const maxAnswer = 16 << 20

// dialSocket connects to a unix socket and returns a client of what listens there.
// The connection is made here, because gRPC's errors do not tell whether the socket
// is missing, forbidden or stale. If it breaks it is not made anew: each call
// has a client of its own, because a server makes its socket anew when it starts.
// hangUp closes both.
func dialSocket(ctx context.Context, socket string) (client *grpc.ClientConn, hangUp func(), err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, nil, err
	}
	once := make(chan net.Conn, 1)
	once <- conn
	// The address is what the server gets to see, and some refuse a path there.
	client, err = grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the rights to the socket are the security
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case c := <-once:
				return c, nil
			default:
				return nil, net.ErrClosed
			}
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	// The connection stays behind where the client was closed before it took it.
	return client, func() { client.Close(); conn.Close() }, nil
}
