{{/* Where the exporter may connect to under a network policy, as a list of rules: what its configuration says, and no more. */}}
{{- define "spec-decode-exporter.egress" -}}
{{- $dns := list (dict "port" 53 "protocol" "UDP") (dict "port" 53 "protocol" "TCP") -}}
{{- $rules := list (dict "ports" $dns) -}}
{{- with include "spec-decode-exporter.connected" . | fromYaml | keys | sortAlpha -}}
{{- $rules = append $rules (dict "ports" (include "spec-decode-exporter.tcp" . | fromYamlArray)) -}}
{{- end -}}
{{- range include "spec-decode-exporter.kubernetes" . | fromYamlArray -}}
{{- if not (get . "api_server") -}}
{{- $namespaces := get . "namespaces" | default (list (include "spec-decode-exporter.namespace" $)) -}}
{{- $named := dict "key" "kubernetes.io/metadata.name" "operator" "In" "values" $namespaces -}}
{{- $peer := get . "all_namespaces" | empty | not | ternary dict (dict "matchExpressions" (list $named)) -}}
{{- $ports := include "spec-decode-exporter.tcp" (get . "ports" | default (list "8000")) | fromYamlArray -}}
{{- $rules = append $rules (dict "to" (list (dict "namespaceSelector" $peer)) "ports" $ports) -}}
{{- end -}}
{{- end -}}
{{- toYaml (concat $rules .Values.networkPolicy.egress) -}}
{{- end -}}

{{/* The ports of addresses that a policy cannot name, because they are names or outside: those of targets, lists and APIs. Ports
that the chart cannot know are refused, unless further rules are given for them. */}}
{{- define "spec-decode-exporter.connected" -}}
{{- $config := include "spec-decode-exporter.config" . | fromYaml -}}
{{- $discovery := get $config "discovery" | default dict -}}
{{- $ports := dict -}}
{{- $unknown := list -}}
{{- $addresses := list -}}
{{- range get $config "targets" | default list -}}{{- $addresses = append $addresses (list "targets" .url) -}}{{- end -}}
{{- range get $discovery "http" | default list -}}
{{- $addresses = append $addresses (list "discovery.http" .url) -}}
{{- $unknown = append $unknown "what discovery.http lists" -}}
{{- end -}}
{{- if get $discovery "files" -}}{{- $unknown = append $unknown "what discovery.files lists" -}}{{- end -}}
{{- range get $discovery "dns" | default list -}}
{{- with get . "port" -}}{{- $_ := set $ports (toString .) true -}}
{{- else -}}{{- $unknown = append $unknown "the SRV records of discovery.dns" -}}{{- end -}}
{{- end -}}
{{- range get $discovery "kubernetes" | default list -}}
{{- with get . "api_server" -}}{{- $addresses = append $addresses (list "discovery.kubernetes" .) -}}{{- end -}}
{{- if get . "api_server" -}}
{{- range get . "ports" | default (list "8000") -}}
{{- if regexMatch "^[0-9]+$" (toString .) -}}{{- $_ := set $ports (toString .) true -}}
{{- else -}}{{- $unknown = append $unknown (printf "the port %s of another cluster" .) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $addresses -}}
{{- with include "spec-decode-exporter.portOfUrl" (last .) -}}{{- $_ := set $ports . true -}}
{{- else -}}{{- $unknown = append $unknown (printf "a variable in %s" (first .)) -}}{{- end -}}
{{- end -}}
{{- if include "spec-decode-exporter.watched" . | fromYaml -}}
{{- range .Values.networkPolicy.apiServerPorts -}}{{- $_ := set $ports (toString .) true -}}{{- end -}}
{{- end -}}
{{- if and $unknown (not .Values.networkPolicy.egress) -}}
{{- fail (printf "networkPolicy: the chart does not know the ports of %s: allow them in networkPolicy.egress" (uniq $unknown | join ", ")) -}}
{{- end -}}
{{- toYaml $ports -}}
{{- end -}}

{{/* The port of a URL, by its scheme if it names none; empty if a variable says it. */}}
{{- define "spec-decode-exporter.portOfUrl" -}}
{{- $pattern := `^(?i)(https?)://(?:\[[^\]/]*\]|(?:\$\{[^}]*\}|[^/:?$])*)(?::([0-9]+))?(?:[/?].*)?$` -}}
{{- if regexMatch $pattern . -}}
{{- $default := regexReplaceAll $pattern . "${1}" | lower | eq "https" | ternary "443" "80" -}}
{{- regexReplaceAll $pattern . "${2}" | default $default -}}
{{- end -}}
{{- end -}}

{{/* Ports of NetworkPolicy, of a list of numbers and names. */}}
{{- define "spec-decode-exporter.tcp" -}}
{{- $ports := list -}}
{{- range . -}}
{{- if contains "$" (toString .) -}}
{{- fail (printf "networkPolicy: discovery.kubernetes has the port %s: no policy can be made for a variable; write its number or name" .) -}}
{{- end -}}
{{- $number := regexMatch "^[0-9]+$" (toString .) -}}
{{- $ports = append $ports (dict "port" ($number | ternary (toString . | int) (toString .)) "protocol" "TCP") -}}
{{- end -}}
{{- toYaml $ports -}}
{{- end -}}
