//! The data of a ping: its number, and letters that go on from ping to ping.

const FIRST: u8 = b'A';
const LAST: u8 = b'z';

/// The data of ping `number`: text with a zero at its end, `size` bytes in all.
pub fn of(number: u64, size: usize) -> Vec<u8> {
    let span = u64::from(LAST - FIRST) + 1;
    let letters = (number..).map(|place| FIRST + (place % span) as u8);
    let mut text = format!("rdma-ping-{number}: ").into_bytes();
    text.extend(letters.take(size.saturating_sub(text.len())));
    text.truncate(size);
    if let Some(last) = text.last_mut() {
        *last = 0;
    }
    text
}

/// What stands before the zero.
pub fn shown(data: &[u8]) -> String {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    String::from_utf8_lossy(&data[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_as_rping_makes_it() {
        assert_eq!(shown(&of(0, 26)), "rdma-ping-0: ABCDEFGHIJKL");
        assert_eq!(shown(&of(1, 26)), "rdma-ping-1: BCDEFGHIJKLM");
        let long = of(57, 100);
        assert_eq!((long.len(), &shown(&long)[..16]), (100, "rdma-ping-57: zA"));
        assert_eq!(shown(&of(2_147_483_647, 26)).len(), 25);
    }
}
