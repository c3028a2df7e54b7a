// Alerts on what is not watched: a GPU, a driver, a node.
{
  local config = $._config,
  local lib = (import '../lib/alert.libsonnet')(config),
  local text = (import '../lib/text.libsonnet')(config),

  // A page outlives a node that is not scraped for a while.
  local alert(name, severity, expr, wait, summary, description, dashboard='exporter.json') =
    lib.alert(name, severity, expr, wait, summary, description, dashboard=dashboard, keep=if severity == 'critical' then config.keepFiringFor else '0s'),

  // Up once within the gap is not down.
  local highest(metric) = 'max_over_time(%s[%s])' % [lib.select(metric), config.scrapeGap],

  prometheusAlerts+:: {
    groups+: [{
      name: 'gpu-exporter',
      rules: [
        { record: lib.down, expr: highest('gpu_up') + ' == 0' },
        alert(
          'GPULost',
          'critical',
          '(\n%s)\nunless on (%s)\n(\n%s)\nunless on (%s)\nALERTS{alertname="GPUXIDCritical", alertstate="firing", xid="79"}\n' % [lib.seldom('gpu_up'), lib.node, lib.seldom('gpu_driver_up'), lib.gpu],
          config.forLost,
          text.place + ' cannot be read.',
          text.text([
            text.gpu,
            ' does not answer, though the driver does: it has fallen off the bus, or a call to it hangs. Drain the node. `dmesg | grep -i xid` on the node and gpu_nvml_errors_total tell more.',
          ]),
          dashboard='health.json',
        ),
        // A node without a GPU needs no driver.
        alert(
          'GPUDriverDown',
          'critical',
          '(\n%s)\nunless on (%s)\n%s == 0' % [lib.seldom('gpu_driver_up'), lib.node, lib.last('gpu_pci_devices')],
          config.forLost,
          'The NVIDIA driver of ' + text.node + ' does not answer.',
          text.text([
            '{{ $reason := "" }}',
            text.ask(text.last('gpu_driver_error', '$node'), '{{ $reason = .Labels.reason }}'),
            'The exporter on ',
            text.node,
            ' runs and cannot reach the NVIDIA driver{{ with $reason }} ({{ . }}){{ end }}',
            ': none of its GPUs is watched, and programs cannot use them. ',
            '{{ if eq $reason "lib_rm_version_mismatch" }}The driver was upgraded while the old one is still loaded: reboot the node, or end all that uses its GPUs and load the new one.',
            '{{ else }}Run `nvidia-smi` on the node: if it fails too, mend the driver or drain the node; if it works, look at the permissions of the exporter and restart it.{{ end }}',
          ]),
        ),
        alert(
          'GPUExporterDown',
          'warning',
          lib.seldom('up'),
          config.forLost,
          'gpu_leak_exporter on ' + text.node + ' does not answer.',
          'Prometheus cannot scrape gpu_leak_exporter on ' + text.node + ' as a rule: its GPUs are not watched, and a leak there pages nobody. Is the node up, and does the exporter run? If it is started again and again, its log says why it ends.',
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
          'gpu_leak_exporter on ' + text.node + ' gets no answers of use from its Prometheus.',
          'gpu_leak_exporter on ' + text.node + ' judges the GPUs that a Prometheus knows, and that does not answer, or has no samples of them: no GPU is watched, and a leak pages nobody. The log of the exporter and gpu_leak_exporter_source_problems_total{reason} say why.',
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
            %s < %s
            unless on (%s) %s
            unless on (%s) %s == 0
          ||| % [lib.last('gpu_devices'), lib.last('gpu_pci_devices'), lib.node, lib.down, lib.node, highest('gpu_driver_up')],
          config.forExporter,
          text.node + ' has GPUs that its driver does not show.',
          text.text(['The driver on ', text.node, ' shows {{ $value }} GPUs', text.ask(text.last('gpu_pci_devices', '$node'), ', and the PCI bus {{ .Value }}'), ': the driver has not initialised the rest, or it is given to virtual machines. `nvidia-smi -L` and `lspci -d 10de:` on the node tell which.']),
          dashboard='health.json',
        ),
        alert(
          'GPUSourceProblems',
          'warning',
          'sum by (%s, reason) (increase(%s[15m])) > 0' % [lib.node, lib.select('gpu_leak_exporter_source_problems_total', ['reason=~"duplicate|labels|too_many|answer_too_large|no_amount|above_capacity"'])],
          config.forCollector,
          'gpu_leak_exporter on ' + text.node + ' cannot use all that its Prometheus answers: {{ $labels.reason }}.',
          'gpu_leak_exporter on ' + text.node + ' leaves out some of what its Prometheus answers ({{ $labels.reason }}), so that some GPUs may not be watched. The log of the exporter names the first series of each kind.',
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
          'The samples of ' + text.place + ' are old.',
          text.text(['The memory of ', text.gpu, ' has not been read for %s or more, so that a leak there is not seen. The driver is slow, or the node is: gpu_nvml_call_in_flight_seconds shows a call that hangs.' % config.staleFor]),
        ),
        alert(
          'GPUCollectorFailing',
          'warning',
          highest('gpu_collector_success') + ' == 0',
          config.forCollector,
          'The collector {{ $labels.collector }} of gpu_leak_exporter on ' + text.node + ' fails.',
          'The collector {{ $labels.collector }} of gpu_leak_exporter on ' + text.node + ' fails: its metrics are missing or incomplete. The log of the exporter says why; --no-collector.{{ $labels.collector }} switches it off.',
        ),
        alert(
          'GPUExporterConfigReloadFailed',
          'warning',
          highest('gpu_leak_exporter_config_last_reload_successful') + ' == 0',
          config.forExporter,
          'gpu_leak_exporter on ' + text.node + ' could not reload its configuration.',
          'gpu_leak_exporter on ' + text.node + ' could not read its --detector.config, and goes on with its previous rules. `gpuleaktool check config FILE` says what is wrong.',
        ),
        alert(
          'GPUExporterStateFileFailing',
          'warning',
          highest('gpu_leak_exporter_state_file_last_write_successful') + ' == 0',
          config.forExporter,
          'gpu_leak_exporter on ' + text.node + ' could not save its state.',
          'gpu_leak_exporter on ' + text.node + ' could not write its --detector.state-file: after a restart it has to learn again what leaks. Is the disk full, or the directory not writable?',
        ),
        alert(
          'GPUExporterMemoryHigh',
          'warning',
          // One that does not know its limit has that of our manifest; but one that judges a fleet has another manifest, and
          // needs memory for each GPU.
          |||
            %(resident)s > 0.8 * %(budget)s
            or
            %(resident)s > %(most)g
            unless on (%(node)s) %(budget)s >= 0
            unless on (%(node)s) %(fleet)s >= 0
          ||| % {
            resident: 'min_over_time(%s[%s])' % [lib.select('process_resident_memory_bytes'), config.scrapeGap],
            budget: lib.last('gpu_leak_exporter_budget_bytes'),
            most: 0.8 * config.exporterMemoryBytes,
            node: lib.node,
            fleet: lib.last('gpu_leak_exporter_source_up'),
          },
          config.forCollector,
          'gpu_leak_exporter on ' + text.node + ' needs much memory.',
          text.text([
            'gpu_leak_exporter on ',
            text.node,
            ' holds {{ $value | humanize1024 }}B',
            text.ask(
              text.last('gpu_leak_exporter_budget_bytes', '$node'),
              ' of the {{ .Value | humanize1024 }}B that it may hold: near that it takes more processor time, and above the limit of its control group it is killed.',
              ': at %d MiB it is killed, as its manifest has it.' % (config.exporterMemoryBytes / 1024 / 1024)
            ),
            ' gpu_processes and gpu_leak_exporter_connections tell whether there are many processes or many clients.',
          ]),
        ),
        alert(
          'GPUExporterDescriptorsHigh',
          'warning',
          'min_over_time(%s[%s]) > 0.8 * %s' % [lib.select('process_open_fds'), config.scrapeGap, lib.last('process_max_fds')],
          config.forCollector,
          'gpu_leak_exporter on ' + text.node + ' has many files open.',
          'gpu_leak_exporter on ' + text.node + ' has {{ $value }} descriptors open, of those that it may have: without one it can neither be scraped nor save its state. gpu_leak_exporter_connections tells how many are clients.',
        ),
        // A start that no scrape saw counts for nothing: there may have been more.
        alert(
          'GPUExporterRestarting',
          'warning',
          'changes(%s[1h]) >= %d' % [lib.select('process_start_time_seconds'), config.restartsPerHour],
          '0s',
          'gpu_leak_exporter on ' + text.node + ' is started again and again.',
          'gpu_leak_exporter on ' + text.node + ' was started {{ $value }} times within an hour: what it learns between two starts may be lost, and leaks with it. Its log says why it ends; where it does not, `kubectl describe pod` or `journalctl -k` tells whether it was killed for its memory.',
        ),
      ],
    }],
  },
}
