(import 'memory.libsonnet') + (import 'programs.libsonnet') + (import 'health.libsonnet') + (import 'exporter.libsonnet')
