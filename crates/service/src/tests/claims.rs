//! Service ids and groups of clients: over restarts, in great number, and beside those of others.

use super::*;
use crate::client::testing::{Attachment, attach, await_message};
use crate::message::{ClientMessage, ServiceMessage};

fn claim(client: &mut ServedDatapath, service: u64) -> std::io::Result<()> {
    client.shared_port().expect("shared").claim_service(service)
}

fn release(client: &mut ServedDatapath, service: u64) {
    client.shared_port().expect("shared").release_service(service);
}

/// Polls the client until it has noticed that the service has gone.
fn notice(client: &mut ServedDatapath) {
    while client.last_problem().is_none() {
        receive_within(client, 1, Duration::from_millis(1));
    }
}

/// Polls the client until it has its place again.
fn come_back(client: &mut ServedDatapath) {
    while client.last_problem().is_some() {
        receive_within(client, 1, Duration::from_millis(1));
    }
}

/// More than the socket to the service holds.
#[test]
fn all_claims_outlive_a_restart() {
    let mut running = Running::start();
    let mut client = running.client();
    for service in 0..1500 {
        claim(&mut client, service).expect("free");
    }
    running.stop();
    notice(&mut client);
    running.resume();
    come_back(&mut client);
    let mut other = running.client();
    // A request is answered behind what was told before it.
    claim(&mut client, 9999).expect("free");
    for service in 0..1500 {
        let taken = claim(&mut other, service).expect_err("claimed");
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse, "service {service}");
    }
    for service in 0..1500 {
        release(&mut client, service);
    }
    claim(&mut client, 9998).expect("free");
    for service in 0..1500 {
        claim(&mut other, service).expect("given back");
    }
}

#[test]
fn memberships_outlive_a_restart() {
    let mut running = Running::start();
    let (mut member, mut other) = (running.client(), running.client());
    let group = addr("239.1.2.3:4791");
    member.join(group.ip()).expect("joined");
    running.stop();
    notice(&mut member);
    notice(&mut other);
    running.resume();
    for (service, client) in [&mut member, &mut other].into_iter().enumerate() {
        come_back(client);
        // A request is answered behind what was told before it.
        claim(client, service as u64).expect("free");
    }
    let mut peer = running.peer();
    let bytes = datagram(Qpn::MULTICAST, Qpn::new(0x42), b"for members");
    send(&mut peer, "239.1.2.3:4791", &bytes);
    assert_eq!(receive(&mut member, 1), std::slice::from_ref(&bytes));
    let own = packet(RC_SEND, slot(&mut other).qpn(1), b"for the other");
    send(&mut peer, HERE, &own);
    assert_eq!(receive(&mut other, 1), [own], "and nothing before it");
}

/// A client that leaves gives back all that it had.
#[test]
fn claims_and_memberships_end_with_their_client() {
    let running = Running::start();
    let (mut stays, mut leaves, mut peer) = (running.client(), running.client(), running.peer());
    let group = addr("239.1.2.3:4791");
    claim(&mut leaves, 7).expect("free");
    leaves.join(group.ip()).expect("joined");
    claim(&mut stays, 7).expect_err("claimed");
    drop(leaves);
    running.await_status("1 clients");
    send(&mut peer, "239.1.2.3:4791", &datagram(Qpn::MULTICAST, Qpn::new(0x42), b"for nobody"));
    claim(&mut stays, 7).expect("free again");
    let request = datagram(Qpn::GSI, Qpn::GSI, b"s");
    send(&mut peer, HERE, &request);
    assert_eq!(receive(&mut stays, 1), [request]);
}

/// Requests while the service is away fail at once, with a text that says so.
#[test]
fn without_a_service_nothing_is_claimed() {
    let mut running = Running::start();
    let mut client = running.client();
    running.stop();
    notice(&mut client);
    let error = claim(&mut client, 7).expect_err("nobody to ask").to_string();
    assert!(error.contains("has gone") && error.contains("start it"), "{error}");
    client.join(addr("239.1.2.3:4791").ip()).expect_err("nobody to ask");
    client.leave(addr("239.1.2.3:4791").ip()).expect("no member");
    release(&mut client, 7);
    let problem = client.last_problem().expect("it is away");
    assert!(problem.contains("has gone"), "{problem}");
}

/// The next answer to a client that talks by itself.
fn next_answer(client: &Attachment) -> ServiceMessage {
    let end = Instant::now() + Duration::from_secs(20);
    let answer = await_message(&client.control, end).expect("connected").expect("an answer");
    ServiceMessage::decode(answer.bytes()).expect("a message")
}

/// A client tells a service that is back what it had, and does not wait for each. Answers to that would fill the queue in which the
/// answer to its next request has to find room.
#[test]
fn only_numbered_requests_are_answered() {
    let running = Running::start();
    let client = attach(&running.socket(), addr(HERE));
    let end = Instant::now() + Duration::from_secs(20);
    let told = (0..1000).map(|service| ClientMessage::Claim(0, service));
    let joined = ClientMessage::Join(0, addr("239.1.2.3:4791").ip());
    for message in told.chain([joined, ClientMessage::Claim(1, 9999)]) {
        client.control.send_by(&message.encode(), end).expect("sent");
    }
    assert_eq!(next_answer(&client), ServiceMessage::done(1, &Ok(())));
}

/// Another client may not give back what one has claimed.
#[test]
fn only_the_owner_gives_a_claim_back() {
    let running = Running::start();
    let (mut owner, mut other) = (running.client(), running.client());
    claim(&mut owner, 7).expect("free");
    let thief = attach(&running.socket(), addr(HERE));
    thief.control.send(&ClientMessage::Release(7).encode()).expect("sent");
    thief.control.send(&ClientMessage::Claim(1, 7).encode()).expect("sent");
    let answer = next_answer(&thief);
    let refused = ServiceMessage::done(1, &Err(rustix::io::Errno::ADDRINUSE.into()));
    assert_eq!(answer, refused);
    claim(&mut other, 7).expect_err("still claimed");
}
