{{/* The name of the release's objects. */}}
{{- define "epguard.fullname" -}}
{{- $base := .Values.nameOverride | default .Chart.Name }}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name $base) (contains $base .Release.Name) }}
{{- .Values.fullnameOverride | default $name | trunc 53 | trimSuffix "-" }}
{{- end }}

{{- define "epguard.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- define "epguard.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "epguard.fullname" .) }}
{{- end }}

{{/* The labels that select the agents' pods of this release. `kubectl epguard` finds the agents of all releases in a
namespace by the first one. */}}
{{- define "epguard.selector" -}}
app.kubernetes.io/name: epguard
app.kubernetes.io/instance: {{ toYaml .Release.Name }}
app.kubernetes.io/component: agent
{{- end }}

{{/* The chart's own labels of every object. */}}
{{- define "epguard.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimAll "-_." }}
{{ include "epguard.selector" . }}
app.kubernetes.io/version: {{ include "epguard.version" . | toYaml }}
app.kubernetes.io/part-of: epguard
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "epguard.version" -}}
{{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | trimAll "-_." }}
{{- end }}

{{/* The labels of the agents' pods. A new version of the chart alone does not restart them. */}}
{{- define "epguard.podLabels" -}}
{{- $own := omit (include "epguard.ownLabels" . | fromYaml) "helm.sh/chart" "app.kubernetes.io/managed-by" }}
{{- toYaml (merge $own .Values.podLabels .Values.commonLabels) }}
{{- end }}

{{/* The metadata of an object: `top` is the chart's context, `name` the object's name. `namespaced` is false if it has no
namespace. There may be further `labels` and `annotations`. */}}
{{- define "epguard.metadata" -}}
name: {{ toYaml .name }}
{{- if ne .namespaced false }}
namespace: {{ include "epguard.namespace" .top | toYaml }}
{{- end }}
labels:
  {{- toYaml (merge (include "epguard.ownLabels" .top | fromYaml) (.labels | default dict) .top.Values.commonLabels) | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .top.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A reference begins with a registry if its first part has a dot or a port, or is localhost. */}}
{{- define "epguard.image" -}}
{{- $repository := .Values.image.repository }}
{{- with (.Values.global | default dict).imageRegistry }}
{{- $parts := splitList "/" $repository }}
{{- if and (gt (len $parts) 1) (regexMatch "[.:]|^localhost$" (first $parts)) }}
{{- $parts = rest $parts }}
{{- end }}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (join "/" $parts) }}
{{- end }}
{{- with .Values.image }}
{{- $repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "epguard.imagePullSecrets" -}}
{{- $secrets := .Values.imagePullSecrets }}
{{- range (.Values.global | default dict).imagePullSecrets }}
{{- $secret := kindIs "string" . | ternary (dict "name" .) . }}
{{- if not (has $secret $secrets) }}{{ $secrets = append $secrets $secret }}{{ end }}
{{- end }}
{{- with $secrets }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* The user's affinity, with the chart's own rules in each of its terms: one term is enough for a node to be chosen. */}}
{{- define "epguard.affinity" -}}
{{- $rules := list
  (dict "key" "kubernetes.io/arch" "operator" "In" "values" .Values.architectures)
  (dict "key" "type" "operator" "NotIn" "values" (list "virtual-kubelet"))
  (dict "key" "eks.amazonaws.com/compute-type" "operator" "NotIn" "values" (list "fargate")) }}
{{- $affinity := deepCopy (.Values.affinity | default dict) }}
{{- $node := get $affinity "nodeAffinity" | default dict }}
{{- $required := get $node "requiredDuringSchedulingIgnoredDuringExecution" | default dict }}
{{- $terms := list }}
{{- range get $required "nodeSelectorTerms" | default (list dict) }}
{{- $terms = append $terms (set . "matchExpressions" (concat (get . "matchExpressions" | default list) $rules)) }}
{{- end }}
{{- $required = dict "nodeSelectorTerms" $terms }}
{{- toYaml (set $affinity "nodeAffinity" (set $node "requiredDuringSchedulingIgnoredDuringExecution" $required)) }}
{{- end }}

{{/* The annotation of the AppArmor profile before Kubernetes 1.30, which does not know the field. */}}
{{- define "epguard.appArmor" -}}
{{- if and (semverCompare "<1.30-0" .Capabilities.KubeVersion.Version) (not .Values.privileged) }}
{{- with .Values.appArmorProfile }}
container.apparmor.security.beta.kubernetes.io/agent: {{ include "epguard.profile" . }}
{{- end }}
{{- end }}
{{- end }}

{{/* A profile in the words of annotations. */}}
{{- define "epguard.profile" -}}
{{- $names := dict "Unconfined" "unconfined" "RuntimeDefault" "runtime/default" "Localhost" "localhost/" }}
{{- get $names .type }}{{ .localhostProfile }}
{{- end }}

{{- define "epguard.hasScc" -}}
{{- if and .Values.scc.create (.Capabilities.APIVersions.Has "security.openshift.io/v1") }}true{{ end }}
{{- end }}
