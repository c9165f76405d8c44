//! What the program says when something is not as it should be.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::common::{code, ends, free_port, run, spawn, stderr, stdout, uroce};

fn json(output: &Output) -> serde_json::Value {
    let one = serde_json::from_slice(&output.stdout);
    one.unwrap_or_else(|error| panic!("{error}: {}{}", stdout(output), stderr(output)))
}

#[test]
fn v125_only_one_end_needs_to_be_told_what_is_sent() {
    for client in ["-a -n 5", "-s 100000 -n 20", "-D 1"] {
        for test in ["write bw", "send bw", "read lat", "send lat"] {
            if test.ends_with("lat") && client.contains("100000") {
                continue;
            }
            let [server, client] = ends(&format!("perf {test}"), &format!("perf {test} {client}"));
            for end in [&server, &client] {
                assert_eq!(code(end), 0, "{test}: {}{}", stdout(end), stderr(end));
            }
        }
    }
}

#[test]
fn v125_ends_that_run_different_tests_say_so() {
    for end in ends("perf send bw", "perf write bw") {
        assert_eq!(code(&end), 4, "{}", stderr(&end));
    }
    let [server, client] = ends("pingpong uc -n 20", "pingpong rc -n 20");
    let both = stderr(&server) + &stderr(&client);
    assert!(both.contains("another kind of pingpong"), "{both}");
    assert!(!both.contains("-c RC\n"), "{both}");
}

#[test]
fn v126_lost_output_is_no_success() {
    for words in ["devices", "devinfo --json", "completions bash", "gids"] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let output = uroce(words).stdout(full).output().expect("built");
        assert_eq!(code(&output), 3, "{words}: {}", stderr(&output));
        assert!(stderr(&output).contains("could not be written"), "{}", stderr(&output));
    }
}

#[test]
fn v126_json_is_one_object_always() {
    let names = json(&run("devinfo -l --json"));
    assert!(names["devices"].as_array().is_some_and(|all| !all.is_empty()), "{names}");
    let failed = run("devinfo -d no_such_device --json");
    assert_eq!((code(&failed), &json(&failed)["exit"]), (3, &3.into()));
    let nobody = run(&format!("perf write bw --json -p {} 127.0.0.1", free_port()));
    assert_eq!(json(&nobody)["exit"], 4);
    assert!(json(&nobody)["help"].as_str().is_some_and(|help| help.contains("server first")));
    let missing = json(&run("dissect --json"));
    assert!(missing["error"].as_str().is_some_and(|error| error.contains("<FILE>")), "{missing}");
    let typo = json(&run("perf write bw --sze 3 --json"));
    assert!(typo["help"].as_str().is_some_and(|help| help.contains("--size")), "{typo}");
    for words in ["conform --list", "conform --explain rc.responder.send-only"] {
        let cases = json(&run(&format!("{words} --json")));
        assert_eq!((&cases["version"], cases["cases"][0]["class"].is_string()), (&1.into(), true));
    }
    let roce = free_port();
    let words = format!("-v --json --roce-port {roce} -a 127.0.0.1 -p 7179");
    let mut server = spawn(&format!("rping -s {words}"));
    let mut lines = BufReader::new(server.stderr.take().expect("piped")).lines();
    assert!(lines.next().is_some_and(|line| line.is_ok_and(|line| line.contains("waiting"))));
    let client = run(&format!("rping -c {words} -C 2"));
    assert_eq!(json(&client)["pings"], 2);
    assert!(stderr(&client).contains("ping data: rdma-ping-1"), "{}", stderr(&client));
    lines.for_each(drop);
    assert_eq!(json(&server.wait_with_output().expect("it ends"))["pings"], 2);
}

#[test]
fn v126_a_level_is_offered_only_if_it_is_there() {
    let help = stdout(&run("--help"));
    assert!(help.contains("debug") && !help.contains("trace"), "{help}");
    let output = uroce("--log debug devices").env_remove("NO_COLOR").output().expect("built");
    assert!(!stderr(&output).contains('\u{1b}'), "{}", stderr(&output));
}

#[test]
fn a_recording_goes_into_a_pipe_and_not_to_stdout() {
    let folder = TempDir::new().expect("a folder");
    let refused =
        uroce("demo --pcap -").current_dir(folder.path()).output().expect("the program was built");
    assert_eq!(code(&refused), 2, "{}", stderr(&refused));
    assert!(stderr(&refused).contains("mkfifo") && !folder.path().join("-").exists());
    let pipe = folder.path().join("live.pcapng");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()));
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read(pipe).expect("a pipe")
    });
    let words = format!("perf send lat --local -n 20 --pcap {}", pipe.display());
    assert_eq!(code(&run(&words)), 0);
    let copy = folder.path().join("copy.pcapng");
    std::fs::write(&copy, reader.join().expect("it reads")).expect("room");
    let text = stdout(&run(&format!("dissect {}", copy.display())));
    assert!(text.lines().filter(|line| line.contains("RC_SEND")).count() >= 40, "{text}");
}

#[test]
fn v127_a_demonstration_that_is_interrupted_ends_with_a_summary_and_a_whole_capture() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("demo.pcapng");
    let mut child = spawn(&format!("demo --datapath loopback --pcap {}", file.display()));
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let begun = lines.any(|line| line.is_ok_and(|line| line.starts_with("SEND ")));
    assert!(begun, "it says what it does");
    let done = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(done.is_ok_and(|status| status.success()));
    let rest: String = lines.map_while(Result::ok).collect();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 0, "{rest}{}", stderr(&output));
    assert!(rest.contains("checks passed"), "{rest}");
    let file = std::fs::File::open(file).expect("written");
    let mut reader = pcap_file::pcapng::PcapNgReader::new(file).expect("a header");
    let mut blocks = 0;
    while let Some(block) = reader.next_block() {
        block.expect("whole");
        blocks += 1;
    }
    assert!(blocks > 2, "{blocks}");
}

#[test]
fn v127_what_cannot_hold_under_loss_or_with_engines_is_skipped() {
    let lossy = run(&format!(
        "demo --quick --fault drop=0.0001% --json --a 127.0.0.73 --b 127.0.0.74 --roce-port {}",
        free_port()
    ));
    assert_eq!(code(&lossy), 0, "{}{}", stdout(&lossy), stderr(&lossy));
    let parts = run(&format!(
        "demo --quick --engines 2 --json --a 127.0.0.75 --b 127.0.0.76 --roce-port {}",
        free_port()
    ));
    assert_eq!(code(&parts), 0, "{}{}", stdout(&parts), stderr(&parts));
    for (output, name) in [(&lossy, "UC SEND"), (&parts, "BIND memory window")] {
        let all = json(output);
        let checks = all["checks"].as_array().expect("a list");
        let check = checks.iter().find(|check| check["operation"] == name).expect("it is there");
        assert_eq!(check["result"], "skipped", "{check}");
    }
}

#[test]
fn v130_a_server_says_that_it_waits_when_it_can_be_called() {
    let taken = TcpListener::bind("0.0.0.0:0").expect("free");
    let port = taken.local_addr().expect("bound").port();
    for words in ["pingpong rc", "perf write bw"] {
        let output = run(&format!("{words} -p {port}"));
        assert_eq!(code(&output), 3, "{}", stderr(&output));
        let said = stdout(&output) + &stderr(&output);
        assert!(!said.to_lowercase().contains("waiting"), "{said}");
    }
}

#[test]
fn v130_what_this_end_lacks_is_told_before_the_network_is_asked() {
    let start = Instant::now();
    for (words, exit) in [
        ("pingpong ud -s 5000 127.0.0.1", 2),
        ("pingpong rc --address 198.51.100.8 127.0.0.1", 3),
        ("perf write bw --address 198.51.100.8 127.0.0.1", 3),
    ] {
        let output = run(&format!("{words} -p {}", free_port()));
        assert_eq!(code(&output), exit, "{words}: {}", stderr(&output));
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn v130_link_local_addresses_are_named_as_not_supported() {
    let output = run("demo --a fe80::1234 --b fe80::1235");
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("link-local"), "{}", stderr(&output));
}

#[test]
fn v131_who_asks_about_nothing_is_told_so() {
    let output = run("res --pid 4194305");
    assert_eq!((code(&output), stdout(&output)), (0, String::new()));
    assert!(stderr(&output).contains("there is no process 4194305"), "{}", stderr(&output));
    let own = run(&format!("stat --pid {}", std::process::id()));
    assert!(stderr(&own).contains("no device open"), "{}", stderr(&own));
}

#[test]
fn a_device_that_a_variable_names_is_told_with_the_variable() {
    let output = uroce("gids").env("UROCE_DEVICE", "none7").output().expect("it was built");
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    let sentence = "no device \"none7\", which UROCE_DEVICE names";
    assert!(stderr(&output).contains(sentence), "{}", stderr(&output));
    assert!(!stderr(&run("gids -d none7")).contains("UROCE_DEVICE"), "it was on the command line");
}

/// A copy of the program's libraries is not needed to be refused: an empty file has the right name.
pub fn libraries(folder: &Path) {
    std::fs::create_dir_all(folder.join("drop-in")).expect("a folder");
    for name in ["liburoce_ibverbs.so", "drop-in/libibverbs.so.1", "drop-in/liburoce_paths.so"] {
        library(&folder.join(name), env!("CARGO_PKG_VERSION"));
    }
    std::os::unix::fs::symlink("libibverbs.so.1", folder.join("drop-in/librdmacm.so.1"))
        .expect("a link");
}

/// A library as one of that version of uroce.
pub fn library(file: &Path, version: &str) {
    let mark = version.replace('.', "_");
    let source =
        format!("int ibv_get_device_list(void) {{ return 0; }} long uroce_version_{mark};");
    compile(&source, &["-shared", "-o", &file.display().to_string()]);
}

/// Compiles C, from its standard input.
pub fn compile(source: &str, words: &[&str]) {
    use std::io::Write as _;
    let mut cc = std::process::Command::new("cc");
    cc.args(["-x", "c", "-", "-x", "none"]).args(words).stdin(std::process::Stdio::piped());
    let mut cc = cc.spawn().expect("a C compiler");
    let mut input = cc.stdin.take().expect("piped");
    input.write_all(source.as_bytes()).expect("it reads");
    drop(input);
    assert!(cc.wait().expect("it runs").success(), "{source}");
}

#[test]
fn a_program_that_needs_newer_names_or_a_library_that_is_not_there_is_refused() {
    let folder = TempDir::new().expect("a folder");
    libraries(folder.path());
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (map, theirs, program) = (at("names.map"), at("libibverbs.so.1"), at("program"));
    std::fs::write(&map, "IBVERBS_1.99 { global: ibv_of_the_future; local: *; };").expect("a file");
    let script = format!("-Wl,--version-script={map}");
    let soname = "-Wl,-soname,libibverbs.so.1";
    let library = "int ibv_of_the_future(void) { return 3; }";
    compile(library, &["-shared", &script, soname, "-o", &theirs]);
    let source = "int ibv_of_the_future(void); int main(void) { return ibv_of_the_future(); }";
    let search = format!("-Wl,-rpath,{}", folder.path().display());
    compile(source, &["-o", &program, &theirs, &search]);
    let run = || {
        let run =
            uroce(&format!("run -- {program}")).env("UROCE_LIBRARIES", folder.path()).output();
        run.expect("built")
    };
    let newer = run();
    assert_eq!(code(&newer), 3, "{}", stderr(&newer));
    let told = stderr(&newer);
    assert!(told.contains("needs ibv_of_the_future (IBVERBS_1.99)"), "{told}");
    assert!(told.contains("update uroce"), "{told}");
    std::fs::remove_file(&theirs).expect("ours");
    let without = run();
    // Where the system has one, it is found in its place, and the name is as new as before.
    assert_eq!(code(&without), 3, "{}", stderr(&without));
    std::fs::write(folder.path().join("liburoce_ibverbs.so"), "").expect("a file");
    compile("int main(void) { return 0; }", &["-o", &program]);
    let mismatched = run();
    assert_eq!(code(&mismatched), 3, "{}", stderr(&mismatched));
    assert!(stderr(&mismatched).contains("is not a library of ours"), "{}", stderr(&mismatched));
}

#[test]
fn v128_a_program_that_cannot_get_our_library_is_refused_or_noted() {
    let folder = TempDir::new().expect("a folder");
    libraries(folder.path());
    let run =
        |words: &str| uroce(words).env("UROCE_LIBRARIES", folder.path()).output().expect("built");
    let missing = run("run -- nosuchprogram");
    assert_eq!(code(&missing), 3);
    assert!(
        stderr(&missing).contains("there is no program \"nosuchprogram\""),
        "{}",
        stderr(&missing)
    );
    let address = run("run --address 198.51.100.8 -- true");
    assert_eq!(code(&address), 3, "{}", stderr(&address));
    let address = run("run -d 198.51.100.8 -- true");
    assert_eq!(code(&address), 3, "{}", stderr(&address));
    let copy = folder.path().join("setgid");
    std::fs::copy("/bin/true", &copy).expect("a copy");
    let own = rustix::process::getegid().as_raw();
    if own == 0 {
        std::os::unix::fs::chown(&copy, None, Some(65_534)).expect("root may");
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o2755)).expect("ours");
        let refused = run(&format!("run -- {}", copy.display()));
        assert_eq!(code(&refused), 3, "{}", stderr(&refused));
        assert!(stderr(&refused).contains("setuid or setgid"), "{}", stderr(&refused));
    }
}

#[test]
fn v129_a_library_in_a_folder_with_a_space_is_loaded_by_another_name() {
    let folder =
        tempfile::Builder::new().prefix("a path: with spaces").tempdir().expect("a folder");
    libraries(folder.path());
    let shown = uroce("run -- printenv LD_PRELOAD").env("UROCE_LIBRARIES", folder.path()).output();
    let shown = shown.expect("built");
    let path = stdout(&shown);
    assert!(path.ends_with("/liburoce_ibverbs.so\n") && !path.contains([' ', ':']), "{path}");
    assert!(Path::new(path.trim_end()).is_file(), "{path}");
    let relative = uroce("run -- printenv LD_PRELOAD")
        .env("UROCE_LIBRARIES", ".")
        .current_dir(folder.path())
        .output()
        .expect("built");
    assert_eq!(stdout(&relative), path, "the program may go elsewhere");
    let dropped =
        uroce("run --fault drop=12.5% --fault-seed 7 -- printenv UROCE_FAULT UROCE_FAULT_SEED")
            .env("UROCE_LIBRARIES", folder.path())
            .output()
            .expect("built");
    assert_eq!(stdout(&dropped), "any -> drop p=0.125 also\n7\n");
}

#[test]
fn rules_are_shown_in_full_and_as_sentences() {
    let output = uroce("fault check").arg("rx op=ack -> drop count=1; tx drop 1%").output();
    let shown = stdout(&output.expect("built"));
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!((lines[0], lines.len()), ("  1  rx op=ack -> drop count=1", 5), "{shown}");
    assert!(
        lines[1].starts_with("     ") && lines[1].contains("arrive, operation ack: drop"),
        "{shown}"
    );
    let output = uroce("fault check --json").arg("rx op=ack -> drop count=1").output();
    let rules = json(&output.expect("built"));
    assert!(rules["rules"][0]["sentence"].as_str().is_some_and(|text| text.contains("arrive")));
}

/// Whoever kills a run gets no report at its end.
#[test]
fn a_seed_that_is_drawn_is_told_at_the_start() {
    let mut demo = uroce("demo");
    demo.args(["--fault", "rx drop 0.001%"]);
    let mut demo = demo.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("built");
    let mut first = String::new();
    let mut errors = BufReader::new(demo.stderr.take().expect("piped"));
    errors.read_line(&mut first).expect("it says so");
    assert!(first.starts_with("faults: to repeat them: --fault-seed "), "{first}");
    assert!(demo.wait().expect("ours").success());
}
