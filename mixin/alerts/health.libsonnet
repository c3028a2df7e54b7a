// Alerts on the health of the hardware.
local xid = import '../lib/xid.libsonnet';

{
  local config = $._config,
  local lib = (import '../lib/alert.libsonnet')(config),
  local text = (import '../lib/text.libsonnet')(config),

  // A page outlives a node that is not scraped for a while.
  local alert(name, severity, expr, wait, summary, description) =
    lib.alert(name, severity, expr, wait, summary, text.text(description), dashboard='health.json', keep=if severity == 'critical' then config.keepFiringFor else '0s'),

  // flag is an alert on a state of the GPU that is 0 or 1.
  local flag(name, severity, metric, summary, what) = alert(
    name,
    severity,
    lib.last(metric) + ' == 1',
    config.forHealth,
    summary,
    [text.gpu, what],
  ),

  // cases is the text of the case that a label or a value is, or that of no case.
  local cases(operand, texts, otherwise='') =
    local of = std.objectFields(texts);
    std.join('', [
      '{{ %s eq %s }}%s' % [if i == 0 then 'if' else 'else if', operand % of[i], texts[of[i]]]
      for i in std.range(0, std.length(of) - 1)
    ]) + (if otherwise == '' then '' else '{{ else }}' + otherwise) + '{{ end }}',

  local meaning(catalogue) =
    '{{ $labels.xid }}: ' + cases('$labels.xid "%s"', { [code]: '%s. %s' % catalogue[code] for code in std.objectFields(catalogue) }),
  local codes(catalogue) = ['xid=~"%s"' % std.join('|', std.objectFields(catalogue))],

  // These are there with 0 before the first of them, so that an increase shows it,
  // however the clocks of node and Prometheus differ. One that came before the first
  // scrape is no increase: its time stamp shows it, where the clocks agree.
  // The increase looks at all XID errors there can be, so it is recorded once a minute: where the clocks agree, the time stamp
  // has told of the error before that.
  // A GPU that fell off the bus (XID 79) and cannot be read is this page and not GPULost as well, for as long as that lasts.
  local xidCounted = {
    record: 'gpu:gpu_xid_errors:counted',
    expr: 'increase(%s[15m]) > 0' % lib.select('gpu_xid_errors_total', codes(xid.critical)),
  },
  local xidCritical = alert(
    'GPUXIDCritical',
    'critical',
    |||
      %(counted)s > 0
      or
      time() - %(last)s < 15 * 60
      or
      (
        %(fallen)s > 0
        and on (%(gpu)s) ALERTS{alertname="GPUXIDCritical", alertstate="firing", xid="79"}
        and on (%(gpu)s) %(down)s == 0
      )
    ||| % {
      counted: xidCounted.record,
      last: lib.last('gpu_xid_last_timestamp_seconds', codes(xid.critical)),
      fallen: lib.last('gpu_xid_last_timestamp_seconds', ['xid="79"']),
      gpu: lib.gpu,
      down: lib.down,
    },
    '0s',
    text.place + ' reports XID {{ $labels.xid }}.',
    [text.gpu, ' reports XID ', meaning(xid.critical), text.holding],
  ),
  // The others begin with their first error, which is no increase.
  local xidOther(name, severity, catalogue) = alert(
    name,
    severity,
    'time() - %s < 15 * 60' % lib.last('gpu_xid_last_timestamp_seconds', codes(catalogue)),
    '0s',
    text.place + ' reports XID {{ $labels.xid }}.',
    [text.gpu, ' reports XID ', meaning(catalogue)],
  ),

  // Volatile counters are absent on GPUs in MIG mode. Locations overlap: no sum.
  local eccErrors(type, window) = 'max by (%s, gpu) (increase(%s[%s]))' % [
    lib.gpu,
    lib.select('gpu_ecc_errors_total', ['type="%s"' % type]),
    window,
  ],

  local recovery = {
    '1.0': 'reset the GPU',
    '2.0': 'reboot the node',
    '3.0': 'drain its peer-to-peer traffic (end the programs that use several GPUs)',
    '4.0': 'drain the GPU and reset it',
    '5.0': 'recover the IMEX domain',
    '6.0': 'reset the PCIe bus of the GPU',
    '7.0': 'reboot the node',
  },

  // Older drivers count no seconds: then samples of the state must do.
  local throttled(reasons) = |||
    max by (%(gpu)s, gpu) (
      rate(%(seconds)s[15m])
      or
      avg_over_time(%(active)s[15m])
    ) > %(ratio)g
  ||| % {
    gpu: lib.gpu,
    seconds: lib.select('gpu_clock_event_seconds_total', [reasons]),
    active: lib.select('gpu_clock_event_active', [reasons]),
    ratio: config.throttleRatio,
  },

  // The driver knows at what temperature it slows the GPU down, or how far that is.
  local overTemperature = alert(
    'GPUOverTemperature',
    'critical',
    |||
      %(die)s >= on (%(gpu)s) group_left () max by (%(gpu)s) (%(slowdown)s)
      or
      %(memory)s >= on (%(gpu)s) group_left () max by (%(gpu)s) (%(memoryMax)s)
      or on (%(gpu)s)
      (%(die)s and on (%(gpu)s) %(margin)s <= 0)
      or on (%(gpu)s)
      (
        %(die)s >= %(fixed)g
        unless on (%(gpu)s) %(slowdown)s
        unless on (%(gpu)s) %(margin)s
      )
    ||| % {
      gpu: lib.gpu,
      die: lib.last('gpu_temperature_celsius', ['sensor="gpu"']),
      memory: lib.last('gpu_temperature_celsius', ['sensor="memory"']),
      slowdown: lib.last('gpu_temperature_threshold_celsius', ['threshold="slowdown"']),
      memoryMax: lib.last('gpu_temperature_threshold_celsius', ['threshold="memory_max"']),
      margin: lib.last('gpu_temperature_margin_celsius'),
      fixed: config.temperatureCelsius,
    },
    config.forHealth,
    text.place + ' is too hot.',
    ['{{ if eq $labels.sensor "memory" }}The memory of {{ end }}', text.gpu, ' is at {{ $value | printf "%.0f" }} °C: the driver slows it down from about there on, and shuts it off before it is damaged. Check the fans, the air of the room and the neighbours in the rack.'],
  ),

  prometheusAlerts+:: {
    groups+: [{
      // What looks at long ranges, or waits for minutes and wakes nobody: no oftener than it must.
      name: 'gpu-health-ranges',
      interval: config.rulesInterval,
      rules: [
        xidCounted,
        flag('GPURowRemapPending', 'warning', 'gpu_row_remap_pending', text.place + ' must be reset for a remapped row of its memory.', ' has a row of memory with errors, whose replacement takes effect only when the GPU is reset. Do so when the node is idle.'),
        flag('GPURetiredPagesPending', 'warning', 'gpu_retired_pages_pending', text.place + ' must be restarted for pages of its memory to be retired.', ' has pages of memory with errors that stay in use until the driver is loaded again. Reboot the node when it is idle.'),
        alert(
          'GPURecoveryActionNeeded',
          'warning',
          lib.last('gpu_recovery_action') + ' > 0',
          config.forHealth,
          'The driver asks for ' + text.place + ' to be recovered.',
          [text.gpu, ' does not work as it should. The driver asks to ', cases('$value %s', recovery, 'recover it (action {{ $value }})'), '.'],
        ),
        alert(
          'GPUECCCorrectedHigh',
          'info',
          '%s > %g' % [eccErrors('corrected', '1h'), config.correctedECCPerHour],
          '0s',
          text.place + ' corrects many memory errors.',
          [text.gpu, ' corrected {{ $value | printf "%.0f" }} memory errors within an hour. Nothing is wrong yet; run the diagnostics when the node is idle.'],
        ),
        alert(
          'GPUThermalThrottling',
          'warning',
          throttled('reason=~"sw_thermal_slowdown|hw_thermal_slowdown"'),
          config.forThrottle,
          text.place + ' is slowed down by heat.',
          [text.gpu, ' was slowed down by heat for {{ $value | humanizePercentage }} of the last 15 minutes: what runs on it takes longer, and jobs on several GPUs wait for it. Check the fans and the air.'],
        ),
        alert(
          'GPUPowerThrottling',
          'warning',
          throttled(config.powerReason),
          config.forThrottle,
          text.place + ' is slowed down for want of power.',
          [text.gpu, ' was slowed down for want of power for {{ $value | humanizePercentage }} of the last 15 minutes. Check the power supplies of the node and their cables.'],
        ),
      ],
    }, {
      name: 'gpu-health',
      rules: [
        xidCritical,
        xidOther('GPUXIDWarning', 'warning', xid.warning),
        xidOther('GPUXIDApplication', 'info', xid.info),
        alert(
          'GPUECCUncorrectable',
          'critical',
          eccErrors('uncorrected', '15m') + ' > 0',
          '0s',
          text.place + ' has memory errors that could not be corrected.',
          [text.gpu, ' has memory errors that could not be corrected: {{ $value | printf "%.0f" }} within 15 minutes. What computed with them is wrong or was killed. Drain the node and reset the GPU.', text.holding],
        ),
        flag('GPURowRemapFailed', 'critical', 'gpu_row_remap_failed', text.place + ' has no spare rows of memory left.', ' has a row of memory with errors and none to replace it with. Drain the node, and have the GPU replaced.'),
        overTemperature,
      ],
    }],
  },
}
