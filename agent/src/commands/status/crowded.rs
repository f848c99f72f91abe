//! Objects of tenants that leave Services without protection.

use super::problem::{Problem, largest};
use crate::shared::output::count;
use crate::shared::status::Status;

/// How many Services are named.
const NAMED: usize = 3;

/// All problems of this kind, one for each cause.
pub fn crowded(status: &Status) -> Vec<Problem> {
    let mut found = Vec::new();
    let left_out: usize = status.left_out.values().sum();
    if left_out > 0 {
        let largest = largest(&status.left_out);
        found.push(Problem::new(
            format!(
                "{left_out} EndpointSlices or Services are too large for the index, so those Services have no denials{largest}"
            ),
            "an EndpointSlice may have 8,192 pairs of address and port, a Service 16,384 of VIP and port, and a \
             namespace half of the index: split them, or have their owner remove them",
        ));
    }
    let partial = &status.partial;
    if partial.count > 0 {
        let objects = count(partial.count, "object");
        let more = match partial.count.saturating_sub(partial.first.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        found.push(Problem::new(
            format!("{objects} cannot be read in whole, so what they may concern passes: {}{more}", partial.first.join(", ")),
            "a pod's annotations may have 32 addresses, a Service 256 addresses and 1,024 ports, and each address of an \
             EndpointSlice must be an IP in its usual form: have their writers correct them",
        ));
    }
    if !status.rivals.is_empty() {
        let mut rivals: Vec<String> = (status.rivals.iter().take(NAMED))
            .map(|(service, rival)| format!("{rival} claims a VIP of {service}"))
            .collect();
        if let more @ 1.. = status.rivals.len().saturating_sub(NAMED) {
            rivals.push(format!("and {more} more"));
        }
        found.push(Problem::new(
            format!("packets to a VIP of two Services pass: {}", rivals.join(", ")),
            "check the externalIPs and load-balancer IPs of both Services",
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::status::Partial;

    #[test]
    fn objects_too_large_or_partial_and_rival_services_are_named() {
        let status = Status {
            left_out: [("flood".into(), 2), ("shop".into(), 1)].into(),
            partial: Partial {
                count: 4,
                first: vec!["Pod shop/a".into(), "EndpointSlice shop/web-1".into()],
            },
            rivals: (1..=4).map(|number| (format!("shop/web-{number}"), "flood/all".to_owned())).collect(),
            ..Status::default()
        };
        let whats: Vec<String> = crowded(&status).into_iter().map(|problem| problem.what).collect();
        assert_eq!(
            whats,
            [
                "3 EndpointSlices or Services are too large for the index, so those Services have no denials (namespace \
                 flood: 2, shop: 1)",
                "4 objects cannot be read in whole, so what they may concern passes: Pod shop/a, EndpointSlice shop/web-1 and 2 \
                 more",
                "packets to a VIP of two Services pass: flood/all claims a VIP of shop/web-1, flood/all claims a VIP of \
                 shop/web-2, flood/all claims a VIP of shop/web-3, and 1 more",
            ]
        );
        assert_eq!(crowded(&Status::default()), []);
    }
}
