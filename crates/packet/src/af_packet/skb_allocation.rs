//! How the kernel is asked to allocate the skb of a super-packet: in one block, or in pages.

/// Bytes of payload from which on a super-packet is requested in one block. The kernel rounds a
/// block up to the next power of two, here 64 KiB.
const ONE_BLOCK: usize = 48 << 10;

/// Super-packets that are allocated in pages after an allocation in one block has failed.
const PAGES_AFTER_REFUSAL: u32 = 1024;

/// In one block, or in pages.
///
/// A block of more than 32 KiB comes from what all processors share, and the one that was freed last
/// comes first: the same few are used over and over, and stay in the caches. Pages come from a list
/// of the processor that sends and end on one of the processor that receives, which may hold a
/// gigabyte of them, the oldest taken first. But a block of that size may not be there when memory is fragmented.
#[derive(Debug, Default)]
pub(super) struct SkbAllocation {
    /// Super-packets that are still to be allocated in pages.
    pages: u32,
}

impl SkbAllocation {
    /// How many bytes of the payload of the next super-packet are to be in one block with its headers.
    #[inline]
    pub(super) fn of_next(&mut self, payload: usize) -> usize {
        if payload < ONE_BLOCK {
            return 0;
        }
        if self.pages > 0 {
            self.pages -= 1;
            return 0;
        }
        payload
    }

    /// Handles a failed allocation for a super-packet of that payload. True if pages are worth a
    /// try.
    pub(super) fn handle_no_room(&mut self, payload: usize) -> bool {
        let was_block = payload >= ONE_BLOCK && self.pages == 0;
        if was_block {
            self.pages = PAGES_AFTER_REFUSAL;
        }
        was_block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ones_are_asked_for_in_one_block() {
        let mut skb_allocation = SkbAllocation::default();
        assert_eq!(skb_allocation.of_next(62 * 1040), 62 * 1040);
        assert_eq!(skb_allocation.of_next(2 * 1040), 0);
        assert_eq!(skb_allocation.of_next(ONE_BLOCK), ONE_BLOCK);
    }

    #[test]
    fn without_room_for_a_block_pages_are_tried_once_and_blocks_later_again() {
        let mut skb_allocation = SkbAllocation::default();
        assert!(!skb_allocation.handle_no_room(2 * 1040), "it was in pages");
        assert!(skb_allocation.handle_no_room(ONE_BLOCK));
        assert!(!skb_allocation.handle_no_room(ONE_BLOCK), "there is no room for pages either");
        for _ in 0..PAGES_AFTER_REFUSAL {
            assert_eq!(skb_allocation.of_next(ONE_BLOCK), 0);
        }
        assert_eq!(skb_allocation.of_next(ONE_BLOCK), ONE_BLOCK);
    }
}
