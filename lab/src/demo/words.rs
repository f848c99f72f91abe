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
renamed; Service report was given a cluster IP and a NodePort. Stand-in: nftables rules as
kube-proxy would write them for these objects.";

/// Before the first calls.
pub const BEFORE: &str = "
Clients call Service report. A letter is a call, and says who answered:";

/// Before the calls that B answers.
pub const REUSED: &str = "
Two pods have the same podIP. A is finished, and still a ready endpoint of its Service.
The clients go on calling, B's own clients too. × will be a call that timed out:";

/// Before the calls that are denied.
pub const ENFORCED: &str = "
epguard has watched the API: the pod that Service report means is finished, and its IP is
another pod's. Whatever is aimed at Service report and would now reach that IP is dropped;
whatever is aimed at B passes:";

/// Before the last calls.
pub const OBSERVED_AGAIN: &str = "
epguard only watches again, and A's clients are back at the stranger's:";

/// Before the maps.
pub const FOLDED: &str = "
Entries as bpftool prints them with field names, shortened: octets are written as the IP or
the UID that they are, and names are added to UIDs.";

/// After the last claim.
pub const SUMMARY: &str = "
As long as epguard only observes, every call to the finished pod's Service reaches another
team's pod. When it enforces, none does, and that team's own clients lose nothing.";
