// Alerts on versions of programs, over all nodes. A version is an image.
{
  local config = $._config,
  local lib = (import '../lib/alert.libsonnet')(config),
  local text = (import '../lib/text.libsonnet')(config),

  // What names a version, and what the versions of one program have in common.
  local version = '%s, process, image' % config.clusterLabel,
  local program = '%s, process, repository' % config.clusterLabel,

  // over is the largest of a metric over the nodes, for each version in a container.
  local over(metric) = |||
    max by (%(version)s, repository) (
      label_replace(
        %(last)s,
        "repository", "$1", "image", "(.+)@.+"
      )
    )
  ||| % { version: version, last: lib.last(metric, ['image!=""']) },

  // When each version was started last. The newest version of a program is the one that was
  // started last of them, and the one before is the last of the others: where an image is
  // taken back, it is the newest again.
  local started = 'program:gpu_program_last_start_timestamp_seconds:max',
  local last(versions) = 'topk by (%s) (1, %s)' % [program, versions],

  // What these two retain. One that was not judged yet has no rate.
  local newest = 'program:gpu_program_leak_rate_bytes_per_second:newest',
  local before = 'program:gpu_program_leak_rate_bytes_per_second:before',
  local of(versions) = |||
    %s
    and on (%s)
    %s
  ||| % [std.rstripChars(over('gpu_program_leak_rate_bytes_per_second'), '\n'), version, versions],

  local more = lib.alert(
    'GPUProgramRetainsMore',
    'warning',
    |||
      3600 * (
        %(newest)s
        - on (%(program)s) group_left ()
        %(before)s
      ) > %(bytes)d
    ||| % { newest: newest, before: before, program: program, bytes: config.retainsMoreBytesPerHour },
    config.forLeak,
    '{{ $labels.process }} retains more GPU memory than its image before.',
    '{{ $program := printf `%s=%%q, process=%%q, repository=%%q` $labels.%s $labels.process $labels.repository }}' % [config.clusterLabel, config.clusterLabel] +
    '{{ $version := printf `%s, %s=%%q, process=%%q, image=%%q` $labels.%s $labels.process $labels.image }}' % [config.exporterSelector, config.clusterLabel, config.clusterLabel] +
    '{{ $labels.process }} of {{ $labels.image }} retains {{ $value | humanize1024 }}B an hour more than the image before' +
    text.ask(
      '"3600 * %s{" $program "}"' % before,
      ', {{ .Labels.image }}, with {{ .Value | humanize1024 }}B an hour'
    ) +
    '.' +
    text.ask(
      '"topk(1, 3600 * " %s ")"' % text.last('gpu_program_leak_rate_bytes_per_second', '$version'),
      ' It retains most on {{ .Labels.%s }}: {{ .Value | humanize1024 }}B an hour.' % config.nodeLabel
    ) +
    ' Look at what has changed between the two images. If memory does not last until that is mended, go back to the one before.',
    dashboard='fleet.json',
    node=false,
  ),

  prometheusAlerts+:: {
    groups+: [{
      name: 'gpu-programs',
      rules: [
        { record: started, expr: over('gpu_program_last_start_timestamp_seconds') },
        { record: newest, expr: of(last(started)) },
        { record: before, expr: of(last('%s unless on (%s) %s' % [started, version, last(started)])) },
        more,
      ],
    }],
  },
}
