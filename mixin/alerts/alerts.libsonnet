(import 'memory.libsonnet') + (import 'health.libsonnet') + (import 'exporter.libsonnet')
