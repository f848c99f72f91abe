{{/* The metadata of a namespaced object. */}}
{{- define "epguard.metadata" -}}
name: epguard
namespace: {{ .Release.Namespace }}
labels:
  app.kubernetes.io/name: epguard
{{- end }}

{{/* YAML reads a bare `off` as false. */}}
{{- define "epguard.word" -}}
{{ if eq (toString .) "false" }}off{{ else }}{{ . }}{{ end }}
{{- end }}

{{- define "epguard.metricsListen" -}}
{{ .Values.metrics.listen | default (ternary "127.0.0.1:9467" "$(HOST_IP):9467" (eq .Values.metrics.monitor "none")) }}
{{- end }}

{{- define "epguard.metricsPort" -}}
{{ include "epguard.metricsListen" . | splitList ":" | last }}
{{- end }}

{{/* The flags of `.Values.agent`, one a line, and those of the reasons. */}}
{{- define "epguard.flags" -}}
{{- $modes := list }}
{{- $actions := list .Values.action }}
{{- range $reason, $own := .Values.reasons }}
{{- if hasKey $own "mode" }}{{ $modes = append $modes (printf "%s=%s" $reason (include "epguard.word" $own.mode)) }}{{ end }}
{{- if hasKey $own "action" }}{{ $actions = append $actions (printf "%s=%s" $reason $own.action) }}{{ end }}
{{- end }}
{{- if $modes }}
- --reason-mode={{ join "," $modes }}
{{- end }}
{{- if ne (join "," $actions) "drop" }}
- --action={{ join "," $actions }}
{{- end }}
{{- range $name, $value := .Values.agent }}
{{- $flag := printf "--%s" (kebabcase $name) }}
{{- if and (eq $name "detachOnExit") $value }}
- {{ $flag }}
{{- else if kindIs "slice" $value }}
{{- if $value }}
- {{ $flag }}={{ join "," $value }}
{{- end }}
{{- else if kindIs "float64" $value }}
- {{ $flag }}={{ int64 $value }}
{{- else if not (or (kindIs "invalid" $value) (eq $name "detachOnExit")) }}
- {{ $flag }}={{ include "epguard.word" $value }}
{{- end }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* The annotation of the AppArmor profile before Kubernetes 1.30, which does not know the field. */}}
{{- define "epguard.appArmor" -}}
{{- if and (semverCompare "<1.30-0" .Capabilities.KubeVersion.Version) (not .Values.privileged) }}
{{- $names := dict "Unconfined" "unconfined" "RuntimeDefault" "runtime/default" "Localhost" "localhost/" }}
{{- with .Values.appArmorProfile }}
container.apparmor.security.beta.kubernetes.io/agent: {{ get $names .type }}{{ .localhostProfile }}
{{- end }}
{{- end }}
{{- end }}
