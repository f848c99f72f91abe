{{/* YAML reads a bare `off` as false. */}}
{{- define "epguard.word" -}}
{{ if eq (toString .) "false" }}off{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* IP where metrics are served. */}}
{{- define "epguard.metricsAddress" -}}
{{ .Values.metrics.address | default (ternary "127.0.0.1" "$(HOST_IP)" (eq .Values.metrics.monitor "none")) }}
{{- end }}

{{/* The same with the port. In brackets HOST_IP may be of either family. */}}
{{- define "epguard.metricsListen" -}}
{{- $address := include "epguard.metricsAddress" . }}
{{- $bracketed := printf "[%s]" $address }}
{{- regexMatch "^[0-9.]+$" $address | ternary $address $bracketed }}:{{ .Values.metrics.port }}
{{- end }}

{{/* All arguments of the agent, as a list in YAML: no value of the user's can become two of them. */}}
{{- define "epguard.arguments" -}}
{{- $all := list "agent"
  "--node-name=$(NODE_NAME)"
  (printf "--mode=%s" (include "epguard.word" .Values.mode))
  (printf "--mode-policy=%s/epguard" (include "epguard.namespace" .))
  (printf "--metrics-listen=%s" (include "epguard.metricsListen" .))
  (printf "--health-listen=127.0.0.1:%v" .Values.healthPort)
  "--cgroup=/host/cgroup" }}
{{- $modes := list }}
{{- $actions := list .Values.action }}
{{- range $reason, $own := .Values.reasons }}
{{- if hasKey $own "mode" }}{{ $modes = append $modes (printf "%s=%s" $reason (include "epguard.word" $own.mode)) }}{{ end }}
{{- if hasKey $own "action" }}{{ $actions = append $actions (printf "%s=%s" $reason $own.action) }}{{ end }}
{{- end }}
{{- with $modes }}
{{- $all = append $all (printf "--reason-mode=%s" (join "," .)) }}
{{- end }}
{{- if ne (join "," $actions) "drop" }}
{{- $all = append $all (printf "--action=%s" (join "," $actions)) }}
{{- end }}
{{- range $name, $value := .Values.agent }}
{{- $flag := printf "--%s" (kebabcase $name) }}
{{- if eq $name "detachOnExit" }}
{{- if $value }}{{ $all = append $all $flag }}{{ end }}
{{- else if kindIs "slice" $value }}
{{- if $value }}{{ $all = append $all (printf "%s=%s" $flag (join "," $value)) }}{{ end }}
{{- else if kindIs "float64" $value }}
{{- $all = append $all (printf "%s=%d" $flag (int64 $value)) }}
{{- else if not (kindIs "invalid" $value) }}
{{- $all = append $all (printf "%s=%s" $flag (include "epguard.word" $value)) }}
{{- end }}
{{- end }}
{{- toYaml (concat $all .Values.extraArgs) }}
{{- end }}
