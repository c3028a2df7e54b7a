// Alerts on memory that runs out, leaks, or is held by nobody. The exporter decides what is said, and who is to blame: it has one
// series a memory, with the labels of the culprit. So no rule joins, and no text asks.
{
  local config = $._config,
  local lib = (import '../lib/alert.libsonnet')(config),
  local text = (import '../lib/text.libsonnet')(config),

  // The exporter has waited already. A series that ends is remembered for the scrape gap, and its alert goes on for as long again.
  local alert(name, severity, expr, summary, description) =
    lib.alert(name, severity, expr, '0s', summary, std.join(' ', description), keep=config.scrapeGap),

  // What fills and slows down may end before: it is over with the next sample.
  local leakWithin(within) = '%s < %d' % [lib.last('gpu_predicted_oom_seconds', ['evidence="leak"']), within],
  local fillsWithin(within) = '%s < %d' % [lib.select('gpu_predicted_oom_seconds', ['evidence="filling"']), within],
  local state(name) = lib.last('gpu_memory_state', ['state="%s"' % name]) + ' == 1',

  // of names a process and its owner.
  local of(otherwise) = '{{ or $labels.process "' + otherwise + '" }}{{ with $labels.pod }} (pod {{ $labels.namespace }}/{{ . }}){{ end }}' +
                        '{{ with $labels.slurm_job }} (Slurm job {{ . }}){{ end }}{{ with $labels.user }} (user {{ . }}){{ end }}',
  // whole does so, too, and names a pod or job where no process of it is to blame alone.
  local whole(otherwise) = '{{ if or $labels.process (not (or $labels.pod $labels.slurm_job)) }}' + of(otherwise) +
                           '{{ else }}{{ with $labels.pod }}Pod {{ $labels.namespace }}/{{ . }}{{ else }}Slurm job {{ $labels.slurm_job }}{{ end }}{{ end }}',
  local grows = whole('What no single process holds') + ' grows.',

  local outOfMemory(severity, expr, todo) = alert(
    'GPUOutOfMemoryPredicted',
    severity,
    expr,
    text.memory + ' runs out of memory in {{ $value | humanizeDuration }}.',
    [grows, 'Once the memory is full, the next allocation from it fails, in whichever process.', todo],
  ),

  prometheusAlerts+:: {
    groups+: [{
      name: 'gpu-memory',
      rules: [
        outOfMemory(
          'critical',
          leakWithin(config.oomPageSeconds) + ' or ' + fillsWithin(config.oomFillingSeconds),
          'Save a checkpoint, then restart what grows.',
        ),
        outOfMemory(
          'warning',
          leakWithin(config.oomTicketSeconds) + ' >= %d' % config.oomPageSeconds,  // else it is a page
          'Choose a good moment to restart what grows, and have the leak fixed.',
        ),
        alert(
          'GPUMemoryLeakDetected',
          'warning',
          '60 * %s > 0' % lib.last('gpu_leaking_bytes_per_second'),
          'Memory of ' + text.memory + ' leaks{{ with $labels.process }} in {{ . }}{{ end }}.',
          [grows, 'Of the memory, {{ $value | humanize1024 }}B more a minute are not given back.', 'Have the leak fixed; a restart frees what it holds.'],
        ),
        alert(
          'GPUMemoryHeldByNobody',
          'warning',
          '%s > %d' % [lib.last('gpu_memory_held_bytes'), config.heldBytes],
          '{{ $value | humanize1024 }}B of ' + text.memory + ' are held, and nobody uses them.',
          [
            of('A process') + '{{ if eq $labels.state "zombie" }} computes nothing, and shows no sign of going on.',
            'End it with `kill -9`. If that does not help, reboot the node.{{ else }} has left the GPU, and this memory has stayed. `fuser -v /dev/nvidia*` on the node tells who still has the device open.{{ end }}',
          ],
        ),
        alert(
          'GPUMemoryNearlyFull',
          'warning',
          state('nearly_full'),
          'The memory of ' + text.memory + ' is nearly full, though nothing leaks.',
          [whole('What is not known') + ' holds most of it.', 'A batch or request that is larger than usual does not fit.', 'Move a program elsewhere, or let one ask for less.'],
        ),
        alert(
          'GPUOutOfMemoryCrashLoop',
          'warning',
          state('crash_loop'),
          'Processes end again and again while the memory of ' + text.memory + ' is full.',
          [of('A process that is not known') + ' ended most often.', 'Probably it dies of out-of-memory and is started again.', 'Stop the restarts. Let it ask for less, or give it more memory.'],
        ),
      ],
    }],
  },
}
