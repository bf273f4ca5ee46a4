{{/* The exporter's configuration in fleet mode: the values, and what the chart knows. */}}
{{- define "spec-decode-exporter.fleetConfig" -}}
{{- $config := include "spec-decode-exporter.config" . | fromYaml -}}
{{- range get (get $config "discovery" | default dict) "kubernetes" | default list -}}
{{- if not (or (get . "namespaces") (get . "all_namespaces") (get . "api_server")) -}}
{{- $_ := set . "namespaces" (list (include "spec-decode-exporter.namespace" $)) -}}
{{- end -}}
{{- end -}}
{{- $known := dict -}}
{{- if .Values.sharding.enabled -}}
{{- $known = dict "discovery" (dict "shard" (dict "count" (int .Values.replicaCount) "index" "auto")) -}}
{{- end -}}
{{- $state := dict "file" (include "spec-decode-exporter.stateFile" .) -}}
{{- toYaml (mergeOverwrite (dict "state" $state) $config $known) -}}
{{- end -}}

{{/* That of a sidecar: it watches the vLLM of its pod. */}}
{{- define "spec-decode-exporter.sidecarConfig" -}}
{{- $state := dict "file" (include "spec-decode-exporter.stateFile" .) -}}
{{- $target := dict "url" "http://localhost:${TARGET_PORT}/metrics" -}}
{{- toYaml (mergeOverwrite (dict "state" $state "targets" (list $target)) .Values.sidecar.config) -}}
{{- end -}}

{{/* The namespaces of the vLLM pods in sidecar mode, as a list. */}}
{{- define "spec-decode-exporter.sidecarNamespaces" -}}
{{- toYaml (.Values.sidecar.namespaces | default (list (include "spec-decode-exporter.namespace" .))) -}}
{{- end -}}

{{/* Which pods have a sidecar. The default is not among the values: Helm would add it to what people say. */}}
{{- define "spec-decode-exporter.sidecarSelector" -}}
{{- toYaml (.Values.sidecar.selector | default (dict "matchLabels" (dict "spec-decode-exporter/inject" "true"))) -}}
{{- end -}}

{{- define "spec-decode-exporter.sidecarConfigName" -}}
{{ include "spec-decode-exporter.fullname" . }}-sidecar
{{- end -}}
