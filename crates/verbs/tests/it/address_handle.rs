//! Address handles: what they accept, and what the packets look like.

use uroce_verbs::*;

use crate::common::{Net, QKEY, datagram_pair};

#[test]
fn made_from_an_address_a_gid_or_an_endpoint() {
    let (a, b, from_endpoint) = datagram_pair(&Net::fabric());
    let from_address = a.pd.create_ah(b.context.address()).unwrap();
    let from_gid = a.pd.create_ah(Gid::from_ip(b.context.address())).unwrap();
    assert_eq!(from_address.attr(), from_endpoint.attr());
    assert_eq!(from_gid.attr(), from_endpoint.attr());
    for (id, ah) in [from_address, from_gid].iter().enumerate() {
        b.recv(id as u64, 0..64);
        a.send(SendWr::send(1, &[]).inline(b"x").to(ah, b.qp.qpn(), QKEY));
        assert_eq!(b.done().wr_id, id as u64);
    }
}

#[test]
fn impossible_destinations_are_refused() {
    let pd = Net::fabric().open().alloc_pd().unwrap();
    let v6: Gid = "2001:db8::1".parse().unwrap();
    let error = pd.create_ah(v6).unwrap_err();
    assert!(error.to_string().contains("IP versions"), "{error}");
    assert_eq!(pd.create_ah(Gid::default()).unwrap_err(), AddressHandleError::Unspecified);
    let beyond = AddressHandleAttr { gid_index: 2, ..pd.context().address().into() };
    assert_eq!(pd.create_ah(beyond).unwrap_err(), AddressHandleError::NoSuchGid { index: 2 });
}

#[test]
fn e7_e8_e12_the_header_fields_arrive_in_the_grh_area() {
    let (a, b, plain) = datagram_pair(&Net::fabric());
    let attr = AddressHandleAttr { hop_limit: 7, traffic_class: 0x60, ..plain.attr() };
    let ah = a.pd.create_ah(attr).unwrap();
    b.recv(1, 0..64);
    a.send(SendWr::send(1, &[]).inline(b"x").to(&ah, b.qp.qpn(), QKEY));
    b.done();
    let header = b.bytes(GRH_AREA_LEN - 20, 20); // the IPv4 header is in the last 20 bytes
    assert_eq!((header[0], header[1], header[8], header[9]), (0x45, 0x60, 7, 17));
    assert_eq!(header[12..16], [10, 0, 0, 1]);
    assert_eq!(header[16..20], [10, 0, 0, 2]);
}
