{
  _config+:: {
    exporterSelector: error 'must provide exporterSelector',
    nodeLabels: error 'must provide nodeLabels',
  },

  prometheusRules+:: {
    groups+: [{
      name: 'gpu-memory.rules',
      rules: [{
        // Of each node, the memory that is full first. GPUs in MIG mode count by
        // their instances.
        record: 'instance:gpu_seconds_to_oom:min',
        expr: |||
          min by (%(by)s) (
            gpu_seconds_to_oom{%(selector)s}
            or
            gpu_mig_seconds_to_oom{%(selector)s}
          )
        ||| % { by: std.join(', ', $._config.nodeLabels), selector: $._config.exporterSelector },
      }],
    }],
  },
}
