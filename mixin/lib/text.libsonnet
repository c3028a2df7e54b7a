// What the texts of alerts are made of: the labels and the value of the alert.
function(config) {
  node: '{{ $labels.%s }}' % config.nodeLabel,

  // place names the GPU, or the GPU instance, and its node.
  place: 'GPU {{ $labels.gpu }}{{ with $labels.gpu_instance }}, GPU instance {{ . }},{{ end }} of ' + self.node,
  // memory is place where the series say of GPUs that are not real what they are.
  memory: self.place + '{{ if eq $labels.scope "workload" }}, within the limit of a pod, job or process,{{ end }}' + '{{ with $labels.source }} ({{ . }}){{ end }}',
}
