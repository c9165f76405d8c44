//! Registered memory for a recording, with the bytes that the recording shows in it.

use std::collections::{BTreeMap, HashMap};

use uroce_memory::{Access, Lkey, MemTable, MwBind, MwType, PdId, Region};
use uroce_wire::{Mtu, Operation};

use crate::answer::Class;
use crate::request::{Request, Target, target_of};
use crate::setup::RegionSetup;
use crate::{Recording, ReplayError};

/// Registered memory by the keys of the recording.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Keys of now by those of the recording.
    pub keys: HashMap<u32, u32>,
    regions: HashMap<u32, (u64, Region)>,
}

fn failed(error: impl std::fmt::Display) -> ReplayError {
    ReplayError::Setup(error.to_string())
}

impl Memory {
    /// Registers what `setups` name. Windows can be used through queue pair `qpn` only.
    pub(crate) fn register(
        table: &mut MemTable,
        pd: PdId,
        qpn: u32,
        setups: &[RegionSetup],
    ) -> Result<Self, ReplayError> {
        let mut memory = Self::default();
        for setup in setups {
            let region = Region::alloc(setup.length as usize).map_err(failed)?;
            let access = match setup.is_window {
                true => setup.access | Access::MW_BIND,
                false => setup.access,
            };
            let mr = table.reg_mr(pd, region.clone(), setup.start, access).map_err(failed)?;
            let key = match setup.is_window {
                true => bind(table, pd, qpn, setup, mr.lkey)?,
                false => mr.rkey.0,
            };
            memory.keys.insert(setup.rkey, key);
            memory.regions.insert(setup.rkey, (setup.start, region));
        }
        Ok(memory)
    }

    /// Puts the data of recorded responses into memory, the oldest ones last: what later ones show was
    /// changed by requests, which are played, or by the application.
    pub(crate) fn fill(&self, recording: &Recording, mtu: Mtu) {
        let requests = recording.requests.iter().filter_map(response_of);
        let requests: BTreeMap<i64, (Operation, Target)> = requests.collect();
        for answer in recording.answers.iter().rev() {
            let Some((first, (operation, target))) = requests.range(..=answer.place).next_back()
            else {
                continue;
            };
            match (answer.class(), operation) {
                (Class::ReadResponse, Operation::ReadRequest) => {
                    let offset = (answer.place - first) as u64 * mtu.bytes() as u64;
                    self.write(target, offset, &answer.data);
                }
                (Class::AtomicAcknowledge, _) if answer.place == *first => {
                    let bytes = answer.original.unwrap_or(0).to_ne_bytes();
                    self.write(target, 0, &bytes);
                }
                _ => {}
            }
        }
    }

    /// Bytes that lie outside are left out: the request that named them will be refused.
    fn write(&self, target: &Target, offset: u64, bytes: &[u8]) {
        let Some((start, region)) = self.regions.get(&target.rkey) else { return };
        let at = target.va.checked_sub(*start).and_then(|at| at.checked_add(offset));
        if let Some(at) = at.filter(|_| offset + bytes.len() as u64 <= target.length) {
            let _ = region.write(at as usize, bytes);
        }
    }
}

/// PSN, operation and memory of a request that is answered from memory.
fn response_of(request: &Request) -> Option<(i64, (Operation, Target))> {
    let packet = request.packet()?;
    let answers = matches!(
        packet.info.operation,
        Operation::ReadRequest | Operation::CompareSwap | Operation::FetchAdd
    );
    let target = target_of(&packet).filter(|_| answers)?;
    Some((request.place, (packet.info.operation, target)))
}

fn bind(
    table: &mut MemTable,
    pd: PdId,
    qpn: u32,
    setup: &RegionSetup,
    lkey: Lkey,
) -> Result<u32, ReplayError> {
    let window = table.alloc_mw(pd, MwType::Type2B).map_err(failed)?;
    let rights = Access::REMOTE_CHANGE | Access::REMOTE_READ | Access::FLUSH_GLOBAL;
    let bind = MwBind {
        mw: window.id,
        mr: lkey,
        new_rkey: window.rkey,
        va: setup.start,
        length: setup.length,
        access: setup.access & rights,
        pd,
        qpn,
    };
    table.bind_mw(&bind).map(|key| key.0).map_err(failed)
}
