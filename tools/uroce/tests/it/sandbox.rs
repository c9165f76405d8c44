//! What the program does and says where a sandbox or an old kernel refuses it system calls: it works without them, or ends with
//! one sentence that says what is missing and what to do, never by a signal.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use libc::{EACCES, EINVAL, ENOSYS, EPERM};
use tempfile::TempDir;
use uroce_testkit::sandbox::{RefusedCall, confine};

use crate::common::{PROGRAM, code, text, uroce};
use crate::sentences::{compile, libraries, library};

fn refused(words: &str, refusals: &[RefusedCall]) -> (i32, String) {
    let mut command = uroce(words);
    confine(&mut command, refusals);
    let output = command.output().expect("built");
    (code(&output), text(&output))
}

/// A device cannot be opened; that is told with exit code 3 and these words.
fn says(refusals: &[RefusedCall], words: &[&str]) {
    // Nobody listens there: what opens its device fails a moment later, with exit code 4.
    let (code, all) = refused("pingpong rc --address 127.0.0.87 -p 9 127.0.0.88", refusals);
    assert_eq!(code, 3, "{refusals:?}: {all}");
    assert!(words.iter().all(|word| all.contains(word)), "{refusals:?}: {all}");
    assert!(!all.contains("1024"), "the port is not to blame: {all}");
}

/// Two processes under the same rules exchange messages of several packets, which are compared.
fn works(refusals: &[RefusedCall], datapath: &str) {
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let [tcp, roce] = [(); 2].map(|()| free().expect("a free port").port());
    let common =
        format!("pingpong rc -c -n 20 -s 20000 --datapath {datapath} -p {tcp} --roce-port {roce}");
    let mut server = uroce(&format!("{common} --address 127.0.0.87"));
    confine(server.stdout(Stdio::piped()).stderr(Stdio::piped()), refusals);
    let server = server.spawn().expect("built");
    // Until the server listens, the client tries again.
    let (code, all) = refused(&format!("{common} --address 127.0.0.88 127.0.0.87"), refusals);
    let ended = server.wait_with_output().expect("it ends");
    assert_eq!(code, 0, "{refusals:?}: {all}");
    assert!(ended.status.success(), "{refusals:?}: {}", text(&ended));
}

/// What container runtimes refuse by default (Docker, containerd, podman), and what is seldom given.
#[test]
fn the_default_profiles_of_containers_are_enough() {
    let calls = [
        libc::SYS_io_uring_setup,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_ptrace,
        libc::SYS_userfaultfd,
        libc::SYS_memfd_create,
        libc::SYS_pidfd_open,
        libc::SYS_sched_setaffinity,
        libc::SYS_membarrier,
        libc::SYS_mlock,
        libc::SYS_unshare,
    ];
    for errno in [EPERM, ENOSYS] {
        works(&calls.map(|call| RefusedCall::of(call, errno)), "udp");
    }
}

/// Linux 4.18, the kernel of Red Hat 8: what came later is not there.
fn of_4_18() -> Vec<RefusedCall> {
    let calls = [
        libc::SYS_io_uring_setup,
        libc::SYS_pidfd_open,
        libc::SYS_clone3,
        libc::SYS_openat2,
        libc::SYS_faccessat2,
        libc::SYS_close_range,
        libc::SYS_epoll_pwait2,
    ];
    let mut all: Vec<RefusedCall> = calls.map(|call| RefusedCall::of(call, ENOSYS)).into();
    all.push(RefusedCall::option(libc::SOL_UDP, libc::UDP_GRO));
    all.push(RefusedCall::option(libc::IPPROTO_IPV6, 29));
    for advice in [libc::MADV_POPULATE_READ, libc::MADV_POPULATE_WRITE] {
        all.push(RefusedCall::of(libc::SYS_madvise, EINVAL).with(2, advice));
    }
    all
}

#[test]
fn old_kernels_are_enough_for_udp_sockets() {
    works(&of_4_18(), "udp");
    // Older still, or one that was built without segmentation.
    let without_segments = RefusedCall::option(libc::SOL_UDP, libc::UDP_SEGMENT);
    works(&[of_4_18(), vec![without_segments]].concat(), "udp");
    works(&[RefusedCall::of(libc::SYS_sendmmsg, EPERM)], "udp");
}

#[test]
fn doctor_tells_what_an_old_kernel_lacks() {
    let (code, all) = refused("doctor -q --address 127.0.0.87 --roce-port 24871", &of_4_18());
    assert_eq!(code, 0, "notes are no problem: {all}");
    for words in ["UDP_GRO", "Linux 5.0", "io_uring", "Linux 6.0", "--datapath udp"] {
        assert!(all.contains(words), "{words}: {all}");
    }
}

#[test]
fn io_uring_that_is_missing_names_the_profile_and_the_kernel() {
    for (errno, words) in
        [(EPERM, "seccomp"), (ENOSYS, "Linux 6.0"), (EINVAL, "update to Linux 6.0")]
    {
        let refusals = [RefusedCall::of(libc::SYS_io_uring_setup, errno)];
        let (code, all) =
            refused("pingpong rc --datapath uring --address 127.0.0.87 127.0.0.88", &refusals);
        assert_eq!(code, 3, "{all}");
        assert!(all.contains(words) && all.contains("--datapath udp"), "{all}");
    }
}

#[test]
fn a_refused_call_is_named_with_what_to_allow() {
    for errno in [EPERM, EACCES] {
        says(&[RefusedCall::socket(libc::AF_UNIX, errno)], &["was refused", "seccomp or AppArmor"]);
        says(
            &[RefusedCall::socket(libc::AF_INET, errno)],
            &["opening a UDP socket was refused", "seccomp"],
        );
        says(&[RefusedCall::of(libc::SYS_eventfd2, errno)], &["was refused", "eventfd"]);
        says(&[RefusedCall::of(libc::SYS_setsockopt, errno)], &["was refused", "setsockopt"]);
        says(
            &[RefusedCall::of(libc::SYS_recvmmsg, errno)],
            &["receiving packets was refused", "recvmmsg"],
        );
    }
    says(&[RefusedCall::of(libc::SYS_recvmmsg, ENOSYS)], &["receiving packets", "Linux 4.18"]);
    let steering = RefusedCall::option(libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF);
    says(&[steering], &["steering packets", "Linux 4.18"]);
}

/// Without netlink a process sees no interface, and must not be told that there is none.
#[test]
fn interfaces_that_are_hidden_are_not_taken_for_missing() {
    let netlink = [RefusedCall::socket(libc::AF_NETLINK, EPERM)];
    says(&netlink, &["cannot be seen", "AF_NETLINK", "seccomp"]);
    for words in
        ["devices", "devinfo", "gids", "doctor", "doctor --address 127.0.0.1", "devinfo -d uroce0"]
    {
        let (code, all) = refused(words, &netlink);
        assert_eq!(code, 3, "{words}: {all}");
        assert!(all.contains("AF_NETLINK"), "{words}: {all}");
    }
}

/// Runs a script of the shell with the program as `$U`, as another root of names.
fn unshared(what: &str, script: &str) -> Option<Output> {
    let ran =
        Command::new("unshare").arg(what).args(["sh", "-c", script]).env("U", PROGRAM).output();
    let output = ran.expect("util-linux");
    if String::from_utf8_lossy(&output.stderr).starts_with("unshare:") {
        assert!(std::env::var_os("CI").is_none(), "{}", text(&output));
        println!("skipped: needs the right to make namespaces");
        return None;
    }
    Some(output)
}

#[test]
fn a_loopback_interface_that_is_down_is_told() {
    let Some(output) = unshared("--net", "$U demo --quick") else { return };
    assert_eq!(code(&output), 3, "{}", text(&output));
    assert!(text(&output).contains("`ip link set lo up`"), "{}", text(&output));
}

/// No place to write, and no shared memory.
const READ_ONLY: &str = "mount --make-rprivate / && mount -t tmpfs none /var/tmp && cp $U /var/tmp/uroce && \
                         mount -o remount,ro /var/tmp; for at in /tmp /run; do mount -t tmpfs -o ro none $at; done; \
                         umount -l /dev/shm; mount -t tmpfs -o ro none /dev; export HOME=/run XDG_RUNTIME_DIR=/run; cd /;";

#[test]
fn no_place_to_write_and_no_shared_memory_are_no_hindrance() {
    let run = |words: &str| unshared("--mount", &format!("{READ_ONLY} /var/tmp/uroce {words}"));
    let Some(output) = run("demo --quick --roce-port 24872") else { return };
    assert_eq!(code(&output), 0, "{}", text(&output));
    for (words, remedy) in [
        ("demo --quick --pcap /tmp/x.pcapng", "choose a writable place"),
        ("serve 127.0.0.87", "name another --socket"),
        ("doctor --address 127.0.0.87", "mount -t tmpfs"),
    ] {
        let output = run(words).expect("as before");
        assert!(text(&output).contains(remedy), "{words}: {}", text(&output));
        assert!(output.status.code().is_some(), "no signal: {words}: {}", text(&output));
    }
}

fn run_in(folder: &Path, words: &str) -> (i32, String) {
    let output = uroce(words).env("UROCE_LIBRARIES", folder).output().expect("built");
    (code(&output), text(&output))
}

/// The headers of a program for aarch64 and for 32-bit x86; nothing more of them is looked at.
fn elf(class: u8, machine: u16) -> Vec<u8> {
    let mut bytes = b"\x7fELF".to_vec();
    bytes.extend([class, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
    bytes.extend(machine.to_le_bytes());
    bytes.resize(128, 0);
    bytes
}

#[test]
fn a_program_of_another_architecture_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().expect("a folder");
    libraries(folder.path());
    let other = if cfg!(target_arch = "aarch64") { (62, "x86_64") } else { (183, "aarch64") };
    for (bytes, words) in [
        (elf(2, other.0), format!("it is a program for {}", other.1)),
        (elf(1, 8), "it is a program for MIPS".to_owned()),
        (b"\x7fELF".to_vec(), "it is a program for another machine".to_owned()),
        (b"#!/no/such/interpreter\n".to_vec(), "interpreter in its first line".to_owned()),
    ] {
        let program = folder.path().join("program");
        std::fs::write(&program, bytes).expect("a file");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("ours");
        let (code, all) = run_in(folder.path(), &format!("run -- {}", program.display()));
        assert_eq!(code, 3, "{all}");
        assert!(all.contains(&words), "{words}: {all}");
    }
    let script = folder.path().join("program");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o644)).expect("ours");
    let (code, all) = run_in(folder.path(), &format!("run -- {}", script.display()));
    assert!(code == 3 && all.contains("not executable"), "{all}");
}

#[test]
fn a_program_is_given_the_port_of_the_environment_or_of_the_command_line() {
    let folder = TempDir::new().expect("a folder");
    libraries(folder.path());
    for (words, port) in [("run -- env", 4795), ("run --roce-port 4796 -- env", 4796)] {
        let mut command = uroce(words);
        command.env("UROCE_LIBRARIES", folder.path()).env("UROCE_ROCE_PORT", "4795");
        let all = text(&command.output().expect("built"));
        assert!(all.contains(&format!("UROCE_ROCE_PORT={port}\n")), "{words}: {all}");
    }
}

#[test]
fn a_library_that_does_not_belong_to_the_program_is_told() {
    let folder = TempDir::new().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let says = |words: &str, expected: &[&str]| {
        let (code, all) = run_in(folder.path(), words);
        assert_eq!(code, 3, "{words}: {all}");
        assert!(expected.iter().all(|word| all.contains(word)), "{expected:?}: {all}");
    };
    libraries(folder.path());
    assert_eq!(run_in(folder.path(), "run -- true").0, 0);
    assert_eq!(run_in(folder.path(), "run --drop-in -- true").0, 0);
    library(&at("liburoce_ibverbs.so"), "0.0.9");
    says("run -- true", &["is of uroce 0.0.9, and this is uroce 0", "from one package"]);
    library(&at("drop-in/liburoce_paths.so"), "99.0.0");
    says("run --drop-in -- true", &["liburoce_paths.so is of uroce 99.0.0"]);
    let other = if cfg!(target_arch = "aarch64") { 62 } else { 183 };
    std::fs::write(at("liburoce_ibverbs.so"), elf(2, other)).expect("a file");
    says("run -- true", &["is for ", "and this uroce is for ", "install the package"]);
    for bytes in [b"".as_slice(), b"text", &elf(2, if other == 62 { 183 } else { 62 })] {
        std::fs::write(at("liburoce_ibverbs.so"), bytes).expect("a file");
        says("run -- true", &["is not a library of ours", "install uroce again"]);
    }
    let foreign = at("liburoce_ibverbs.so").display().to_string();
    compile("int ibv_get_device_list(void) { return 0; }", &["-shared", "-o", &foreign]);
    says("run -- true", &["is not a library of ours"]);
    libraries_again(&at("drop-in"));
    std::fs::remove_file(at("drop-in/librdmacm.so.1")).expect("ours");
    says("run --drop-in -- true", &["librdmacm.so.1 cannot be used", "one package"]);
    library(&at("drop-in/librdmacm.so.1"), env!("CARGO_PKG_VERSION"));
    says("run --drop-in -- true", &["librdmacm.so.1 is not the same file"]);
    std::fs::remove_file(at("drop-in/liburoce_paths.so")).expect("ours");
    says("run --drop-in -- true", &["liburoce_paths.so is in none of"]);
}

/// The library beside the one that had another version.
fn libraries_again(drop_in: &Path) {
    library(&drop_in.join("liburoce_paths.so"), env!("CARGO_PKG_VERSION"));
}
