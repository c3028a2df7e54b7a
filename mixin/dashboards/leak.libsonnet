local panel = import '../lib/panel.libsonnet';

{
  _config+:: { exporterSelector: error 'must provide exporterSelector' },

  local exporter = $._config.exporterSelector,
  local node = exporter + ', instance=~"$instance"',
  local gpu = node + ', uuid=~"$uuid"',
  local perGPU = 'GPU {{gpu}} {{instance}}',
  local perProcess = '{{process}} {{pid}} GPU {{gpu}} {{instance}}',

  local summary = [
    panel.stat(
      'Leaking processes',
      'Processes whose memory grows and is not given back.',
      'none',
      'sum(gpu_process_leak_detected{%s}) or vector(0)' % gpu,
      [[null, 'green'], [1, 'orange']],
    ),
    panel.stat(
      'First out of memory',
      'Until the first of these GPUs is full, at the rate at which it leaks now.',
      's',
      'min(gpu_seconds_to_oom{%s} < +Inf)' % gpu,
      [[null, 'red'], [$._config.oomPageSeconds, 'orange'], [$._config.oomTicketSeconds, 'green']],
    ),
    panel.stat(
      'GPUs that do not answer',
      'GPUs that the driver lists and that cannot be read.',
      'none',
      'count(gpu_up{%s} == 0) or vector(0)' % gpu,
      [[null, 'green'], [1, 'red']],
    ),
    panel.stat(
      'Drivers down',
      'Exporters that run and cannot reach the driver.',
      'none',
      'count(gpu_driver_up{%s} == 0) or vector(0)' % node,
      [[null, 'green'], [1, 'red']],
    ),
  ],

  local memory = [
    panel.timeSeries(
      'Memory used and never given back',
      'Used memory, its lower envelope (what is held and was never given back), and the total.',
      'bytes',
      [
        panel.target('gpu_memory_used_bytes{%s}' % gpu, perGPU + ' used'),
        panel.target('gpu_memory_trough_bytes{%s}' % gpu, perGPU + ' trough'),
        panel.target('gpu_memory_total_bytes{%s}' % gpu, perGPU + ' total'),
      ],
    ),
    panel.timeSeries(
      'Time to out-of-memory',
      'Headroom over the rate of the leaks, with its 90 % interval. No line: nothing leaks.',
      's',
      [
        panel.target('gpu_seconds_to_oom{%s} < +Inf' % gpu, perGPU),
        panel.target('gpu_seconds_to_oom_lower{%s} < +Inf' % gpu, perGPU + ' lower'),
        panel.target('gpu_seconds_to_oom_upper{%s} < +Inf' % gpu, perGPU + ' upper'),
      ],
    ),
  ],

  local processes = [
    panel.timeSeries(
      'Memory by process',
      'Memory that each process holds.',
      'bytes',
      [panel.target('gpu_process_memory_used_bytes{%s}' % gpu, perProcess)],
    ),
    panel.timeSeries(
      'Confidence by process',
      'How sure the detector is that the process leaks.',
      'percentunit',
      [panel.target('gpu_process_leak_confidence{%s} > 0' % gpu, perProcess)],
    ),
  ],

  local leaking = [
    panel.table(
      'What leaks',
      'Processes that leak, and the growth of the memory that they never give back.',
      'Bps',
      'sort_desc(gpu_process_leak_rate_bytes_per_second{%s})' % gpu,
      ['instance', 'gpu', 'process', 'pid', 'namespace', 'pod', 'container', 'slurm_job'],
    ),
  ],

  grafanaDashboards+:: {
    'leak.json': {
      title: 'GPU memory leaks',
      description: 'Which GPU runs out of memory, when, and which process is to blame.',
      templating: {
        list: [
          panel.datasourceVariable,
          panel.queryVariable('instance', 'Instance', 'label_values(gpu_driver_up{%s}, instance)' % exporter),
          panel.queryVariable('uuid', 'GPU', 'label_values(gpu_up{%s}, uuid)' % node),
        ],
      },
      panels: panel.grid([
        { height: 4, panels: summary },
        { height: 10, panels: memory },
        { height: 10, panels: processes },
        { height: 8, panels: leaking },
      ]),
    },
  },
}
