//! The IPs that a pod showed, and when it was first seen to have each.

use crate::state::index::Moment;
use epguard_common::Addr;
use smallvec::SmallVec;

/// When a pod was first seen to have an IP.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// In its podIPs, since then; not just in an annotation.
    pub published: bool,
    /// Orders claims within one continuous watch.
    pub order: u64,
    /// Receipt time.
    pub since: Moment,
}

/// Claims by IP, in one sorted array: nearly all pods have one.
#[derive(Debug, Clone, Default)]
pub struct Claims(SmallVec<[(Addr, Claim); 1]>);

impl Claims {
    /// True if the pod never showed an IP.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The claim to an IP.
    #[must_use]
    pub fn get(&self, ip: &Addr) -> Option<&Claim> {
        let at = self.0.binary_search_by_key(ip, |(ip, _)| *ip).ok()?;
        Some(&self.0[at].1)
    }

    /// All claims.
    pub fn iter(&self) -> impl Iterator<Item = (&Addr, &Claim)> {
        self.0.iter().map(|(ip, claim)| (ip, claim))
    }

    /// Adds a claim to an IP that has none.
    pub(in crate::state) fn first(&mut self, ip: Addr, claim: Claim) {
        if let Err(at) = self.0.binary_search_by_key(&ip, |(ip, _)| *ip) {
            self.0.insert(at, (ip, claim));
        }
    }

    /// Adds claims to different IPs. A known claim stays, unless only the new one is published, or the pod did not show the IP in
    /// between.
    pub(in crate::state) fn add(
        &mut self,
        claims: impl IntoIterator<Item = (Addr, Claim)>,
        was_shown: impl Fn(Addr, &Claim) -> bool,
    ) {
        let known = self.0.len();
        for (ip, claim) in claims {
            match self.0[..known].binary_search_by_key(&ip, |(ip, _)| *ip) {
                Ok(at) if claim.published && !self.0[at].1.published || !was_shown(ip, &claim) => {
                    self.0[at].1 = claim;
                }
                Ok(_) => {}
                Err(_) => self.0.push((ip, claim)),
            }
        }
        if self.0.len() > known {
            self.0.sort_unstable_by_key(|(ip, _)| *ip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn claim(order: u64, published: bool) -> Claim {
        Claim { published, order, since: Duration::from_secs(order).into() }
    }

    #[test]
    fn the_first_claim_to_an_ip_stays_until_one_is_published_or_it_comes_again() {
        let [a, b] = [1, 2].map(|last| Addr::v4([10, 0, 0, last]));
        let mut claims = Claims::default();
        let shown = |_, _: &Claim| true;
        claims.add([(b, claim(1, false)), (a, claim(1, true))], shown);
        claims.add([(a, claim(2, true)), (b, claim(2, false))], shown);
        let order = |claims: &Claims| claims.iter().map(|(ip, claim)| (*ip, claim.order)).collect::<Vec<_>>();
        assert_eq!(order(&claims), [(a, 1), (b, 1)]);
        claims.add([(b, claim(3, true))], shown);
        assert_eq!(order(&claims), [(a, 1), (b, 3)]);
        assert_eq!(claims.get(&b).map(|claim| claim.published), Some(true));
        assert!(claims.get(&Addr::v4([10, 0, 0, 3])).is_none());
        claims.add([(a, claim(4, true)), (b, claim(4, true))], |ip, _| ip == b);
        assert_eq!(order(&claims), [(a, 4), (b, 3)], "a was not shown in between");
    }
}
