//! The addresses of a node's pods: each in turn, so that none is used again soon.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::SpecPlace;

/// The addresses that are taken.
#[derive(Debug)]
pub struct Addresses {
    taken: BTreeSet<u32>,
    next: u32,
    count: u32,
}

impl Addresses {
    /// None is taken.
    pub fn new(place: &SpecPlace) -> Addresses {
        Addresses { taken: BTreeSet::new(), next: 0, count: place.pod_addresses() }
    }

    /// Takes the one that a pod had before, if it is still free, else the next. If all are taken, two pods share one.
    pub fn take(&mut self, before: Option<&str>, place: &SpecPlace) -> u32 {
        let before = before.and_then(|text| text.parse::<IpAddr>().ok()).and_then(|ip| place.pod_index(ip));
        let index = before.filter(|index| !self.taken.contains(index)).unwrap_or_else(|| {
            let mut free = (self.next..self.count).chain(0..self.next).filter(|index| !self.taken.contains(index));
            free.next().unwrap_or(self.next)
        });
        self.next = (index + 1) % self.count;
        self.taken.insert(index);
        index
    }

    /// Notes that an address is free again.
    pub fn free(&mut self, index: u32) {
        self.taken.remove(&index);
    }
}

#[cfg(test)]
mod tests {
    use super::Addresses;
    use crate::kubelet::nodes::{NodeSpec, SpecPlace};

    #[test]
    fn each_in_turn_and_the_one_before_where_it_is_free() {
        let place = SpecPlace::new(0, &NodeSpec::several(1));
        let mut addresses = Addresses::new(&place);
        let taken: Vec<u32> = (0..3).map(|_| addresses.take(None, &place)).collect();
        assert_eq!(taken, [0, 1, 2]);
        addresses.free(1);
        assert_eq!(addresses.take(None, &place), 3);
        assert_eq!(addresses.take(Some("10.244.0.3"), &place), 1);
        assert_eq!(addresses.take(Some("10.244.0.3"), &place), 4, "after the one that was given back");
        for _ in 0..300 {
            addresses.take(Some("10.1.1.1"), &place);
        }
    }
}
