//! The management agents of QP 1 that answer questions about the device: Get and Set of the communication
//! management class and of the performance management class (13.4, 16.1). They keep no state: an answer follows
//! from the request and from the counters that come with it.

mod class_port_info;
mod port_counters;

use class_port_info::class_port_info;
pub use port_counters::PortCounters;
use zerocopy::{transmute, transmute_ref};

use crate::mad::{BASE_VERSION, CLASS_CM, CLASS_VERSION, MAD_LEN, RawMad};
use crate::message::BODY_LEN;

const CLASS_PM: u8 = 0x04;
const PM_CLASS_VERSION: u8 = 1;

const METHOD_GET: u8 = 0x01;
const METHOD_SET: u8 = 0x02;
const METHOD_GET_RESP: u8 = 0x81;

const CLASS_PORT_INFO: u16 = 0x0001;
const PORT_COUNTERS: u16 = 0x0012;
const PORT_COUNTERS_EXTENDED: u16 = 0x001d;

/// Bytes between the MAD header and the attribute in MADs of performance management.
const PM_RESERVED: usize = 40;
/// Where an attribute of performance management names its port.
const PORT_SELECT: usize = PM_RESERVED + 1;

/// The only port.
const PORT: u8 = 1;
/// All ports together.
const ALL_PORTS: u8 = 0xff;

/// Why a request is refused: the status of its response (13.4.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
enum MadStatus {
    /// The class version is none that the agent knows.
    BadVersion = 0x0004,
    /// The agent does not have this attribute, or not with this method.
    MethodAttribute = 0x000c,
    /// A field of the attribute has no meaning.
    InvalidField = 0x001c,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    CommunicationManagement,
    PerformanceManagement,
}

impl Class {
    fn read(class: u8) -> Option<Class> {
        match class {
            CLASS_CM => Some(Class::CommunicationManagement),
            CLASS_PM => Some(Class::PerformanceManagement),
            _ => None,
        }
    }

    fn number(self) -> u8 {
        match self {
            Class::CommunicationManagement => CLASS_CM,
            Class::PerformanceManagement => CLASS_PM,
        }
    }

    fn version(self) -> u8 {
        match self {
            Class::CommunicationManagement => CLASS_VERSION,
            Class::PerformanceManagement => PM_CLASS_VERSION,
        }
    }
}

/// A Get or Set for one of the agents. There is one response to it, of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentRequest {
    class: Class,
    class_version: u8,
    method: u8,
    tid: u64,
    attribute: u16,
    modifier: u32,
    port_select: u8,
}

impl AgentRequest {
    /// Reads a MAD; `None` if it is no Get or Set of a class that has an agent here (C60). A response is none
    /// either, so that two agents never talk to each other.
    pub fn parse(bytes: &[u8]) -> Option<AgentRequest> {
        let whole: &[u8; MAD_LEN] = bytes.try_into().ok()?;
        let raw: &RawMad = transmute_ref!(whole);
        let asks = matches!(raw.method, METHOD_GET | METHOD_SET);
        if raw.base_version != BASE_VERSION || !asks || raw.status.get() != 0 {
            return None;
        }
        Some(AgentRequest {
            class: Class::read(raw.class)?,
            class_version: raw.class_version,
            method: raw.method,
            tid: raw.tid.get(),
            attribute: raw.attribute.get(),
            modifier: raw.modifier.get(),
            port_select: raw.body.get(PORT_SELECT).copied()?,
        })
    }

    /// The response: the attribute, or a status and no attribute.
    pub fn respond(&self, counters: &PortCounters) -> [u8; MAD_LEN] {
        let mut body = [0; BODY_LEN];
        let status = self.fill(&mut body, counters).map_or_else(|refusal| refusal as u16, |()| 0);
        let raw = RawMad {
            base_version: BASE_VERSION,
            class: self.class.number(),
            class_version: self.class.version(),
            method: METHOD_GET_RESP,
            status: status.into(),
            class_specific: 0.into(),
            tid: self.tid.into(),
            attribute: self.attribute.into(),
            reserved: 0.into(),
            modifier: self.modifier.into(),
            body,
        };
        transmute!(raw)
    }

    fn fill(&self, body: &mut [u8; BODY_LEN], counters: &PortCounters) -> Result<(), MadStatus> {
        if self.class_version != self.class.version() {
            return Err(MadStatus::BadVersion);
        }
        match (self.class, self.method, self.attribute) {
            (Class::CommunicationManagement, METHOD_GET, CLASS_PORT_INFO) => {
                put(body, 0, &class_port_info(self.class));
            }
            (Class::PerformanceManagement, METHOD_GET, CLASS_PORT_INFO) => {
                put(body, PM_RESERVED, &class_port_info(self.class));
            }
            (Class::PerformanceManagement, METHOD_GET, PORT_COUNTERS) => {
                put(body, PM_RESERVED, &counters.short(self.port()?));
            }
            (Class::PerformanceManagement, METHOD_GET, PORT_COUNTERS_EXTENDED) => {
                put(body, PM_RESERVED, &counters.extended(self.port()?));
            }
            _ => return Err(MadStatus::MethodAttribute),
        }
        Ok(())
    }

    /// The port that is asked about; all of them are that one.
    fn port(&self) -> Result<u8, MadStatus> {
        match self.port_select {
            port @ (PORT | ALL_PORTS) => Ok(port),
            _ => Err(MadStatus::InvalidField),
        }
    }
}

fn put(body: &mut [u8; BODY_LEN], at: usize, attribute: &[u8]) {
    if let Some(place) = body.get_mut(at..at + attribute.len()) {
        place.copy_from_slice(attribute);
    }
}
