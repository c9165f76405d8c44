//! Bytes that are copied into a slice piece by piece, in any order.

use uroce_memory::{Access, OutOfRange};

use crate::common::{ALL, Guarded, MARGIN, World};

const LEN: usize = 4096;
/// From a length to the next one; Miri takes its time.
const STEP: usize = if cfg!(miri) { 61 } else { 1 };

/// Bytes that differ from their neighbours, from the guard bytes, and from piece to piece.
fn piece(len: usize, number: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 7 + number) % 160) as u8).collect()
}

#[test]
fn pieces_of_all_lengths_get_to_their_place_and_nowhere_else() {
    let mut world = World::new();
    let guarded = Guarded::new(LEN);
    let mr = world.table.reg_mr(world.pd, guarded.region.clone(), 0, ALL).unwrap();
    let slice = world.table.check(mr.rkey.0, world.by(), Access::REMOTE_WRITE, 0, LEN as u64);
    let slice = slice.unwrap();
    let mut model = vec![0; LEN];
    guarded.region.fill(0, LEN, 0).unwrap();
    for len in (0..300).step_by(STEP).chain([511, 512, 513, 1023, 1024, 1025, LEN]) {
        // At the beginning, at the end, and wherever a line of the cache may begin.
        for offset in [0, 1, 7, 63, 64, 1000, LEN - len].into_iter().filter(|at| at + len <= LEN) {
            let data = piece(len, len + offset);
            slice.copy_in_part(offset, &data).unwrap();
            model[offset..offset + len].copy_from_slice(&data);
            assert_eq!(guarded.bytes(), model, "{len} bytes at {offset}");
        }
    }
    guarded.assert_guards();
}

#[test]
fn the_order_of_pieces_does_not_matter() {
    let mut world = World::new();
    let mr = world.mr(LEN, 0, ALL);
    let slice = world.table.check(mr.rkey.0, world.by(), Access::REMOTE_WRITE, 0, LEN as u64);
    let slice = slice.unwrap();
    for number in [3, 1, 0, 2] {
        slice.copy_in_part(number * 1024, &piece(1024, number)).unwrap();
    }
    let mut seen = vec![0; LEN];
    slice.copy_out(0, &mut seen).unwrap();
    let expected: Vec<u8> = (0..4).flat_map(|number| piece(1024, number)).collect();
    assert_eq!(seen, expected);
}

/// A piece that ends behind the slice, or whose end has no number, changes nothing, although the memory goes on there.
#[test]
fn a_piece_that_is_not_inside_changes_nothing() {
    let mut world = World::new();
    let guarded = Guarded::new(LEN);
    let mr = world.table.reg_mr(world.pd, guarded.region.clone(), 0, ALL).unwrap();
    let slice = world.table.check(mr.rkey.0, world.by(), Access::REMOTE_WRITE, 64, 128).unwrap();
    guarded.region.fill(0, LEN, 5).unwrap();
    for (offset, len) in [(0, 129), (128, 1), (127, 2), (129, 0), (usize::MAX, 1), (MARGIN, 64)] {
        let refused = slice.copy_in_part(offset, &vec![9; len]);
        assert!(matches!(refused, Err(OutOfRange { .. })), "{len} bytes at {offset}");
    }
    assert_eq!(slice.copy_in_part(128, &[]), Ok(()), "nothing, at the end");
    assert_eq!(guarded.bytes(), vec![5; LEN]);
    guarded.assert_guards();
}
