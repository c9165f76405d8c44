//! What processes of one host tell each other, and what the ends of a stream tell each other.

/// A message with packets that another process received.
pub(crate) fn redirects(bytes: &[u8]) {
    uroce_device::udp::fuzzing::read_redirect(bytes);
}

/// Private data, table entries and immediate data of an rsocket.
pub(crate) fn rsockets(bytes: &[u8]) {
    uroce_rsockets::fuzzing::read_messages(bytes);
}

/// What a device tells about its objects.
pub(crate) fn reports(bytes: &[u8]) {
    uroce_device::fuzzing::read_report(bytes);
}
