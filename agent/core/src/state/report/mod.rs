//! What the state has, for status, `why`, history and metrics: functions over the state, which
//! decide nothing.

mod pod_counts;
mod unproven;
mod view;

pub use pod_counts::{IpState, PodCounts, PodState, denied_orphan_ips, pod_counts};
pub use unproven::{
    PossibleHolder, UnprovenDeaths, left_out, possible_holders, possibly_held, read_in_part,
    rivals, unproven_deaths,
};
pub use view::{
    DenialView, EndpointView, PodView, ServiceView, TargetView, View, is_quiet, view_for_history,
    view_ip,
};
