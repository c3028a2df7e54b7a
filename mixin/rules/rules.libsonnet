// Recording rules for fleets, for what is asked of many nodes at once. Each is of
// instant vectors only, and those of a cluster are made of those of its nodes: a
// fleet of 10,000 nodes costs one series a node and rule.
{
  local config = $._config,
  local lib = (import '../lib/alert.libsonnet')(config),
  local cluster = config.clusterLabel,
  local node = lib.node,

  local rule(record, expr) = { record: record, expr: std.rstripChars(expr, '\n') },
  local both(metric) = lib.both(function(scope) lib.select(scope + metric)),

  // orNone is 0 for the nodes that an expression finds nothing on.
  local orNone(expr) = '%s\nor\n0 * count by (%s) (%s)' % [std.rstripChars(expr, '\n'), node, lib.select('gpu_up')],

  // How many GPUs, by 1 or 0 each. A GPU in MIG mode counts once for its instances.
  local perGPU(expr) = 'max by (%s) (%s)' % [lib.gpu, expr],

  // The processes that hold memory and will not use it again, of all processes: what they hold.
  local zombies = 'process:gpu_process_memory_used_bytes:zombie',

  local memory = [
    // The memory of a node that is full first. +Inf: none.
    rule('node:gpu_seconds_to_oom:min', 'min by (%s) (%s)' % [node, both('seconds_to_oom')]),
    rule('cluster:gpu_seconds_to_oom:min', 'min by (%s) (node:gpu_seconds_to_oom:min)' % cluster),

    // GPUs that leak.
    rule('node:gpu_leak_detected:sum', 'sum by (%s) (%s)' % [node, perGPU(both('leak_detected'))]),
    rule('cluster:gpu_leak_detected:sum', 'sum by (%s) (node:gpu_leak_detected:sum)' % cluster),
    rule('cluster_model:gpu_leak_detected:sum', |||
      sum by (%(cluster)s, name) (
        %(leaking)s
        * on (%(gpu)s) group_left (name)
        %(info)s
      )
    ||| % { cluster: cluster, gpu: lib.gpu, leaking: perGPU(both('leak_detected')), info: 'max by (%s, name) (%s)' % [lib.gpu, lib.select('gpu_info')] }),

    // Pods and Slurm jobs that leak, by one of their processes or as a whole: each
    // counts once, on however many GPUs it runs. Processes outside of both count by
    // themselves.
    // The rate is there for what leaks alone: of what does not, series are counted and nothing else.
    rule('cluster_namespace:gpu_workload_leak_detected:sum', |||
      count by (%(cluster)s, namespace) (
        group by (%(cluster)s, namespace, pod, slurm_job) (
          %(inPod)s
          or
          %(inJob)s
          or
          %(workload)s
        )
        or
        group by (%(node)s, namespace, pid) (%(alone)s)
      )
      or
      0 * count by (%(cluster)s, namespace) (%(judged)s)
      or
      0 * count by (%(cluster)s, namespace) (%(workloads)s)
    ||| % {
      cluster: cluster,
      node: node,
      inPod: lib.select('gpu_process_leak_rate_bytes_per_second', ['pod!=""']),
      inJob: lib.select('gpu_process_leak_rate_bytes_per_second', ['slurm_job!=""']),
      alone: lib.select('gpu_process_leak_rate_bytes_per_second', ['pod=""', 'slurm_job=""']),
      workload: lib.select('gpu_workload_leak_rate_bytes_per_second'),
      judged: lib.select('gpu_process_leak_detected'),
      workloads: lib.select('gpu_workload_leak_detected'),
    }),

    // Memory that nobody gets back before a process ends: what leaked.
    rule('node:gpu_leaked_bytes:sum', orNone('sum by (%s) (%s)' % [node, both('leaked_bytes')])),
    rule('cluster:gpu_leaked_bytes:sum', 'sum by (%s) (node:gpu_leaked_bytes:sum)' % cluster),
    rule('cluster_namespace:gpu_process_leaked_bytes:sum', 'sum by (%s, namespace) (%s)' % [cluster, lib.select('gpu_process_leaked_bytes')]),
    // ... and what zombies hold, and what stayed after its process.
    rule(zombies, |||
      %s
      and on (%s, pid)
      %s
    ||| % [lib.select('gpu_process_memory_used_bytes'), lib.domain, lib.select('gpu_process_memory_pattern', ['pattern="zombie"'])]),
    rule('node:gpu_zombie_memory_bytes:sum', orNone('sum by (%s) (%s)' % [node, zombies])),
    rule('node:gpu_unreleased_memory_bytes:sum', orNone('sum by (%s) (%s)' % [node, lib.select('gpu_unreleased_memory_bytes')])),
    rule('node:gpu_memory_held_ratio:sum', orNone(held)),
    rule('cluster:gpu_memory_held_ratio:sum', 'sum by (%s) (node:gpu_memory_held_ratio:sum)' % cluster),
  ] + (
    if config.gpuHourPrice > 0 then
      [rule('cluster:gpu_money_held_per_hour:sum', 'cluster:gpu_memory_held_ratio:sum * %g' % config.gpuHourPrice)]
    else []
  ),

  // GPU-hours at risk: how long the programs have run on each GPU that will be out of
  // memory within the day, as far as they leak, or all of them where none does by
  // itself. What they have computed since is lost but for their checkpoints, which no
  // exporter knows of. A GPU instance is its share of the GPU's memory.
  local atRisk = |||
    sum by (%(node)s) (
      (
        time() - (
          min by (%(domain)s) (
            %(started)s
            and on (%(domain)s, pid)
            %(leaking)s
          )
          or on (%(domain)s)
          min by (%(domain)s) (%(started)s)
        )
      )
      * on (%(domain)s) (
        max by (%(domain)s) (%(slice)s / on (%(gpu)s) group_left () (max by (%(gpu)s) (%(total)s) > 0))
        or on (%(domain)s)
        max by (%(domain)s) (0 * %(up)s + 1)
      )
    ) / 3600
  ||| % {
    node: node,
    domain: lib.domain,
    gpu: lib.gpu,
    started: started,
    leaking: lib.select('gpu_process_leak_rate_bytes_per_second'),
    slice: lib.select('gpu_mig_memory_total_bytes'),
    total: lib.select('gpu_memory_total_bytes'),
    up: lib.select('gpu_up'),
  },

  // The processes on the GPUs at risk, of all processes: when they began.
  local started = 'process:gpu_process_start_time_seconds:at_risk',

  // Memory that nobody uses, as a share of a GPU: what leaks have retained, what zombies hold, and what has stayed after its
  // process. Half of two GPUs is one, as a GPU-hour is an hour of one.
  local held = |||
    sum by (%(node)s) (
      sum by (%(gpu)s) (
        %(leaked)s
        or
        %(zombies)s
        or
        %(unreleased)s
      )
      / on (%(gpu)s)
      max by (%(gpu)s) (%(total)s > 0)
    )
  ||| % {
    node: node,
    gpu: lib.gpu,
    leaked: both('leaked_bytes'),
    zombies: zombies,
    unreleased: lib.select('gpu_unreleased_memory_bytes'),
    total: lib.select('gpu_memory_total_bytes'),
  },

  local risk = [
    rule(started, |||
      %s
      and on (%s)
      (%s) < %d
    ||| % [lib.select('gpu_process_start_time_seconds'), lib.domain, both('seconds_to_oom'), config.oomTicketSeconds]),
    rule('node:gpu_hours_at_risk:sum', orNone(atRisk)),
    rule('cluster:gpu_hours_at_risk:sum', 'sum by (%s) (node:gpu_hours_at_risk:sum)' % cluster),
  ] + (
    if config.gpuHourPrice > 0 then
      [rule('cluster:gpu_money_at_risk:sum', 'cluster:gpu_hours_at_risk:sum * %g' % config.gpuHourPrice)]
    else []
  ),

  // A GPU is unhealthy that cannot be read, or whose memory or driver asks for a reset
  // or a replacement. A leak is the fault of a program.
  local health = [
    rule('node:gpu_up:count', 'count by (%s) (%s)' % [node, lib.select('gpu_up')]),
    rule('node:gpu_unhealthy:sum', orNone(|||
      count by (%(node)s) (
        group by (%(gpu)s) (
          %(up)s == 0
          or %(failed)s == 1
          or %(pending)s == 1
          or %(pages)s == 1
          or %(action)s > 0
        )
      )
    ||| % {
      node: node,
      gpu: lib.gpu,
      up: lib.select('gpu_up'),
      failed: lib.select('gpu_row_remap_failed'),
      pending: lib.select('gpu_row_remap_pending'),
      pages: lib.select('gpu_retired_pages_pending'),
      action: lib.select('gpu_recovery_action'),
    })),
    rule('cluster:gpu_up:count', 'sum by (%s) (node:gpu_up:count)' % cluster),
    rule('cluster:gpu_unhealthy:ratio', 'sum by (%s) (node:gpu_unhealthy:sum) / sum by (%s) (node:gpu_up:count)' % [cluster, cluster]),
  ],

  prometheusRules+:: {
    groups+: [
      { name: 'gpu-memory.rules', interval: config.rulesInterval, rules: memory },
      { name: 'gpu-risk.rules', interval: config.rulesInterval, rules: risk },
      { name: 'gpu-health.rules', interval: config.rulesInterval, rules: health },
    ],
  },
}
