{{/* How a monitor's endpoint is scraped: a dict of serviceMonitor or podMonitor. */}}
{{- define "spec-decode-exporter.endpoint" -}}
- port: spec-decode
  honorLabels: {{ .honorLabels }}
  {{- range $key := list "interval" "scrapeTimeout" }}
  {{- with index $ $key }}
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
{{- end -}}
