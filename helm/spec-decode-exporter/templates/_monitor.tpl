{{/* How a monitor's endpoint is scraped: a dict of root, and of monitor, which is serviceMonitor or podMonitor. */}}
{{- define "spec-decode-exporter.endpoint" -}}
{{- $scheme := include "spec-decode-exporter.webScheme" .root -}}
{{- with .monitor -}}
- port: spec-decode
  {{- if eq $scheme "https" }}
  scheme: https
  {{- end }}
  {{- with .tlsConfig }}
  tlsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .basicAuth }}
  basicAuth:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  honorLabels: {{ .honorLabels }}
  {{- range $key := list "interval" "scrapeTimeout" }}
  {{- with index $.monitor $key }}
  {{ $key }}: {{ . }}
  {{- end }}
  {{- end }}
  {{- with .relabelings }}
  relabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}
