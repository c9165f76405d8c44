//! Address handles.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use libc::c_int;
use uroce_device::limits::GID_TABLE_LEN;
use uroce_device::memory::PdId;
use uroce_device::transport::AddressVector;
use uroce_device::wire::Gid;

use crate::abi::{
    IBV_WC_GRH, ibv_ah, ibv_ah_attr, ibv_context, ibv_gid, ibv_global_route, ibv_grh, ibv_pd,
    ibv_wc,
};
use crate::arg::{check_port, not_null};
use crate::context::{Ctx, ctx_of};
use crate::errno::{Errno, INVALID, made};
use crate::object::{Object, zeroed};
use crate::open_device::OpenDevice;
use crate::pd::pd_of;
use crate::qp::Qp;
use crate::return_value::{minus_one, pointer, status};
use crate::use_count::Use;
use crate::{input, object_of};

/// What we keep about an address handle.
#[derive(Debug)]
pub struct Ah {
    path: AddressVector,
    open_device: Arc<OpenDevice>,
    pd: PdId,
    /// The protection domain cannot be freed before the handle.
    _use: Use,
}

/// The path of an address handle, for a request of a queue pair: both must be of one protection domain.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn path_of<'a>(ah: *const ibv_ah, qp: &Qp) -> Result<&'a AddressVector, Errno> {
    // SAFETY: the caller's promise.
    let inner = unsafe { Object::<ibv_ah, Ah>::of(ah) }.ok_or(INVALID)?;
    let is_in_its_domain = Some(inner.pd) == qp.pd && qp.is_on(&inner.open_device);
    if is_in_its_domain { Ok(&inner.path) } else { Err(INVALID) }
}

/// The path that an `ibv_ah_attr` describes. RoCE needs the global part.
pub fn path_from(ctx: &Ctx, attr: &ibv_ah_attr) -> Result<AddressVector, Errno> {
    check_port(attr.port_num)?;
    if attr.is_global == 0 || u32::from(attr.grh.sgid_index) >= GID_TABLE_LEN {
        return Err(INVALID);
    }
    let remote = attr.grh.dgid.to_ip();
    if remote.is_unspecified() || remote.is_ipv4() != ctx.interface.address.is_ipv4() {
        return Err(INVALID);
    }
    Ok(AddressVector {
        local: ctx.interface.address,
        remote,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        flow_label: attr.grh.flow_label & 0xf_ffff,
        service_level: attr.sl,
        sgid_index: attr.grh.sgid_index,
    })
}

/// The `ibv_ah_attr` of a path.
pub fn attr_of(path: &AddressVector) -> ibv_ah_attr {
    // SAFETY: integers.
    let mut attr: ibv_ah_attr = unsafe { zeroed() };
    attr.grh = ibv_global_route {
        dgid: ibv_gid::from_gid(Gid::from_ip(path.remote)),
        flow_label: path.flow_label,
        sgid_index: path.sgid_index,
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
    };
    attr.sl = path.service_level;
    attr.is_global = 1;
    attr.port_num = 1;
    attr
}

/// ibv_create_ah(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    pointer(|| {
        let (owner, attr) = (object_of!(pd_of(pd))?, input!(attr)?);
        let path = path_from(&owner.ctx, attr)?;
        // SAFETY: a domain that was found, whose context does not change.
        let context = unsafe { (*pd).context };
        let open_device = Arc::clone(&owner.open_device);
        let ah = Ah { path, open_device, pd: owner.id, _use: owner.dependents.hold() };
        Ok(Object::create(ibv_ah { context, pd, handle: 0 }, ah))
    })
}

/// ibv_create_ah_from_wc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    pointer(|| {
        // SAFETY: the arguments are those of a call from C.
        let mut attr = unsafe { answer_to(wc, grh, port)? };
        // SAFETY: the domain is that of the program, and the attributes are a local variable.
        made(unsafe { ibv_create_ah(pd, &raw mut attr) })
    })
}

/// ibv_init_ah_from_wc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    attr: *mut ibv_ah_attr,
) -> c_int {
    minus_one(|| {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        unsafe {
            ctx_of(context)?;
            *not_null(attr)? = answer_to(wc, grh, port)?;
        }
        Ok(())
    })
}

/// Where to answer a datagram: to the sender in the 40 bytes before it.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn answer_to(
    wc: *const ibv_wc,
    grh: *const ibv_grh,
    port: u8,
) -> Result<ibv_ah_attr, Errno> {
    check_port(port)?;
    // SAFETY: not null, and a completion that the program has polled.
    if wc.is_null() || grh.is_null() || unsafe { (*wc).wc_flags } & IBV_WC_GRH == 0 {
        return Err(INVALID);
    }
    // SAFETY: not null; the header is 40 bytes of a receive buffer, of any alignment.
    let (wc, header) = unsafe { (&*wc, grh.cast::<[u8; 40]>().read_unaligned()) };
    // The completion's service level is none on RoCE: it says how the packet came.
    let mut attr = attr_of(&sender(&header));
    attr.dlid = wc.slid;
    attr.src_path_bits = wc.dlid_path_bits;
    Ok(attr)
}

/// The sender of the datagram behind this header: IPv4 in the last 20 bytes, or IPv6.
fn sender(header: &[u8; 40]) -> AddressVector {
    let is_ipv4 = header[20] == 0x45 && checksum(&header[20..40]) == 0xffff;
    let (remote, traffic_class, flow_label) = if is_ipv4 {
        let [a, b, c, d] = [header[32], header[33], header[34], header[35]];
        (IpAddr::V4(Ipv4Addr::new(a, b, c, d)), header[21], 0)
    } else {
        let mut gid = [0; 16];
        gid.copy_from_slice(&header[8..24]);
        let word = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        (Gid::new(gid).to_ip(), (word >> 20) as u8, word & 0xf_ffff)
    };
    let local = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let path = AddressVector::new(local, remote);
    AddressVector { traffic_class, flow_label, hop_limit: 0xff, ..path }
}

/// The sum of RFC 1071; all ones over a header that is whole.
fn checksum(header: &[u8]) -> u16 {
    let words =
        header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// ibv_destroy_ah(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    status(|| {
        if Object::<ibv_ah, Ah>::is_inherited(ah) {
            return Ok(());
        }
        // SAFETY: the manual pages ask that the handle is not used any more.
        unsafe {
            Object::<ibv_ah, Ah>::live(ah)?;
            Object::<ibv_ah, Ah>::destroy(ah);
        }
        Ok(())
    })
}
