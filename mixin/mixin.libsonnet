// The configuration comes last: the others say what they need with `error`.
(import 'alerts/alerts.libsonnet')
+ (import 'rules/rules.libsonnet')
+ (import 'dashboards/dashboards.libsonnet')
+ (import 'lib/add-runbook-links.libsonnet')
+ (import 'config.libsonnet')
