{{/* The name of what the release makes. Two releases in one namespace have two, and the manifests, whose release is
called gpu-leak-exporter, have no longer one than that. */}}
{{- define "gpu-leak-exporter.fullname" -}}
{{- if contains "gpu-leak-exporter" .Release.Name -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-gpu-leak-exporter" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* What selects the pods of this release, and no others. */}}
{{- define "gpu-leak-exporter.selector" -}}
app.kubernetes.io/name: gpu-leak-exporter
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* What a PodMonitor and a ServiceMonitor scrape of a pod. */}}
{{- define "gpu-leak-exporter.endpoint" -}}
- port: metrics
  interval: {{ .interval }}
  # The exporter says whose memory it is: pod, namespace and container are those
  # of the process on the GPU.
  honorLabels: true
  relabelings:
    # The operator gives the target the labels of the exporter's own pod, and
    # Prometheus adds them to each series without: the memory of a whole GPU would
    # be blamed on the exporter.
    - action: labeldrop
      regex: namespace|pod|container|endpoint|service
    # What the mixin selects, and by what it names nodes.
    - targetLabel: job
      replacement: gpu_leak_exporter
    - sourceLabels: [__meta_kubernetes_pod_node_name]
      targetLabel: instance
{{- end -}}

{{/* The image, which names its registry: without one it would be anybody's on Docker Hub. */}}
{{- define "gpu-leak-exporter.image" -}}
{{- if not (regexMatch "^(localhost|[^/]*[.:][^/]*)/." .Values.image.repository) -}}
{{- fail (printf "image.repository=%s names no registry: write REGISTRY.DOMAIN/%s, or localhost/%s for an image that was loaded on each node" .Values.image.repository .Values.image.repository .Values.image.repository) -}}
{{- end -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
