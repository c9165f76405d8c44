//! Each bit of each header belongs to one field, or is reserved: ignored when read, 0 when written.

use uroce_wire::*;

/// First bit of a field (0 is the upper bit of the first byte), its width, and its value.
type Field<H> = (usize, usize, fn(&H) -> u64);

/// Sets each bit of a header alone, and looks at what becomes of it.
fn each_bit_is_of_its_field<H: Header>(fields: &[Field<H>]) {
    for bit in 0..H::LEN * 8 {
        let mut bytes = vec![0; H::LEN];
        bytes[bit / 8] = 0x80 >> (bit % 8);
        let header = H::read(&bytes).expect(H::NAME);
        let mut reserved = true;
        for (at, (start, width, value)) in fields.iter().enumerate() {
            let inside = (*start..start + width).contains(&bit);
            let wanted = if inside { 1 << (start + width - 1 - bit) } else { 0 };
            assert_eq!(value(&header), wanted, "{} bit {bit}, field {at}", H::NAME);
            reserved &= !inside;
        }
        let mut again = vec![0xff; H::LEN];
        header.write(&mut again).expect(H::NAME);
        if reserved {
            bytes.fill(0);
        }
        assert_eq!(again, bytes, "{} bit {bit}", H::NAME);
    }
}

#[test]
fn bth_bits() {
    each_bit_is_of_its_field::<Bth>(&[
        (0, 8, |bth| bth.opcode.0.into()),
        (8, 1, |bth| bth.solicited.into()),
        (9, 1, |bth| bth.migreq.into()),
        (10, 2, |bth| bth.pad.into()),
        (12, 4, |bth| bth.tver.into()),
        (16, 16, |bth| bth.pkey.into()),
        (32, 1, |bth| bth.fecn.into()),
        (33, 1, |bth| bth.becn.into()),
        (34, 6, |bth| bth.reserved6.into()),
        (40, 24, |bth| bth.dest_qpn.get().into()),
        (64, 1, |bth| bth.ack_req.into()),
        (65, 7, |bth| bth.reserved7.into()),
        (72, 24, |bth| bth.psn.get().into()),
    ]);
}

#[test]
fn deth_bits() {
    each_bit_is_of_its_field::<Deth>(&[
        (0, 32, |deth| deth.qkey.into()),
        (40, 24, |deth| deth.src_qpn.get().into()),
    ]);
}

#[test]
fn reth_bits() {
    each_bit_is_of_its_field::<Reth>(&[
        (0, 64, |reth| reth.va),
        (64, 32, |reth| reth.rkey.into()),
        (96, 32, |reth| reth.length.into()),
    ]);
}

#[test]
fn aeth_bits() {
    each_bit_is_of_its_field::<Aeth>(&[
        (0, 8, |aeth| aeth.syndrome.0.into()),
        (8, 24, |aeth| aeth.msn.into()),
    ]);
}

#[test]
fn atomic_eth_bits() {
    each_bit_is_of_its_field::<AtomicEth>(&[
        (0, 64, |atomic| atomic.va),
        (64, 32, |atomic| atomic.rkey.into()),
        (96, 64, |atomic| atomic.swap_add),
        (160, 64, |atomic| atomic.compare),
    ]);
}

#[test]
fn headers_of_one_field_and_reserved_bits() {
    each_bit_is_of_its_field::<AtomicAckEth>(&[(0, 64, |ack| ack.original)]);
    each_bit_is_of_its_field::<ImmDt>(&[(0, 32, |imm| imm.0.into())]);
    each_bit_is_of_its_field::<Ieth>(&[(0, 32, |ieth| ieth.0.into())]);
    each_bit_is_of_its_field::<XrcEth>(&[(8, 24, |xrceth| xrceth.srqn.into())]);
    each_bit_is_of_its_field::<Rdeth>(&[(8, 24, |rdeth| rdeth.ee_context.into())]);
}

#[test]
fn feth_bits() {
    each_bit_is_of_its_field::<Feth>(&[
        (26, 2, |feth| feth.selectivity.into()),
        (28, 4, |feth| feth.placement.into()),
    ]);
}

/// The GRH has a version in front, which is written as 6 and not looked at.
#[test]
fn grh_bits() {
    for bit in 0..40 * 8 {
        let mut bytes = [0; 40];
        bytes[bit / 8] = 0x80 >> (bit % 8);
        let grh = Grh::read(&bytes).expect("40 bytes");
        let one = |start: usize, width: usize| {
            if (start..start + width).contains(&bit) {
                1u128 << (start + width - 1 - bit)
            } else {
                0
            }
        };
        assert_eq!(u128::from(grh.traffic_class), one(4, 8));
        assert_eq!(u128::from(grh.flow_label), one(12, 20));
        assert_eq!(u128::from(grh.payload_len), one(32, 16));
        assert_eq!(u128::from(grh.next_header), one(48, 8));
        assert_eq!(u128::from(grh.hop_limit), one(56, 8));
        assert_eq!(u128::from_be_bytes(*grh.src.bytes()), one(64, 128));
        assert_eq!(u128::from_be_bytes(*grh.dst.bytes()), one(192, 128));
        let mut again = [0xff; 40];
        grh.write(&mut again).expect("40 bytes");
        bytes[0] = bytes[0] & 0x0f | 0x60;
        assert_eq!(again, bytes, "bit {bit}");
    }
}

/// Bytes behind a header are not its business, and bytes in front of it neither.
#[test]
fn a_header_reads_and_writes_its_own_bytes_only() {
    fn check<H: Header + PartialEq + std::fmt::Debug>() {
        let bytes: Vec<u8> = (0..H::LEN + 9).map(|i| (i * 37) as u8).collect();
        let header = H::read(&bytes).expect(H::NAME);
        assert_eq!(H::read(&bytes[..H::LEN]), Some(header), "{}", H::NAME);
        let mut out = vec![0xa5; H::LEN + 9];
        header.write(&mut out).expect(H::NAME);
        assert_eq!(out[H::LEN..], [0xa5; 9], "{}", H::NAME);
        for length in 0..H::LEN {
            let mut short = vec![0xa5; length];
            assert_eq!(H::read(&bytes[..length]), None, "{} of {length} bytes", H::NAME);
            assert_eq!(header.write(&mut short), None, "{} to {length} bytes", H::NAME);
            assert_eq!(short, vec![0xa5; length]);
        }
    }
    check::<Bth>();
    check::<Deth>();
    check::<Reth>();
    check::<Aeth>();
    check::<AtomicEth>();
    check::<AtomicAckEth>();
    check::<ImmDt>();
    check::<Ieth>();
    check::<Feth>();
    check::<XrcEth>();
    check::<Rdeth>();
    check::<Grh>();
}
