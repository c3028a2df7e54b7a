// Alerts on memory that is not given back.
{
  _config+:: {
    exporterSelector: error 'must provide exporterSelector',
    oomPageSeconds: error 'must provide oomPageSeconds',
    oomTicketSeconds: error 'must provide oomTicketSeconds',
    scrapeGap: error 'must provide scrapeGap',
  },

  // A failed scrape ends all series of a target at once. Without a range it would
  // resolve the alert, and the next scrape would start it anew.
  local last(metric) = 'last_over_time(%s{%s}[%s])' % [metric, $._config.exporterSelector, $._config.scrapeGap],

  local outOfMemory(severity, seconds, within) = {
    alert: 'GPUOutOfMemoryPredicted',
    expr: |||
      %s < %d
      or
      %s < %d
    ||| % [last('gpu_seconds_to_oom'), seconds, last('gpu_mig_seconds_to_oom'), seconds],
    'for': '2m',
    labels: { severity: severity },
    annotations: {
      summary: 'GPU memory will be full within %s.' % within,
      description: 'GPU {{ $labels.gpu }} ({{ $labels.uuid }}{{ with $labels.gpu_instance }}, GPU instance {{ . }}{{ end }}) of {{ $labels.instance }} will be out of memory in {{ $value | humanizeDuration }}.',
    },
  },

  prometheusAlerts+:: {
    groups+: [{
      name: 'gpu-memory',
      rules: [
        outOfMemory('critical', $._config.oomPageSeconds, 'the hour'),
        outOfMemory('warning', $._config.oomTicketSeconds, 'the day'),
        {
          alert: 'GPUMemoryLeakDetected',
          // The processes that leak; and what leaks without a process that does.
          expr: |||
            %(process)s == 1
            or
            (%(gpu)s == 1 unless on (uuid) %(process)s == 1)
            or
            (%(mig)s == 1 unless on (uuid, gpu_instance) %(process)s == 1)
          ||| % {
            process: last('gpu_process_leak_detected'),
            gpu: last('gpu_leak_detected'),
            mig: last('gpu_mig_leak_detected'),
          },
          // The detector has made sure of it already: it holds a leak until its
          // confidence falls below the threshold that clears it.
          'for': '2m',
          labels: { severity: 'warning' },
          annotations: {
            summary: 'GPU memory is leaking.',
            description: '{{ with $labels.process }}Process {{ . }} (pid {{ $labels.pid }}{{ with $labels.pod }}, pod {{ $labels.namespace }}/{{ . }}{{ end }}){{ else }}Memory that no leaking process accounts for{{ end }} on GPU {{ $labels.gpu }} ({{ $labels.uuid }}) of {{ $labels.instance }} grows and is not given back.',
          },
        },
      ],
    }],
  },
}
