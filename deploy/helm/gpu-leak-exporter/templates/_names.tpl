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
