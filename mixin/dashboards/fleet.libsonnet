// What will die next: the GPUs of a fleet that run out of memory, and who is to blame.
local panel = import '../lib/panel.libsonnet';

{
  _config+:: {
    oomPageSeconds: error 'must provide oomPageSeconds',
    oomTicketSeconds: error 'must provide oomTicketSeconds',
    leakThreshold: error 'must provide leakThreshold',
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
  local none = [[null, 'green'], [1, 'orange']],
  local noneAtAll = [[null, 'green'], [1, 'red']],

  local noBytes = panel.mapped([panel.valueMapping({ '0': { text: 'none', color: 'green' } })]),

  local within(seconds) = instant('count(count by (%s) (%s < %d)) or vector(0)' % [q.domainBy, q.contributors('seconds_to_oom'), seconds]),

  local zombies = with(|||
    gpu_process_memory_used_bytes{%(owner)s}
    and ignoring (pattern) gpu_process_memory_pattern{%(owner)s, pattern="zombie"} == 1
  |||),

  local summary = [
    panel.stat(
      'Full in an hour',
      'GPUs and GPU instances that will be out of memory within the hour, at the rate at which they leak now. Restart the process that the table names, or move its load.',
      'short',
      [within(config.oomPageSeconds)],
      noneAtAll,
    ) + panel.count,
    panel.stat(
      'Full in a day',
      'GPUs and GPU instances that will be out of memory within the day, those of the hour among them.',
      'short',
      [within(config.oomTicketSeconds)],
      none,
    ) + panel.count,
    panel.stat(
      'Leaks',
      'What leaks now: the rows of the table below.',
      'short',
      [instant('count(%s) or vector(0)' % q.contributors('leak_detected'))],
      none,
    ) + panel.count,
    panel.stat(
      'Retained by leaks',
      'Memory that has been retained since the leaks began. It comes back when the processes end.',
      'bytes',
      [instant('sum(%s) or vector(0)' % q.contributors('leaked_bytes'))],
      none,
    ) + panel.decimals(1) + noBytes,
    panel.stat(
      'Held by nobody',
      'Memory of zombies (their owner is gone) and memory that stayed after its process ended. The table below names them.',
      'bytes',
      [instant('sum(\n  (%s) or gpu_unreleased_memory_bytes{%s}\n) or vector(0)' % [zombies, q.owner])],
      none,
    ) + panel.decimals(1) + noBytes,
    panel.stat(
      'Do not answer',
      'GPUs that the driver lists and that cannot be read, and exporters that Prometheus cannot scrape. What they would tell is missing here.',
      'short',
      [
        instant(with('count(gpu_up{%(gpu)s} == 0) or vector(0)'), 'GPUs'),
        instant(with('count(up{%(node)s} == 0) or vector(0)'), 'nodes'),
      ],
      noneAtAll,
    ) + panel.count + panel.withNames,
    panel.stat(
      'Watched',
      'GPUs that can be read, and the nodes that they are in.',
      'short',
      [
        instant(with('count(gpu_up{%(gpu)s} == 1) or vector(0)'), 'GPUs'),
        instant(with('count(count by (%(nodeBy)s) (gpu_up{%(gpu)s} == 1)) or vector(0)'), 'nodes'),
      ],
      [[null, 'text']],
    ) + panel.count + panel.withNames,
  ],

  // What the programs that will die within the day have computed since they started.
  local recorded(rule) = '%s{%s=~"$cluster", %s=~"$node"}' % [rule, config.clusterLabel, config.nodeLabel],
  local money(expr, legend='') = instant('sum(%s) * %g' % [expr, config.gpuHourPrice], legend),
  local atRisk = panel.stat(
    'At risk in a day',
    'What the GPU-hours cost that are lost when the GPUs above are out of memory within the day: those since the programs that leak on them were started, as if they wrote no checkpoints.',
    config.gpuHourCurrency,
    [money(recorded('node:gpu_hours_at_risk:sum'))],
    none,
  ) + panel.decimals(0) + panel.noValue('rules.yaml is not loaded'),

  // ... and what memory costs that nobody uses, by its share of its GPU.
  local heldCost = panel.stat(
    'Memory that nobody uses',
    'What the memory costs that leaks have retained, that zombies hold, and that stayed after its process, by its share of its GPU: now in an hour, and so far in the time range.',
    config.gpuHourCurrency,
    [
      money(recorded('node:gpu_memory_held_ratio:sum'), 'an hour'),
      money('avg_over_time(%s[$__range]) * $__range_s / 3600' % recorded('node:gpu_memory_held_ratio:sum'), 'in the time range'),
    ],
    none,
  ) + panel.decimals(0) + panel.withNames + panel.noValue('rules.yaml is not loaded'),

  local leakURL =
    '/d/%s?%s&var-gpu=${__data.fields.uuid}' % [std.md5('leak.json'), q.nodeLink],
  local toLeak = { links: [{ title: 'Show this GPU', url: leakURL, targetBlank: false }] },
  // A GPU in MIG mode opens with the instance that is full first; this is for the others.
  local toInstance = { links: [{ title: 'Show this GPU instance', url: leakURL + '&var-gpu_instance=${__value.raw}', targetBlank: false }] },
  local never = { mappings: [panel.infinity('never')] },
  local time = { unit: 's', decimals: 1, 'custom.width': 80 },

  local owners = [
    column('process', 'Process', toLeak { 'custom.minWidth': 120 }),
    column('pid', 'PID', { 'custom.width': 85 }),
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

  local next = panel.table(
    'What runs out of memory next',
    'One row for each process that leaks; for a pod or job that leaks as a whole while none of its processes does; and for a GPU whose memory leaks without a process. Time left: until its GPU is out of memory; earliest and latest: its 90 % interval. Click on a process to see why.',
    [
      instant(q.contributors('seconds_to_oom')),
      instant(q.contributors('seconds_to_oom_lower')),
      instant(q.contributors('seconds_to_oom_upper')),
      instant(q.contributors('leak_rate_bytes_per_second') + '* 3600'),
      instant(q.contributors('leaked_bytes')),
      instant(q.contributors('leak_confidence')),
      instant(|||
        %s * 0 + on (%s) group_left () max by (%s) (gpu_sample_timestamp_seconds{%s})
        - %s
      ||| % [q.contributors('leak_start_timestamp_seconds'), q.by, q.by, q.gpu, q.contributors('leak_start_timestamp_seconds')]),
      instant(q.contributors('memory_pattern')),
    ],
    [
      column('A', 'Time left', time + never + panel.colored(urgency)),
      column('B', 'Earliest', time + never),
      column('C', 'Latest', time + never),
    ] + owners + places + [
      column('D', 'Growth / h', { unit: 'bytes', decimals: 1, 'custom.width': 90 }),
      column('E', 'Retained', { unit: 'bytes', decimals: 1, 'custom.width': 85 }),
      column('G', 'Leaking for', { unit: 's', decimals: 1, 'custom.width': 95 }),
      column('pattern', 'Pattern', { 'custom.width': 110, 'custom.cellOptions': { type: 'color-text' }, mappings: [panel.valueMapping(patternTexts)] }),
      column('F', 'Confidence', panel.gauge([[null, 'yellow'], [config.leakThreshold, 'orange'], [0.9, 'red']]) { 'custom.width': 110 }),
    ] + hidden,
    'Time left',
    'Nothing leaks. Memory is judged once it has been watched for five minutes.',
  ),

  local patternTexts = {
    [p.name]: { text: p.text, color: p.color }
    for p in import '../lib/dashboard-patterns.libsonnet'
  },

  local histories = [
    panel.timeSeries(
      'Lowest time to out-of-memory by node',
      'Of each node, the time left of the memory that is full first. Dashed: the hour and the day. Times over a week are left out. No line: nothing leaks or fills.',
      'h',
      [target('min by (%s) (%s) / 3600 < 7 * 24' % [q.nodeBy, q.either('seconds_to_oom')], q.nodeLegend)],
    ) + panel.limits([[null, 'red'], [config.oomPageSeconds / 3600, 'orange'], [config.oomTicketSeconds / 3600, 'transparent']])
    + panel.min(0) + panel.coarse + panel.noValue('Nothing leaks or fills.'),
    panel.timeSeries(
      'Leaking GPUs by model',
      'GPUs whose memory leaks, by their model. A GPU in MIG mode counts once for its instances.',
      'short',
      [target(|||
        sum by (%(cluster)s, name) (
          max by (%(by)s) (%(leaks)s)
          * on (%(by)s) group_left (name) max by (%(by)s, name) (gpu_info{%(gpu)s})
        )
      ||| % { cluster: config.clusterLabel, by: q.by, gpu: q.gpu, leaks: q.either('leak_detected') }, '{{name}}' + inCluster)],
    ) + panel.counts + panel.stepped + panel.stacked + panel.coarse + panel.noValue('Nothing is judged yet.'),
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
    panel.barGauge(
      'Fullest GPUs now',
      'Used memory of the ten GPUs that are the fullest now. Full is no leak: vLLM and JAX take nearly all of it on purpose.',
      'percentunit',
      [instant(with('sort_desc(topk(10, gpu_memory_used_bytes{%(gpu)s} / gpu_memory_total_bytes{%(gpu)s}))'), 'GPU {{gpu}}$at')],
    ) + panel.ratio + panel.decimals(0) + panel.noValue('No GPU tells its memory.'),
  ],
  local inCluster = if config.showMultiCluster then ' {{%s}}' % config.clusterLabel else '',

  local problem(text, expr, label='', regexp='') =
    'label_replace(%s, "problem", "%s", "%s", "%s")' % [with(expr), text, label, regexp],

  local lists = [
    panel.table(
      'Memory held by nobody',
      'Zombies compute nothing and their owner is gone: end them. Unreleased memory stayed after its process ended: something still holds the device open, or the driver must be reset. For: how long a zombie has been idle, or since when the memory has been seen (a day at most).',
      [
        instant(with('label_replace(%s, "why", "zombie", "", "")\nor\nlabel_replace(gpu_unreleased_memory_bytes{%%(owner)s}, "why", "unreleased", "", "")' % zombies)),
        instant(with(|||
          label_replace(
            gpu_process_idle_seconds{%(owner)s}
            and ignoring (pattern) gpu_process_memory_pattern{%(owner)s, pattern="zombie"} == 1,
            "why", "zombie", "", ""
          )
          or
          label_replace(
            time() - min_over_time(timestamp(gpu_unreleased_memory_bytes{%(owner)s})[1d:5m])
            and gpu_unreleased_memory_bytes{%(owner)s},
            "why", "unreleased", "", ""
          )
        |||)),
      ],
      [
        column('A', 'Memory', { unit: 'bytes', decimals: 1, 'custom.width': 85 }),
        column('why', 'Why', { 'custom.width': 90 }),
        column('B', 'For', { unit: 's', decimals: 1, 'custom.width': 80 }),
      ] + owners + places + hidden,
      'Memory',
      'None: all memory has an owner.',
      desc=true,
    ),
    panel.table(
      'Unhealthy GPUs',
      'GPUs that do not answer, that the driver asks to recover, that have errors of their memory or XID errors in the last hour, or that are throttled because of heat or power. The dashboard GPU / Health tells more.',
      [instant(std.join('\nor\n', [
        problem('driver does not answer: $1', 'gpu_driver_error{%(node)s} == 1', 'reason', '(.*)'),
        problem('does not answer', 'gpu_up{%(gpu)s} == 0'),
        problem('a row of its memory cannot be repaired', 'gpu_row_remap_failed{%(gpu)s} == 1'),
        problem('needs a reset to repair its memory', 'gpu_row_remap_pending{%(gpu)s} == 1'),
        problem('the driver asks for a recovery', 'gpu_recovery_action{%(gpu)s} > 0'),
        problem('memory errors without correction', 'max by (%(gpuBy)s) (gpu_ecc_errors_total{%(gpu)s, type="uncorrected", counter="volatile"}) > 0'),
        problem('XID $1 in the last hour', 'time() - gpu_xid_last_timestamp_seconds{%(gpu)s} < 3600', 'xid', '(.*)'),
        problem('throttled: $1', 'gpu_clock_event_active{%(gpu)s, reason=~"hw_slowdown|.*_thermal_slowdown|hw_power_brake_slowdown"} == 1', 'reason', '(.*)'),
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
      'None: all GPUs are well.',
    ),
  ],

  // Of all GPUs that are chosen, over time.
  local all = panel.timeSeries(
    'Memory of all GPUs',
    'Used memory of each GPU as a share of its memory, those that are the fullest now first; of a fleet the 100 that used most. Full is no leak: vLLM and JAX take nearly all of it on purpose. What leaks is in the first table.',
    'percentunit',
    [target(with(|||
      gpu_memory_used_bytes{%(gpu)s} / (gpu_memory_total_bytes{%(gpu)s} > 0)
      and on (%(gpuBy)s)
      topk(100, max by (%(gpuBy)s) (max_over_time(gpu_memory_used_bytes{%(gpu)s}[$__range] @ end())))
    |||), 'GPU {{gpu}} ' + q.nodeLegend)],
  ) + panel.ratio + panel.decimals(0) + panel.coarse + panel.listed + panel.noValue('No GPU tells its memory.'),

  // What Alertmanager was told, of the nodes that are chosen, those of a cluster or image among them.
  local ofAlert = 'alertname=~"GPU.+", alertstate="firing", severity!="info", %(cluster)s=~"$cluster", %(node)s=~"$node|"' % { cluster: config.clusterLabel, node: config.nodeLabel },
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
    ] + places + [
      column('process', 'Process', { 'custom.minWidth': 120 }),
      column('pid', 'PID', { 'custom.width': 85 }),
      column('pod', 'Pod', { 'custom.minWidth': 150 }),
      column('namespace', 'Namespace', { 'custom.minWidth': 95 }),
      column('slurm_job', 'Slurm job', { 'custom.width': 85 }),
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
      panels: panel.grid(std.filter(function(row) row != null, [
        // The answer comes first, also on a phone, where panels stand one under the other.
        { height: 8, panels: [next] },
        { height: 4, panels: summary, widths: [3, 3, 3, 4, 4, 4, 3] },
        if config.gpuHourPrice > 0 then { height: 4, panels: [atRisk, heldCost] },
        { height: 8, panels: [firing] },
        { height: 9, panels: [all] },
        { height: 8, panels: histories },
        { height: 8, panels: lists, widths: [16, 8] },
      ])),
    },
  },
}
