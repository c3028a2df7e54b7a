// Alerts on the health of the hardware. A text says what is wrong and what to do first; the runbook has the rest.
local xid = import '../lib/xid.libsonnet';

{
  local config = $._config,
  local lib = (import '../lib/alert.libsonnet')(config),
  local text = (import '../lib/text.libsonnet')(config),

  local alert(name, severity, expr, wait, summary, description) =
    lib.alert(name, severity, expr, wait, summary, std.join(' ', description), dashboard='health.json'),

  local codes(catalogue) = ['xid=~"%s"' % std.join('|', std.objectFields(catalogue))],
  local reports(catalogue) = text.place + ' reports XID {{ $labels.xid }}: ' + std.join('', [
    '{{ if eq $labels.xid "%s" }}%s{{ end }}' % [std.join('" "', [code for code in std.objectFields(catalogue) if catalogue[code] == cause]), cause]
    for cause in std.set(std.objectValues(catalogue))
  ]) + '.',
  local recent(matchers) = 'time() - %s < 15 * 60' % lib.last('gpu_xid_last_timestamp_seconds', matchers),

  // Those that page are there with 0 before the first of them, so that an increase shows it,
  // however the clocks of node and Prometheus differ. One that came before the first
  // scrape is no increase: its time stamp shows it, where the clocks agree.
  // The increase looks at all XID errors there can be, so it is recorded once a minute: where the clocks agree, the time stamp
  // has told of the error before that.
  local xidCounted = {
    record: 'gpu:gpu_xid_errors:counted',
    expr: 'increase(%s[15m]) > 0' % lib.select('gpu_xid_errors_total', codes(xid.critical)),
  },

  // The counter since the driver was loaded is 0 again after a reset, and the error is told of until then. A GPU in MIG mode has
  // only that of its life. Locations overlap: no sum.
  local uncorrected = lib.last('gpu_ecc_errors_total', ['type="uncorrected"', 'counter="volatile"']),

  // Older drivers count no seconds: then samples of the state must do.
  local throttled(name, reasons, what, todo) = alert(
    name,
    'warning',
    |||
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
    config.forThrottle,
    text.place + ' is slowed down ' + what + ' for {{ $value | humanizePercentage }} of the time.',
    ['What runs on it takes longer, and jobs on several GPUs wait for it.', todo],
  ),

  // The driver knows at what temperature it slows the GPU down, or how far that is.
  local overTemperature = |||
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

  prometheusAlerts+:: {
    groups+: [{
      // What looks at long ranges, or waits for minutes and wakes nobody: no oftener than it must.
      name: 'gpu-health-ranges',
      interval: config.rulesInterval,
      rules: [
        xidCounted,
        // After an error that was not corrected the page asks for the reset.
        alert(
          'GPURecoveryActionNeeded',
          'warning',
          |||
            (
              %(action)s > 0
              or on (%(gpu)s)
              %(row)s == 1
              or on (%(gpu)s)
              %(page)s == 1
            )
            unless on (%(gpu)s) %(uncorrected)s > 0
          ||| % {
            gpu: lib.gpu,
            action: lib.last('gpu_recovery_action'),
            row: lib.last('gpu_row_remap_pending'),
            page: lib.last('gpu_retired_pages_pending'),
            uncorrected: uncorrected,
          },
          config.forHealth,
          text.place + ' waits for {{ if eq $value 1.0 4.0 }}a reset{{ else if eq $value 2.0 7.0 }}a reboot of its node{{ else }}recovery action {{ $value }} of its driver{{ end }}.',
          ['The driver asks for it, or a row or page of its memory with errors is replaced only then.', 'Do so when the node is idle: the runbook has how.'],
        ),
        throttled('GPUThermalThrottling', 'reason=~"sw_thermal_slowdown|hw_thermal_slowdown"', 'by heat', 'Check the fans and the air.'),
        throttled('GPUPowerThrottling', config.powerReason, 'for want of power', 'Check the power supplies of the node and their cables.'),
      ],
    }, {
      name: 'gpu-health',
      rules: [
        // A GPU that fell off the bus (XID 79) and cannot be read is this page and not GPULost as well, for as long as that lasts.
        alert(
          'GPUXIDCritical',
          'critical',
          |||
            %(counted)s > 0
            or
            %(recent)s
            or
            %(fallen)s > 0 and on (%(gpu)s) %(down)s == 0
          ||| % {
            counted: xidCounted.record,
            recent: recent(codes(xid.critical)),
            fallen: lib.last('gpu_xid_last_timestamp_seconds', ['xid="79"']),
            gpu: lib.gpu,
            down: lib.down,
          },
          '0s',
          reports(xid.critical),
          ['What ran on it is dead or may be wrong.', 'Drain the node, and do what the runbook says of this code.'],
        ),
        // The others begin with their first error, which is no increase.
        alert(
          'GPUXIDWarning',
          'warning',
          recent(codes(xid.warning)),
          '0s',
          reports(xid.warning),
          ['Do what the runbook says of this code when the node is idle.'],
        ),
        alert(
          'GPUECCUncorrectable',
          'critical',
          |||
            max by (%(gpu)s, gpu) (
              (%(volatile)s or on (%(gpu)s) increase(%(aggregate)s[15m])) > 0
              or
              %(told)s
            )
          ||| % {
            gpu: lib.gpu,
            volatile: uncorrected,
            aggregate: lib.select('gpu_ecc_errors_total', ['type="uncorrected"', 'counter="aggregate"']),
            told: recent(['xid=~"48|94|95|140"']),
          },
          '0s',
          text.place + ' has memory errors that could not be corrected.',
          ['What computed with them is wrong or was killed.', 'Drain the node and reset the GPU: this goes on until then.', 'If it comes again, have the GPU replaced.'],
        ),
        alert(
          'GPURowRemapFailed',
          'critical',
          |||
            %(failed)s == 1
            or on (%(gpu)s)
            max without (xid) (%(told)s)
          ||| % { failed: lib.last('gpu_row_remap_failed'), gpu: lib.gpu, told: recent(['xid="64"']) },
          config.forHealth,
          text.place + ' could not replace a row of its memory that has errors.',
          ['The next error there hits a program again.', 'Drain the node, and have the GPU replaced.'],
        ),
        alert(
          'GPUOverTemperature',
          'critical',
          overTemperature,
          config.forHealth,
          '{{ if eq $labels.sensor "memory" }}The memory of {{ end }}' + text.place + ' is at {{ $value | printf "%.0f" }} °C.',
          ['The driver slows it down from about there on, and shuts it off before it is damaged.', 'Check the fans, the air of the room and the neighbours in the rack.'],
        ),
      ],
    }],
  },
}
