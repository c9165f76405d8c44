//! After set-up datapaths on UDP sockets allocate nothing for a packet.

use uroce_datapath::RedirectTarget;
use uroce_testkit::allocations::CountingAllocator;
use uroce_testkit::checks::nothing_is_allocated;
use uroce_udp::{SlotDatapath, UdpConfig, UdpDatapath, UringDatapath};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

#[test]
fn udp_allocates_nothing() {
    for addresses in [["127.0.0.1:0", "127.0.0.2:0"], ["[::1]:0", "[::1]:0"]] {
        let [a, b] = addresses.map(|addr| {
            let config = UdpConfig::new(addr.parse().expect("address"));
            Box::new(UdpDatapath::bind(&config).expect("bind"))
        });
        nothing_is_allocated(a, b);
    }
}

/// The second is not alone on its address.
#[test]
fn a_share_allocates_nothing() {
    let share = |addr: &str| {
        let config = UdpConfig::new(addr.parse().expect("address"));
        SlotDatapath::udp(&config, |_| RedirectTarget::Here).expect("a share")
    };
    let _first = share("127.91.16.2:4791");
    nothing_is_allocated(Box::new(share("127.91.16.1:4791")), Box::new(share("127.91.16.2:4791")));
}

#[test]
fn uring_allocates_nothing() {
    let open = |addr: &str| UringDatapath::bind(&UdpConfig::new(addr.parse().expect("address")));
    match (open("127.0.0.1:0"), open("127.0.0.2:0")) {
        (Ok(a), Ok(b)) => nothing_is_allocated(Box::new(a), Box::new(b)),
        (Err(error), _) | (_, Err(error)) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            println!("skipped: {error}");
        }
    }
}
