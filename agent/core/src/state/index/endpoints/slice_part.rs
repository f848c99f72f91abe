//! The endpoints of a slice that a change adds or takes away. A slice of 100 endpoints changes with
//! each of its pods.

use super::Endpoint;
use crate::facts::{ObjectName, Slice, SliceEndpoint, SlicePort};
use std::collections::HashMap;

/// Endpoints of a slice.
#[derive(Debug)]
pub struct SlicePart<'a> {
    pub slice: &'a Slice,
    pub service: &'a ObjectName,
    pub endpoints: Vec<&'a SliceEndpoint>,
}

impl<'a> SlicePart<'a> {
    /// All endpoints; none if the slice has no Service.
    pub fn whole(slice: &'a Slice) -> Option<Self> {
        Some(Self {
            slice,
            service: slice.service.as_ref()?,
            endpoints: slice.endpoints.iter().collect(),
        })
    }

    /// The endpoints that another version of the slice does not have.
    pub fn missing_in(slice: &'a Slice, other: Option<&Slice>) -> Option<Self> {
        let whole = Self::whole(slice)?;
        let same = other.filter(|other| {
            (&other.service, &other.ports, other.foreign)
                == (&slice.service, &slice.ports, slice.foreign)
        });
        Some(match same {
            Some(other) => Self {
                endpoints: missing(&slice.endpoints, &other.endpoints),
                ..whole
            },
            None => whole,
        })
    }

    /// Every endpoint with every port.
    pub fn named(&self) -> impl Iterator<Item = (Endpoint, &'a SliceEndpoint, &'a SlicePort)> {
        self.endpoints.iter().flat_map(|shown| {
            self.slice.ports.iter().map(move |port| {
                let endpoint = Endpoint {
                    ip: shown.ip,
                    port: port.port,
                    protocol: port.protocol,
                };
                (endpoint, *shown, port)
            })
        })
    }
}

/// The elements that the others don't have, each as often as it is missing there.
fn missing<'a>(elements: &'a [SliceEndpoint], others: &[SliceEndpoint]) -> Vec<&'a SliceEndpoint> {
    let same = |(a, b): &(&SliceEndpoint, &SliceEndpoint)| a == b;
    let first = elements.iter().zip(others).take_while(same).count();
    let (elements, others) = (&elements[first..], &others[first..]);
    let last = elements
        .iter()
        .rev()
        .zip(others.iter().rev())
        .take_while(same)
        .count();
    let (elements, others) = (
        &elements[..elements.len() - last],
        &others[..others.len() - last],
    );
    let mut counts: HashMap<&SliceEndpoint, usize> = HashMap::new();
    for other in others {
        *counts.entry(other).or_default() += 1;
    }
    let is_missing = |element: &&SliceEndpoint| match counts.get_mut(*element) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    elements.iter().filter(is_missing).collect()
}
