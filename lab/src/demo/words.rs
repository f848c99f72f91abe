//! What the story says between its counts.

/// The bug, to somebody who knows Kubernetes.
pub const INTRODUCTION: &str = "
Two teams share a Kubernetes cluster. In namespace domain-a a Job's pod (call it A) is behind Service report,
which has publishNotReadyAddresses. In namespace domain-b a pod (call it B) is behind Service shop.
When the Job is done, A's IP is free and goes to the next pod, which is B. But Kubernetes keeps A's IP in
Service report for as long as the finished pod's object exists: A's clients get B. (kubernetes #109414)
";

/// What of it is real.
pub const REAL: &str = "\
Real: kernel, network namespaces, sockets, eBPF programs, the epguard agent, the API's protocol.
Recorded: the API objects, on Kubernetes 1.36 (lab/traces/d-job-ip-reuse), renamed; Service report got a cluster
IP and a NodePort. Stand-in: the nftables rules that kube-proxy would write for these objects.";

/// Before the first calls.
pub const BEFORE: &str = "
Clients call Service report. A letter is a call, and says who answered:";

/// Before the calls that B answers.
pub const REUSED: &str = "
Both pods have the same podIP; A is finished, and still a ready endpoint. The clients keep calling:";

/// Before the last calls.
pub const OBSERVED_AGAIN: &str = "
The bug is back, as epguard only watches:";
