{{- define "spec-decode-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for what Kubernetes adds to the names of a StatefulSet's pods. */}}
{{- define "spec-decode-exporter.fullname" -}}
{{- $name := include "spec-decode-exporter.name" . -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $full .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "spec-decode-exporter.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
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
{{- with merge (deepCopy (get . "annotations" | default dict)) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "spec-decode-exporter.serviceAccountName" -}}
{{- $own := .Values.serviceAccount.create | ternary (include "spec-decode-exporter.fullname" .) "default" -}}
{{- default $own .Values.serviceAccount.name -}}
{{- end -}}

{{- define "spec-decode-exporter.image" -}}
{{- $image := .Values.image -}}
{{- $registry := .Values.global.imageRegistry | default $image.registry -}}
{{- with $registry }}{{ . }}/{{ end }}{{ $image.repository }}
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

{{/* What cannot work is refused before anything is installed. */}}
{{- define "spec-decode-exporter.validate" -}}
{{- include "spec-decode-exporter.renamed" . -}}
{{- if eq .Values.mode "sidecar" -}}
{{- range $key := list "serviceMonitor" "networkPolicy" "sharding" "persistence" -}}
{{- if (index $.Values $key).enabled -}}
{{- fail (printf "%s is for mode: fleet; a sidecar is part of vLLM's pod" $key) -}}
{{- end -}}
{{- end -}}
{{- if gt (int .Values.replicaCount) 1 -}}
{{- fail "replicaCount is for mode: fleet; there is a sidecar in each of vLLM's pods" -}}
{{- end -}}
{{- if index .Values "config" -}}
{{- fail "config is for mode: fleet; that of the sidecars is sidecar.config" -}}
{{- end -}}
{{- range $key := list "extraVolumes" "extraVolumeMounts" -}}
{{- if index $.Values $key -}}
{{- fail (printf "%s is for mode: fleet; that of the sidecars is sidecar.%s" $key $key) -}}
{{- end -}}
{{- end -}}
{{- $volumes := include "spec-decode-exporter.sidecarExtraVolumes" . | fromYamlArray -}}
{{- range .Values.sidecar.extraVolumeMounts -}}
{{- if not (has .name $volumes) -}}
{{- fail (printf "sidecar.extraVolumeMounts names %s, which is none of sidecar.extraVolumes: vLLM's pods would be refused" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.sidecar.middleware.enabled -}}
{{- if eq .Values.mode "fleet" -}}
{{- fail "sidecar.middleware is for mode: sidecar; to a fleet exporter, mount the file yourself (docs/guide/requests-inside.md)" -}}
{{- end -}}
{{- if not (get (get .Values.sidecar.config "requests" | default dict) "ingest") -}}
{{- fail "sidecar.middleware sends requests to the sidecar, which takes none: set sidecar.config.requests.ingest to true" -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.mode "fleet") .Values.sidecar.config -}}
{{- fail "sidecar.config is for mode: sidecar; that of the fleet exporter is config" -}}
{{- end -}}
{{- range or .Values.rbac.create .Values.networkPolicy.enabled | ternary (include "spec-decode-exporter.watched" . | fromYaml | keys) list -}}
{{- if contains "$" . -}}
{{- fail (printf "config looks for pods in the namespace %s: no Role and no NetworkPolicy can be made for a variable; name it, or set rbac.create and networkPolicy.enabled to false" .) -}}
{{- end -}}
{{- end -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.sharding.enabled) -}}
{{- fail (printf "replicaCount is %d, and each exporter would watch every target, so that sums count twice: set sharding.enabled, or replicaCount to 1" (int .Values.replicaCount)) -}}
{{- end -}}
{{- if and (eq .Values.mode "fleet") .Values.sidecar.injection.enabled -}}
{{- fail "sidecar.injection is for mode: sidecar; beside a fleet exporter, the injected sidecars would count the same engines twice" -}}
{{- end -}}
{{- if and (eq .Values.mode "fleet") .Values.podMonitor.enabled -}}
{{- fail "podMonitor is for mode: sidecar; the fleet exporter is scraped through serviceMonitor" -}}
{{- end -}}
{{- range $key := list "cert_file" "key_file" "client_ca_file" -}}
{{- $named := get (get $.Values.web.config "tls_server_config" | default dict) $key | default "/" -}}
{{- if and (not $.Values.web.existingSecret) (not (hasPrefix "/" $named)) -}}
{{- fail (printf "web.config names %s: %s, which is looked for in web.existingSecret: name the Secret that has it" $key $named) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fail if the chart lacks files that it copies from the repository: a dict of root, pattern, and the value that needs them. */}}
{{- define "spec-decode-exporter.requireFiles" -}}
{{- if not (.root.Files.Glob .pattern) -}}
{{- fail (printf "%s needs %s, which a checkout of the repository does not contain: run `make chart-files` in the checkout, or install the packaged chart" .value .pattern) -}}
{{- end -}}
{{- end -}}

{{/* A warning about an image without a registry, as by default; empty with one. */}}
{{- define "spec-decode-exporter.imageNote" -}}
{{- if not (or .Values.image.registry .Values.global.imageRegistry) -}}
WARNING: image.registry is not set. The image {{ include "spec-decode-exporter.image" . }} is not published:
nodes that do not have it report ImagePullBackOff. Build it with `make image`, push it, and set image.registry.

{{ end -}}
{{- end -}}
