{{/*
The sidecar as an item of a pod's initContainers. In a chart that has this one as a dependency:

  initContainers:
    {{- include "spec-decode-exporter.sidecar" (index .Subcharts "spec-decode-exporter") | nindent 4 }}
  volumes:
    {{- include "spec-decode-exporter.sidecarVolumes" (index .Subcharts "spec-decode-exporter") | nindent 4 }}
*/}}
{{- define "spec-decode-exporter.sidecar" -}}
- name: spec-decode-exporter
  image: {{ include "spec-decode-exporter.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  restartPolicy: Always
  args:
    - run
    - --web.listen-address=:{{ .Values.sidecar.port }}
    {{- if index .Values "config" }}
    - --config.file={{ include "spec-decode-exporter.configFile" . }}
    - --config.auto-reload
    {{- else }}
    - --state.file={{ include "spec-decode-exporter.stateFile" . }}
    {{- end }}
    {{- if include "spec-decode-exporter.web" . }}
    - --web.config.file={{ include "spec-decode-exporter.webFile" . }}
    {{- end }}
    {{- with .Values.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  env:
    - {name: SPEC_DECODE_EXPORTER_IN_CHART, value: "true"}
    {{- if index .Values "config" }}
    - {name: TARGET_PORT, value: {{ .Values.sidecar.targetPort | quote }}}
    {{- else }}
    - {name: SPEC_DECODE_EXPORTER_TARGET, value: "http://localhost:{{ .Values.sidecar.targetPort }}/metrics"}
    {{- end }}
    {{- with .Values.sidecar.speculativeConfig }}
    - {name: SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG, value: {{ toJson . }}}
    {{- end }}
    {{- with .Values.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - name: spec-decode
      containerPort: {{ .Values.sidecar.port }}
      protocol: TCP
  livenessProbe:
    {{- include "spec-decode-exporter.livenessProbe" . | nindent 4 }}
  {{- with .Values.sidecar.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "spec-decode-exporter.securityContext" . | nindent 4 }}
  volumeMounts:
    {{- include "spec-decode-exporter.mounts" (dict "config" (index .Values "config")) | nindent 4 }}
    {{- if include "spec-decode-exporter.web" . }}
    {{- include "spec-decode-exporter.webMount" . | nindent 4 }}
    {{- end }}
    {{- with .Values.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "spec-decode-exporter.sidecarVolumes" -}}
- name: spec-decode-exporter-state
  emptyDir:
    sizeLimit: 16Mi
{{- if index .Values "config" }}
- name: spec-decode-exporter-config
  configMap:
    name: {{ include "spec-decode-exporter.fullname" . | quote }}
{{- end }}
{{- if include "spec-decode-exporter.web" . }}
{{ include "spec-decode-exporter.webVolume" . }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
