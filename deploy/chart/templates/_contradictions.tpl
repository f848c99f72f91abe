{{/* Values that the schema accepts one by one, and that do not fit together: a line for each, with the field's name and
the remedy. Nothing is rendered then. */}}
{{- define "epguard.contradictions" -}}
{{- include "epguard.contradictions.characters" . }}
{{- include "epguard.contradictions.addresses" . }}
{{- include "epguard.contradictions.agent" . }}
{{- include "epguard.contradictions.pod" . }}
{{- include "epguard.contradictions.labels" . }}
{{- end }}

{{/* toYaml renders nothing at all for a text that YAML cannot hold. */}}
{{- define "epguard.contradictions.characters" -}}
{{- range $name, $value := .Values }}
{{- $parts := kindIs "map" $value | ternary $value (dict "" $value) }}
{{- range $part, $text := $parts }}
{{- if not (toYaml $text) }}
{{ list $name $part | compact | join "." }}: has a control character; remove it
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "epguard.contradictions.addresses" -}}
{{- $address := include "epguard.metricsAddress" . }}
{{- with .Values.metrics }}
{{- if .address }}
{{- if not (or (eq .address "$(HOST_IP)") (include "epguard.isIP" .address)) }}
metrics.address: {{ .address }} is no IP; leave it empty for the node's own
{{- end }}
{{- end }}
{{- if and (ne .monitor "none") (regexMatch "^(127\\.|::1$)" $address) }}
metrics.address: a {{ .monitor }} cannot reach {{ $address }}; leave it empty, or set metrics.monitor=none
{{- end }}
{{- if eq (int .port) (int $.Values.healthPort) }}
metrics.port: {{ .port }} is healthPort, too; choose another one
{{- end }}
{{- if .scrapeTimeout }}
{{- if gt (include "epguard.milliseconds" .scrapeTimeout | int) (include "epguard.milliseconds" .interval | int) }}
metrics.scrapeTimeout: {{ .scrapeTimeout }} is longer than metrics.interval, {{ .interval }}; shorten it, or leave it empty
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.k8sServiceHost (not .Values.k8sServicePort) }}
k8sServicePort: is not set, but k8sServiceHost is; it is often 6443 or 443
{{- else if and .Values.k8sServicePort (not .Values.k8sServiceHost) }}
k8sServiceHost: is not set, but k8sServicePort is; set both or none
{{- end }}
{{- $host := .Values.k8sServiceHost }}
{{- if and $host (or (contains "/" $host) (and (contains ":" $host) (not (include "epguard.isIP" $host)))) }}
k8sServiceHost: {{ $host }} is no name and no IP; leave out the scheme, the path and the port, which is k8sServicePort
{{- end }}
{{- end }}

{{- define "epguard.contradictions.agent" -}}
{{- range $name := list "protectCidr" "excludeCidr" }}
{{- range get $.Values.agent $name }}
{{- if not (include "epguard.isRange" .) }}
agent.{{ $name }}: {{ . }} is no range of IPs; write it as 10.244.0.0/16 or fd00:10::/32
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.agent }}
{{- if .apiRate }}
{{- /* As `requests_per_second` of the agent: three checks of five watches, of two requests each, and a quarter to spare. */}}
{{- $least := divf 37.5 (.maxViewAge | default 30) | ceil | int }}
{{- if lt (int .apiRate) $least }}
agent.apiRate: {{ .apiRate }} cannot keep the view fresh for agent.maxViewAge, which needs {{ $least }}; raise one of the two
{{- end }}
{{- end }}
{{- end }}
{{- $flags := dict }}
{{- range include "epguard.arguments" . | fromYamlArray }}
{{- $flag := splitList "=" . | first }}
{{- if hasKey $flags $flag }}
extraArgs: {{ $flag }} is given twice; a value of the chart sets it, or remove one of the two
{{- end }}
{{- $_ := set $flags $flag true }}
{{- end }}
{{- end }}

{{- define "epguard.contradictions.pod" -}}
{{- if eq (lower .Values.priorityClassName) "none" }}
priorityClassName: {{ .Values.priorityClassName }} would be the name of a class; leave it empty for none (--set priorityClassName=)
{{- end }}
{{- if not (or .Values.serviceAccount.create .Values.serviceAccount.name) }}
serviceAccount.name: is not set, but serviceAccount.create is false; name the account that exists
{{- end }}
{{- $taken := dict "NODE_NAME" true "HOST_IP" true }}
{{- if .Values.k8sServiceHost }}
{{- $taken = merge $taken (dict "KUBERNETES_SERVICE_HOST" true "KUBERNETES_SERVICE_PORT" true) }}
{{- end }}
{{- range .Values.extraEnv }}
{{- if hasKey $taken .name }}
extraEnv: {{ .name }} is set already; remove it
{{- end }}
{{- $_ := set $taken .name true }}
{{- end }}
{{- $volumes := dict "bpffs" true "cgroup" true "run" true }}
{{- range .Values.extraVolumes }}
{{- if hasKey $volumes .name }}
extraVolumes: {{ .name }} is the name of another volume; choose another one
{{- end }}
{{- $_ := set $volumes .name true }}
{{- end }}
{{- $paths := dict "/sys/fs/bpf" true "/host/cgroup" true "/run/epguard" true }}
{{- range .Values.extraVolumeMounts }}
{{- if not (hasKey $volumes .name) }}
extraVolumeMounts: {{ .name }} is no volume; add it to extraVolumes
{{- end }}
{{- $path := .mountPath | trimSuffix "/" }}
{{- if hasKey $paths $path }}
extraVolumeMounts: {{ .mountPath }} is mounted already; choose another path
{{- end }}
{{- $_ := set $paths $path true }}
{{- end }}
{{- end }}

{{- define "epguard.contradictions.labels" -}}
{{- $own := include "epguard.ownLabels" . | fromYaml }}
{{- $values := dict
  "commonLabels" .Values.commonLabels
  "podLabels" .Values.podLabels
  "metrics.labels" .Values.metrics.labels
  "metrics.dashboardLabels" .Values.metrics.dashboardLabels }}
{{- range $name, $labels := $values }}
{{- range $key, $_ := $labels }}
{{- if hasKey $own $key }}
{{ $name }}: {{ $key }} is a label of the chart's own; remove it
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The functions below return a text that is empty for no. */}}

{{- define "epguard.isRange" -}}
{{- $parts := splitList "/" . }}
{{- if and (eq (len $parts) 2) (regexMatch "^[0-9]{1,3}$" (last $parts)) }}
{{- $most := contains ":" . | ternary 128 32 }}
{{- if le (last $parts | int) $most }}{{ include "epguard.isIP" (first $parts) }}{{ end }}
{{- end }}
{{- end }}

{{- define "epguard.isIP" -}}
{{- $number := "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])" }}
{{- if regexMatch (printf "^(%s\\.){3}%s$" $number $number) . }}true
{{- else if and (regexMatch "^[0-9A-Fa-f:]+$" .) (not (regexMatch ":::|::.*::|^:[^:]|[^:]:$" .)) }}
{{- $groups := compact (splitList ":" .) }}
{{- $isComplete := contains "::" . | ternary (lt (len $groups) 8) (eq (len $groups) 8) }}
{{- if and $isComplete (not (regexMatch "[0-9A-Fa-f]{5}" .)) }}true{{ end }}
{{- end }}
{{- end }}

{{/* A duration of Prometheus. */}}
{{- define "epguard.milliseconds" -}}
{{- $unit := regexFind "[a-z]+$" . }}
{{- mul (trimSuffix $unit . | int) (get (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000) $unit) }}
{{- end }}
