//! `uroce serve` and the commands that show what it serves.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::{code, text, uroce};

/// A running service with its folder.
struct Service {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Service {
    fn start(address: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("uroce-serve-it-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let free = std::net::UdpSocket::bind((address, 0)).expect("loopback");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let mut command = uroce(&format!("serve {address} --roce-port {port}"));
        command.env("UROCE_SERVE_SOCKET", folder.join("socket")).stderr(Stdio::null());
        let child = command.spawn().expect("the program was built");
        let service = Self { child, folder, port };
        let end = Instant::now() + Duration::from_secs(20);
        while service.run("serve --status").0 != 0 {
            assert!(Instant::now() < end, "it does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        service
    }

    /// Exit status and text of a command beside the service.
    fn run(&self, words: &str) -> (i32, String) {
        let mut command = uroce(words);
        command.env("UROCE_SERVE_SOCKET", self.folder.join("socket"));
        let output = command.output().expect("the program was built");
        (code(&output), text(&output))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

#[test]
fn a_service_is_shown_to_people_and_programs() {
    let service = Service::start("127.0.0.1");
    let port = service.port;
    let (_, lines) = service.run("serve --status");
    assert!(lines.starts_with(&format!("127.0.0.1:{port}: datapath udp, 0 clients")), "{lines}");
    let (status, json) = service.run("serve --status --json");
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((status, &value["version"]), (0, &1.into()));
    let address = &value["addresses"][0];
    assert_eq!((&address["address"], &address["port"]), (&"127.0.0.1".into(), &port.into()));
    assert_eq!((&address["datapath"], &address["clients"]), (&"udp".into(), &[(); 0][..].into()));
    for choice in ["", "--datapath served"] {
        let words = format!("devinfo --address 127.0.0.1 --roce-port {port} {choice} --json");
        let (status, json) = service.run(&words);
        assert_eq!(status, 0, "{json}");
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(value["devices"][0]["datapath"], "served", "{choice}");
    }
    let (status, json) = service.run("devinfo --address 127.0.0.1 --json");
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((status, &value["devices"][0]["datapath"]), (0, &"udp".into()), "another port");
}
