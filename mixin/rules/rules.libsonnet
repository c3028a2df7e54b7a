// Recording rules for fleets: what is asked of many nodes at once, a series a node. The dashboard Fleet reads both.
// They are of instant vectors only.
{
  local config = $._config,
  local lib = (import '../lib/alert.libsonnet')(config),
  local both(metric) = lib.both(function(scope) lib.select(scope + metric)),

  // A rule is 0 for the nodes that it finds nothing on.
  local rule(record, expr) = {
    record: record,
    expr: '%s\nor\n0 * count by (%s) (%s)' % [std.rstripChars(expr % words, '\n'), lib.node, words.up],
  },
  local words = {
    node: lib.node,
    gpu: lib.gpu,
    domain: lib.domain,
    up: lib.select('gpu_up'),
    total: lib.select('gpu_memory_total_bytes'),
    slice: lib.select('gpu_mig_memory_total_bytes'),
    started: lib.select('gpu_process_start_time_seconds'),
    leaking: lib.select('gpu_process_leak_rate_bytes_per_second'),
    left: both('seconds_to_oom'),
    day: config.oomTicketSeconds,
    leaked: both('leaked_bytes'),
    held: lib.select('gpu_memory_held_bytes'),
  },

  prometheusRules+:: {
    groups+: [{
      name: 'gpu-memory.rules',
      interval: config.rulesInterval,
      rules: [
        // GPU-hours at risk: how long the programs have run on each GPU that will be out of
        // memory within the day, as far as they leak, or all of them where none does by
        // itself. What they have computed since is lost but for their checkpoints, which no
        // exporter knows of. A GPU instance is its share of the GPU's memory.
        rule('node:gpu_hours_at_risk:sum', |||
          sum by (%(node)s) (
            (
              time() - (
                min by (%(domain)s) (%(started)s and on (%(domain)s, pid) %(leaking)s)
                or
                min by (%(domain)s) (%(started)s)
              )
            )
            * on (%(domain)s) (
              max by (%(domain)s) (%(slice)s / on (%(gpu)s) group_left () (max by (%(gpu)s) (%(total)s) > 0))
              or
              max by (%(domain)s) (0 * %(up)s + 1)
            )
            and on (%(domain)s)
            (%(left)s) < %(day)d
          ) / 3600
        |||),
        // Memory that nobody uses, in GPUs: what leaks have retained, what zombies hold, and what has stayed after its
        // process. Half of two GPUs is one, as a GPU-hour is an hour of one.
        rule('node:gpu_memory_held_ratio:sum', |||
          sum by (%(node)s) (
            sum by (%(gpu)s) (%(leaked)s or %(held)s)
            / on (%(gpu)s)
            max by (%(gpu)s) (%(total)s > 0)
          )
        |||),
      ],
    }],
  },
}
