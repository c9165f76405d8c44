//! Rights as libibverbs writes them.

use uroce_conform::Access;

/// `ibv_access_flags`.
pub(crate) fn access_flags(access: Access) -> i32 {
    let local = i32::from(access.write || access.atomic);
    local
        | i32::from(access.write) << 1
        | i32::from(access.read) << 2
        | i32::from(access.atomic) << 3
        | i32::from(access.bind) << 4
        | i32::from(access.flush) << 8
        | i32::from(access.persist) << 9
}
