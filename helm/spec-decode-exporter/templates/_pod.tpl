{{/* Pod of a fleet exporter, in a Deployment and in a StatefulSet. */}}
{{- define "spec-decode-exporter.pod" -}}
metadata:
  labels:
    {{- $labels := include "spec-decode-exporter.labels" . | fromYaml }}
    {{- toYaml (merge (deepCopy .Values.podLabels) (omit $labels "helm.sh/chart" "app.kubernetes.io/version" "app.kubernetes.io/managed-by")) | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "spec-decode-exporter.serviceAccountName" . | quote }}
  automountServiceAccountToken: {{ not (empty (include "spec-decode-exporter.watched" . | fromYaml)) }}
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "spec-decode-exporter.podSecurityContext" . | nindent 4 }}
  containers:
    - name: exporter
      image: {{ include "spec-decode-exporter.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - run
        - --config.file={{ include "spec-decode-exporter.configFile" . }}
        - --config.auto-reload
        {{- with .Values.web.externalUrl }}
        - --web.external-url={{ . }}
        {{- end }}
        {{- if include "spec-decode-exporter.web" . }}
        - --web.config.file={{ include "spec-decode-exporter.webFile" . }}
        {{- end }}
        {{- with .Values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      env:
        - {name: SPEC_DECODE_EXPORTER_IN_CHART, value: "true"}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: spec-decode
          containerPort: 7732
          protocol: TCP
      livenessProbe:
        {{- include "spec-decode-exporter.livenessProbe" . | nindent 8 }}
      readinessProbe:
        {{- include "spec-decode-exporter.probe" (dict "root" . "path" "/-/ready") | nindent 8 }}
        periodSeconds: 5
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- include "spec-decode-exporter.securityContext" . | nindent 8 }}
      volumeMounts:
        {{- include "spec-decode-exporter.mounts" (dict "config" true) | nindent 8 }}
        {{- if include "spec-decode-exporter.web" . }}
        {{- include "spec-decode-exporter.webMount" . | nindent 8 }}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: spec-decode-exporter-config
      configMap:
        name: {{ include "spec-decode-exporter.fullname" . | quote }}
    {{- if include "spec-decode-exporter.web" . }}
    {{- include "spec-decode-exporter.webVolume" . | nindent 4 }}
    {{- end }}
    {{- if not .Values.persistence.enabled }}
    - name: spec-decode-exporter-state
      emptyDir:
        sizeLimit: 64Mi
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- range $key := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
  {{- with index $.Values $key }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end -}}
