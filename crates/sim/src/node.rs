//! A node of the network: an address with a NIC.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use uroce_datapath::{ChannelDatapath, Datapath};
use uroce_device::{Device, DeviceConfig, VirtualClock};

use crate::buffers::PacketBuffers;
use crate::coverage::Coverage;
use crate::intake::IntakeDatapath;
use crate::nic::Nic;
use crate::port::{PortEvent, PortHandle, SimDatapath};
use crate::random::Random;
use crate::rxe::RxeNode;
use crate::scenario::Scenario;
use crate::violation::{Check, Invariant, ensure};

/// An address with a NIC.
pub(crate) struct Node {
    pub(crate) nic: Nic,
    pub(crate) port: PortHandle,
    pub(crate) address: IpAddr,
    /// When the NIC wants to be polled.
    pub(crate) deadline_ns: Option<u64>,
}

impl Node {
    /// The node number `index` of a scenario.
    pub(crate) fn new(
        scenario: &Scenario,
        index: usize,
        clock: &VirtualClock,
        buffers: &PacketBuffers,
    ) -> Node {
        let address = address_of(scenario, index);
        let port = PortHandle::new(scenario.engines_of(index));
        let nic = if index + scenario.models < scenario.nodes {
            Nic::Uroce(open(
                scenario,
                (index, u64::MAX - index as u64),
                address,
                clock,
                &port,
                buffers,
            ))
        } else {
            Nic::Rxe(Rc::new(RefCell::new(RxeNode::new(address))))
        };
        Node { nic, port, address, deadline_ns: None }
    }

    /// The process ends, and another one with the same address takes its place: nothing is left of the first.
    pub(crate) fn replace(
        &mut self,
        (scenario, index, times): (&Scenario, usize, u64),
        clock: &VirtualClock,
        buffers: &PacketBuffers,
    ) {
        self.port.clear();
        let stream = u64::MAX - index as u64 - (times << 32);
        let opened = open(scenario, (index, stream), self.address, clock, &self.port, buffers);
        self.nic = Nic::Uroce(opened);
        self.deadline_ns = None;
    }

    /// Lets the NIC take in what has arrived, serve its timers and send. Moves what it has done into `events`, and
    /// returns how many packets it has not taken yet.
    pub(crate) fn drive(&self, now_ns: u64, events: &mut VecDeque<PortEvent>) -> usize {
        match &self.nic {
            Nic::Uroce(device) => {
                let is_busy = device.drive();
                // An engine has handed something over to one that had its turn before.
                let hands_over = self.port.engines() > 1 && (device.drive() || is_busy);
                self.port.take_events(events) + usize::from(hands_over)
            }
            Nic::Rxe(node) => {
                let mut node = node.borrow_mut();
                while let Some(packet) = self.port.take_arrived() {
                    node.handle_packet(now_ns, &packet);
                }
                node.drive(now_ns);
                events.extend(node.take_sent().map(PortEvent::Sent));
                0
            }
        }
    }

    /// When the NIC wants to be driven although nothing arrives.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        match &self.nic {
            Nic::Uroce(device) => device.poll_timeout(),
            Nic::Rxe(node) => node.borrow().poll_timeout(),
        }
    }

    /// Adds what the NIC has counted.
    pub(crate) fn report(&self, coverage: &mut Coverage) {
        match &self.nic {
            Nic::Uroce(device) => {
                for (reason, count) in device.drops() {
                    coverage.add(reason.name(), count);
                }
                device.counters().into_iter().for_each(|(name, count)| coverage.add(name, count));
            }
            Nic::Rxe(node) => {
                node.borrow().counters.iter().for_each(|(name, count)| coverage.add(name, count));
            }
        }
    }

    /// Nothing is left of a model whose objects were destroyed.
    pub(crate) fn check_model(&self, index: usize) -> Check {
        let Nic::Rxe(node) = &self.nic else { return Ok(()) };
        let left = node.borrow().len();
        ensure(left == 0, Invariant::Resources, || {
            format!("the model of node {index} has {left} queue pairs when all is destroyed")
        })
    }
}

/// The address of a node.
pub(crate) fn address_of(scenario: &Scenario, index: usize) -> IpAddr {
    let number = index as u16 + 1;
    let [high, low] = number.to_be_bytes();
    if scenario.is_ipv6 {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number).into()
    } else {
        Ipv4Addr::new(10, 0, high, low).into()
    }
}

/// A NIC of ours.
fn open(
    scenario: &Scenario,
    (index, stream): (usize, u64),
    address: IpAddr,
    clock: &VirtualClock,
    port: &PortHandle,
    buffers: &PacketBuffers,
) -> Device {
    let local = SocketAddr::new(address, uroce_device::ROCE_PORT);
    let mtu = scenario.mtu_of(index).bytes() + 200;
    let datapath = |engine| {
        let port = (port.clone(), engine);
        SimDatapath::new(local, mtu, port, buffers.clone(), scenario.has_gso)
    };
    let mut keys = [0; 32];
    Random::new(scenario.seed, stream).fill(&mut keys);
    let config = DeviceConfig {
        name: Some(format!("node{index}")),
        progress_thread: false,
        report: false,
        seed: Some(keys),
        clock: Some(clock.clone()),
        ..DeviceConfig::new(address)
    };
    let datapaths = for_engines((0..port.engines()).map(datapath).collect(), port);
    Device::open_on(&config, datapaths).expect("nothing is asked of the host")
}

/// The datapaths of the engines of one NIC: several hand over to each other what is not theirs, as those of the
/// datapaths that ship do.
fn for_engines(mut inners: Vec<SimDatapath>, port: &PortHandle) -> Vec<Box<dyn Datapath>> {
    if inners.len() == 1 {
        return vec![Box::new(inners.remove(0))];
    }
    let shares = ChannelDatapath::connect(inners, uroce_device::gsi_redirect);
    let shares = shares.expect("descriptors").into_iter();
    let intake = |share| IntakeDatapath::new(share, port.clone());
    shares.map(|share| Box::new(intake(share)) as Box<dyn Datapath>).collect()
}
