//! What the story says between its counts.

/// The bug, to somebody who knows Kubernetes.
pub const INTRODUCTION: &str = "
Two teams share a Kubernetes cluster. In namespace domain-a a Job's pod (call it A) is
behind Service report, which has publishNotReadyAddresses. In namespace domain-b a pod
(call it B) is behind Service shop.
When the Job is done, A's IP is free, and the next pod gets it: B. But Kubernetes keeps
that IP as A's in Service report for as long as the finished pod's object exists, so that
A's clients are answered by B. (kubernetes #109414)
";

/// What of it is real.
pub const REAL: &str = "
Real: kernel, network namespaces, sockets, eBPF programs, the epguard agent, the protocol
of the API. Recorded: the API's objects, on Kubernetes 1.36 (lab/traces/d-job-ip-reuse),
renamed; Service report was given a cluster IP and a NodePort, and in act 5 a second pod.
Stand-in: nftables rules as kube-proxy would write them for these objects.";

/// Before the first calls.
pub const BEFORE: &str = "
Clients call Service report. A letter is a call, and says who answered:";

/// Before the calls that B answers.
pub const REUSED: &str = "
Two pods have the same podIP. A is finished, and still a ready endpoint of its Service.
The clients go on calling, B's own clients too:";

/// Before the calls that are dropped.
pub const DROPPED: &str = "
epguard has watched the API: the pod that Service report means is finished, and its IP is
another pod's. Whatever is aimed at Service report and would now reach that IP is dropped;
whatever is aimed at B passes. × is a call that timed out, after the client's own 0.8 s:";

/// Before the calls that are rejected.
pub const REJECTED: &str = "
The same packets are answered with a TCP RST, in B's place. ⊘ is a call that was refused
(ECONNREFUSED), so that its client need not wait:";

/// Before the calls that are redirected.
pub const REDIRECTED: &str = "
Team A has run its Job again. The EndpointSlice lists the new pod, but this node's
kube-proxy is behind and still sends every call to the old IP. The owner of the Service
asks epguard to lead them to an endpoint that lives. (Calls through NodePorts, which are
masqueraded, would be refused.)";

/// Before the last calls.
pub const OBSERVED_AGAIN: &str = "
epguard only watches again. Until kube-proxy catches up, A's clients are the stranger's:";

/// Before the maps.
pub const FOLDED: &str = "
Entries as bpftool prints them with field names, shortened: octets are written as the IP or
the UID that they are, and names are added to UIDs.";

/// After the last claim.
pub const SUMMARY: &str = "
As long as epguard only observes, calls to the finished pod's Service reach another team's
pod. When it enforces, none does: they time out (drop), fail at once (reject), or are
answered by the Service's next pod (redirect). The other team's clients lose nothing.";
