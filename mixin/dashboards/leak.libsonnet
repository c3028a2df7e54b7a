// One GPU, or one GPU instance: when it is out of memory, and why the detector thinks
// so. The time range ends in the future, where the forecast is. What holds now is asked
// for at $now, the last scrape of the node.
local panel = import '../lib/panel.libsonnet';

{
  _config+:: {
    oomPageSeconds: error 'must provide oomPageSeconds',
    oomTicketSeconds: error 'must provide oomTicketSeconds',
    leakFrom: error 'must provide leakFrom',
    leakTo: error 'must provide leakTo',
    leakThreshold: error 'must provide leakThreshold',
  },

  local config = $._config,
  local q = (import '../lib/dashboard-query.libsonnet')(config, one=true),
  local patterns = import '../lib/dashboard-patterns.libsonnet',
  local variables = (import '../lib/dashboard-variables.libsonnet')(config),
  local instant = panel.instant,
  local target = panel.target,
  local column = panel.column,
  local with(expr) = expr % q.words,
  local now(suffix) = q.memory(suffix, ' @ $now'),
  local soon = q.left(q.instance, ' @ $now'),

  local urgency = [[null, 'text'], [0, 'red'], [config.oomPageSeconds, 'orange'], [config.oomTicketSeconds, 'green']],
  local sureness = [[null, 'text'], [config.leakThreshold / 2, 'yellow'], [config.leakThreshold, 'orange'], [0.9, 'red']],
  local perProcess = '{{process}} {{pid}}',
  local perWorkload = '{{namespace}} {{pod}}{{slurm_job}}',

  // What keeps growth from being called a leak, in the words of the page (cmd/internal/withheld).
  local reasons = {
    min_span: 'has only begun to grow',
    program_begin: 'may be the start of a program',
    daily_load: 'may be a daily load',
    given_back: 'reached this height before and gave it back',
    slowing: 'slows down, and would end before the memory is full',
  },

  local codes = std.mapWithIndex(function(i, p) [i + 1, p.name], patterns),
  local codeMapping = panel.valueMapping(q.noState { '0': { text: 'not judged', color: '#7b8087' } } + {
    [std.toString(i + 1)]: { text: patterns[i].text, color: patterns[i].color, index: i }
    for i in std.range(0, std.length(patterns) - 1)
  }),
  local codedMemory(at='') =
    q.coded('', '__name__=~"gpu_memory_pattern|gpu_mig_memory_pattern", ' + q.instance, 'pattern', codes, q.gpuBy, at)
    + with('\nor max by (%(gpuBy)s) (0 * gpu_up{%(gpu)s}%%s)') % at,

  local summary = [
    panel.stat(
      'Time left',
      'Until the memory is full, because it leaks or fills: as the alerts say it, or before they do as the detector foretells it, with its 90 % interval. –: no end is foretold.',
      's',
      [
        instant(soon, 'left'),
        instant(now('seconds_to_oom_lower') + ' < +Inf', 'at the earliest'),
        instant(now('seconds_to_oom_upper') + ' < +Inf', 'at the latest'),
      ],
      urgency,
    ) + panel.decimals(1) + panel.withNames + panel.mapped([panel.infinity]) + panel.noValue('not judged'),
    panel.stat(
      'Culprit',
      'Whom the alerts name: a process; or none, where a pod or job grows as a whole, or the memory is that of the driver or of what has ended.',
      'none',
      [instant(|||
        label_replace(label_replace(label_replace(
          %s,
          "process", "no single process", "process", ""), "owner", ", pod $1", "pod", "(.+)"), "of_job", ", job $1", "slurm_job", "(.+)")
        or on ()
        label_replace(0 * topk(1, %s), "process", "–", "", "")
        or on ()
        label_replace(vector(0), "process", "not judged", "", "")
      ||| % [q.said(q.instance, ' @ $now'), now('leak_confidence')], '{{process}}{{owner}}{{of_job}}')],
      [[null, 'text'], [1, 'orange']],
    ) + panel.named,
    panel.stat(
      'Growth and leak',
      'The growth that the time left rests on; what a leak has retained since it began; and how sure the detector is that this memory leaks. A leak is declared at %d %% and taken back under %d %%.' % [config.leakThreshold * 100, config.leakThreshold / 2 * 100],
      'bytes',
      [
        instant(now('oom_rate_bytes_per_second') + ' * 3600', 'an hour'),
        instant(now('leaked_bytes'), 'retained'),
        instant(now('leak_confidence'), 'confidence'),
      ],
      [[null, 'text']],
    ) + panel.decimals(1) + panel.withNames + panel.noValue('not judged')
    + panel.override('confidence', { unit: 'percentunit', decimals: 0, color: { mode: 'thresholds' }, thresholds: panel.steps(sureness) }),
    panel.stat(
      'Pattern',
      'What the used memory does: see the panel "Pattern" below for its history.',
      'none',
      [instant(codedMemory(' @ $now'))],
      [[null, 'text']],
    ) + panel.mapped([codeMapping]) + panel.noValue('not judged'),
    std.foldl(
      function(p, reason) p + panel.override(reason, { displayName: reasons[reason] }),
      std.objectFields(reasons),
      panel.stat(
        'No leak yet',
        'Why growth is not called a leak, and for how long it must still last until this is no reason any more. –: no growth is held back.',
        's',
        [instant('%s unless on (%s) (%s)' % [now('leak_withheld_seconds'), q.domainBy, q.told('gpu_leaking_bytes_per_second', q.instance, ' @ $now')], '{{reason}}')],
        [[null, 'text']],
      ) + panel.decimals(1) + panel.withNames + panel.noValue('–')
    ),
  ],

  // past ends a line now: Prometheus goes on for 5 minutes with the last sample.
  local past(expr) = expr + '\nand on () vector(time()) <= $now',

  // The forecast: the headroom shrinks in a straight line, and is used up when the time
  // to out-of-memory is over. The crest of the memory, not its trough, meets the
  // capacity.
  local capacity = '(%s - %s or %s)' % [now('memory_total_bytes'), now('memory_reserved_bytes'), now('memory_total_bytes')],
  local forecast(left) = |||
    (
      %(capacity)s - on (%(by)s) %(headroom)s * on (%(by)s) clamp_min(1 - (time() - $now) / %(left)s, 0)
      and on (%(by)s) %(first)s < +Inf
    )
    and on () vector(time()) >= $now
  ||| % { capacity: capacity, headroom: now('oom_headroom_bytes'), by: q.domainBy, left: left, first: soon },

  // The line of the leak: from where it began to the trough now, by its rate.
  local leakLine = past(|||
    (
      %(trough)s + %(rate)s * (time() - $now)
      >= %(trough)s - %(leaked)s
    )
  ||| % { trough: now('memory_trough_bytes'), rate: now('leak_rate_bytes_per_second'), leaked: now('leaked_bytes') }),

  local dashed(color) = {
    color: { mode: 'fixed', fixedColor: color },
    'custom.lineStyle': { fill: 'dash', dash: [8, 6] },
    'custom.lineWidth': 2,
  },

  local memory =
    panel.timeSeries(
      'Memory, its leak and its forecast',
      'Used memory; what of it is never given back (its troughs); the line of the leak through the troughs; and from the last scrape on the forecast, with its 90 % interval, until it meets the capacity. The forecast begins at the highest use of late, which may be gigabytes above the use now: the next peak is what does not fit. No forecast: no end is foretold, or the time range ends now. Choose one that ends later, such as now+1d.',
      'bytes',
      [
        target(past(q.memory('memory_used_bytes')), 'used'),
        target(past(q.memory('memory_trough_bytes')), 'never given back'),
        target(capacity, 'capacity'),
        target(leakLine, 'leak'),
        target(forecast(soon), 'forecast of the highest use'),
        target(forecast(now('seconds_to_oom_lower')), 'at the earliest'),
        target(forecast(now('seconds_to_oom_upper')), 'at the latest'),
      ],
    ) + panel.min(0) + panel.noValue('This GPU tells no memory.')
    + panel.override('used', { color: { mode: 'fixed', fixedColor: 'blue' }, 'custom.fillOpacity': 15, 'custom.lineWidth': 1 })
    + panel.override('never given back', { color: { mode: 'fixed', fixedColor: 'purple' }, 'custom.lineWidth': 2 })
    + panel.override('capacity', { color: { mode: 'fixed', fixedColor: 'text' }, 'custom.lineWidth': 2 })
    + panel.override('leak', dashed('orange'))
    + panel.override('forecast of the highest use', dashed('red'))
    + panel.override('at the earliest', {
      'custom.hideFrom': { legend: true, tooltip: false, viz: false },
      color: { mode: 'fixed', fixedColor: 'red' },
      'custom.fillBelowTo': 'at the latest',
      'custom.fillOpacity': 20,
      'custom.lineWidth': 0,
    })
    + panel.override('at the latest', { color: { mode: 'fixed', fixedColor: 'red' }, 'custom.lineWidth': 0, 'custom.hideFrom': { legend: true, tooltip: false, viz: false } }),

  local right(properties) = { 'custom.axisPlacement': 'right' } + properties,
  local evidence = [
    panel.timeSeries(
      'Slope, R² and spikes',
      'Of the used memory, over each window. Slope: its least-squares growth in an hour (gpu_leak_slope_bytes_per_second); a leak that is one stays when the window grows. R²: how much of it a straight line explains (gpu_leak_r2); near 1 is steady growth, a sawtooth has little. Spikes: up and back within the window (gpu_spike_count); no leak, but each needs room.',
      'bytes',
      [
        target(q.memory('leak_slope_bytes_per_second') + ' * 3600', 'slope {{window}}'),
        target(q.memory('leak_r2'), 'R² {{window}}'),
        target(q.memory('spike_count'), 'spikes {{window}}'),
      ],
    )
    + panel.overrideMatching('^R².*', right({ unit: 'percentunit', min: 0, max: 1, 'custom.lineStyle': { fill: 'dash', dash: [8, 6] } }))
    + panel.overrideMatching('^spikes.*', right({ unit: 'short', min: 0, 'custom.lineInterpolation': 'stepAfter', 'custom.axisSoftMax': 1 }))
    + panel.noValue('No window is full enough yet.'),
    panel.timeSeries(
      'Confidence',
      'How sure the detector is that the memory leaks, and that each process does, or a pod or job as a whole. Dashed: where a leak is declared, and where it is taken back.',
      'percentunit',
      [
        target(q.memory('leak_confidence'), 'all of it'),
        target(with('gpu_process_leak_confidence{%(part)s}'), perProcess),
        target(with('gpu_workload_leak_confidence{%(part)s}'), perWorkload),
      ],
    ) + panel.ratio + panel.limits([[null, 'transparent'], [config.leakThreshold / 2, 'yellow'], [config.leakThreshold, 'red']])
    + panel.override('all of it', { color: { mode: 'fixed', fixedColor: 'blue' }, 'custom.fillOpacity': 15 })
    + panel.noValue('Not judged yet.'),
  ],

  local history = [
    panel.timeline(
      'Pattern',
      'What the memory of the GPU does, and of the 20 processes that held most. Leaks are red, memory that nobody will use again is purple.',
      [
        // Grafana shows no text of ours where a timeline has no series at all.
        target(codedMemory() + with('\nor on () vector(-1) unless on () max_over_time(gpu_up{%(gpu)s}[$__range] @ end())'), 'GPU {{gpu}}'),
        target(
          '(%s)\nand on (%s, pid) %s' % [
            q.coded('gpu_process_memory_pattern', q.part, 'pattern', codes, q.gpuBy + ', process, pid'),
            q.gpuBy,
            q.largest('gpu_process_memory_used_bytes', q.gpuBy + ', pid'),
          ],
          perProcess
        ),
      ],
      [codeMapping],
    ) + panel.bounded,
    panel.timeSeries(
      'Time to out-of-memory',
      'How the forecast has changed, with its 90 % interval. Where it falls as fast as time goes by, it comes true. No line: no end was foretold.',
      'h',
      [
        target(q.left(q.instance) + ' / 3600 < +Inf', 'time left'),
        target(q.memory('seconds_to_oom_lower') + ' / 3600 < +Inf', 'at the earliest'),
        target(q.memory('seconds_to_oom_upper') + ' / 3600 < +Inf', 'at the latest'),
      ],
    ) + panel.min(0) + panel.noValue('No end was foretold.')
    + panel.override('time left', { color: { mode: 'fixed', fixedColor: 'red' }, 'custom.lineWidth': 2 })
    + panel.override('at the latest', {
      color: { mode: 'fixed', fixedColor: 'red' },
      'custom.fillBelowTo': 'at the earliest',
      'custom.fillOpacity': 20,
      'custom.lineWidth': 0,
    })
    + panel.override('at the earliest', { color: { mode: 'fixed', fixedColor: 'red' }, 'custom.lineWidth': 0 }),
  ],

  local processes = [
    panel.timeSeries(
      'Memory by process',
      'Memory that each process holds. No process: what none of them accounts for, such as that of the driver, or of a process that has ended.',
      'bytes',
      [
        target(with('gpu_memory_unattributed_bytes{%(instance)s}'), 'no process'),
        target(with('gpu_processes_other_memory_used_bytes{%(instance)s} > 0'), 'other processes'),
        target(with('gpu_process_memory_used_bytes{%(part)s}'), perProcess),
      ],
    ) + panel.stacked + panel.min(0) + panel.noValue('The driver lists no process here.')
    + panel.override('no process', { color: { mode: 'fixed', fixedColor: 'purple' } })
    + panel.override('other processes', { color: { mode: 'fixed', fixedColor: '#7b8087' } }),
    panel.timeSeries(
      'Memory by pod and job',
      'Memory of pods and Slurm jobs of two processes or more, and what of it is never given back.',
      'bytes',
      [
        target(with('gpu_workload_memory_used_bytes{%(part)s}'), perWorkload),
        target(with('gpu_workload_memory_limit_bytes{%(part)s}'), 'limit of ' + perWorkload),
        target(with('gpu_workload_memory_trough_bytes{%(part)s}'), 'never given back ' + perWorkload),
      ],
    ) + panel.min(0) + panel.noValue('No pod or job of two processes is here.'),
  ],

  local ofProcess(suffix) = instant(with('gpu_process_%%s{%(part)s} @ $now') % suffix),
  local gigabytes = { unit: 'bytes', decimals: 1, 'custom.width': 110 },
  local table = panel.table(
    'Processes now',
    'The processes that hold memory here, those that hold most first. Never given back: the trough of their memory. Idle for: since when they have held memory without computing.',
    [
      ofProcess('memory_used_bytes'),
      ofProcess('memory_trough_bytes'),
      ofProcess('leak_rate_bytes_per_second') { expr+: ' * 3600' },
      ofProcess('leak_confidence'),
      ofProcess('idle_seconds'),
      ofProcess('memory_pattern'),
    ],
    [
      column('process', 'Process', { 'custom.minWidth': 120 }),
      column('pid', 'PID', { 'custom.width': 85 }),
      column('pod', 'Pod', { 'custom.minWidth': 150 }),
      column('namespace', 'Namespace', { 'custom.width': 110 }),
      column('container', 'Container', { 'custom.width': 110 }),
      column('slurm_job', 'Slurm job', { 'custom.width': 100 }),
      column('A', 'Used', gigabytes),
      column('B', 'Never given back', gigabytes { 'custom.width': 140 }),
      column('C', 'Growth per hour', gigabytes { 'custom.width': 130 }),
      column('pattern', 'Pattern', {
        'custom.width': 120,
        mappings: [panel.valueMapping({ [p.name]: { text: p.text, color: p.color } for p in patterns })],
        'custom.cellOptions': { type: 'color-text' },
      }),
      column('D', 'Confidence', panel.gauge(sureness) { 'custom.width': 130 }),
      column('E', 'Idle for', { unit: 's', decimals: 1, 'custom.width': 100 }),
    ],
    'Used',
    'No process holds memory here.',
    desc=true,
  ),

  // What is inside the memory of the processes that have a probe.
  local inside =
    panel.timeSeries(
      'What the memory of processes is',
      'Of the processes with a probe: what tensors hold, what allocators keep beside that, and what libraries and CUDA took without them. Dashed: what of the cache cannot be given back.',
      'bytes',
      [
        target(with('sum by (%(gpuBy)s) (gpu_process_allocator_allocated_bytes{%(part)s})'), 'tensors'),
        target(with('sum by (%(gpuBy)s) (gpu_process_allocator_reserved_bytes{%(part)s} - gpu_process_allocator_allocated_bytes{%(part)s})'), 'cache'),
        target(with('sum by (%(gpuBy)s) (gpu_process_untracked_memory_bytes{%(part)s})'), 'libraries and CUDA'),
        target(with('sum by (%(gpuBy)s) (gpu_process_allocator_inactive_split_bytes{%(part)s})'), 'fragmented'),
      ],
    ) + panel.stacked + panel.min(0) + panel.noValue('No process has a probe.')
    + panel.override('fragmented', {
      color: { mode: 'fixed', fixedColor: 'red' },
      'custom.fillOpacity': 0,
      'custom.lineStyle': { fill: 'dash', dash: [8, 6] },
      'custom.stacking': { mode: 'none' },
    }),

  local sites = panel.table(
    'Lines that allocate what stays',
    'Of processes whose tensors leak: how much more of what each line allocated was alive at the end of a recording of five minutes. With --collector.allocator.sites only.',
    [instant(with('gpu_process_leak_site_bytes{%(part)s} @ $now'))],
    [
      column('process', 'Process', { 'custom.width': 200 }),
      column('pid', 'PID', { 'custom.width': 85 }),
      column('site', 'Line', { 'custom.minWidth': 300 }),
      column('A', 'Grew by', { unit: 'bytes', 'custom.width': 110 }),
    ],
    'Grew by',
    'No process was asked, or none has told.',
    desc=true,
  ),

  // Annotations whose value is their time.
  local annotation(name, expr, title, color) = {
    name: name,
    datasource: { type: 'prometheus', uid: '${datasource}' },
    enable: true,
    hide: false,
    expr: expr,
    step: '60s',
    titleFormat: title,
    textFormat: '{{pod}}{{slurm_job}}',
    iconColor: color,
    useValueForTime: true,
  },

  // When a counter rose, as Grafana asks for so few points that the end of a step is minutes late: the share of the
  // step's samples that have the rise tells how long ago it was.
  local rose(counter) = |||
    1000 * time()
    - $__interval_ms * (avg_over_time(%(c)s[$__interval]) - %(c)s offset $__interval)
    / (%(c)s - %(c)s offset $__interval > 0)
  ||| % { c: with(counter) },

  grafanaDashboards+:: {
    'leak.json': {
      title: 'GPU memory / Leak',
      description: 'One GPU: when it is out of memory, what leaks, and why the detector thinks so.',
      time: { from: config.leakFrom, to: config.leakTo },
      templating: { list: [
        variables.datasource,
        variables.cluster,
        variables.urgent.latest,
        variables.urgent.node,
        variables.urgent.now,
        variables.urgent.gpu,
        variables.urgent.instance,
        variables.urgent.namespace,
        variables.urgent.pod,
      ] },
      annotations: { list: [
        annotation('Leak began', with('gpu_process_leak_start_timestamp_seconds{%(instance)s} @ $now * 1000'), 'Leak began: {{process}} {{pid}}', 'orange'),
        annotation('Ended while full', rose('gpu_process_exits_near_capacity_total{%(gpu)s}'), 'A process ended within a minute after less than 5 % of the memory was free', 'purple'),
      ] },
      panels: panel.grid([
        { height: 5, panels: summary, widths: [5, 6, 5, 3, 5] },
        { height: 12, panels: [memory] },
        { title: 'Why' },
        { height: 9, panels: evidence },
        { height: 14, panels: history },
        { title: 'Who' },
        { height: 7, panels: [table] },
        { height: 9, panels: processes },
        { title: 'What allocators in processes hold', rows: [{ height: 9, panels: [inside] }, { height: 7, panels: [sites] }] },
      ]),
    },
  },
}
