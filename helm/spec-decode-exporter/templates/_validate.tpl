{{/* Values that cannot work are rejected before anything is installed. */}}
{{- define "spec-decode-exporter.validate" -}}
{{- include (printf "spec-decode-exporter.validate.%s" .Values.mode) . -}}
{{- $volumes := list -}}
{{- range .Values.extraVolumes }}{{ $volumes = append $volumes .name }}{{ end -}}
{{- range .Values.extraVolumeMounts -}}
{{- if not (has .name $volumes) -}}
{{- fail (printf "extraVolumeMounts names %s, which is not in extraVolumes" .name) -}}
{{- end -}}
{{- end -}}
{{- if or (eq .Values.mode "fleet") (index .Values "config") -}}
{{- range .Values.extraArgs -}}
{{- if regexMatch "^--target(=|$)" . -}}
{{- fail "extraArgs contains --target beside a configuration file: the exporter accepts one of them and would not start. Write config.targets instead" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.monitor.enabled (get .Values.web.config "basic_auth_users") (not .Values.monitor.basicAuth) -}}
{{- fail "web.config requires a password (basic_auth_users), and the monitor has none: every scrape would fail with 401. Set monitor.basicAuth" -}}
{{- end -}}
{{- $tls := get .Values.web.config "tls_server_config" -}}
{{- if and .Values.monitor.enabled $tls (not .Values.monitor.tlsConfig) -}}
{{- fail "web.config serves https (tls_server_config), and the monitor does not say whom it trusts: scrapes would fail. Set monitor.tlsConfig, such as {ca: {secret: {name: …, key: ca.crt}}, serverName: …}" -}}
{{- end -}}
{{- range $key := list "cert_file" "key_file" "client_ca_file" -}}
{{- $named := get (get $.Values.web.config "tls_server_config" | default dict) $key | default "/" -}}
{{- if and (not $.Values.web.existingSecret) (not (hasPrefix "/" $named)) -}}
{{- fail (printf "web.config names %s: %s, a file of web.existingSecret: set it to the Secret that has the file" $key $named) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "spec-decode-exporter.validate.sidecar" -}}
{{- if .Values.persistence.enabled }}{{ fail "persistence is for mode: fleet; a sidecar is part of vLLM's pod" }}{{ end -}}
{{- if gt (int .Values.replicaCount) 1 }}{{ fail "replicaCount is for mode: fleet; each of vLLM's pods has a sidecar" }}{{ end -}}
{{- if and .Values.sidecar.middleware (not (get (get (index .Values "config") "requests" | default dict) "ingest")) -}}
{{- fail "sidecar.middleware sends requests to the sidecar, which accepts none: set config.requests.ingest to true" -}}
{{- end -}}
{{- $rendered := or .Values.monitor.enabled .Values.prometheusRule.enabled .Values.dashboards.enabled .Values.web.config .Values.extraObjects (index .Values "config") -}}
{{- if and .Chart.IsRoot (not $rendered) -}}
{{- fail "mode: sidecar creates nothing with these values, and no exporter: set monitor.enabled, prometheusRule.enabled and dashboards.enabled, and add the container to vLLM's pods (docs/guide/kubernetes-sidecar.md); or set mode: fleet" -}}
{{- end -}}
{{- end -}}

{{- define "spec-decode-exporter.validate.fleet" -}}
{{- if .Values.sidecar.middleware -}}
{{- fail "sidecar.middleware is for mode: sidecar; for a fleet exporter, mount the file yourself (docs/guide/requests-inside.md)" -}}
{{- end -}}
{{- range .Values.rbac.create | ternary (include "spec-decode-exporter.watched" . | fromYaml | keys) list -}}
{{- if contains "$" . -}}
{{- fail (printf "config looks for pods in the namespace %s, a variable, for which the chart cannot create a Role: write its name, or set rbac.create to false" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
