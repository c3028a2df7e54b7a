module github.com/gpuleak/gpu_leak_exporter/e2e/bench

go 1.26.0

require github.com/gpuleak/gpu_leak_exporter v0.0.0-00010101000000-000000000000

require (
	github.com/go-kit/log v0.2.1 // indirect
	github.com/go-logfmt/logfmt v0.6.1 // indirect
	github.com/google/renameio/v2 v2.0.2 // indirect
	github.com/prometheus/procfs v0.23.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/grpc v1.85.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	k8s.io/cri-api v0.37.2 // indirect
	k8s.io/kubelet v0.37.2 // indirect
)

replace github.com/gpuleak/gpu_leak_exporter => ../../
