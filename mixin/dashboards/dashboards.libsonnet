(import 'leak.libsonnet') + (import '../lib/dashboard-defaults.libsonnet')
