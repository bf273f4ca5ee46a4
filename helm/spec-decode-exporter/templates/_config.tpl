{{/* The exporter's configuration: the values, and what the chart knows. */}}
{{- define "spec-decode-exporter.configText" -}}
{{- $state := dict "state" (dict "file" (include "spec-decode-exporter.stateFile" .)) -}}
{{- if eq .Values.mode "sidecar" -}}
{{- $target := dict "url" "http://localhost:${TARGET_PORT}/metrics" -}}
{{- toYaml (mergeOverwrite (dict "targets" (list $target)) $state (index .Values "config" | default dict)) -}}
{{- else -}}
{{- $config := include "spec-decode-exporter.config" . | fromYaml -}}
{{- range get (get $config "discovery" | default dict) "kubernetes" | default list -}}
{{- if not (or (get . "namespaces") (get . "all_namespaces") (get . "api_server")) -}}
{{- $_ := set . "namespaces" (list (include "spec-decode-exporter.namespace" $)) -}}
{{- end -}}
{{- end -}}
{{- $known := dict -}}
{{- if gt (int .Values.replicaCount) 1 -}}
{{- $known = dict "discovery" (dict "shard" (dict "count" (int .Values.replicaCount) "index" "auto")) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $state $config $known) -}}
{{- end -}}
{{- end -}}

{{/* Namespaces of the vLLM pods in sidecar mode, as a list. */}}
{{- define "spec-decode-exporter.sidecarNamespaces" -}}
{{- toYaml (.Values.sidecar.namespaces | default (list (include "spec-decode-exporter.namespace" .))) -}}
{{- end -}}

{{/* Namespaces that need what the exporters mount, as a list. */}}
{{- define "spec-decode-exporter.namespaces" -}}
{{- if eq .Values.mode "sidecar" }}{{ include "spec-decode-exporter.sidecarNamespaces" . }}{{ else }}{{ toYaml (list (include "spec-decode-exporter.namespace" .)) }}{{ end -}}
{{- end -}}

{{/* Selector of the pods with a sidecar. The default is not in values.yaml: Helm would merge it with the user's. */}}
{{- define "spec-decode-exporter.sidecarSelector" -}}
{{- toYaml (.Values.sidecar.selector | default (dict "matchLabels" (dict "spec-decode-exporter/inject" "true"))) -}}
{{- end -}}
