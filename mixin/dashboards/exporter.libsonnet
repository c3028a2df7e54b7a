// The exporter itself: whether what it says can be trusted, and what it costs.
local panel = import '../lib/panel.libsonnet';

{
  local config = $._config,
  local q = (import '../lib/dashboard-query.libsonnet')(config),
  local variables = (import '../lib/dashboard-variables.libsonnet')(config),
  local instant = panel.instant,
  local target = panel.target,
  local column = panel.column,
  local with(expr) = expr % q.words,
  local perNode = q.nodeLegend,
  local perGPU = 'GPU {{gpu}}$at',
  local noneAtAll = [[null, 'green'], [1, 'red']],

  local summary = [
    panel.stat(
      'Not scraped',
      'Exporters that Prometheus cannot scrape, of all that it should.',
      'short',
      [
        instant(q.orZero('count(up{%(node)s} == 0)', 'up{%(node)s}'), 'not scraped'),
        instant(with('count(up{%(node)s})'), 'of'),
      ],
      noneAtAll,
    ) + panel.count + panel.withNames + panel.noValue('no such target') + panel.override('of', { thresholds: panel.steps([[null, 'text']]) }),
    panel.stat('Drivers down', 'Exporters that run and cannot reach the driver. The table below says why.', 'short', [instant(q.orZero('count(gpu_driver_up{%(node)s} == 0)', 'gpu_driver_up{%(node)s}'))], noneAtAll) + panel.count + panel.noValue('no data'),
    panel.stat('Oldest sample', 'Age of the oldest last sample of a GPU. What it says is as old.', 's', [instant(with('max(timestamp(gpu_sample_timestamp_seconds{%(gpu)s}) - gpu_sample_timestamp_seconds{%(gpu)s})'))], [[null, 'text'], [0, 'green'], [60, 'orange'], [300, 'red']]) + panel.decimals(1) + panel.noValue('no data'),
  ],

  local states = [
    panel.table(
      'Exporters',
      'Each exporter, its version, and the state of its driver. GPUs on the bus that cannot be read are a driver that does not know them, or a GPU that is lost.',
      [
        instant(with('max by (%(nodeBy)s, version, revision) (gpu_leak_exporter_build_info{%(node)s})')),
        instant(with('max by (%(nodeBy)s) (gpu_driver_up{%(node)s})')),
        instant(with('max by (%(nodeBy)s, reason) (gpu_driver_error{%(node)s})')),
        instant(with('max by (%(nodeBy)s) (gpu_devices{%(node)s})')),
        instant(with('max by (%(nodeBy)s) (gpu_pci_devices{%(node)s})')),
        instant(with('max by (%(nodeBy)s) (gpu_leak_exporter_config_last_reload_successful{%(node)s})')),
        instant(with('max by (%(nodeBy)s) (gpu_leak_exporter_state_file_last_write_successful{%(node)s})')),
        instant(with('max by (%(nodeBy)s) (time() - process_start_time_seconds{%(node)s})')),
      ],
      q.nodeColumns + [
        column('version', 'Version', { 'custom.width': 90 }),
        column('B', 'Driver', { mappings: [panel.valueMapping({ '0': { text: 'down', color: 'red' }, '1': { text: 'up', color: 'green' } })], 'custom.cellOptions': { type: 'color-text' }, 'custom.width': 75 }),
        column('reason', 'Why', { 'custom.minWidth': 120 }),
        column('D', 'GPUs read', { unit: 'short', decimals: 0, 'custom.width': 90 }),
        column('E', 'On the bus', { unit: 'short', decimals: 0, 'custom.width': 95 }),
        column('F', 'Rules', okay('not read')),
        column('G', 'State file', okay('not written')),
        column('H', 'Runs for', { unit: 's', decimals: 1, 'custom.width': 95 }),
      ],
      'Node',
      'No exporter is scraped.',
    ),
    panel.timeline(
      'Scraped, and its driver',
      'Whether Prometheus can scrape each exporter, and whether the exporter can reach the driver: of the 20 that were worst in the time range. The last row is all others.',
      q.worst(with('max by (%(nodeBy)s) (2 * (up{%(node)s} == bool 0) > 0 or gpu_driver_up{%(node)s} == bool 0 or 0 * up{%(node)s})'), q.nodeBy, perNode, 'other nodes'),
      [panel.valueMapping(q.noState {
        '0': { text: 'up', color: 'semi-dark-green' },
        '1': { text: 'driver down', color: 'orange' },
        '2': { text: 'not scraped', color: 'red' },
      })],
    ) + panel.bounded,
  ],
  local okay(text) = {
    mappings: [panel.valueMapping({ '0': { text: text, color: 'red' }, '1': { text: 'ok', color: 'green' } })],
    'custom.cellOptions': { type: 'color-text' },
    'custom.width': 90,
  },

  local samples = [
    panel.timeSeries(
      'Age of samples',
      'How old the last sample of each GPU was when it was scraped. It follows --sample.interval; where it rises, the driver hangs or the GPU is lost.',
      's',
      [target(with('timestamp(gpu_sample_timestamp_seconds{%(gpu)s}) - gpu_sample_timestamp_seconds{%(gpu)s}'), perGPU)],
    ) + panel.noValue('No sample.'),
    panel.timeSeries(
      'Collectors that fail',
      'Collectors whose last reading failed on a GPU.',
      'short',
      q.rare('1 - gpu_collector_success{%(node)s}', '{{collector}}$at'),
    ) + panel.counts + panel.stepped + panel.stacked + panel.noValue('None is known.'),
  ],

  local calls = [
    panel.timeSeries('Calls in flight', 'For how long calls that have not returned have lasted. One that grows is a driver that hangs.', 's', [target(with('gpu_nvml_call_in_flight_seconds{%(node)s}'), '{{call}} ' + perGPU)]) + panel.min(0) + panel.noValue('None is known.'),
    panel.timeSeries('Errors of calls', 'Calls that failed, per second, by function and error.', 'cps', q.rare('sum by (%(nodeBy)s, gpu, call, error) (rate(gpu_nvml_errors_total{%(node)s}[$__rate_interval]))', '{{call}} {{error}} ' + perGPU)) + panel.min(0) + panel.noValue('None is known.'),
  ],

  local judgement = [
    panel.timeSeries('Fill of the windows', 'How much of each window holds samples, of the GPU that has least. Estimates on it are of this part.', 'percentunit', [target(with('min by (%(nodeBy)s, window) (gpu_detector_window_fill_ratio{%(gpu)s})'), '{{window}}$at')]) + panel.ratio + panel.noValue('No sample yet.'),
    panel.timeSeries('GPUs judged by used memory only', 'GPUs whose list of processes is not complete, so that a job that arrives may look like growth. The exporter needs the pid namespace of the host, and the rights to see all processes.', 'short', [target(with('count by (%(nodeBy)s) (gpu_detector_attributed{%(gpu)s} == 0 unless on (%(by)s) gpu_mig_enabled{%(gpu)s} == 1)'), perNode)]) + panel.counts + panel.stepped + panel.noValue('None is known.'),
    panel.timeSeries('History thrown away', 'How often the detector began anew, by reason: a reset of the GPU, another partition, a step of the clock.', 'short', q.rare('sum by (%(nodeBy)s, reason) (increase(gpu_detector_resets_total{%(gpu)s}[$__rate_interval]))', '{{reason}}$at')) + panel.counts + panel.bars + panel.noValue('None is known.'),
  ],

  local incidents = panel.timeSeries('Incidents, by the alert before', 'Programs that ended while their memory was full, and the most urgent alert that had come before: page, ticket or nothing. See /incidents of the node.', 'short', q.rare('sum by (%(nodeBy)s, by) (increase(gpu_incidents_foreseen_total{%(node)s}[$__rate_interval]))', '{{by}}$at')) + panel.counts + panel.bars + panel.noValue('None is known.'),

  local cost = [
    panel.timeSeries('Processor', 'Processor time, as a share of one core.', 'percentunit', [target(with('rate(process_cpu_seconds_total{%(node)s}[$__rate_interval])'), perNode)]) + panel.min(0) + panel.noValue('Not known.'),
    panel.timeSeries('Memory', 'Resident memory.', 'bytes', [target(with('process_resident_memory_bytes{%(node)s}'), perNode)]) + panel.min(0) + panel.noValue('Not known.'),
    panel.timeSeries('File descriptors', 'Open file descriptors, of the most that the process may have.', 'percentunit', [target(with('process_open_fds{%(node)s} / process_max_fds{%(node)s}'), perNode)]) + panel.min(0) + panel.noValue('Not known.'),
  ],

  local scrapes = [
    panel.timeSeries('Series in a scrape', 'Series that a scrape brings.', 'short', [target(with('scrape_samples_scraped{%(node)s}'), perNode)]) + panel.min(0) + panel.noValue('Not scraped.'),
    panel.timeSeries('Duration of a scrape', 'How long Prometheus waited for a scrape.', 's', [target(with('scrape_duration_seconds{%(node)s}'), perNode)]) + panel.min(0) + panel.noValue('Not scraped.'),
  ],

  grafanaDashboards+:: {
    'exporter.json': {
      title: 'GPU leak exporter',
      description: 'Whether what the exporter says can be trusted, and what it costs.',
      templating: { list: [variables.datasource, variables.cluster, variables.node, variables.gpu, variables.at, variables.urgentNode] },
      panels: panel.grid([
        { height: 4, panels: summary },
        { height: 14, panels: states, widths: [14, 10] },
        { title: 'Samples and calls into the driver' },
        { height: 7, panels: samples + calls },
        { title: 'Judgement' },
        { height: 7, panels: judgement + [incidents] },
        { title: 'Cost' },
        { height: 7, panels: cost + scrapes, widths: [5, 5, 5, 5, 4] },
      ]),
    },
  },
}
