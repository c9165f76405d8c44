//! The devices of this machine.

pub use uroce_device::Interface as DeviceInfo;

/// All devices that can be opened here (`ibv_get_device_list`), real interfaces before loopback.
///
/// Each address of 127.0.0.0/8 can be opened too, although only 127.0.0.1 is listed.
///
/// ```
/// let devices = uroce_verbs::device_list();
/// assert!(devices.iter().any(|device| device.loopback));
/// ```
pub fn device_list() -> Vec<DeviceInfo> {
    uroce_device::interfaces()
}
