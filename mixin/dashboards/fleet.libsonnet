// What will die next: the GPUs of a fleet that run out of memory, and who is to blame.
local panel = import '../lib/panel.libsonnet';

{
  _config+:: {
    oomPageSeconds: error 'must provide oomPageSeconds',
    oomTicketSeconds: error 'must provide oomTicketSeconds',
    gpuHourPrice: error 'must provide gpuHourPrice',
    gpuHourCurrency: error 'must provide gpuHourCurrency',
  },

  local config = $._config,
  local q = (import '../lib/dashboard-query.libsonnet')(config),
  local variables = (import '../lib/dashboard-variables.libsonnet')(config),
  local instant = panel.instant,
  local target = panel.target,
  local column = panel.column,
  local with(expr) = expr % q.words,

  local urgency = [[null, 'red'], [config.oomPageSeconds, 'orange'], [config.oomTicketSeconds, 'green']],
  local none = [[null, 'text'], [1, 'orange']],
  local noneAtAll = [[null, 'text'], [1, 'red']],

  local left = q.left(),
  local count(expr) = instant(q.orZero('count(%s)' % q.chosen(expr))),

  // What the rules record of each node, in GPUs and GPU-hours or in money.
  local priced = config.gpuHourPrice > 0,
  local recorded(rule) = '%s{%s=~"$cluster", %s=~"$node"}' % [rule, config.clusterLabel, config.nodeLabel],
  local cost(expr, legend='') = instant('sum(%s)' % expr + (if priced then ' * %g' % config.gpuHourPrice else ''), legend),
  local costs(title, description, targets) =
    panel.stat(title, description, if priced then config.gpuHourCurrency else 'short', targets, none)
    + panel.decimals(if priced then 0 else 1) + panel.noValue('rules.yaml is not loaded'),
  local held = recorded('node:gpu_memory_held_ratio:sum'),

  local summary = [
    panel.stat(
      'Full in an hour',
      'GPUs and GPU instances that will be out of memory within the hour, because they leak or fill. Restart the process that the table names, or move its load.',
      'short',
      [count('%s < %d' % [left, config.oomPageSeconds])],
      noneAtAll,
    ) + panel.count + panel.noValue('no data'),
    panel.stat(
      'Full in a day',
      'GPUs and GPU instances that will be out of memory within the day, those of the hour among them.',
      'short',
      [count('%s < %d' % [left, config.oomTicketSeconds])],
      none,
    ) + panel.count + panel.noValue('no data'),
    panel.stat(
      'Leaks',
      'GPUs and GPU instances whose memory leaks now.',
      'short',
      [count('max by (%s) (%s or %s == 1)' % [q.domainBy, q.told('gpu_leaking_bytes_per_second'), q.either('leak_detected')])],
      none,
    ) + panel.count + panel.noValue('no data'),
    costs(
      'At risk in a day',
      'What is lost when the GPUs above are out of memory within the day, as if their programs wrote no checkpoints: %s since these were started.' % (if priced then 'what the GPU-hours cost' else 'the GPU-hours'),
      [cost(recorded('node:gpu_hours_at_risk:sum'), 'GPU-hours')],
    ),
    costs(
      'Held for no use',
      'Memory that leaks have retained, that zombies hold, and that stayed after its process, by its share of its GPU: %s.' % (if priced then 'what it costs in an hour, and has cost in the time range' else 'how many GPUs that is now, and the GPU-hours of the time range'),
      [
        cost(held, if priced then 'an hour' else 'GPUs'),
        cost('avg_over_time(%s[$__range]) * $__range_s / 3600' % held, if priced then 'in the time range' else 'GPU-hours'),
      ],
    ) + panel.withNames,
    panel.stat(
      'Do not answer',
      'GPUs that the driver lists and that cannot be read, and exporters that Prometheus cannot scrape. What they would tell is missing here.',
      'short',
      [
        instant(q.orZero('count(gpu_up{%(gpu)s} == 0)'), 'GPUs'),
        instant(q.orZero('count(up{%(node)s} == 0)', 'up{%(node)s}'), 'nodes'),
      ],
      noneAtAll,
    ) + panel.count + panel.withNames + panel.noValue('no data'),
    panel.stat(
      'Watched',
      'GPUs that can be read, and the nodes that they are in.',
      'short',
      [
        instant(with('count(gpu_up{%(gpu)s} == 1)'), 'GPUs'),
        instant(with('count(count by (%(nodeBy)s) (gpu_up{%(gpu)s} == 1))'), 'nodes'),
      ],
      [[null, 'text']],
    ) + panel.count + panel.withNames + panel.noValue('no data'),
  ],

  local leakURL =
    '/d/%s?%s&var-gpu=${__data.fields.uuid}' % [std.md5('leak.json'), q.nodeLink],
  local toLeak = { links: [{ title: 'Show this GPU', url: leakURL, targetBlank: false }] },
  // A GPU in MIG mode opens with the instance that is full first; this is for the others.
  local toInstance = { links: [{ title: 'Show this GPU instance', url: leakURL + '&var-gpu_instance=${__value.raw}', targetBlank: false }] },

  local owners = [
    column('process', 'Process', toLeak { 'custom.minWidth': 120 }),
    column('pod', 'Pod', { 'custom.minWidth': 150 }),
    column('namespace', 'Namespace', { 'custom.minWidth': 95 }),
    column('slurm_job', 'Slurm job', { 'custom.width': 85 }),
  ],
  local places = q.nodeColumns + [
    column('gpu', 'GPU', toLeak { 'custom.width': 45 }),
    // Without an instance there is nothing to click on.
    column('gpu_instance', 'MIG', toInstance { 'custom.width': 45, noValue: '' }),
  ],
  local hidden = [column('uuid', 'uuid', { 'custom.hidden': true })],

  // What of a fleet a browser can show: what is full first, then what is fullest.
  local most = 100,
  local order = q.chosen(
    '%s < +Inf or on (%s) 1e15 - %s' % [left, q.domainBy, with('(gpu_mig_memory_used_bytes{%(gpu)s} or gpu_memory_used_bytes{%(gpu)s} unless on (%(by)s) gpu_mig_memory_used_bytes{%(gpu)s})')]
  ),
  local shown(expr, labels='') =
    instant('max by (%s, gpu_instance%s) (\n%s\n)\nand on (%s) bottomk(%d,\n%s\n)' % [q.gpuBy, labels, std.rstripChars(expr, '\n'), q.domainBy, most, order]),

  local gpus = panel.table(
    'GPUs and who uses them',
    'One row for each GPU or GPU instance, those that are out of memory first on top; of a fleet %d. Time left: –, where no end is foretold, or memory is not judged yet. Why, and the process: what the alerts say, and whom they name; else the one that holds most. Click on it to see why.' % most,
    [
      shown('%s or on (%s) 0 * %s + Inf' % [left, q.domainBy, q.either('memory_used_bytes')]),
      shown('3600 * %s' % q.either('oom_rate_bytes_per_second')),
      shown('%s / %s' % [q.either('memory_used_bytes'), q.either('memory_total_bytes')]),
      shown(q.either('leaked_bytes')),
      shown(q.either('memory_pattern'), ', pattern'),
      shown(
        q.said(q.owner) + with(|||

          or on (%(domainBy)s)
          topk by (%(domainBy)s) (1, gpu_process_memory_used_bytes{%(owner)s} * on (%(domainBy)s, pid) group_left (user) gpu_process_info{%(owner)s})
        |||),
        ', evidence, process, pod, namespace, slurm_job, user',
      ),
    ],
    [
      column('A', 'Time left', { unit: 's', decimals: 1, 'custom.width': 80, mappings: [panel.infinity] } + panel.colored(urgency)),
      column('evidence', 'Why', { 'custom.width': 90 }),
    ] + owners + [
      column('user', 'User', { 'custom.width': 85 }),
    ] + places + [
      column('C', 'Used', panel.gauge([[null, 'blue']]) { 'custom.width': 110 }),
      column('B', 'Growth / h', { unit: 'bytes', decimals: 1, 'custom.width': 90 }),
      column('D', 'Retained', { unit: 'bytes', decimals: 1, 'custom.width': 85 }),
      column('pattern', 'Pattern', { 'custom.width': 110, 'custom.cellOptions': { type: 'color-text' }, mappings: [panel.valueMapping(patternTexts)] }),
    ] + hidden,
    'Time left',
    'No GPU is watched.',
  ),

  local patternTexts = {
    [p.name]: { text: p.text, color: p.color }
    for p in import '../lib/dashboard-patterns.libsonnet'
  },

  local histories = [
    panel.timeSeries(
      'Lowest time to out-of-memory by node',
      'Of each node, the time left of the memory that is full first. Dashed: the hour and the day. Times over a week are left out.',
      'h',
      [target('min by (%s) (%s) / 3600 < 7 * 24' % [q.nodeBy, left], q.nodeLegend)],
    ) + panel.limits([[null, 'red'], [config.oomPageSeconds / 3600, 'orange'], [config.oomTicketSeconds / 3600, 'transparent']])
    + panel.min(0) + panel.coarse + panel.noValue('No end is foretold within a week.'),
    panel.timeSeries(
      'Leaking processes by namespace',
      'Processes that leak, by their namespace. Those outside of Kubernetes are under "no namespace".',
      'short',
      [target(|||
        sum by (%(cluster)s, namespace) (
          label_replace(gpu_process_leak_detected{%(owner)s}, "namespace", "no namespace", "namespace", "")
        )
      ||| % { cluster: config.clusterLabel, owner: q.owner }, '{{namespace}}' + inCluster)],
    ) + panel.counts + panel.stepped + panel.stacked + panel.coarse + panel.noValue('No process is judged yet.'),
  ],
  local inCluster = if config.showMultiCluster then ' {{%s}}' % config.clusterLabel else '',

  local problem(text, expr, label='', regexp='') =
    'label_replace(%s, "problem", "%s", "%s", "%s")' % [with(expr), text, label, regexp],

  local lists = [
    panel.table(
      'Memory held by nobody',
      'Zombies compute nothing and show no sign of going on: end them. Unreleased memory stayed after its process left: something still holds the device open, or the driver must be reset.',
      [
        instant(q.told('gpu_memory_held_bytes', q.owner)),
      ],
      [
        column('A', 'Memory', { unit: 'bytes', decimals: 1, 'custom.width': 85 }),
        column('state', 'Why', { 'custom.width': 90 }),
      ] + owners + places + hidden,
      'Memory',
      'None is known.',
      desc=true,
    ),
    panel.table(
      'Unhealthy GPUs',
      'Nodes that are not scraped, and GPUs that do not answer, that the driver asks to recover, that have errors of their memory or XID errors in the last hour, or that are throttled because of heat or power. The dashboard GPU / Health tells more.',
      [instant(std.join('\nor\n', [
        problem('driver does not answer: $1', 'gpu_driver_error{%(node)s} == 1', 'reason', '(.*)'),
        problem('is not scraped', 'up{%(node)s} == 0'),
        problem('does not answer', 'gpu_up{%(gpu)s} == 0'),
        problem('a row of its memory cannot be repaired', q.last('gpu_row_remap_failed') + ' == 1'),
        problem('needs a reset to repair its memory', '(%s or %s) == 1' % [q.last('gpu_row_remap_pending'), q.last('gpu_retired_pages_pending')]),
        problem('the driver asks for a recovery', q.last('gpu_recovery_action') + ' > 0'),
        problem('memory errors without correction', q.uncorrected),
        problem('XID $1 in the last hour', 'time() - %s < 3600' % q.last('gpu_xid_last_timestamp_seconds'), 'xid', '(.*)'),
        problem('throttled: $1', q.throttled, 'reason', '(.*)'),
      ]))],
      [
        column('problem', 'Problem', { 'custom.minWidth': 220 }),
      ] + q.nodeColumns + [
        column('gpu', 'GPU', { 'custom.width': 55, links: [{
          title: 'Show its health',
          url: '/d/%s?%s&var-gpu=${__data.fields.uuid}&${__url_time_range}' % [std.md5('health.json'), q.nodeLink],
          targetBlank: false,
        }] }),
      ] + hidden,
      'Problem',
      'None is known.',
    ),
  ],

  // Of all GPUs that are chosen, over time.
  local all = panel.timeSeries(
    'Memory of all GPUs',
    'Used memory of each GPU as a share of its memory, those that are the fullest now first; of a fleet the %d that used most. Full is no leak: vLLM and JAX take nearly all of it on purpose.' % most,
    'percentunit',
    [target(with(|||
      gpu_memory_used_bytes{%(gpu)s} / (gpu_memory_total_bytes{%(gpu)s} > 0)
      and on (%(gpuBy)s)
      topk(%%d, max by (%(gpuBy)s) (max_over_time(gpu_memory_used_bytes{%(gpu)s}[$__range] @ end())))
    |||) % most, 'GPU {{gpu}} ' + q.nodeLegend)],
  ) + panel.ratio + panel.coarse + panel.listed + panel.noValue('No GPU tells its memory.'),

  // What Alertmanager was told, of the nodes that are chosen, those of a cluster or image among them.
  local ofAlert = 'alertname=~"GPU.+", alertstate="firing", %(cluster)s=~"$cluster", %(node)s=~"$node|"' % { cluster: config.clusterLabel, node: config.nodeLabel },
  local firing = panel.table(
    'Alerts that fire',
    'The pages and tickets of the mixin that fire now, the gravest first, and for how long each has held. Alertmanager may have silenced one, or told of it together with others.',
    [
      instant('ALERTS{%s}' % ofAlert),
      instant('time() - ALERTS_FOR_STATE{alertname=~"GPU.+", %(cluster)s=~"$cluster", %(node)s=~"$node|"} and ignoring (alertstate) ALERTS{%(alert)s}' % { cluster: config.clusterLabel, node: config.nodeLabel, alert: ofAlert }),
    ],
    [
      column('severity', 'Severity', {
        'custom.width': 90,
        'custom.cellOptions': { type: 'color-text' },
        mappings: [panel.valueMapping({
          critical: { text: 'critical', color: 'red' },
          warning: { text: 'warning', color: 'orange' },
        })],
      }),
      column('alertname', 'Alert', { 'custom.minWidth': 220 }),
      column('B', 'For', { unit: 's', decimals: 1, 'custom.width': 80 }),
    ] + places + owners + [
      column('xid', 'XID', { 'custom.width': 60 }),
      column('collector', 'Collector', { 'custom.width': 100 }),
    ] + hidden,
    'Severity',
    'None, or the rules of the mixin are not loaded in this data source.',
  ),

  grafanaDashboards+:: {
    'fleet.json': {
      title: 'GPU memory / Fleet',
      description: 'Which GPUs run out of memory, when, and who is to blame.',
      templating: { list: [
        variables.datasource,
        variables.cluster,
        variables.node,
        variables.gpu,
        variables.namespace,
        variables.pod,
        variables.at,
        variables.urgentNode,
      ] },
      panels: panel.grid([
        // The answer comes first, also on a phone, where panels stand one under the other.
        { height: 9, panels: [gpus] },
        { height: 4, panels: summary, widths: [3, 3, 3, 3, 4, 4, 4] },
        { height: 8, panels: [firing] },
        { height: 9, panels: [all] },
        { height: 8, panels: histories },
        { height: 8, panels: lists, widths: [16, 8] },
      ]),
    },
  },
}
