{{/* Values under an old name are refused, all at once, each with the name that it has now. The schema lets them through to here:
its own message could not say it. */}}
{{- define "spec-decode-exporter.renamed" -}}
{{- $names := dict
      "replicas" "replicaCount"
      "image.pullSecrets" "imagePullSecrets"
      "extraManifests" "extraObjects"
      "networkPolicy.from" "networkPolicy.ingressFrom"
      "serviceMonitor.labels" "serviceMonitor.additionalLabels"
      "podMonitor.labels" "podMonitor.additionalLabels"
      "prometheusRule.labels" "prometheusRule.additionalLabels" -}}
{{- $found := list -}}
{{- range $old, $new := $names -}}
{{- $place := $.Values -}}
{{- range $key := splitList "." $old | initial -}}
{{- $place = get $place $key -}}
{{- end -}}
{{- if hasKey $place (splitList "." $old | last) -}}
{{- $found = append $found (printf "%s is now %s" $old $new) -}}
{{- end -}}
{{- end -}}
{{- with $found -}}
{{- fail (printf "renamed values: %s" (join "; " .)) -}}
{{- end -}}
{{- end -}}
