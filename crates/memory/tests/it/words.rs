//! What the errors say: each a sentence with the numbers of the case, and what to do about it.

use uroce_memory::*;

fn is<E: std::error::Error>(error: E, words: &str) {
    assert_eq!(error.to_string(), words);
}

#[test]
fn errors_of_an_access_in_words() {
    let key = 0x12;
    is(
        AccessError::UnknownKey { key },
        "no memory is registered under key 0x00000012; it was never valid or is gone",
    );
    is(
        AccessError::WrongPd,
        "the key is of another protection domain than the queue pair; create both in one",
    );
    let (needed, granted) = (Access::REMOTE_WRITE, Access::LOCAL_WRITE | Access::REMOTE_READ);
    is(
        AccessError::NoAccess { needed, granted },
        "the access needs Access(REMOTE_WRITE) but the registration grants only Access(LOCAL_WRITE | REMOTE_READ)",
    );
    let (va, len, start, end) = (0x10, 5, 0x20, 0x30);
    is(
        AccessError::OutOfRange { va, len, start, end },
        "5 bytes at 0x10 are not inside the registered range 0x20..0x30",
    );
    is(
        AccessError::NotMapped { va },
        "at 0x10 the program has mapped no memory for this access; map it before it is used",
    );
    is(
        AccessError::WrongQp,
        "the type 2 window is bound to another queue pair; bind one on this queue pair",
    );
    is(
        AccessError::NotBound,
        "the memory window is not bound; bind it before the key is given to a peer",
    );
    let error = AccessError::ListTooShort { missing: 7 };
    is(error, "the scatter/gather list is 7 bytes too short for the message");
    is(
        SgeError { index: 3, error: AccessError::NotBound },
        &format!("SGE 3: {}", AccessError::NotBound),
    );
}

#[test]
fn errors_of_a_registration_in_words() {
    let gone = "the protection domain does not exist (any more); use one that alloc_pd returned";
    is(RegMrError::UnknownPd, gone);
    is(AllocMwError::UnknownPd, gone);
    is(
        RegMrError::UnknownAccess { bits: 0x1001 },
        "access flags 0x1001 have unknown bits; use the flags of this library's Access",
    );
    is(
        RegMrError::NeedsLocalWrite,
        "REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE as well; add it to the access flags",
    );
    is(
        RegMrError::AddressWrap { iova: 0xf0, len: 9 },
        "9 bytes from address 0xf0 go beyond 2^64; choose a lower address",
    );
    is(
        RegMrError::TooLarge { len: 65, limit: 64 },
        "a region of 65 bytes is larger than the device's limit of 64; split it",
    );
    is(
        RegMrError::TooMany { limit: 2 },
        "the device holds its limit of 2 memory regions; free one or raise the limit",
    );
    let windows = 2;
    let busy = "2 memory windows are bound to the region; invalidate or free them first";
    is(ReregError::Busy { windows }, busy);
    is(DeregError::Busy { windows }, busy);
    is(ReregError::Unknown, "this memory region does not exist (any more); register it again");
    is(
        DeregError::Unknown,
        "this memory region does not exist (any more); it was deregistered before",
    );
    is(ReregError::Reg(RegMrError::UnknownPd), gone);
    is(AllocError { len: 9 }, "no memory for a region of 9 bytes; ask for less or free some");
}

#[test]
fn errors_of_domains_and_windows_in_words() {
    is(
        PdError::Unknown,
        "this protection domain does not exist (any more); use one that alloc_pd returned",
    );
    is(
        PdError::Busy { users: 3 },
        "3 objects still use this protection domain; destroy them first",
    );
    is(
        PdError::TooMany { limit: 1 },
        "the device holds its limit of 1 protection domains; free one or raise the limit",
    );
    is(
        AllocMwError::TooMany { limit: 4 },
        "the device holds its limit of 4 memory windows; free one or raise the limit",
    );
    is(
        DeallocMwError::Unknown,
        "this memory window does not exist (any more); it was freed before",
    );
    is(BindError::UnknownMw, "this memory window does not exist (any more); allocate one");
    is(
        BindError::UnknownMr { lkey: Lkey(0x99) },
        "no memory region has lkey 0x00000099; use the lkey of a live region",
    );
    is(
        BindError::BadAccess { access: Access::LOCAL_WRITE },
        "a window cannot grant Access(LOCAL_WRITE); use remote rights of the region only",
    );
    let (va, len, start, end) = (1, 2, 3, 4);
    is(
        BindError::OutOfRange { va, len, start, end },
        "2 bytes at 0x1 are not inside the region 0x3..0x4",
    );
    let (new, current) = (Rkey(0x100), Rkey(0x201));
    is(
        BindError::WrongIndex { new, current },
        "rkey 0x00000100 does not belong to the window; only the low 8 bits of 0x00000201 may change",
    );
}

/// Who asked is part of the sentence.
#[test]
fn errors_of_an_invalidation_in_words() {
    let local = "a local invalidate may not invalidate";
    let remote = "a peer's SEND_WITH_INVALIDATE may not invalidate";
    for (from_peer, who) in [(false, local), (true, remote)] {
        let region = format!("{who} a registered region; deregister it instead");
        is(InvalidateError::Region { remote: from_peer }, &region);
        let window = format!("{who} a type 1 window; bind it to 0 bytes instead");
        is(InvalidateError::Type1 { remote: from_peer }, &window);
    }
    let words = "no memory window has rkey 0x00000007; it was never valid or is gone";
    is(InvalidateError::UnknownKey { rkey: Rkey(7) }, words);
}

#[test]
fn errors_of_copies_in_words() {
    let range = OutOfRange { offset: 3, len: 6, size: 8 };
    let words = "6 bytes at offset 3 do not fit into 8 bytes; nothing was copied";
    is(range, words);
    is(AtomicError::OutOfRange(range), words);
    is(CopyError::OutOfRange(range), words);
    is(
        AtomicError::Misaligned { addr: 0x13 },
        "address 0x13 of an 8-byte atomic is not a multiple of 8; nothing was done",
    );
    is(CopyError::OnDemand, "memory on demand is copied piece by piece only; nothing was copied");
}

/// `main() -> Result<(), Box<dyn Error>>` prints Debug: these errors say their sentence there too.
#[test]
fn errors_that_reach_a_main_function_print_their_sentence() {
    let errors: [Box<dyn std::error::Error>; 6] = [
        Box::new(PdError::Busy { users: 3 }),
        Box::new(RegMrError::NeedsLocalWrite),
        Box::new(ReregError::Busy { windows: 1 }),
        Box::new(DeregError::Unknown),
        Box::new(AllocMwError::UnknownPd),
        Box::new(AtomicError::Misaligned { addr: 1 }),
    ];
    for error in errors {
        assert_eq!(format!("{error:?}"), error.to_string());
    }
}
