//! Multicast groups.

use std::net::{IpAddr, Ipv4Addr};

use libc::c_int;

use crate::abi::{ibv_gid, ibv_qp};
use crate::arg::not_null;
use crate::errno::Errno;
use crate::qp::{Qp, live_qp};
use crate::return_value::status;

/// ibv_attach_mcast(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_attach_mcast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    _lid: u16,
) -> c_int {
    status(|| {
        // SAFETY: the arguments are those of a call from C.
        let (qp, group) = unsafe { group_of(qp, gid)? };
        let mut groups = qp.groups();
        qp.device().attach_mcast(qp.qpn, group)?;
        groups.insert(group);
        Ok(())
    })
}

/// ibv_detach_mcast(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_detach_mcast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    _lid: u16,
) -> c_int {
    status(|| {
        // SAFETY: the arguments are those of a call from C.
        let (qp, group) = unsafe { group_of(qp, gid)? };
        let mut groups = qp.groups();
        let detached = qp.device().detach_mcast(qp.qpn, group);
        // rdma_leave_multicast may have been before us: then it is not attached, and does not have to be detached.
        groups.remove(&group);
        Ok(detached?)
    })
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn group_of<'a>(qp: *mut ibv_qp, gid: *const ibv_gid) -> Result<(&'a Qp, IpAddr), Errno> {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    let (qp, gid) = unsafe { (live_qp(qp)?, *not_null(gid.cast_mut())?) };
    Ok((qp, address_of(&gid)))
}

/// The IP multicast address of a group. IPv4 groups come in two forms: mapped (`::ffff:224.0.0.1`), and
/// as the kernel's rdma_cm makes them (`ff0e::ffff:224.0.0.1`).
fn address_of(gid: &ibv_gid) -> IpAddr {
    match gid.raw {
        [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => {
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => gid.to_ip(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_an_ipv4_group() {
        for text in ["::ffff:224.1.2.3", "ff0e::ffff:224.1.2.3"] {
            let raw = text.parse::<std::net::Ipv6Addr>().expect("an address").octets();
            let expected: IpAddr = "224.1.2.3".parse().expect("an address");
            assert_eq!(address_of(&ibv_gid { raw, align: [] }), expected);
        }
    }
}
