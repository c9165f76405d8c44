//! Only the caller can know how long foreign memory stays valid.
use uroce_verbs::Region;

fn main() {
    let mut bytes = [0_u8; 64];
    let _region = Region::from_raw(bytes.as_mut_ptr(), bytes.len());
}
