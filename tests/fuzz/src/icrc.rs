//! The ICRC, and the search for an IPv4 identification that nobody saw.

use std::net::IpAddr;

use uroce_wire::{Flow, FlowIcrc, IcrcVerdict, icrc, icrc_bitwise, recover};

use crate::input::Input;

/// All ways to compute an ICRC agree with the one that goes bit by bit; an identification is found if there is one.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut of_flow = FlowIcrc::default();
    for _ in 0..8 {
        if input.is_empty() {
            break;
        }
        let flow = flow(&mut input);
        let (id, guess) = (input.u16(), input.u16());
        let change = u32::from(input.u8()) << input.below(32);
        let covered = input.piece();
        let expected = icrc_bitwise(&flow, id, covered);
        assert_eq!(icrc(&flow, id, covered), expected);
        assert_eq!(of_flow.icrc(&flow, id, covered), expected);
        let found = expected ^ change;
        let packet = [covered, &found.to_le_bytes()].concat();
        assert_eq!(of_flow.verify(&flow, id, &packet), change == 0);
        let verdict = of_flow.recover(&flow, &[guess], &packet);
        assert_eq!(verdict, recover(&flow, &[guess], &packet));
        assert_right(verdict, (&flow, covered), (guess, found));
        assert!(change != 0 || verdict != IcrcVerdict::Bad);
        // Slow: 65,536 CRCs.
        if input.below(64) == 63 {
            assert_eq!(verdict, by_trial(&flow, guess, covered, found));
        }
    }
}

/// An identification that is named makes the ICRC right.
fn assert_right(verdict: IcrcVerdict, (flow, covered): (&Flow, &[u8]), (guess, found): (u16, u32)) {
    match verdict {
        IcrcVerdict::Valid => assert_eq!(icrc(flow, 0, covered), found),
        IcrcVerdict::Predicted(id) => assert_eq!((id, icrc(flow, id, covered)), (guess, found)),
        IcrcVerdict::Solved(id) => assert!(id != guess && icrc(flow, id, covered) == found),
        IcrcVerdict::Bad => assert_ne!(icrc(flow, guess, covered), found),
    }
}

fn flow(input: &mut Input<'_>) -> Flow {
    let is_v4 = input.bool();
    let mut address = || -> IpAddr {
        let bytes = input.u32().to_be_bytes();
        if is_v4 {
            bytes.into()
        } else {
            let [a, b, c, d] = bytes.map(u16::from);
            [0xfd00, a, b, 0, 0, 0, c, d].into()
        }
    };
    let (src, dst) = (address(), address());
    Flow { src, dst, src_port: input.u16(), dst_port: 4791 }
}

/// The slow twin of [`recover`]: each identification in turn.
fn by_trial(flow: &Flow, guess: u16, covered: &[u8], found: u32) -> IcrcVerdict {
    if !flow.is_ipv4() {
        let is_right = icrc(flow, 0, covered) == found;
        return if is_right { IcrcVerdict::Valid } else { IcrcVerdict::Bad };
    }
    let ids = std::iter::once(guess).chain(0..=u16::MAX);
    match ids.into_iter().find(|id| icrc(flow, *id, covered) == found) {
        Some(id) if id == guess => IcrcVerdict::Predicted(id),
        Some(id) => IcrcVerdict::Solved(id),
        None => IcrcVerdict::Bad,
    }
}
