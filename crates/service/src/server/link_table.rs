//! The links between clients: who may have one.

use uroce_wire::Slot;

/// Most links of a client that it has not taken yet: their descriptors are on the way, and the system limits those.
const MAX_UNTAKEN: usize = 1;

/// A link between two clients.
#[derive(Debug)]
pub(super) struct ServedLink {
    pub(super) number: u32,
    pub(super) ends: [Slot; 2],
    /// The two are of different users.
    pub(super) is_foreign: bool,
    /// Which ends send over it.
    pub(super) switched: [bool; 2],
    /// An end has ended it. The two get no other one.
    pub(super) is_broken: bool,
}

/// The links between the clients of an address.
#[derive(Debug)]
pub(super) struct LinkTable {
    pub(super) list: Vec<ServedLink>,
    pub(super) next: u32,
    /// Most of one client.
    most: usize,
}

impl LinkTable {
    pub(super) fn new(most: usize) -> Self {
        Self { list: vec![], next: 1, most }
    }

    fn of(&self, slot: Slot) -> impl Iterator<Item = &ServedLink> {
        self.list.iter().filter(move |link| link.ends.contains(&slot))
    }

    /// How many links a client has.
    pub(super) fn count(&self, slot: Slot) -> u32 {
        self.of(slot).filter(|link| !link.is_broken).count() as u32
    }

    /// Whether these two may have a link.
    pub(super) fn admits(&self, ends: [Slot; 2], is_foreign: bool) -> bool {
        let has = self.of(ends[0]).any(|link| link.ends.contains(&ends[1]));
        ends[0] != ends[1] && !has && ends.iter().all(|end| self.has_place(*end, is_foreign))
    }

    /// Whether the client may have one more. Clients of other users leave half of its places.
    fn has_place(&self, slot: Slot, is_foreign: bool) -> bool {
        let foreign = self.of(slot).filter(|link| link.is_foreign).count();
        let taken = |link: &ServedLink| {
            link.is_broken
                || link.ends.iter().zip(link.switched).any(|(end, yes)| *end == slot && yes)
        };
        let untaken = self.of(slot).filter(|link| !taken(link)).count();
        self.of(slot).count() < self.most
            && untaken < MAX_UNTAKEN
            && (!is_foreign || foreign < self.most.div_ceil(2))
    }

    /// A link of that client, and which end it is.
    pub(super) fn find(&mut self, number: u32, slot: Slot) -> Option<(&mut ServedLink, usize)> {
        let link = self.list.iter_mut().find(|link| link.number == number && !link.is_broken)?;
        let end = link.ends.iter().position(|end| *end == slot)?;
        Some((link, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u8) -> Slot {
        Slot::new(number).expect("a slot")
    }

    /// A link that both ends use.
    fn used(links: &mut LinkTable, one: u8, other: u8, is_foreign: bool) {
        let number = links.next;
        links.next += 1;
        let ends = [slot(one), slot(other)];
        let (switched, is_broken) = ([true; 2], false);
        links.list.push(ServedLink { number, ends, is_foreign, switched, is_broken });
    }

    #[test]
    fn clients_of_other_users_take_half_of_the_links_at_most() {
        let mut links = LinkTable::new(5);
        for other in 2..5 {
            assert!(links.admits([slot(1), slot(other)], true));
            used(&mut links, 1, other, true);
        }
        assert!(!links.admits([slot(1), slot(5)], true) && !links.admits([slot(5), slot(1)], true));
        for other in 5..7 {
            assert!(links.admits([slot(other), slot(1)], false));
            used(&mut links, other, 1, false);
        }
        assert!(!links.admits([slot(1), slot(7)], false), "five");
        assert!(links.admits([slot(8), slot(7)], true));
        assert_eq!((links.count(slot(1)), links.count(slot(2)), links.count(slot(7))), (5, 1, 0));
    }

    #[test]
    fn two_clients_have_one_link_and_get_none_after_it_was_ended() {
        let mut links = LinkTable::new(5);
        used(&mut links, 1, 2, false);
        assert!(
            !links.admits([slot(1), slot(2)], false) && !links.admits([slot(2), slot(1)], false)
        );
        assert!(!links.admits([slot(3), slot(3)], false), "with itself");
        assert!(links.find(1, slot(3)).is_none() && links.find(2, slot(1)).is_none());
        let (link, end) = links.find(1, slot(2)).expect("its own");
        link.is_broken = true;
        assert_eq!(end, 1);
        assert!(links.find(1, slot(2)).is_none() && !links.admits([slot(1), slot(2)], false));
        assert_eq!(links.count(slot(1)), 0);
    }

    /// What it does not read stays on the way, with its descriptors.
    #[test]
    fn a_client_that_takes_no_link_is_offered_one() {
        let mut links = LinkTable::new(5);
        used(&mut links, 1, 2, false);
        links.list[0].switched[1] = false;
        assert!(
            links.admits([slot(1), slot(3)], false) && !links.admits([slot(2), slot(3)], false)
        );
        links.list[0].is_broken = true;
        assert!(links.admits([slot(2), slot(3)], false));
    }

    #[test]
    fn a_service_may_make_no_links_at_all() {
        assert!(!LinkTable::new(0).admits([slot(1), slot(2)], false));
    }
}
