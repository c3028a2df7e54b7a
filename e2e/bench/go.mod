module github.com/gpuleak/gpu_leak_exporter/e2e/bench

go 1.26.0

require github.com/gpuleak/gpu_leak_exporter v0.0.0-00010101000000-000000000000

require golang.org/x/text v0.43.0 // indirect

replace github.com/gpuleak/gpu_leak_exporter => ../../
