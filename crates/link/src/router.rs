//! From a route to the headers of its packets.

use std::net::IpAddr;
use std::time::Instant;

use uroce_datapath::Route;

use super::neighbour::{Neighbours, NextHop, Resolution, Unreachable};
use super::template::{Ethernet, HeaderTemplate};

/// Entries of the header cache; two routes with the same index replace each other.
const PLACES: usize = 256;

/// How packets of a route leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outbound {
    /// Their headers.
    pub headers: HeaderTemplate,
    /// The way they go.
    pub hop: NextHop,
}

/// What a [`Router`] says about a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way<'r> {
    /// Packets can be sent.
    Out(&'r Outbound),
    /// The hardware address is being resolved; keep the packets, or drop and count them.
    Pending,
    /// Packets must be dropped, for this reason.
    None(Unreachable),
}

/// The headers of a route.
#[derive(Debug, Clone, Copy)]
struct Place {
    route: Route,
    out: Outbound,
    /// Until when the hardware address holds.
    until: Instant,
}

/// Headers for routes; all memory is allocated by [`Router::new`].
#[derive(Debug)]
pub struct Router {
    neighbours: Neighbours,
    vlan: Option<u16>,
    places: Box<[Option<Place>]>,
}

impl Router {
    /// A router over `neighbours`. With `vlan` every frame carries that 802.1Q tag; leave it out when
    /// the frames leave through the VLAN's own interface, which adds the tag itself.
    #[must_use]
    pub fn new(neighbours: Neighbours, vlan: Option<u16>) -> Self {
        Self { neighbours, vlan, places: vec![None; PLACES].into_boxed_slice() }
    }

    /// How packets of `route` leave. Takes a few nanoseconds, and about ten microseconds once a second
    /// for each destination.
    #[inline]
    pub fn find(&mut self, route: &Route, now: Instant) -> Way<'_> {
        let index = place_of(route);
        let fresh = matches!(&self.places[index],
            Some(place) if place.route == *route && now < place.until);
        if !fresh && let Err(way) = self.renew(index, route, now) {
            return way;
        }
        match &self.places[index] {
            Some(place) => Way::Out(&place.out),
            None => Way::Pending,
        }
    }

    /// The neighbours behind this router.
    #[must_use]
    pub fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// Fills the place, or says why there is nothing to fill it with.
    fn renew(&mut self, index: usize, route: &Route, now: Instant) -> Result<(), Way<'static>> {
        let (resolution, until) = self.neighbours.resolve(route.dst.ip(), now);
        let hop = match resolution {
            Resolution::Ready(hop) => hop,
            Resolution::Pending => return Err(Way::Pending),
            Resolution::Unreachable(reason) => return Err(Way::None(reason)),
        };
        let ethernet = Ethernet { src: hop.src, dst: hop.dst, vlan: self.vlan };
        let headers = HeaderTemplate::new(&ethernet, route);
        let headers = headers.ok_or(Way::None(Unreachable::NotUnicast))?;
        let out = Outbound { headers, hop };
        self.places[index] = Some(Place { route: *route, out, until });
        Ok(())
    }
}

/// The place of a route. Source port and last byte of the address tell routes apart well enough.
fn place_of(route: &Route) -> usize {
    let host = match route.dst.ip() {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    };
    let mixed = usize::from(route.src.port()) ^ usize::from(host).wrapping_mul(31);
    mixed.wrapping_add(usize::from(route.traffic_class)) % PLACES
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::interface_of;

    fn router() -> Router {
        let local = IpAddr::from([127, 0, 0, 1]);
        let home = interface_of(local).expect("lo");
        Router::new(Neighbours::open(local, home).expect("neighbours"), None)
    }

    fn route(port: u16, host: u8) -> Route {
        let (src, dst) = (([127, 0, 0, 1], port).into(), ([127, 0, 0, host], 4791).into());
        Route { src, dst, hop_limit: 64, traffic_class: 0 }
    }

    #[test]
    fn every_route_gets_its_own_headers_also_when_places_collide() {
        let (mut router, now) = (router(), Instant::now());
        for round in 0..2 {
            for port in 0..600 {
                let route = route(0xC000 + port, port as u8);
                let Way::Out(out) = router.find(&route, now) else { panic!("{round} {port}") };
                let Outbound { headers, hop } = *out;
                let ethernet = Ethernet { src: hop.src, dst: hop.dst, vlan: None };
                assert_eq!(Some(headers), HeaderTemplate::new(&ethernet, &route));
            }
        }
    }

    #[test]
    fn headers_are_asked_for_again_when_they_are_old() {
        let (mut router, now) = (router(), Instant::now());
        assert!(matches!(router.find(&route(0xC000, 2), now), Way::Out(_)));
        let later = now + Duration::from_secs(60);
        assert!(matches!(router.find(&route(0xC000, 2), later), Way::Out(_)));
        let place = router.places[place_of(&route(0xC000, 2))].expect("filled");
        assert!(place.until > later);
    }

    #[test]
    fn a_route_of_two_ip_versions_goes_nowhere() {
        let dst = "[::1]:4791".parse().expect("address");
        let mixed = Route { dst, ..route(0xC000, 2) };
        assert!(matches!(router().find(&mixed, Instant::now()), Way::None(_)));
    }
}
