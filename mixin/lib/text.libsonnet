// What the texts of alerts are made of. They are Go templates that Prometheus
// expands whenever it evaluates an alert. What a text says beside the labels of its
// alert is asked for with `query`, over the range of the alert's own condition: a
// failed scrape takes no name out of a page that fires.
function(config) {
  local node = '$labels.' + config.nodeLabel,
  local cluster = '$labels.' + config.clusterLabel,

  // text begins a text that asks: $node and $gpu are the matchers of the alert's node and its GPU.
  text(parts):
    '{{ $node := printf `%s, %s=%%q, %s=%%q` %s %s }}' % [config.exporterSelector, config.clusterLabel, config.nodeLabel, cluster, node] +
    '{{ $gpu := printf `%s, uuid=%q` $node $labels.uuid }}' +
    std.join('', parts),

  // last is the expression for the last sample of a metric, as arguments of print.
  last(metric, matchers): '"last_over_time(%s{" %s "}[%s])"' % [metric, matchers, config.scrapeGap],

  // ask is the text for the first series that an expression finds, if there is one:
  // . is the series.
  ask(expr, text, otherwise=''): '{{ with print %s | query }}{{ with first . }}%s{{ end }}%s{{ end }}' % [expr, text, if otherwise == '' then '' else '{{ else }}' + otherwise],

  // node is the node of the alert.
  node: '{{ %s }}' % node,

  // place names the GPU, or the GPU instance, and its node, as short as a summary wants it.
  place: 'GPU {{ $labels.gpu }}{{ with $labels.gpu_instance }}, GPU instance {{ . }},{{ end }} of ' + self.node,

  // gpu names the GPU, or the GPU instance, and its node.
  gpu: self.place + ' (' +
       self.ask(self.last('gpu_info', '$gpu'), '{{ .Labels.name }}, ') + '{{ $labels.uuid }})',

  // process names a process: its pid, and whose it is as far as that is known.
  process(labels):
    '{{ %(l)s.process }} (pid {{ %(l)s.pid }}' % { l: labels } +
    '{{ with %(l)s.pod }}, pod {{ with %(l)s.namespace }}{{ . }}/{{ end }}{{ . }}{{ end }}{{ with %(l)s.container }}, container {{ . }}{{ end }}' % { l: labels } +
    '{{ with %s.slurm_job }}, Slurm job {{ . }}{{ end }}' % labels +
    self.ask(
      self.last('gpu_process_info', '$gpu ", pid=\\"" %s.pid "\\""' % labels),
      '{{ with .Labels.user }}, user {{ . }}{{ end }}'
    ) + ')',

  // holding lists who holds most of the memory of the GPU now.
  holding:
    '{{ with print "sort_desc(topk(3, " %s "))" | query }}' % self.last('gpu_process_memory_used_bytes', '$gpu') +
    ' Most is held by {{ range $i, $s := . }}{{ if $i }}; {{ end }}' + self.process('$s.Labels') + ' with {{ $s.Value | humanize1024 }}B{{ end }}.{{ end }}',
}
