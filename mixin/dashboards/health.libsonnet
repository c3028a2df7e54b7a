// The health of GPUs beside their memory: errors, heat, power, clocks, links.
local panel = import '../lib/panel.libsonnet';

{
  local config = $._config,
  local q = (import '../lib/dashboard-query.libsonnet')(config),
  local xids = import '../lib/xid.libsonnet',
  local variables = (import '../lib/dashboard-variables.libsonnet')(config),
  local instant = panel.instant,
  local target = panel.target,
  local column = panel.column,
  local with(expr) = expr % q.words,
  local perGPU = 'GPU {{gpu}}$at',
  local otherGPUs = 'other GPUs',

  local noneAtAll = [[null, 'green'], [1, 'red']],
  local none = [[null, 'green'], [1, 'orange']],

  local summary = [
    panel.stat('To recover', 'GPUs that wait for a reset, a reboot or another recovery. The panel State says which.', 'short', [instant(q.orZero('count(%s)' % q.waiting))], noneAtAll) + panel.count + panel.noValue('no data'),
    panel.stat(
      'Uncorrected errors',
      'GPUs with memory errors that could not be corrected, since the driver was loaded. In MIG mode the driver does not tell that: in the last 15 minutes.',
      'short',
      [instant(q.orZero('count(%s)' % q.uncorrected))],
      noneAtAll,
    ) + panel.count + panel.noValue('no data'),
    panel.stat('XID errors', 'XID errors in the time range.', 'short', [instant(q.orZero('round(sum(%s))' % q.newXIDs('$__range')))], none) + panel.count + panel.noValue('no data'),
    panel.stat(
      'Throttled',
      'GPUs that heat or a want of power slows down now, or did for %d %% of the last 15 minutes. The power limit is none of the reasons: busy GPUs run at it.' % (config.throttleRatio * 100),
      'short',
      [instant(q.orZero('count(count by (%s) (%s))' % [q.by, q.throttled]))],
      none,
    ) + panel.count + panel.noValue('no data'),
    panel.stat('Hottest', 'Temperature of the hottest GPU (the die).', 'celsius', [instant(with('max(gpu_temperature_celsius{%(gpu)s, sensor="gpu"})'))], [[null, 'green'], [config.temperatureCelsius - 10, 'orange'], [config.temperatureCelsius, 'red']])
    + panel.decimals(0) + panel.noValue('not known'),
    panel.stat('Power', 'Power that the GPUs draw together.', 'watt', [instant(with('sum(gpu_power_watts{%(gpu)s})'))], [[null, 'text']]) + panel.decimals(1) + panel.noValue('not known'),
  ],

  local states = [
    panel.timeline(
      'State',
      'Whether each GPU can be read, and what the driver asks for to recover it: of the 20 that were worst in the time range. The last row is all others, with their gravest state.',
      q.worst(with('max by (%(gpuBy)s) (\n  9 * (gpu_up{%(gpu)s} == bool 0)\n  or\n  label_replace(' + q.waiting + ', "state", "recovery", "", "")\n)'), q.gpuBy, perGPU, otherGPUs),
      [panel.valueMapping(q.noState {
        '0': { text: 'answers', color: 'semi-dark-green' },
        '1': { text: 'reset the GPU', color: 'orange' },
        '2': { text: 'reboot the machine', color: 'red' },
        '3': { text: 'drain peer-to-peer traffic', color: 'yellow' },
        '4': { text: 'drain and reset', color: 'semi-dark-orange' },
        '5': { text: 'recover the IMEX domain', color: 'purple' },
        '6': { text: 'reset the PCIe bus', color: 'semi-dark-orange' },
        '7': { text: 'reboot the machine', color: 'red' },
        '9': { text: 'does not answer', color: 'dark-red' },
      })],
    ) + panel.bounded,
    panel.timeline(
      'What holds the clocks back',
      'The gravest reason for which the clocks are below their maximum. Idle and the power limit are harmless; heat and the power brake are not. Of the 20 GPUs that were worst in the time range; the last row is all others.',
      q.worst(clockEvents, q.gpuBy, perGPU, otherGPUs),
      [panel.valueMapping(q.noState { [std.toString(i)]: { text: reasons[i].text, color: reasons[i].color } for i in std.range(0, std.length(reasons) - 1) })],
    ) + panel.bounded,
  ],
  local clockEvents =
    q.coded('gpu_clock_event_active', q.gpu, 'reason', [[i, reasons[i].name] for i in std.range(1, std.length(reasons) - 1)], q.gpuBy)
    + with('\nor\nmax by (%(gpuBy)s) (0 * gpu_up{%(gpu)s})'),
  // The reasons from the least to the gravest.
  local reasons = [
    { name: '', text: 'full clock', color: 'semi-dark-green' },
    { name: 'gpu_idle', text: 'idle', color: '#7b8087' },
    { name: 'display_clock_setting', text: 'display', color: 'light-blue' },
    { name: 'applications_clocks_setting', text: 'clocks as set', color: 'light-blue' },
    { name: 'sync_boost', text: 'sync boost', color: 'light-blue' },
    { name: 'sw_power_cap', text: 'power limit', color: 'semi-dark-blue' },
    { name: 'sw_thermal_slowdown', text: 'heat (driver)', color: 'orange' },
    { name: 'hw_slowdown', text: 'hardware slowdown', color: 'semi-dark-orange' },
    { name: 'hw_power_brake_slowdown', text: 'power brake', color: 'purple' },
    { name: 'hw_thermal_slowdown', text: 'heat (hardware)', color: 'red' },
  ],

  local yes(color) = { mappings: [panel.valueMapping({ '0': { text: 'no', color: 'green' }, '1': { text: 'yes', color: color } })], 'custom.cellOptions': { type: 'color-text' } },
  local counts(width=110) = { unit: 'short', decimals: 0, 'custom.width': width } + panel.colored([[null, 'green'], [1, 'orange']]),
  local total(type) = 'max by (%(gpuBy)s) (gpu_ecc_errors_total{%(gpu)s, counter="aggregate", type="' + type + '"})',

  local errors = [
    panel.timeSeries(
      'Corrected memory errors in an hour',
      'Errors that ECC has corrected, by where they were. Locations overlap, so they do not add up. Many are a sign of a row that will fail.',
      'short',
      q.rare('increase(gpu_ecc_errors_total{%(gpu)s, type="corrected", counter="volatile"}[1h])', '{{location}} ' + perGPU),
    ) + panel.min(0) + panel.noValue('None is known.'),
    panel.timeSeries(
      'Uncorrected memory errors',
      'Errors since the driver was loaded that could not be corrected: what computed with them is wrong or was killed. Locations overlap, so they do not add up.',
      'short',
      q.rare('gpu_ecc_errors_total{%(gpu)s, type="uncorrected", counter="volatile"}', '{{location}} ' + perGPU),
    ) + panel.counts + panel.stepped + panel.noValue('None is known.'),
    panel.timeSeries(
      'XID errors',
      'Errors that the driver reports, by their number. The table below says what they mean.',
      'short',
      q.rare('sum by (%(gpuBy)s, xid) (increase(gpu_xid_errors_total{%(gpu)s}[$__rate_interval]))', 'XID {{xid}} ' + perGPU),
    ) + panel.counts + panel.bars + panel.coarse + panel.noValue('None is known.'),
  ],

  local xidTexts =
    local all = xids.critical + xids.warning + xids.other;
    panel.valueMapping({ [xid]: { text: xid + ': ' + all[xid] } for xid in std.objectFields(all) }),

  local tables = [
    panel.table(
      'Memory repair',
      'Errors over the life of each GPU and what has been done about them: rows that were replaced by spare ones (since Ampere), pages that are no longer used (before). A GPU that waits for a reset needs one for the repair to take effect; one whose repair failed should be replaced. Empty: the GPU has no such thing, or is in MIG mode.',
      [
        instant(with(total('corrected'))),
        instant(with(total('uncorrected'))),
        instant(with('sum by (%(gpuBy)s) (gpu_remapped_rows_total{%(gpu)s})')),
        instant(with('sum by (%(gpuBy)s) (gpu_retired_pages{%(gpu)s})')),
        instant(with('max by (%(gpuBy)s) (gpu_row_remap_pending{%(gpu)s} or gpu_retired_pages_pending{%(gpu)s})')),
        instant(with('max by (%(gpuBy)s) (') + q.last('gpu_row_remap_failed') + ' or time() - ' + q.last('gpu_xid_last_timestamp_seconds', ', xid="64"') + ' < bool 15 * 60)'),
        instant(with('max by (%(gpuBy)s) (gpu_ecc_enabled{%(gpu)s})')),
        instant(with('max by (%(gpuBy)s, name) (gpu_info{%(gpu)s})')),
      ],
      q.nodeColumns + [
        column('gpu', 'GPU', { 'custom.width': 55 }),
        column('name', 'Model', { 'custom.minWidth': 150 }),
        column('A', 'Corrected', counts()),
        column('B', 'Uncorrected', counts() + panel.colored([[null, 'green'], [1, 'red']])),
        column('C', 'Rows replaced', counts(115)),
        column('D', 'Pages retired', counts(115)),
        column('E', 'Waits for a reset', yes('orange') { 'custom.width': 130 }),
        column('F', 'Repair failed', yes('red') { 'custom.width': 110 }),
        column('G', 'ECC', { mappings: [panel.valueMapping({ '0': { text: 'off', color: 'yellow' }, '1': { text: 'on', color: 'green' } })], 'custom.cellOptions': { type: 'color-text' }, 'custom.width': 60 }),
      ],
      'Node',
      'No GPU.',
    ),
    panel.table(
      'Last XID errors',
      'XID errors that have occurred, what they mean, and how long ago the last one was.',
      [
        instant(with('sum by (%(gpuBy)s, xid) (') + q.last('gpu_xid_errors_total') + ') > 0'),
        instant(with(|||
          max by (%(gpuBy)s, xid) (
            gpu_xid_last_timestamp_seconds{%(gpu)s} * 0
            + on (%(nodeBy)s) group_left () max by (%(nodeBy)s) (gpu_sample_timestamp_seconds{%(node)s})
            - gpu_xid_last_timestamp_seconds{%(gpu)s}
          )
        |||)),
      ],
      [
        column('B', 'Ago', { unit: 's', decimals: 1, 'custom.width': 95 }),
        column('xid', 'XID', { 'custom.minWidth': 500, mappings: [xidTexts] }),
        column('A', 'Times', { unit: 'short', decimals: 0, 'custom.width': 65 }),
      ] + q.nodeColumns + [
        column('gpu', 'GPU', { 'custom.width': 55 }),
      ],
      'Ago',
      'None is known.',
    ),
  ],

  local heat = [
    panel.timeSeries('Temperature', 'Temperature of the die, and of the memory where it has a sensor.', 'celsius', [target(with('gpu_temperature_celsius{%(gpu)s}'), '{{sensor}} ' + perGPU)]) + panel.noValue('No GPU tells it.'),
    panel.timeSeries(
      'Degrees until it slows down',
      'How much hotter each GPU may become before it slows down: what the driver tells, or the threshold less the temperature. At 0 it slows down.',
      'celsius',
      [target(with(|||
        gpu_temperature_margin_celsius{%(gpu)s}
        or
        max by (%(gpuBy)s) (gpu_temperature_threshold_celsius{%(gpu)s, threshold="slowdown"})
        - max by (%(gpuBy)s) (gpu_temperature_celsius{%(gpu)s, sensor="gpu"})
      |||), perGPU)],
    ) + panel.limits([[null, 'red'], [5, 'orange'], [10, 'transparent']]) + panel.noValue('No GPU tells its thresholds.'),
    panel.timeSeries(
      'Time throttled',
      'Share of the time for which the clocks were held back, by reason. Only reasons that the driver counts.',
      'percentunit',
      q.rare('rate(gpu_clock_event_seconds_total{%(gpu)s, reason!="gpu_idle"}[$__rate_interval])', '{{reason}} ' + perGPU),
    ) + panel.min(0) + panel.coarse + panel.noValue('None, or the driver does not count it.'),
  ],

  local power = [
    panel.timeSeries('Power', 'Power that each GPU draws.', 'watt', [target(with('gpu_power_watts{%(gpu)s}'), perGPU)]) + panel.min(0) + panel.noValue('No GPU tells it.'),
    panel.timeSeries('Clock of the multiprocessors', 'Clock of the streaming multiprocessors.', 'hertz', [target(with('gpu_clock_hertz{%(gpu)s, clock="sm"}'), perGPU)]) + panel.min(0) + panel.noValue('No GPU tells it.'),
  ],

  local use = [
    panel.timeSeries('Utilisation', 'Share of the time in which a program ran on the GPU. It does not say how much of the GPU it used. On a GPU in MIG mode the driver has none.', 'percentunit', [target(with('gpu_utilization_ratio{%(gpu)s}'), perGPU)]) + panel.ratio + panel.noValue('No GPU tells it.'),
    panel.timeSeries(
      'Encoder and decoder',
      'Share of the time in which the video encoder and the video decoder ran.',
      'percentunit',
      [target(with('gpu_%%s_utilization_ratio{%(gpu)s}') % engine, engine + ' ' + perGPU) for engine in ['encoder', 'decoder']],
    ) + panel.ratio + panel.noValue('No GPU tells it.'),
  ],

  local links =
    panel.table(
      'PCIe links and clocks now',
      'What each link has and can have, and the clocks. An idle GPU lowers generation and clocks to save power. Fewer lanes for good, or packets that are sent again and again (replays, in the last hour), mean a bad slot, riser or cable.',
      [
        instant(with('max by (%(gpuBy)s) (gpu_pcie_link_generation{%(gpu)s, state="current"})')),
        instant(with('max by (%(gpuBy)s) (gpu_pcie_link_generation{%(gpu)s, state="max"})')),
        instant(with('max by (%(gpuBy)s) (gpu_pcie_link_width{%(gpu)s, state="current"})')),
        instant(with('max by (%(gpuBy)s) (gpu_pcie_link_width{%(gpu)s, state="max"})')),
        instant(with('max by (%(gpuBy)s) (gpu_clock_hertz{%(gpu)s, clock="sm"})')),
        instant(with('max by (%(gpuBy)s) (gpu_clock_max_hertz{%(gpu)s, clock="sm"})')),
        instant(with('max by (%(gpuBy)s) (gpu_clock_hertz{%(gpu)s, clock="memory"})')),
        instant(with('max by (%(gpuBy)s) (gpu_performance_state{%(gpu)s})')),
        instant(with('max by (%(gpuBy)s) (increase(gpu_pcie_replays_total{%(gpu)s}[1h]))')),
      ],
      q.nodeColumns + [
        column('gpu', 'GPU', { 'custom.width': 55 }),
        column('A', 'Generation', { unit: 'prefix:Gen ', decimals: 0, 'custom.width': 95 }),
        column('B', 'at most', { unit: 'prefix:Gen ', decimals: 0, 'custom.width': 80 }),
        column('C', 'Lanes', { unit: 'prefix:x', decimals: 0, 'custom.width': 65 }),
        column('D', 'Lanes at most', { unit: 'prefix:x', decimals: 0, 'custom.width': 110 }),
        column('E', 'Clock', { unit: 'hertz', decimals: 2, 'custom.width': 90 }),
        column('F', 'Clock at most', { unit: 'hertz', decimals: 2, 'custom.width': 115 }),
        column('G', 'Memory clock', { unit: 'hertz', decimals: 2, 'custom.width': 115 }),
        column('I', 'Replays', counts(80)),
        column('H', 'State', { unit: 'prefix:P', decimals: 0, 'custom.width': 65 }),
      ],
      'Node',
      'No GPU.',
    ),

  local off = 'The nvlink collector is off (--collector.nvlink), or there is no NVLink.',
  local nvlink = [
    panel.timeSeries('NVLink throughput', 'Bytes over all NVLinks of each GPU, in both directions.', 'binBps', [target(with('sum by (%(gpuBy)s) (rate(gpu_nvlink_bytes_total{%(gpu)s}[$__rate_interval]))'), perGPU)]) + panel.min(0) + panel.noValue(off),
    panel.timeSeries('NVLink errors in an hour', 'Errors of the NVLinks by type, and links that are down now.', 'short', [
      target(with('sum by (%(gpuBy)s, type) (increase(gpu_nvlink_errors_total{%(gpu)s}[1h]))'), '{{type}} ' + perGPU),
      target(with('count by (%(gpuBy)s) (gpu_nvlink_up{%(gpu)s}) - sum by (%(gpuBy)s) (gpu_nvlink_up{%(gpu)s})'), 'down ' + perGPU),
    ]) + panel.min(0) + panel.noValue(off),
  ],

  grafanaDashboards+:: {
    'health.json': {
      title: 'GPU / Health',
      description: 'Errors, heat, power, clocks and links of GPUs.',
      templating: { list: [variables.datasource, variables.cluster, variables.node, variables.gpu, variables.at, variables.urgentNode] },
      panels: panel.grid([
        { height: 4, panels: summary },
        { height: 14, panels: states },
        { title: 'Errors' },
        { height: 7, panels: errors },
        { height: 8, panels: [tables[0]] },
        { height: 6, panels: [tables[1]] },
        { title: 'Heat, power and clocks' },
        { height: 8, panels: heat },
        { height: 8, panels: power },
        { height: 8, panels: [links] },
        { title: 'Use' },
        { height: 8, panels: use },
        { title: 'NVLink', rows: [{ height: 8, panels: nvlink }] },
      ]),
    },
  },
}
