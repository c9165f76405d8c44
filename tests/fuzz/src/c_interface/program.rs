//! The program: two devices, its objects, and the work requests that have not completed.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use libc::c_void;
use uroce_device::interface_of;
use uroce_ibverbs::device_list::device_of;
use uroce_verbs_abi::*;

use super::functions::*;
use super::ids::Ids;
use super::memory;
use super::objects::{Kind, Objects};
use crate::input::Input;

/// The addresses of the devices.
pub(super) const HOSTS: [[u8; 4]; 2] = [[127, 47, 120, 1], [127, 47, 120, 2]];

pub(super) struct Program {
    pub(super) contexts: [*mut ibv_context; 2],
    pub(super) objects: Objects,
    /// Work requests that were taken and have not completed. Those without a signal stay.
    pub(super) open: HashSet<u64>,
    pub(super) next_wr: u64,
    /// Groups that queue pairs have joined.
    pub(super) groups: Vec<(*mut ibv_qp, ibv_gid)>,
    pub(super) ids: Ids,
}

/// Contexts on both devices, opened once: what a run leaves there, the next one would find.
fn contexts() -> [*mut ibv_context; 2] {
    static CONTEXTS: OnceLock<[usize; 2]> = OnceLock::new();
    let contexts = CONTEXTS.get_or_init(|| {
        HOSTS.map(|host| {
            let interface = interface_of(IpAddr::from(host)).expect("127.0.0.0/8 is local");
            let context = call!(ibv_open_device(device_of(interface)));
            assert!(!context.is_null(), "a device");
            super::events::do_not_wait(call!((*context).async_fd));
            context.expose_provenance()
        })
    });
    contexts.map(std::ptr::with_exposed_provenance_mut)
}

impl Program {
    pub(super) fn new() -> Program {
        let (objects, open, groups) = (Objects::default(), HashSet::new(), vec![]);
        Program { contexts: contexts(), objects, open, next_wr: 0, groups, ids: Ids::default() }
    }

    pub(super) fn step(&mut self, input: &mut Input<'_>) {
        match input.below(24) {
            0..=3 => self.make(input),
            4 => self.unmake(input),
            5 => self.connect(input),
            6 => self.modify_qp(input),
            7 => self.change(input),
            8 | 9 => self.post_send(input),
            10 => self.post_recv(input),
            11 => self.build(input),
            12 => self.poll(input),
            13 => self.events(input),
            14 => self.query(input),
            16.. => self.ids(input),
            _ => std::thread::sleep(Duration::from_micros(input.u8().into())),
        }
        self.poll_all();
    }

    /// A context, which is rarely none.
    pub(super) fn context(&self, input: &mut Input<'_>) -> *mut ibv_context {
        match input.u8() {
            0 => std::ptr::null_mut(),
            1 => self.objects.any::<c_void>(Kind::Pd, input).cast(),
            number => self.contexts[usize::from(number & 1)],
        }
    }

    /// Which device a context is of.
    pub(super) fn device_of(&self, context: *mut ibv_context) -> Option<usize> {
        self.contexts.iter().position(|known| *known == context)
    }

    pub(super) fn slots(&self) -> *mut verbs_slots {
        slots(self.contexts[0])
    }

    fn unmake(&mut self, input: &mut Input<'_>) {
        let kind = Kind::ALL[usize::from(input.below(Kind::ALL.len() as u8))];
        let object = self.objects.any(kind, input);
        self.fetch_events();
        let slots = self.slots();
        self.objects.destroy(kind, object, slots);
    }

    /// Everything is given back; nothing may be in the way, and the devices have nothing left.
    pub(super) fn end(mut self) {
        self.end_ids();
        self.fetch_events();
        for (qp, gid) in std::mem::take(&mut self.groups) {
            let _ = call!(ibv_detach_mcast(qp, &raw const gid, 0));
        }
        let slots = self.slots();
        // A parent domain may have been made before or after another domain: twice.
        for kind in Kind::ALL.into_iter().chain([Kind::Pd, Kind::Td]) {
            for object in self.objects.all_live(kind) {
                self.fetch_events();
                let is_gone = self.objects.destroy(kind, object, slots);
                assert!(is_gone || kind == Kind::Pd || kind == Kind::Td, "{kind:?} stays");
            }
        }
        assert!(self.objects.is_empty(), "an object stays");
        memory::assert_canaries();
    }
}
