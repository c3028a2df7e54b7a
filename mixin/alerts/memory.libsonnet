// Alerts on memory that is not given back.
{
  local config = $._config,
  local lib = (import '../lib/alert.libsonnet')(config),
  local text = (import '../lib/text.libsonnet')(config),

  // Who grows on each memory, and how fast: processes by name and owner, and workloads
  // that grow as a whole while none of their processes does. process and workload are the
  // expressions for either.
  local owners = 'namespace, pod, container, slurm_job, process',
  local growing(record, process, workload) = {
    record: record,
    expr: |||
      sum by (%(domain)s, %(owners)s) (
        %(process)s
        or
        (
          %(workload)s
          unless on (%(domain)s, namespace, pod, slurm_job)
          %(process)s
        )
      )
    ||| % {
      domain: lib.domain,
      owners: owners,
      process: process,
      workload: workload,
    },
  },

  // The largest of them, whose labels the page carries. It stays the one of the last
  // evaluation until another grows twice as fast: two programs that grow alike would
  // take turns, each turn would be another alert, and none would last for its `for`.
  local largest(record, rate) = {
    record: record,
    expr: |||
      topk by (%(domain)s) (1,
        %(rate)s
        and on (%(domain)s, %(owners)s) %(largest)s
        and on (%(domain)s, %(owners)s)
        %(rate)s > on (%(domain)s) group_left () (max by (%(domain)s) (%(rate)s) / 2)
      )
      or on (%(domain)s)
      topk by (%(domain)s) (1, %(rate)s)
    ||| % { domain: lib.domain, owners: owners, rate: rate, largest: record },
  },

  // What foretells the end: the growth of what leaks, and the slope of what else takes part in it. All processes have
  // the latter two: of these only the samples of now are read.
  local rate = 'gpu_owner:gpu_oom_rate_bytes_per_second:sum',
  local culprit = 'gpu:gpu_oom_rate_bytes_per_second:culprit',
  local lastCulprit = '(%(of)s or on (%(domain)s) topk by (%(domain)s) (1, last_over_time(%(of)s[%(gap)s])))' % { of: culprit, domain: lib.domain, gap: config.scrapeGap },
  local takesPart(scope) = '(%s or ignoring (window) (%s and ignoring (window) %s < +Inf))' % [
    lib.last(scope + 'leak_rate_bytes_per_second'),
    lib.select(scope + 'leak_slope_bytes_per_second', ['window="%s"' % config.shortestWindow]),
    lib.select(scope + 'seconds_to_oom'),
  ],

  // Most memory of a fleet has nothing to say. What several rules ask for, or a range is read of, is recorded once, of
  // the few series that have: each rule then reads only these.
  local recorded = {
    // The memories that run out, and by what evidence.
    left: { record: 'gpu:gpu_seconds_to_oom:finite', expr: '(%s) < +Inf' % lib.both(function(scope) lib.least(scope + 'seconds_to_oom')) },
    leak: { record: 'gpu:gpu_seconds_to_oom:leak', expr: foreseenBy('leak') },
    // Growth that slows down may end before: its interval is open, and it is nobody's page.
    filling: {
      record: 'gpu:gpu_seconds_to_oom:filling',
      expr: '%s unless on (%s) (%s) == +Inf' % [foreseenBy('filling'), lib.domain, lib.both(function(scope) lib.select(scope + 'seconds_to_oom_upper'))],
    },
    // The processes that take part in what foretells the end.
    grower: { record: 'process:gpu_process_oom_rate_bytes_per_second:now', expr: takesPart('gpu_process_') },
    // The processes and workloads that leak (1), or did while a ticket waits (0).
    process: leaked('process'),
    workload: leaked('workload'),
  },

  local foreseenBy(evidence) = '%s and on (%s) (%s)' % [
    recorded.left.record,
    lib.domain,
    lib.both(function(scope) lib.last(scope + 'oom_evidence', ['evidence="%s"' % evidence])),
  ],

  // A process that is not seen while its node is not has not stopped to leak: 0 takes a memory that is judged.
  local leaked(of) = {
    local name = '%s:gpu_%s_leak_detected:lately' % [of, of],
    record: name,
    expr: judged('gpu_%s_' % of) + if config.forLeak == '0s' then '' else |||

      or
      0 * (max_over_time(%(record)s[%(wait)s]) == 1)
      and on (%(domain)s) (%(memory)s)
    ||| % { record: name, wait: config.forLeak, domain: lib.domain, memory: lib.both(function(scope) lib.last(scope + 'leak_detected')) },
  },

  // One page for one memory, however many processes take part in it: the time left is
  // that of the GPU, and the page carries the owner of the largest contributor, so that
  // it can be routed. The pid is in the text: a label that moves from one worker to the
  // next would make a new page of each.
  local outOfMemory(severity, left, within, clock, wait) = lib.lingering(pages[severity], lib.alert(
    'GPUOutOfMemoryPredicted',
    severity,
    |||
      (%(left)s)
      * on (%(domain)s) group_left (%(owners)s) (0 * %(culprit)s + 1)
      or on (%(domain)s)
      (%(left)s)
    ||| % { left: left, domain: lib.domain, owners: owners, culprit: lastCulprit },
    wait,
    text.text([text.either(
      pages[severity],
      std.split(owners, ', '),
      '%s runs out of memory within %s, at %s%s.' % [text.place, within, text.at(clock), '{{ with $labels.process }}: {{ . }} grows{{ end }}'],
      text.place + ' does not run out of memory for now.',
    )]),
    text.text([text.now(pages[severity], std.split(owners, ', '), text.place + ' does not run out of memory for now', std.join('', [
      text.gpu,
      ' runs out of memory in {{ $value | humanizeDuration }}, at ',
      text.at(clock),
      text.interval,
      '. ',
      text.growing,
      text.insideFastest,
      text.retained(),
      ' Once it is full, the next allocation fails, in whichever process makes it: save a checkpoint, then restart what grows.',
    ]))]),
  )),

  // The conditions of the alerts that say what has happened when they end.
  local pages = { critical: 'gpu:gpu_seconds_to_oom:page', warning: 'gpu:gpu_seconds_to_oom:ticket' },
  local leaksNow = 'gpu:gpu_leak_detected:ticket',

  local judged(scope) = lib.last(scope + 'leak_detected') + ' == 1',

  // What has leaked for as long as its ticket takes, which fires from this evaluation on.
  // The lowest sample is not enough: who leaks from the first one on has no others.
  local lasting(of) =
    if config.forLeak == '0s' then '%s == 1' % of.record else
      '(%(of)s == 1 and %(of)s offset %(wait)s == 1 and min_over_time(%(of)s[%(wait)s]) == 1)' % { of: of.record, wait: config.forLeak },

  // The ticket of a workload begins anew with each process of it that leaks.
  local lastingWorkload =
    if config.forLeak == '0s' then lasting(recorded.workload) else
      '%s unless on (%s, namespace, pod, slurm_job) max_over_time(%s[%s]) == 1' %
      [lasting(recorded.workload), lib.domain, recorded.process.record, config.forLeak],

  // Tickets: which processes leak, however far from out-of-memory. Their memory waits
  // beside them until one of them has a ticket: in a crash loop, or where programs take
  // turns, nobody may leak for as long as that takes, and the memory leaks all the time.
  local leak = lib.lingering(leaksNow, lib.alert(
    'GPUMemoryLeakDetected',
    'warning',
    |||
      %(process)s
      or
      (
        (%(gpu)s or %(mig)s)
        unless on (%(domain)s) (%(lasting)s or (%(workload)s))
      )
    ||| % {
      process: recorded.process.record + ' == 1',
      gpu: judged('gpu_'),
      mig: judged('gpu_mig_'),
      lasting: lasting(recorded.process),
      workload: lastingWorkload,
      domain: lib.domain,
    },
    config.forLeak,
    text.text([text.either(
      leaksNow,
      ['pid'],
      'Memory of ' + text.place + ' leaks{{ with $labels.process }} in {{ . }}{{ end }}.',
      'The leak on ' + text.place + ' has ended.',
    )]),
    text.text([text.now(leaksNow, ['pid'], 'The leak on ' + text.place + ' has ended', std.join('', [
      '{{ if $labels.process }}',
      text.process('$labels'),
      ' on ',
      text.gpu,
      ' grows',
      text.rate,
      ' and gives nothing back.',
      text.inside('$labels.pid'),
      text.retained('gpu_process_', '$memory ", pid=\\"" $labels.pid "\\""'),
      '{{ else }}Memory of ',
      text.gpu,
      ' grows and is not given back. ',
      text.leaking,
      text.retained(),
      '{{ end }}',
      text.left,
    ]))]),
  )),

  local workloadLeak = lib.alert(
    'GPUWorkloadMemoryLeakDetected',
    'warning',
    |||
      %s == 1
      unless on (%s, namespace, pod, slurm_job) %s == 1
    ||| % [recorded.workload.record, lib.domain, recorded.process.record],
    config.forLeak,
    'Memory of ' + text.place + ' leaks in ' + text.workload('$labels') + ' as a whole.',
    text.text([
      'The processes of ',
      text.workload('$labels'),
      ' on ',
      text.gpu,
      ' hold more and more memory together',
      text.workloadRate,
      ', and none of them leaks by itself: idle processes that nobody ends, or one that leaks, dies and is started again.',
      text.retained('gpu_workload_', '$memory ", namespace=\\"" $labels.namespace "\\", pod=\\"" $labels.pod "\\", slurm_job=\\"" $labels.slurm_job "\\""'),
      text.left,
    ]),
  ),

  local zombie = lib.alert(
    'GPUMemoryZombie',
    'warning',
    |||
      %s > %d
      and on (%s, pid)
      %s{pattern="zombie"}
    ||| % [noted.used.record, config.heldBytes, lib.domain, noted.pattern.record],
    config.forZombie,
    '{{ $labels.process }} holds memory of ' + text.place + ' and will not use it again.',
    text.text([
      text.process('$labels'),
      ' holds {{ $value | humanize1024 }}B of ',
      text.gpu,
      ' and computes nothing; as far as can be told it never will again, since its launcher has died or it is stuck in the kernel. End it to free the memory; where `kill -9` does not, only a reboot of the node does.',
    ]),
  ),

  local unreleased = lib.alert(
    'GPUMemoryUnreleased',
    'warning',
    '%s > %d' % [lib.last('gpu_unreleased_memory_bytes'), config.heldBytes],
    config.forUnreleased,
    'Memory of ' + text.place + ' was not released when {{ $labels.process }} ended.',
    text.text([
      '{{ $value | humanize1024 }}B of ',
      text.gpu,
      ' have stayed in use since ',
      text.process('$labels'),
      ' ended, and no process accounts for them. `fuser -v /dev/nvidia*` on the node, or gpu_process_device_open, tells who still has the device open.',
    ]),
  ),

  local capacity(scope) = '(%s - (%s or 0 * %s))' % [
    lib.last(scope + 'memory_total_bytes'),
    lib.last(scope + 'memory_reserved_bytes'),
    lib.last(scope + 'memory_total_bytes'),
  ],

  local full(scope) = '%s / (%s > 0)' % [lib.last(scope + 'memory_used_bytes'), capacity(scope)],

  // Of what every process has, one series, the alerts below ask for few: who is on a memory that is nearly full and holds
  // still, and whose pattern is an alert by itself. Each series is read once.
  local noted = {
    // The memories that are nearly full: of a GPU in MIG mode the instances.
    memory: {
      record: 'gpu:gpu_memory_used:full_ratio',
      expr: |||
        (
          (%(gpuFull)s) unless on (%(gpu)s) %(slices)s
          or
          %(sliceFull)s
        ) > %(ratio)g
      ||| % {
        gpuFull: full('gpu_'),
        sliceFull: full('gpu_mig_'),
        gpu: lib.gpu,
        slices: lib.last('gpu_mig_memory_total_bytes'),
        ratio: config.nearlyFullRatio,
      },
    },
    pattern: {
      record: 'process:gpu_process_memory_pattern:noted',
      expr: |||
        %s == 1
        or
        %s == 1
        and on (%s) %s
      ||| % [
        lib.last('gpu_process_memory_pattern', ['pattern=~"zombie|fragmentation"']),
        lib.last('gpu_process_memory_pattern', ['pattern=~"stable|plateau|idle"']),
        lib.domain,
        noted.memory.record,
      ],
    },
    used: {
      record: 'process:gpu_process_memory_used_bytes:noted',
      expr: |||
        %s
        and on (%s, pid)
        %s
      ||| % [lib.last('gpu_process_memory_used_bytes'), lib.domain, noted.pattern.record],
    },
  },

  // Not where it grows, which has alerts of its own, and not where processes that hold still have taken most of it: servers
  // that preallocate fill it on purpose.
  local nearlyFull = lib.alert(
    'GPUMemoryNearlyFull',
    'warning',
    |||
      %(full)s
      unless on (%(domain)s) %(leak)s
      unless on (%(domain)s) (
        sum by (%(domain)s) (
          max by (%(domain)s, pid) (%(process)s)
          and on (%(domain)s, pid)
          %(pattern)s{pattern=~"stable|plateau|idle"}
        )
        / on (%(domain)s)
        max by (%(domain)s) (%(total)s)
        > %(preallocated)g
      )
    ||| % {
      full: noted.memory.record,
      leak: recorded.leak.record,
      domain: lib.domain,
      process: noted.used.record,
      pattern: noted.pattern.record,
      total: lib.both(function(scope) lib.last(scope + 'memory_total_bytes')),
      preallocated: config.preallocatedRatio,
    },
    config.forNearlyFull,
    'The memory of ' + text.place + ' is nearly full, though nothing leaks.',
    text.text([
      text.gpu,
      ' has {{ $value | humanizePercentage }} of its memory in use: the next batch or request that is larger than usual does not fit. Move a program elsewhere, or let one ask for less.',
      text.holding(),
    ]),
  ),

  // The headroom is what the crest of the last hour leaves.
  local spikes = lib.alert(
    'GPUMemorySpikes',
    'info',
    |||
      (%(spikes)s) > %(many)g
      and on (%(domain)s)
      (%(room)s) < %(little)g
    ||| % {
      spikes: lib.both(function(scope) lib.last(scope + 'spike_count', ['window="%s"' % config.spikeWindow])),
      many: config.spikesPerWindow,
      room: lib.both(function(scope) '%s / %s' % [lib.last(scope + 'oom_headroom_bytes'), lib.last(scope + 'memory_total_bytes')]),
      little: config.spikeHeadroomRatio,
      domain: lib.domain,
    },
    config.forSpikes,
    'The memory of ' + text.place + ' has spikes that nearly fill it.',
    text.text([
      text.gpu,
      ' had {{ $value }} spikes of used memory within %s' % config.spikeWindow,
      text.of('oom_headroom_bytes', ', and its highest use left {{ .Value | humanize1024 }}B'),
      '. A batch, sequence or request of unusual size is the cause as a rule: a larger one does not fit.',
      text.holding(),
    ]),
  ),

  local fragmentation = lib.alert(
    'GPUMemoryFragmentation',
    'info',
    |||
      %s > 0
      and on (%s, pid)
      %s{pattern="fragmentation"}
    ||| % [noted.used.record, lib.domain, noted.pattern.record],
    config.forFragmentation,
    '{{ $labels.process }} may run out of memory of ' + text.place + ' by fragmentation.',
    text.text([
      text.process('$labels'),
      ' on ',
      text.gpu,
      ' holds {{ $value | humanize1024 }}B, and empties its cache again and again as the memory fills. From outside this is a hint and no proof: its own allocator knows, torch.cuda.memory_stats() for PyTorch.',
    ]),
  ),

  local crashLoop = lib.alert(
    'GPUOutOfMemoryCrashLoop',
    'warning',
    // Times and not processes: the ranks of a job end together, and once.
    'changes(%(exits)s[1h]) - resets(%(exits)s[1h]) >= %(many)d' % { exits: lib.select('gpu_process_exits_near_capacity_total'), many: config.crashesPerHour },
    '0s',
    'Processes end again and again while the memory of ' + text.place + ' is full.',
    text.text([
      '{{ $value | printf "%.0f" }} times within an hour a process ended on ',
      text.gpu,
      ' while less than 5 % of its memory was free: probably it dies of out-of-memory and is started again.',
      text.holding('$gpu'),
    ]),
  ),

  prometheusAlerts+:: {
    groups+: [
      {
        name: 'gpu-memory',
        rules: std.flattenArrays([
          [
            recorded.left,
            recorded.leak,
            recorded.filling,
            recorded.process,
            recorded.workload,
            recorded.grower,
            growing(rate, recorded.grower.record, takesPart('gpu_workload_')),
            largest(culprit, rate),
          ],
          outOfMemory('critical', '%s < %d or %s < %d' % [recorded.leak.record, config.oomPageSeconds, recorded.filling.record, config.oomFillingSeconds], 'the hour', '15:04', config.forOOM),
          outOfMemory('warning', '%s < %d' % [recorded.leak.record, config.oomTicketSeconds], 'the day', 'Mon 15:04', config.forLeak),
          leak,
        ]) + [
          workloadLeak,
        ],
      },
      // What waits for ten minutes and more and asks all processes, or looks at an hour: no oftener than it must.
      {
        name: 'gpu-memory-held',
        interval: config.rulesInterval,
        rules: [
          noted.memory,
          noted.pattern,
          noted.used,
          zombie,
          unreleased,
          nearlyFull,
          spikes,
          fragmentation,
          crashLoop,
        ],
      },
    ],
  },
}
