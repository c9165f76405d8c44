//! Capture files.

use uroce_analyze::{CaptureReader, CaptureWriter};

/// Reads the bytes as a capture; what can be read is the same after it was written as pcapng.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(mut reader) = CaptureReader::new(bytes) else { return };
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory");
    let mut frames = Vec::new();
    while let Ok(Some(frame)) = reader.next_frame() {
        assert!(frame.data.len() <= bytes.len());
        if writer.write_frame(&frame, &[]).is_err() {
            return;
        }
        frames.push((frame.data.to_vec(), frame.original_len, frame.link_type, frame.direction));
    }
    let written = writer.finish().expect("memory");
    let mut again = CaptureReader::new(&written[..]).expect("it was written so");
    for (data, original_len, link_type, direction) in frames {
        let frame = again.next_frame().expect("sound").expect("as many frames");
        assert_eq!((frame.data, frame.original_len), (&data[..], original_len));
        assert_eq!((frame.link_type, frame.direction), (link_type, direction));
    }
    assert!(again.next_frame().expect("sound").is_none());
}
