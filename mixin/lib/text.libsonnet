// What the texts of alerts are made of. They are Go templates that Prometheus
// expands whenever it evaluates an alert. What a text says beside the labels of its
// alert is asked for with `query`, over the range of the alert's own condition: a
// failed scrape takes no name out of a page that fires. What changes while an alert
// fires, such as the pid that grows most, is in the text and no label: each change of
// a label is another alert.
function(config) {
  local t = self,
  // seconds is a duration such as 1h30m in seconds.
  local seconds(duration) = std.foldl(
    function(so, c) if std.member('0123456789', c) then so { n: 10 * so.n + std.parseInt(c) }
    else { n: 0, sum: so.sum + so.n * { s: 1, m: 60, h: 3600, d: 86400, w: 604800 }[c] },
    std.stringChars(duration),
    { n: 0, sum: 0 },
  ).sum,
  local node = '$labels.' + config.nodeLabel,
  local cluster = '$labels.' + config.clusterLabel,

  // text begins a text that asks: $node, $gpu and $memory are the matchers of the
  // alert's node, its GPU, and its GPU or GPU instance; $scope is the prefix of the
  // latter's metrics.
  text(parts):
    '{{ $node := printf `%s, %s=%%q, %s=%%q` %s %s }}' % [config.exporterSelector, config.clusterLabel, config.nodeLabel, cluster, node] +
    '{{ $gpu := printf `%s, uuid=%q` $node $labels.uuid }}' +
    '{{ $memory := printf `%s, gpu_instance=%q` $gpu $labels.gpu_instance }}' +
    '{{ $scope := "gpu_" }}{{ if $labels.gpu_instance }}{{ $scope = "gpu_mig_" }}{{ end }}' +
    std.join('', parts),

  // last is the expression for the last sample of a metric, as arguments of print.
  last(metric, matchers): '"last_over_time(%s{" %s "}[%s])"' % [metric, matchers, config.scrapeGap],

  // ask is the text for the first series that an expression finds, if there is one:
  // . is the series.
  ask(expr, text, otherwise=''): '{{ with print %s | query }}{{ with first . }}%s{{ end }}%s{{ end }}' % [expr, text, if otherwise == '' then '' else '{{ else }}' + otherwise],

  // of asks for a metric of the GPU, or of the GPU instance, by the end of its name.
  of(metric, text): self.ask('"round(last_over_time(" $scope "%s{" $memory "}[%s]))"' % [metric, config.scrapeGap], text),

  // soonest is of for a time left, if there is an end: the least, as the alerts have it.
  soonest(metric, text, otherwise=''): self.ask('"round(min_over_time(" $scope "%s{" $memory "}[%s])) < Inf"' % [metric, config.scrapeGap], text, otherwise),

  // node is the node of the alert.
  node: '{{ %s }}' % node,

  // place names the GPU, or the GPU instance, and its node, as short as a summary wants it.
  place: 'GPU {{ $labels.gpu }}{{ with $labels.gpu_instance }}, GPU instance {{ . }},{{ end }} of ' + self.node,

  // at is the time of day at which as many seconds as the value of the alert are over.
  at(format='15:04'): '{{ with print "time() + " $value | query }}{{ (. | first | value | toTime).UTC.Format "%s UTC" }}{{ end }}' % format,

  // moment writes a value that is a time: the time of day, behind its date if that is not the one of now.
  moment: '{{ $t := (.Value | toTime).UTC }}' +
          '{{ if ne ($t.Format "2006-01-02") ((query "time()" | first | value | toTime).UTC.Format "2006-01-02") }}{{ $t.Format "2 Jan " }}{{ end }}' +
          '{{ $t.Format "15:04 UTC" }}',

  // now is one text while the condition of a lingering alert holds, and then what has happened: whether what grew has
  // ended, began anew, gave memory back, or only grows no longer. key are the labels that tell what grew from
  // other such, ended is what is true in each case.
  now(record, key, ended, text):
    local of = ofLabels(key);
    local used = self.last('gpu_process_memory_used_bytes', of);
    self.either(record, key, text, ended + ': ' + happened(of, used)),

  // either is one text while the condition of a lingering alert holds, and another one then.
  either(record, key, text, afterwards):
    '{{ with print "%s{" %s "}" | query }}' % [record, ofLabels(key)] + text + '{{ else }}' + afterwards + '{{ end }}',

  local ofLabels(key) = '$memory ' + std.join(' ', ['", %s=" (printf "%%q" $labels.%s)' % [l, l] for l in key]),
  // The last text is written keepFiringFor after the condition has ended, which outlives its cause by the scrape gap and
  // an evaluation. What was there before that is another run.
  local before = '%ds' % (seconds(config.keepFiringFor) + 2 * seconds(config.scrapeGap)),
  local happened(of, used) =
    '{{ with print %s " == 1" | query }}' % t.last('gpu_up', '$gpu') +
    // What was a pod's may be that of one of its processes now.
    '{{ if not $labels.process }}' +
    t.ask('"(" $scope "leak_detected{" $memory "}) == 1"', 'another alert tells what grows now.', 'nothing grows any longer.') +
    '{{ else }}' +
    '{{ with print "sort_desc(" %s ")" | query }}{{ $pid := (first .).Labels.pid }}' % used +
    '{{ with print %s " unless last_over_time(gpu_process_memory_used_bytes{" %s "}[%s] offset %s)" | query }}' % [used, of, config.scrapeGap, before] +
    '{{ $labels.process }} was started again, as pid {{ (first .).Labels.pid }}.' +
    '{{ else }}{{ with print "max_over_time(gpu_process_memory_used_bytes{" %s "}[30m]) - " %s " > 2^29" | query }}' % [of, used] +
    '{{ $labels.process }} (pid {{ $pid }}) has given back {{ first . | value | humanize1024 }}B.' +
    '{{ else }}{{ $labels.process }} (pid {{ $pid }}) goes on, and grows no longer.{{ end }}{{ end }}' +
    '{{ else }}{{ $labels.process }} has ended.{{ end }}{{ end }}' +
    t.ask('"last_over_time(" $scope "memory_free_bytes{" $memory "}[%s])"' % config.scrapeGap, ' {{ .Value | humanize1024 }}B are free.') +
    '{{ else }}nothing is known of it any more. It does not answer, or its node does not.{{ end }}',

  // gpu names the GPU, or the GPU instance, and its node.
  gpu: self.place + ' (' +
       self.ask(self.last('gpu_info', '$gpu'), '{{ .Labels.name }}, ') + '{{ $labels.uuid }})',

  // workload names a pod or job; labels are those of the alert or of a series.
  workload(labels):
    '{{ with %(l)s.pod }}pod {{ with %(l)s.namespace }}{{ . }}/{{ end }}{{ . }}{{ end }}{{ with %(l)s.slurm_job }}Slurm job {{ . }}{{ end }}' % { l: labels },

  // process names a process: its pid, and whose it is as far as that is known.
  process(labels):
    '{{ %(l)s.process }} (pid {{ %(l)s.pid }}' % { l: labels } +
    '{{ with %(l)s.pod }}, pod {{ with %(l)s.namespace }}{{ . }}/{{ end }}{{ . }}{{ end }}{{ with %(l)s.container }}, container {{ . }}{{ end }}' % { l: labels } +
    '{{ with %s.slurm_job }}, Slurm job {{ . }}{{ end }}' % labels +
    self.ask(
      self.last('gpu_process_info', '$gpu ", pid=\\"" %s.pid "\\""' % labels),
      '{{ with .Labels.user }}, user {{ . }}{{ end }}'
    ) + ')',

  // rate is the growth of the process of the alert, workloadRate that of its workload.
  local growth(metric, matchers, text) = self.ask('"60 * " ' + self.last(metric, '$memory ' + matchers), text),
  rate: growth('gpu_process_leak_rate_bytes_per_second', '", pid=\\"" $labels.pid "\\""', ' by {{ .Value | humanize1024 }}B a minute'),
  workloadRate: growth(
    'gpu_workload_leak_rate_bytes_per_second',
    '", namespace=\\"" $labels.namespace "\\", pod=\\"" $labels.pod "\\", slurm_job=\\"" $labels.slurm_job "\\""',
    ' ({{ .Value | humanize1024 }}B more a minute)'
  ),

  // growers lists what grows on the GPU, the fastest first, with its growth: of is the
  // expression for processes, or for workloads, by the prefix of their metrics.
  local growers(of) =
    local processes = of('gpu_process_');
    local workloads = of('gpu_workload_');
    '{{ with print "sort_desc(topk(3, 60 * (" %s " or (" %s " unless on (namespace, pod, slurm_job) " %s "))))" | query }}' % [processes, workloads, processes] +
    'Growing: {{ range $i, $s := . }}{{ if $i }}; {{ end }}' +
    '{{ if $s.Labels.process }}' + self.process('$s.Labels') + '{{ else }}' + self.workload('$s.Labels') + ' as a whole{{ end }}' +
    ' by {{ $s.Value | humanize1024 }}B a minute{{ end }}.' +
    '{{ else }}No process accounts for the growth: it is memory of idle processes that become more, of the driver, of what has ended, or of a process that the exporter cannot see.{{ end }}',

  // leaking lists what leaks, growing what else takes part in what fills the memory, too.
  leaking: growers(function(scope) self.last(scope + 'leak_rate_bytes_per_second', '$memory')),
  growing: growers(
    function(scope)
      '"(" %s " or ignoring (window) (" %s " and ignoring (window) " %s " < Inf))"' % [
        self.last(scope + 'leak_rate_bytes_per_second', '$memory'),
        self.last(scope + 'leak_slope_bytes_per_second', '$memory ", window=\\"%s\\""' % config.shortestWindow),
        self.last(scope + 'seconds_to_oom', '$memory'),
      ]
  ),

  // holding lists who holds most of the memory of the GPU or GPU instance now, or of
  // the whole GPU ($gpu).
  holding(matchers='$memory'):
    '{{ with print "sort_desc(topk(3, " %s "))" | query }}' % self.last('gpu_process_memory_used_bytes', matchers) +
    ' Most is held by {{ range $i, $s := . }}{{ if $i }}; {{ end }}' + self.process('$s.Labels') + ' with {{ $s.Value | humanize1024 }}B{{ end }}.{{ end }}',

  // retained says how much has been retained since when, and what is left: of the GPU
  // or GPU instance, or of a metric with that prefix and those matchers.
  retained(prefix='', matchers='$memory'):
    local own(metric, text) = if prefix == '' then self.of(metric, text)
    else self.ask('"round(" %s ")"' % self.last(prefix + metric, matchers), text);
    own(
      'leaked_bytes',
      ' %s has retained {{ .Value | humanize1024 }}B' % (if prefix == '' then 'The GPU' else 'It')
      + own('leak_start_timestamp_seconds', ' since ' + self.moment)
      + self.of('oom_headroom_bytes', '; {{ .Value | humanize1024 }}B left')
      + '.',
    ),

  // interval is the 90 % interval of the time left.
  interval:
    self.soonest(
      'seconds_to_oom_lower',
      ' (90 % interval: {{ .Value | humanizeDuration }}' + self.soonest('seconds_to_oom_upper', ' to {{ .Value | humanizeDuration }}', ' or more') + ')'
    ),

  // inside says what of a process grows, as the allocator in it tells, and what that means: tensors, the
  // cache, its pieces, or a library that takes memory without it. pid is an expression of the template.
  inside(pid, who='Its allocator'):
    local grew(metric) = 'delta(gpu_process_%s{` $process `}[30m])' % metric;
    local tensors = grew('allocator_allocated_bytes'), pieces = grew('allocator_inactive_split_bytes'), reserved = grew('allocator_reserved_bytes');
    local parts = {
      tensors: tensors,
      pieces: pieces,
      cache: '(%s - %s - (%s or 0 * %s))' % [reserved, tensors, pieces, reserved],
      library: grew('untracked_memory_bytes'),
    };
    local site = self.ask('"topk(1, " %s ")"' % self.last('gpu_process_leak_site_bytes', '$process'), '{{ $site = .Labels.site }}');
    local means = {
      tensors: 'tensors grow, by {{ .Value | humanize1024 }}B in 30m: something keeps references to them.'
               + '{{ with $site }} Most of it is allocated at {{ . }}.{{ end }}',
      pieces: 'free pieces that it cannot give back grow, by {{ .Value | humanize1024 }}B in 30m: its memory is fragmented. For PyTorch try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.',
      cache: 'its cache grows, by {{ .Value | humanize1024 }}B in 30m, and tensors do not: it fills, or shapes of input vary.',
      library: 'a library takes memory without it, {{ .Value | humanize1024 }}B in 30m, such as NCCL, cuDNN or a CUDA graph.',
    };
    '{{ $process := printf `%%s, pid=%%q` $memory %s }}' % pid +
    '{{ $site := "" }}' + site +
    '{{ with print `topk(1, %s) > 0` | query }}{{ with first . }}' % std.join(' or ', [
      'label_replace(%s, "what", "%s", "", "")' % [parts[what], what]
      for what in std.objectFields(parts)
    ]) +
    ' ' + who + self.ask(self.last('gpu_process_allocator_info', '$process'), ' ({{ .Labels.framework }}{{ with .Labels.version }} {{ . }}{{ end }})') + ' says that ' +
    std.join('', ['{{ if eq .Labels.what "%s" }}%s{{ end }}' % [what, means[what]] for what in std.objectFields(means)]) +
    '{{ end }}{{ end }}',

  // insideFastest is inside of the process that leaks fastest.
  insideFastest:
    '{{ with print "topk(1, " %s ")" | query }}{{ with first . }}{{ $culprit := .Labels }}' % self.last('gpu_process_leak_rate_bytes_per_second', '$memory') +
    self.inside('$culprit.pid', 'The allocator of {{ $culprit.process }}') +
    '{{ end }}{{ end }}',

  // left is the time left with its interval, where there is a forecast.
  left: self.soonest('seconds_to_oom', ' Out of memory in {{ .Value | humanizeDuration }}' + self.interval + '.'),
}
