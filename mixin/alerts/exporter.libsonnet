// Alerts on what is not watched: a GPU, a driver, a node.
{
  local config = $._config,
  local lib = (import '../lib/alert.libsonnet')(config),
  local text = (import '../lib/text.libsonnet')(config),

  local alert(name, severity, expr, wait, summary, description, dashboard='exporter.json') =
    lib.alert(name, severity, expr, wait, summary, std.join(' ', description), dashboard=dashboard),

  local exporter = 'gpu_leak_exporter on ' + text.node,

  // Up once within the gap is not down.
  local highest(metric) = 'max_over_time(%s[%s])' % [lib.select(metric), config.scrapeGap],

  local fallen = lib.last('gpu_xid_last_timestamp_seconds', ['xid="79"']),

  prometheusAlerts+:: {
    groups+: [{
      name: 'gpu-exporter',
      rules: [
        { record: lib.down, expr: highest('gpu_up') + ' == 0' },
        // One that fell off the bus has the page of its XID.
        alert(
          'GPULost',
          'critical',
          '(\n%s)\nunless on (%s)\n(\n%s)\nunless on (%s)\n(%s and on (%s) %s == 0 or time() - %s < 15 * 60)' % [lib.seldom('gpu_up'), lib.node, lib.seldom('gpu_driver_up'), lib.gpu, fallen, lib.gpu, lib.down, fallen],
          config.forLost,
          text.place + ' cannot be read, though its driver answers.',
          ['It has fallen off the bus, or a call to it hangs.', 'Drain the node.', '`dmesg | grep -i xid` on the node and gpu_nvml_errors_total tell more.'],
          dashboard='health.json',
        ),
        // A node without a GPU needs no driver.
        alert(
          'GPUDriverDown',
          'critical',
          '(\n%s)\nunless on (%s)\n%s == 0' % [lib.seldom('gpu_driver_up'), lib.node, lib.last('gpu_pci_devices')],
          config.forLost,
          'The NVIDIA driver of ' + text.node + ' does not answer.',
          ['None of its GPUs is watched, and programs cannot use them.', 'The runbook has what to do by the reason that gpu_driver_error tells.'],
        ),
        alert(
          'GPUExporterDown',
          'warning',
          lib.seldom('up'),
          config.forLost,
          exporter + ' does not answer.',
          ['Prometheus cannot scrape it as a rule: its GPUs are not watched, and a leak there pages nobody.', 'Is the node up, and does the exporter run?', 'If it is started again and again, its log says why it ends.'],
        ),
        {
          alert: 'GPUExporterAbsent',
          expr: 'absent(%s)' % lib.select('up'),
          'for': config.forAbsent,
          labels: { severity: 'critical' },
          annotations: {
            summary: 'Prometheus knows no gpu_leak_exporter.',
            description: 'No target of Prometheus is selected by {%s}: no GPU is watched. Look at the scrape configuration and at the service discovery.' % config.exporterSelector,
            [if config.grafanaURL != '' then 'dashboard_url']: '%s/d/%s' % [config.grafanaURL, std.md5('exporter.json')],
          },
        },
        // An exporter that judges what a Prometheus knows: the node of the alert is the exporter's, not that of a GPU.
        alert(
          'GPUSourceDown',
          'critical',
          lib.seldom('gpu_leak_exporter_source_up'),
          config.forLost,
          exporter + ' gets no answers of use from its Prometheus.',
          ['It judges the GPUs that this Prometheus knows: none is watched, and a leak pages nobody.', 'The log of the exporter and gpu_leak_exporter_source_problems_total{reason} say why.'],
        ),
      ],
    }, {
      // What waits for minutes and wakes nobody: no oftener than it must.
      name: 'gpu-exporter-held',
      interval: config.rulesInterval,
      rules: [
        alert(
          'GPUMissing',
          'warning',
          |||
            %s - %s > 0
            unless on (%s) %s
            unless on (%s) %s == 0
          ||| % [lib.last('gpu_pci_devices'), lib.last('gpu_devices'), lib.node, lib.down, lib.node, highest('gpu_driver_up')],
          config.forExporter,
          text.node + ' has {{ $value }} GPUs that its driver does not show.',
          ['The driver has not initialised them, or they are given to virtual machines.', '`nvidia-smi -L` and `lspci -d 10de:` on the node tell which.'],
          dashboard='health.json',
        ),
        alert(
          'GPUSourceProblems',
          'warning',
          'sum by (%s, reason) (increase(%s[15m])) > 0' % [lib.node, lib.select('gpu_leak_exporter_source_problems_total', ['reason=~"duplicate|labels|too_many|answer_too_large|no_amount|above_capacity"'])],
          config.forCollector,
          exporter + ' cannot use all that its Prometheus answers: {{ $labels.reason }}.',
          ['Some GPUs may not be watched.', 'The log of the exporter names the first series of each kind.'],
        ),
        // Without clocks being compared: the time stamp stands still.
        alert(
          'GPUSamplesStale',
          'warning',
          |||
            %(last)s == %(before)s
            unless on (%(gpu)s) %(down)s
          ||| % { last: lib.last('gpu_sample_timestamp_seconds'), before: 'last_over_time(%s[%s] offset %s)' % [lib.select('gpu_sample_timestamp_seconds'), config.scrapeGap, config.staleFor], gpu: lib.gpu, down: lib.down },
          config.forExporter,
          'The memory of ' + text.place + ' has not been read for %s or more.' % config.staleFor,
          ['A leak there is not seen.', 'The driver is slow, or the node is: gpu_nvml_call_in_flight_seconds shows a call that hangs.'],
        ),
        alert(
          'GPUCollectorFailing',
          'warning',
          highest('gpu_collector_success') + ' == 0',
          config.forCollector,
          'The collector {{ $labels.collector }} of ' + exporter + ' fails.',
          ['Its metrics are missing or incomplete.', 'The log of the exporter says why; --no-collector.{{ $labels.collector }} switches it off.'],
        ),
        alert(
          'GPUExporterConfigReloadFailed',
          'warning',
          highest('gpu_leak_exporter_config_last_reload_successful') + ' == 0',
          config.forExporter,
          exporter + ' could not read its --detector.config.',
          ['It goes on with its previous rules.', '`gpuleaktool check config FILE` says what is wrong.'],
        ),
        alert(
          'GPUExporterStateFileFailing',
          'warning',
          highest('gpu_leak_exporter_state_file_last_write_successful') + ' == 0 or ' + highest('gpu_leak_exporter_incident_dir_last_write_successful') + ' == 0',
          config.forExporter,
          exporter + ' could not write its --detector.state-file or --incident.dir.',
          ['After a restart it has to learn again what leaks, or has no incidents.', 'Is the disk full, or the directory not writable?'],
        ),
        alert(
          'GPUExporterMemoryHigh',
          'warning',
          'min_over_time(%s[%s]) > 0.8 * %s' % [lib.select('process_resident_memory_bytes'), config.scrapeGap, lib.last('gpu_leak_exporter_budget_bytes')],
          config.forCollector,
          exporter + ' holds {{ $value | humanize1024 }}B, which is nearly all that it may.',
          ['Above the limit of its control group it is killed.', 'gpu_processes and gpu_leak_exporter_connections tell whether there are many processes or many clients.'],
        ),
        // A start that no scrape saw counts for nothing: there may have been more.
        alert(
          'GPUExporterRestarting',
          'warning',
          'changes(%s[1h]) >= %d' % [lib.select('process_start_time_seconds'), config.restartsPerHour],
          '0s',
          exporter + ' was started {{ $value }} times within an hour.',
          ['What it learns between two starts may be lost, and leaks with it.', 'Its log says why it ends; where it does not, `kubectl describe pod` or `journalctl -k` tells whether it was killed for its memory.'],
        ),
      ],
    }],
  },
}
