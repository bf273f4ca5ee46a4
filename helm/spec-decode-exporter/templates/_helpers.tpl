{{- define "spec-decode-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Namespace of the objects, in which a fleet exporter looks for pods unless its values name others. */}}
{{- define "spec-decode-exporter.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* Short enough for what Kubernetes adds to the names of a StatefulSet's pods. */}}
{{- define "spec-decode-exporter.fullname" -}}
{{- $name := include "spec-decode-exporter.name" . -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $full .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "spec-decode-exporter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "spec-decode-exporter.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* By which the pod of `helm test` is known; it is none of the exporter's. */}}
{{- define "spec-decode-exporter.testLabels" -}}
app.kubernetes.io/name: {{ printf "%s-test" (include "spec-decode-exporter.name" .) | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "spec-decode-exporter.labels" -}}
{{- $own := dict
      "app.kubernetes.io/version" .Chart.AppVersion
      "app.kubernetes.io/part-of" "spec-decode-exporter"
      "app.kubernetes.io/managed-by" .Release.Service
      "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{- toYaml (merge (include "spec-decode-exporter.selectorLabels" . | fromYaml) .Values.commonLabels $own) -}}
{{- end -}}

{{/* metadata of an object: a dict of root, and namespace, labels, annotations and name where they are not the usual ones. */}}
{{- define "spec-decode-exporter.metadata" -}}
name: {{ get . "name" | default (include "spec-decode-exporter.fullname" .root) | quote }}
namespace: {{ get . "namespace" | default (include "spec-decode-exporter.namespace" .root) | quote }}
labels:
  {{- $own := include "spec-decode-exporter.labels" .root | fromYaml }}
  {{- toYaml (merge (deepCopy (get . "labels" | default dict)) $own) | nindent 2 }}
{{- with get . "annotations" }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "spec-decode-exporter.serviceAccountName" -}}
{{- default (include "spec-decode-exporter.fullname" .) .Values.serviceAccountName -}}
{{- end -}}

{{- define "spec-decode-exporter.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{/* Where the exporter's configuration and what it remembers are. */}}
{{- define "spec-decode-exporter.configFile" -}}/etc/spec-decode-exporter/exporter.yml{{- end -}}
{{- define "spec-decode-exporter.stateFile" -}}/var/lib/spec-decode-exporter/state.json{{- end -}}

{{- define "spec-decode-exporter.mounts" -}}
- name: spec-decode-exporter-state
  mountPath: {{ dir (include "spec-decode-exporter.stateFile" .) }}
{{- if .config }}
- name: spec-decode-exporter-config
  mountPath: {{ dir (include "spec-decode-exporter.configFile" .) }}
  readOnly: true
{{- end }}
{{- end -}}

{{/* What the exporter is asked to do in fleet mode. The default is not among the values: Helm would add it to what people say. */}}
{{- define "spec-decode-exporter.config" -}}
{{- $default := dict "discovery" (dict "kubernetes" (list (dict "label_selector" "spec-decode-exporter/watch=true"))) -}}
{{- $config := index .Values "config" | default dict -}}
{{- toYaml (or (hasKey $config "targets") (hasKey $config "discovery") | ternary $config (merge $default $config)) -}}
{{- end -}}

{{/* Its ways to look for pods, as a list. */}}
{{- define "spec-decode-exporter.kubernetes" -}}
{{- toYaml (get (get (include "spec-decode-exporter.config" . | fromYaml) "discovery" | default dict) "kubernetes" | default list) -}}
{{- end -}}

{{/* The namespaces in which the exporter looks for pods, as a mapping of their names; "*" is all of them.
A cluster that is asked at an api_server is another one. */}}
{{- define "spec-decode-exporter.watched" -}}
{{- $root := . -}}
{{- $watched := dict -}}
{{- range include "spec-decode-exporter.kubernetes" . | fromYamlArray -}}
{{- $namespaces := get . "namespaces" | default (list (include "spec-decode-exporter.namespace" $root)) -}}
{{- if get . "all_namespaces" }}{{ $namespaces = list "*" }}{{ end -}}
{{- if get . "api_server" }}{{ $namespaces = list }}{{ end -}}
{{- range $namespaces -}}
{{- $_ := set $watched . true -}}
{{- end -}}
{{- end -}}
{{- toYaml $watched -}}
{{- end -}}

{{/* User and groups of a security context; without any, OpenShift chooses. */}}
{{- define "spec-decode-exporter.user" -}}
{{- with get .Values "runAsUser" }}
runAsUser: {{ int64 . }}
runAsGroup: {{ int64 . }}
{{- end }}
{{- end -}}

{{- define "spec-decode-exporter.podSecurityContext" -}}
runAsNonRoot: true
{{- include "spec-decode-exporter.user" . }}
{{- with get .Values "runAsUser" }}
fsGroup: {{ int64 . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "spec-decode-exporter.securityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
runAsNonRoot: true
{{- include "spec-decode-exporter.user" . }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* Liveness probe of both modes. A sidecar has no other: it would count for vLLM's pod. */}}
{{- define "spec-decode-exporter.livenessProbe" -}}
{{- $asked := include "spec-decode-exporter.probe" (dict "root" . "path" "/-/healthy") | fromYaml -}}
{{- toYaml (merge $asked (dict "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 6)) -}}
{{- end -}}

{{/* Fail if the chart lacks files that it copies from the repository: a dict of root, pattern, and the value that needs them. */}}
{{- define "spec-decode-exporter.requireFiles" -}}
{{- if not (.root.Files.Glob .pattern) -}}
{{- fail (printf "%s needs %s, which a checkout of the repository does not contain: run `make chart-files` in the checkout, or install the packaged chart" .value .pattern) -}}
{{- end -}}
{{- end -}}

{{/* A warning about an image without a registry, as by default; empty with one. */}}
{{- define "spec-decode-exporter.imageNote" -}}
{{- if not .Values.image.registry -}}
WARNING: image.registry is not set. The image {{ include "spec-decode-exporter.image" . }} is not published:
nodes that do not have it report ImagePullBackOff. Build it with `make image`, push it, and set image.registry.

{{ end -}}
{{- end -}}
