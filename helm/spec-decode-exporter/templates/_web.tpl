{{/* Who may see the pages: where the files are, and what the chart knows of them. */}}
{{- define "spec-decode-exporter.webFile" -}}/etc/spec-decode-exporter-web/web-config.yml{{- end -}}
{{- define "spec-decode-exporter.webSecretName" -}}
{{ include "spec-decode-exporter.fullname" . }}-web
{{- end -}}

{{/* "true" if there is a web configuration. */}}
{{- define "spec-decode-exporter.web" -}}
{{- if or .Values.web.config .Values.web.existingSecret }}true{{ end -}}
{{- end -}}

{{- define "spec-decode-exporter.webScheme" -}}
{{- if .Values.web.config -}}
{{- hasKey .Values.web.config "tls_server_config" | ternary "https" "http" -}}
{{- else -}}
{{- .Values.web.existingSecret | empty | ternary "http" "https" -}}
{{- end -}}
{{- end -}}

{{/* "true" if a page may be closed to the kubelet, which has no password and no certificate to show. */}}
{{- define "spec-decode-exporter.webClosed" -}}
{{- $config := .Values.web.config -}}
{{- $unknown := and .Values.web.existingSecret (not $config) -}}
{{- $auth := get (get $config "tls_server_config" | default dict) "client_auth_type" | default "NoClientCert" -}}
{{- if or $unknown (get $config "basic_auth_users") (ne $auth "NoClientCert") }}true{{ end -}}
{{- end -}}

{{/* "true" if clients without a certificate may be hung up on. */}}
{{- define "spec-decode-exporter.webHangsUp" -}}
{{- $config := .Values.web.config -}}
{{- $unknown := and .Values.web.existingSecret (not $config) -}}
{{- $auth := get (get $config "tls_server_config" | default dict) "client_auth_type" -}}
{{- if or $unknown (eq ($auth | default "") "RequireAndVerifyClientCert") }}true{{ end -}}
{{- end -}}

{{/* A probe, of a dict of root and path: over TLS if the pages need it, and of the port alone if they need a password or certificate. */}}
{{- define "spec-decode-exporter.probe" -}}
{{- if include "spec-decode-exporter.webClosed" .root -}}
tcpSocket:
  port: spec-decode
{{- else -}}
httpGet:
  path: {{ .path }}
  port: spec-decode
  {{- if eq (include "spec-decode-exporter.webScheme" .root) "https" }}
  scheme: HTTPS
  {{- end }}
{{- end -}}
{{- end -}}

{{- define "spec-decode-exporter.webMount" -}}
- name: spec-decode-exporter-web
  mountPath: {{ dir (include "spec-decode-exporter.webFile" .) }}
  readOnly: true
{{- end -}}

{{- define "spec-decode-exporter.webVolume" -}}
- name: spec-decode-exporter-web
  projected:
    sources:
      {{- if .Values.web.config }}
      - secret:
          name: {{ include "spec-decode-exporter.webSecretName" . | quote }}
      {{- end }}
      {{- with .Values.web.existingSecret }}
      - secret:
          name: {{ . | quote }}
      {{- end }}
{{- end -}}
