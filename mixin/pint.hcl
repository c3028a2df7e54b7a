# pint runs offline: it checks what can be told from the rules themselves.
parser {
  # Labels and annotations are what the mixin renders, names as Prometheus 3 has them.
  schema = "prometheus"
}
