//! `rdma_getaddrinfo`: names and ports to addresses.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use libc::{c_char, c_int, sockaddr_storage};
use uroce_device::CmEventKind;
use uroce_device::cm::PortSpace;
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::errno::{Errno, INVALID, NOT_SUPPORTED};
use uroce_ibverbs::object::{Object, zeroed};
use uroce_ibverbs::object_of;
use uroce_ibverbs::return_value::{call, value};
use uroce_verbs_abi::{
    IBV_QPT_RC, IBV_QPT_UD, RAI_DNS, RAI_NUMERICHOST, RAI_PASSIVE, RAI_SA, rdma_addrinfo,
    rdma_cm_id,
};

use crate::channel::post;
use crate::id::id_of;
use crate::resolved_names::ResolvedNames;
use crate::sockaddr;
use crate::wait::complete;

/// The addresses that an answer points to.
struct Addresses {
    source: sockaddr_storage,
    peer: sockaddr_storage,
}

type AddrinfoObject = Object<rdma_addrinfo, Addresses>;

/// rdma_getaddrinfo(3). One answer: the first address. A name that is not known is told by the codes of
/// getaddrinfo(3), which programs give to gai_strerror(3), and by errno.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    out: *mut *mut rdma_addrinfo,
) -> c_int {
    let mut unknown = 0;
    let done = call("rdma_getaddrinfo", || {
        let out = not_null(out)?;
        // SAFETY: the arguments are those of a call from C.
        let found = unsafe { ask(node, service, hints, &mut unknown)? };
        // SAFETY: not null, and so room that the program has for the result.
        unsafe { *out = found.answer() };
        Ok(())
    });
    if unknown == 0 { done } else { unknown }
}

/// rdma_resolve_addrinfo(3): the same, and an event says that it is done. The system is asked during the call, since nothing
/// ends its search when the id is destroyed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_resolve_addrinfo(
    id: *mut rdma_cm_id,
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
) -> c_int {
    call("rdma_resolve_addrinfo", || {
        let inner = object_of!(id_of(id))?;
        // SAFETY: null, or hints of the program.
        match unsafe { hints.as_ref() }.map_or(0, |hints| hints.ai_flags) & (RAI_SA | RAI_DNS) {
            0 | RAI_DNS => {}
            // Only InfiniBand has a subnet administrator.
            RAI_SA => return Err(NOT_SUPPORTED),
            _ => return Err(INVALID),
        }
        // SAFETY: the arguments are those of a call from C.
        let found = unsafe { ask(node, service, hints, &mut 0) };
        if found == Err(INVALID) {
            return Err(INVALID);
        }
        let errno = found.err().map_or(0, |errno| errno.0);
        let used = {
            let mut state = inner.state();
            state.addrinfo = found.ok();
            state.used.clone()
        };
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
        unsafe {
            post(id, used.as_ref(), CmEventKind::AddrinfoResolved { errno })?;
            complete(id)
        }
    })
}

/// rdma_query_addrinfo(3). EINVAL: nothing was resolved.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_query_addrinfo(
    id: *mut rdma_cm_id,
    info: *mut *mut rdma_addrinfo,
) -> c_int {
    call("rdma_query_addrinfo", || {
        let (inner, out) = (object_of!(id_of(id))?, not_null(info)?);
        let found = inner.state().addrinfo.ok_or(INVALID)?;
        // SAFETY: not null, and so room that the program has for the result.
        unsafe { *out = found.answer() };
        Ok(())
    })
}

/// Asks the system; a name that is not known leaves the code of getaddrinfo(3) in `unknown`.
///
/// # Safety
/// Null or strings that end with 0, and null or hints of the program with the addresses that they say.
unsafe fn ask(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    unknown: &mut c_int,
) -> Result<ResolvedNames, Errno> {
    // SAFETY: the caller's promise.
    let (names, hints) = unsafe { ((text(node), text(service)), hints.as_ref()) };
    if names == (None, None) && hints.is_none() {
        return Err(INVALID);
    }
    // SAFETY: the caller's promise.
    let (mut source, mut peer) = unsafe { hints.map_or(Ok((None, None)), |hints| given(hints))? };
    let flags = hints.map_or(0, |hints| hints.ai_flags);
    let side = if flags & RAI_PASSIVE != 0 { &mut source } else { &mut peer };
    if names != (None, None) {
        *side = Some(look_up(names, hints, *side).map_err(|code| {
            *unknown = code;
            unknown_name(names, code)
        })?);
    }
    Ok(ResolvedNames { flags, spaces: spaces(hints), source, peer })
}

/// # Safety
/// Null, or a string that ends with 0.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Source and destination in the hints.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn given(hints: &rdma_addrinfo) -> Result<(Option<SocketAddr>, Option<SocketAddr>), Errno> {
    // SAFETY: null, or an address of the program that is as long as its family says.
    let address = |address: *mut libc::sockaddr, length| unsafe {
        let there = !address.is_null() && length > 0;
        if there { sockaddr::read(address).map(Some) } else { Ok(None) }
    };
    let (source, peer) = (hints.ai_src_addr, hints.ai_dst_addr);
    Ok((address(source, hints.ai_src_len)?, address(peer, hints.ai_dst_len)?))
}

type Names<'a> = (Option<&'a CStr>, Option<&'a CStr>);

/// The first address of a name and a service; without a name the one in the hints, with the port of the service.
fn look_up(
    names: Names<'_>,
    hints: Option<&rdma_addrinfo>,
    given: Option<SocketAddr>,
) -> Result<SocketAddr, c_int> {
    let found = first(resolved(names, hints)?, names.0.is_none());
    let found = found.ok_or(libc::EAI_NONAME)?;
    match given {
        Some(given) if names.0.is_none() => Ok(SocketAddr::new(given.ip(), found.port())),
        _ => Ok(found),
    }
}

/// The first; of this machine's own, which come for no name, the one of IPv4.
fn first(found: Vec<SocketAddr>, prefers_ipv4: bool) -> Option<SocketAddr> {
    let ipv4 = found.iter().copied().find(|address| prefers_ipv4 && address.is_ipv4());
    ipv4.or(found.first().copied())
}

/// What getaddrinfo(3) says.
fn resolved(
    (node, service): Names<'_>,
    hints: Option<&rdma_addrinfo>,
) -> Result<Vec<SocketAddr>, c_int> {
    // SAFETY: integers and null pointers.
    let mut wanted: libc::addrinfo = unsafe { zeroed() };
    let flags = hints.map_or(0, |hints| hints.ai_flags);
    let flag = |ours: c_int, theirs: c_int| if flags & ours != 0 { theirs } else { 0 };
    wanted.ai_flags =
        flag(RAI_PASSIVE, libc::AI_PASSIVE) | flag(RAI_NUMERICHOST, libc::AI_NUMERICHOST);
    wanted.ai_family = hints.map_or(libc::AF_UNSPEC, |hints| hints.ai_family);
    // The names of services differ between TCP and UDP.
    wanted.ai_socktype = if spaces(hints).0 == PortSpace::Udp as c_int {
        libc::SOCK_DGRAM
    } else {
        libc::SOCK_STREAM
    };
    let pointer = |name: Option<&CStr>| name.map_or(std::ptr::null(), CStr::as_ptr);
    let mut list = std::ptr::null_mut();
    // SAFETY: strings or null, and hints of our own.
    let code = unsafe {
        libc::getaddrinfo(pointer(node), pointer(service), &raw const wanted, &raw mut list)
    };
    if code != 0 {
        return Err(code);
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: a list as getaddrinfo makes it, which ends with null, freed when it is not used any more.
    unsafe {
        while let Some(entry) = next.as_ref() {
            found.extend(sockaddr::read(entry.ai_addr));
            next = entry.ai_next;
        }
        libc::freeaddrinfo(list);
    }
    Ok(found)
}

/// Says which name is not known.
fn unknown_name((node, service): Names<'_>, code: c_int) -> Errno {
    // SAFETY: it returns a string that is never freed.
    let why = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
    let [node, service, why] =
        [node.unwrap_or(c"-"), service.unwrap_or(c"-"), why].map(CStr::to_string_lossy);
    uroce_ibverbs::log::explain(&format_args!(
        "rdma_getaddrinfo of {node}, service {service}: {why}"
    ));
    if code == libc::EAI_SYSTEM { Errno::last() } else { Errno(libc::ENOENT) }
}

/// Port space and type of the queue pair: as the hints say; one follows from the other.
fn spaces(hints: Option<&rdma_addrinfo>) -> (c_int, c_int) {
    let (mut space, mut qp_type) =
        hints.map_or((0, 0), |hints| (hints.ai_port_space, hints.ai_qp_type));
    if space == 0 {
        space = if qp_type == IBV_QPT_UD { PortSpace::Udp } else { PortSpace::Tcp } as c_int;
    }
    if qp_type == 0 {
        qp_type = if space == PortSpace::Udp as c_int { IBV_QPT_UD } else { IBV_QPT_RC };
    }
    (space, qp_type)
}

impl ResolvedNames {
    /// As a program has it.
    fn answer(self) -> *mut rdma_addrinfo {
        // SAFETY: integers and null pointers.
        let mut c: rdma_addrinfo = unsafe { zeroed() };
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        let ResolvedNames { source, peer, .. } = self;
        let some = peer.or(source).unwrap_or(any);
        c.ai_family = if some.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        c.ai_flags = self.flags;
        (c.ai_port_space, c.ai_qp_type) = self.spaces;
        c.ai_src_len = source.as_ref().map_or(0, sockaddr::length);
        c.ai_dst_len = peer.as_ref().map_or(0, sockaddr::length);
        let rest = Addresses {
            source: sockaddr::write(source.unwrap_or(any)),
            peer: sockaddr::write(peer.unwrap_or(any)),
        };
        let object = AddrinfoObject::create(c, rest);
        // SAFETY: just made.
        unsafe {
            if let Some(rest) = AddrinfoObject::of_any_process(object) {
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
}

/// rdma_freeaddrinfo(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_freeaddrinfo(info: *mut rdma_addrinfo) {
    value((), || {
        if !info.is_null() {
            // SAFETY: an answer of `rdma_getaddrinfo`, as the manual page asks.
            unsafe { AddrinfoObject::destroy(info) };
        }
    });
}
