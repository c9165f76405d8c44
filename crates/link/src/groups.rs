//! The multicast groups that a datapath has joined.

use std::net::IpAddr;

/// Addresses of joined groups, a short list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Groups {
    joined: Vec<IpAddr>,
}

impl Groups {
    /// Whether the group is joined.
    #[inline]
    #[must_use]
    pub fn contains(&self, group: &IpAddr) -> bool {
        self.joined.contains(group)
    }

    /// Every joined group.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &IpAddr> {
        self.joined.iter()
    }

    /// Notes that the group is joined.
    pub fn insert(&mut self, group: IpAddr) {
        if !self.contains(&group) {
            self.joined.push(group);
        }
    }

    /// Forgets the group; returns whether it was joined.
    pub fn remove(&mut self, group: &IpAddr) -> bool {
        let before = self.joined.len();
        self.joined.retain(|joined| joined != group);
        self.joined.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_joined_twice_is_left_once() {
        let group = IpAddr::from([239, 1, 2, 3]);
        let mut groups = Groups::default();
        groups.insert(group);
        groups.insert(group);
        assert!(groups.contains(&group) && groups.remove(&group));
        assert!(!groups.contains(&group) && !groups.remove(&group));
    }
}
