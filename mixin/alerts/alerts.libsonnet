(import 'memory.libsonnet') + (import 'exporter.libsonnet')
