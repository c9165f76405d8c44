//! `rdma_getaddrinfo`: names and ports to addresses.

use super::abi::rdma_addrinfo;
use super::sockaddr;
use crate::errno::{Errno, INVALID};
use crate::object::{Object, zeroed};
use crate::outcome::{minus_one, value};
use crate::query::not_null;
use libc::{c_char, c_int, sockaddr_storage};
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use uroce_device::cm::PortSpace;

const PASSIVE: c_int = 1;
/// `IBV_QPT_RC` and `IBV_QPT_UD`.
const RC: c_int = 2;
const UD: c_int = 4;

/// The addresses that an answer points to.
struct Addresses {
    source: sockaddr_storage,
    peer: sockaddr_storage,
}

type Whole = Object<rdma_addrinfo, Addresses>;

/// rdma_getaddrinfo(3). One answer: the first address.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    out: *mut *mut rdma_addrinfo,
) -> c_int {
    minus_one(|| {
        // SAFETY: by the contract.
        let (out, hints) = unsafe { (not_null(out)?, hints.as_ref()) };
        // SAFETY: by the contract.
        let (node, service) = unsafe { (text(node)?, text(service)?) };
        let passive = hints.is_some_and(|hints| hints.ai_flags & PASSIVE != 0);
        let family = hints.map_or(0, |hints| hints.ai_family);
        let found = look_up(node, service, family, passive)?;
        let source = match hints {
            Some(hints) if !passive && !hints.ai_src_addr.is_null() => {
                // SAFETY: by the contract.
                Some(unsafe { sockaddr::read(hints.ai_src_addr)? })
            }
            _ => None,
        };
        let (source, peer) = if passive { (Some(found), None) } else { (source, Some(found)) };
        // SAFETY: by the contract.
        unsafe { *out = answer(hints, source, peer) };
        Ok(())
    })
}

/// # Safety
/// Null, or a string that ends with 0.
unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>, Errno> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().map(Some).map_err(|_| INVALID)
}

fn look_up(
    node: Option<&str>,
    service: Option<&str>,
    family: c_int,
    passive: bool,
) -> Result<SocketAddr, Errno> {
    let port = service.map_or(Ok(0), str::parse::<u16>).map_err(|_| INVALID)?;
    let Some(node) = node else {
        let any = if passive { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
        return Ok(SocketAddr::new(IpAddr::V4(any), port));
    };
    let fits = |address: &SocketAddr| match family {
        libc::AF_INET => address.is_ipv4(),
        libc::AF_INET6 => address.is_ipv6(),
        _ => true,
    };
    let mut found = (node, port).to_socket_addrs()?;
    found.find(fits).ok_or(Errno(libc::ENOENT))
}

fn answer(
    hints: Option<&rdma_addrinfo>,
    source: Option<SocketAddr>,
    peer: Option<SocketAddr>,
) -> *mut rdma_addrinfo {
    // SAFETY: integers and null pointers.
    let mut c: rdma_addrinfo = unsafe { zeroed() };
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    let some = peer.or(source).unwrap_or(any);
    c.ai_family = if some.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    (c.ai_flags, c.ai_port_space, c.ai_qp_type) =
        hints.map_or((0, 0, 0), |h| (h.ai_flags, h.ai_port_space, h.ai_qp_type));
    if c.ai_port_space == 0 {
        let space = if c.ai_qp_type == UD { PortSpace::Udp } else { PortSpace::Tcp };
        c.ai_port_space = space as c_int;
    }
    if c.ai_qp_type == 0 {
        c.ai_qp_type = if c.ai_port_space == PortSpace::Udp as c_int { UD } else { RC };
    }
    c.ai_src_len = source.as_ref().map_or(0, sockaddr::length);
    c.ai_dst_len = peer.as_ref().map_or(0, sockaddr::length);
    let rest = Addresses {
        source: sockaddr::write(source.unwrap_or(any)),
        peer: sockaddr::write(peer.unwrap_or(any)),
    };
    let object = Whole::create(c, rest);
    // SAFETY: just made.
    unsafe {
        if let Some(rest) = Whole::of(object) {
            let pointer = |to: &sockaddr_storage| std::ptr::from_ref(to).cast_mut().cast();
            if source.is_some() {
                (*object).ai_src_addr = pointer(&rest.source);
            }
            if peer.is_some() {
                (*object).ai_dst_addr = pointer(&rest.peer);
            }
        }
    }
    object
}

/// rdma_freeaddrinfo(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_freeaddrinfo(info: *mut rdma_addrinfo) {
    value((), || {
        if !info.is_null() {
            // SAFETY: by the contract an answer of ours.
            unsafe { Whole::destroy(info) };
        }
    });
}
