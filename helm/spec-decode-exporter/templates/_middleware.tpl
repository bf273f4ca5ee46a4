{{/*
What vLLM's container needs to load the middleware, beside the flag itself. In a chart that has this one as a dependency:

  containers:
    - name: vllm
      env:
        {{- include "spec-decode-exporter.middlewareEnv" (index .Subcharts "spec-decode-exporter") | nindent 8 }}
      volumeMounts:
        {{- include "spec-decode-exporter.middlewareVolumeMounts" (index .Subcharts "spec-decode-exporter") | nindent 8 }}
  volumes:
    {{- include "spec-decode-exporter.middlewareVolumes" (index .Subcharts "spec-decode-exporter") | nindent 4 }}
*/}}
{{- define "spec-decode-exporter.middlewareEnv" -}}
- {name: PYTHONPATH, value: {{ include "spec-decode-exporter.middlewareFolder" . }}}
- {name: SPEC_DECODE_REQUESTS_URL, value: "http://127.0.0.1:{{ .Values.sidecar.port }}/api/v1/requests"}
{{- end -}}

{{- define "spec-decode-exporter.middlewareVolumeMounts" -}}
- {name: spec-decode-requests, mountPath: {{ include "spec-decode-exporter.middlewareFolder" . }}, readOnly: true}
{{- end -}}

{{- define "spec-decode-exporter.middlewareVolumes" -}}
{{- if not .Values.sidecar.middleware -}}
{{- fail "spec-decode-exporter.middlewareVolumes names a ConfigMap that is not made: set sidecar.middleware, or leave the volume out; a pod that has it does not start" -}}
{{- end -}}
- name: spec-decode-requests
  configMap:
    name: {{ include "spec-decode-exporter.middlewareName" . | quote }}
{{- end -}}

{{- define "spec-decode-exporter.middlewareFolder" -}}/etc/spec-decode-requests{{- end -}}

{{- define "spec-decode-exporter.middlewareName" -}}
{{ include "spec-decode-exporter.fullname" . }}-middleware
{{- end -}}
