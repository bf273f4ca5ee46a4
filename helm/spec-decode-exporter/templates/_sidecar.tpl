{{/*
The sidecar as an item of a pod's initContainers. In a chart that has this one as a dependency:

  initContainers:
    {{- include "spec-decode-exporter.sidecar" (index .Subcharts "spec-decode-exporter") | nindent 4 }}
  volumes:
    {{- include "spec-decode-exporter.sidecarVolumes" (index .Subcharts "spec-decode-exporter") | nindent 4 }}
*/}}
{{- define "spec-decode-exporter.sidecar" -}}
{{- $said := dict "port" (.Values.sidecar.targetPort | toString) -}}
{{- with .Values.sidecar.speculativeConfig }}{{ $_ := set $said "speculativeConfig" . }}{{ end -}}
- {{ include "spec-decode-exporter.sidecarContainer" (dict "root" . "said" $said) | nindent 2 | trim }}
{{- end -}}

{{- define "spec-decode-exporter.sidecarVolumes" -}}
- name: spec-decode-exporter-state
  emptyDir:
    sizeLimit: 16Mi
{{- if .Values.sidecar.config }}
- name: spec-decode-exporter-config
  configMap:
    name: {{ include "spec-decode-exporter.sidecarConfigName" . | quote }}
{{- end }}
{{- if include "spec-decode-exporter.web" . }}
{{ include "spec-decode-exporter.webVolume" . }}
{{- end }}
{{- with .Values.sidecar.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The names of the volumes that people add, as a list. */}}
{{- define "spec-decode-exporter.sidecarExtraVolumes" -}}
{{- $names := list -}}
{{- range .Values.sidecar.extraVolumes }}{{ $names = append $names .name }}{{ end -}}
{{- toYaml $names -}}
{{- end -}}

{{/*
The container, of a dict of root and said: the port of vLLM's page, and speculativeConfig if it is known. Each is a
text, or for a policy an expression in CEL, as {"$cel": …}.
It has no readiness and no startup probe: they would count for vLLM's pod.
*/}}
{{- define "spec-decode-exporter.sidecarContainer" -}}
{{- $values := .root.Values -}}
{{- $target := get .said "target" | default (printf "http://localhost:%v/metrics" .said.port) -}}
name: {{ $values.sidecar.name | quote }}
image: {{ include "spec-decode-exporter.image" .root | quote }}
imagePullPolicy: {{ $values.image.pullPolicy }}
restartPolicy: Always
args:
  - run
  - --web.listen-address=:{{ $values.sidecar.port }}
  {{- if $values.sidecar.config }}
  - --config.file={{ include "spec-decode-exporter.configFile" . }}
  - --config.auto-reload
  {{- else }}
  - --state.file={{ include "spec-decode-exporter.stateFile" . }}
  {{- end }}
  {{- with $values.metrics.profile }}
  - --metrics.profile={{ . }}
  {{- end }}
  {{- if include "spec-decode-exporter.web" .root }}
  - --web.config.file={{ include "spec-decode-exporter.webFile" . }}
  {{- end }}
  {{- with $values.extraArgs }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
env:
  {{- if $values.sidecar.config }}
  - {name: TARGET_PORT, value: {{ toJson .said.port }}}
  {{- else }}
  - {name: SPEC_DECODE_EXPORTER_TARGET, value: {{ toJson $target }}}
  {{- end }}
  {{- with get .said "speculativeConfig" }}
  - {name: SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG, value: {{ toJson . }}}
  {{- end }}
  {{- with $values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: spec-decode
    containerPort: {{ $values.sidecar.port }}
    protocol: TCP
{{- with $values.livenessProbe }}
livenessProbe:
  {{- include "spec-decode-exporter.probe" (dict "root" $.root "probe" .) | nindent 2 }}
{{- end }}
{{- with $values.sidecar.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml $values.securityContext | nindent 2 }}
volumeMounts:
  {{- include "spec-decode-exporter.mounts" (dict "config" $values.sidecar.config) | nindent 2 }}
  {{- if include "spec-decode-exporter.web" .root }}
  {{- include "spec-decode-exporter.webMount" . | nindent 2 }}
  {{- end }}
  {{- with $values.sidecar.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* A value as a literal of CEL; {"$cel": …} is an expression. A literal may hold values of several types. */}}
{{- define "spec-decode-exporter.cel" -}}
{{- if and (kindIs "map" .) (hasKey . "$cel") -}}
dyn({{ index . "$cel" }})
{{- else if kindIs "map" . -}}
{{- $items := list -}}
{{- range $key, $value := . -}}
{{- $items = append $items (printf "%s: %s" (toJson $key) (include "spec-decode-exporter.cel" $value)) -}}
{{- end -}}
dyn({ {{- join ", " $items -}} })
{{- else if kindIs "slice" . -}}
{{- $items := list -}}
{{- range . -}}
{{- $items = append $items (include "spec-decode-exporter.cel" .) -}}
{{- end -}}
dyn([{{ join ", " $items }}])
{{- else -}}
dyn({{ toJson . }})
{{- end -}}
{{- end -}}
