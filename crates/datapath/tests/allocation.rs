//! After set-up the in-process switch allocates nothing for a packet.

use uroce_datapath::LoopbackFabric;
use uroce_testkit::allocations::CountingAllocator;
use uroce_testkit::checks::nothing_is_allocated;

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

#[test]
fn loopback_allocates_nothing() {
    let fabric = LoopbackFabric::new();
    let [a, b] = ["10.0.0.1:4791", "10.0.0.2:4791"]
        .map(|addr| Box::new(fabric.attach(addr.parse().expect("address")).expect("attach")));
    nothing_is_allocated(a, b);
}
