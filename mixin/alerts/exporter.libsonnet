// Alerts on GPUs that cannot be watched.
{
  _config+:: {
    exporterSelector: error 'must provide exporterSelector',
    scrapeGap: error 'must provide scrapeGap',
  },

  prometheusAlerts+:: {
    groups+: [{
      name: 'gpu-exporter',
      rules: [
        {
          alert: 'GPUExporterDriverDown',
          // Once up within the gap is not down.
          expr: 'max_over_time(gpu_driver_up{%(exporterSelector)s}[%(scrapeGap)s]) == 0' % $._config,
          'for': '5m',
          labels: { severity: 'warning' },
          annotations: {
            summary: 'The NVIDIA driver does not answer.',
            description: 'The exporter at {{ $labels.instance }} runs and cannot reach the NVIDIA driver: none of its GPUs is watched. gpu_driver_error says why.',
          },
        },
        {
          alert: 'GPUDown',
          expr: 'max_over_time(gpu_up{%(exporterSelector)s}[%(scrapeGap)s]) == 0' % $._config,
          'for': '5m',
          labels: { severity: 'critical' },
          annotations: {
            summary: 'A GPU cannot be read.',
            description: 'GPU {{ $labels.gpu }} ({{ $labels.uuid }}) of {{ $labels.instance }} does not answer, though the driver does: it is lost, or a call to it hangs.',
          },
        },
      ],
    }],
  },
}
