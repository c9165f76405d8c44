//! Lists of headers, each kept once: packets of one sort share one.

use std::collections::HashMap;

use super::shape::HeaderPlace;

/// Lists that a page keeps. Packets beyond are shown without fields.
const MAX_LAYOUTS: usize = 4096;

/// A table of lists; index 0 is the empty one.
#[derive(Debug)]
pub(super) struct Layouts {
    lists: Vec<Vec<HeaderPlace>>,
    index: HashMap<Vec<HeaderPlace>, u16>,
}

impl Layouts {
    /// A table with the empty list.
    pub(super) fn new() -> Self {
        Self { lists: vec![Vec::new()], index: HashMap::new() }
    }

    /// Index of `list`; 0 once the table is full.
    pub(super) fn index_of(&mut self, list: Vec<HeaderPlace>) -> u16 {
        if let Some(index) = self.index.get(&list) {
            return *index;
        }
        if self.lists.len() == MAX_LAYOUTS {
            return 0;
        }
        let index = u16::try_from(self.lists.len()).unwrap_or(0);
        self.lists.push(list.clone());
        self.index.insert(list, index);
        index
    }

    /// The lists: index of each header in the table of headers, and its offset.
    pub(super) fn to_numbers(&self) -> Vec<Vec<[u16; 2]>> {
        let pair = |(id, at): &HeaderPlace| [*id as u16, *at];
        self.lists.iter().map(|list| list.iter().map(pair).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::HeaderId;
    use super::*;

    #[test]
    fn a_list_is_kept_once_and_the_table_has_an_end() {
        let mut layouts = Layouts::new();
        let at = |number: usize| vec![(HeaderId::Bth, u16::try_from(number).expect("small"))];
        assert_eq!([layouts.index_of(at(5)), layouts.index_of(at(5))], [1, 1]);
        let last = (0..MAX_LAYOUTS + 3).map(|number| layouts.index_of(at(number))).last();
        assert_eq!((last, layouts.to_numbers().len()), (Some(0), MAX_LAYOUTS));
        assert_eq!(layouts.to_numbers()[1], [[HeaderId::Bth as u16, 5]]);
    }
}
