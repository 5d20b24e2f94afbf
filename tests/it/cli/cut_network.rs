//! Tests a host whose network is cut: an sshd in a network namespace of its own.

use super::ssh_server::{SSHD, SshServer, sshd};
use super::support::{Sandbox, after_joins};
use crate::needs::{needs, program, root};
use serde_json::Value;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A network namespace that one cable connects with this machine.
struct Network {
    name: String,
    address: String,
    server: Option<Child>,
}

impl Network {
    fn create() -> Self {
        let id = std::process::id();
        let network = Self {
            name: format!("pv{id}"),
            address: format!("10.{}.{}", 200 + id / 250 % 50, id % 250),
            server: None,
        };
        let (name, address) = (&network.name, &network.address);
        ip(&format!("netns add {name}"));
        ip(&format!(
            "link add {name}a type veth peer name {name}b netns {name}"
        ));
        ip(&format!("addr add {address}.1/24 dev {name}a"));
        ip(&format!("link set {name}a up"));
        ip(&format!("-n {name} addr add {address}.2/24 dev {name}b"));
        ip(&format!("-n {name} link set {name}b up"));
        ip(&format!("-n {name} link set lo up"));
        network
    }

    /// Starts an sshd in it, with the settings of another. The name `far` leads to it.
    fn serve(&mut self, sandbox: &Sandbox, near: &mut SshServer) {
        let settings = sandbox.read("sshd_config");
        let port = settings.split_once("127.0.0.1:").unwrap().1;
        let port: u16 = port.lines().next().unwrap().parse().unwrap();
        let address = format!("{}.2", self.address);
        let server = Command::new("ip")
            .args(["netns", "exec", &self.name, SSHD, "-D", "-e"])
            .args(["-o", &format!("ListenAddress={address}:{port}"), "-f"])
            .arg(sandbox.path("sshd_config"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.server = Some(server.unwrap());
        let listens = || TcpStream::connect((address.as_str(), port)).is_ok();
        super::support::wait_until("the far sshd listens", listens);
        let config = sandbox.path("ssh_config").display().to_string();
        let far = format!("Host far\n  HostName {address}\nMatch all\nInclude {config}\n");
        let far = sandbox.write("far_config", &far).display().to_string();
        near.command = near.command.replace(&config, &far);
    }

    fn cut(&self) {
        ip(&format!("link set {}a down", self.name));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        // A session whose network is cut would wait for minutes.
        let sessions = Command::new("ip")
            .args(["netns", "pids", &self.name])
            .output();
        let sessions = String::from_utf8(sessions.unwrap().stdout).unwrap();
        if !sessions.is_empty() {
            let _ = Command::new("kill")
                .arg("-KILL")
                .args(sessions.split_whitespace())
                .status();
        }
        ip(&format!("netns del {}", self.name));
    }
}

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output();
    let done = done.unwrap();
    assert!(done.status.success(), "ip {arguments}: {done:?}");
}

#[test]
fn a_cut_network_loses_the_host_and_no_trial() {
    needs![
        root(),
        sshd(),
        program("ssh"),
        program("ssh-keygen"),
        program("ip")
    ];
    let sandbox = Sandbox::new();
    let mut near = SshServer::start(&sandbox);
    let mut network = Network::create();
    network.serve(&sandbox, &mut near);
    let script = "sleep 0.02; case $PROVOKE_TRIAL in *3) kill -SEGV $$;; esac";
    let args = [
        "run",
        "--on",
        "ssh:a,far",
        "-j",
        "2",
        "-n",
        "200",
        "--capture",
        "off",
        "--progress=none",
        "--export-json",
        "report.json",
        "--shell",
        &after_joins(2, script),
    ];
    let running = sandbox.started_trials(20, near.provoke(&sandbox, &args));
    network.cut();
    assert_eq!(running.end().code, Some(1));
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    assert_eq!(report["variants"][0]["trials"], 200);
    assert_eq!(report["variants"][0]["failures"], 20);
    let hosts = report["hosts"].as_array().unwrap();
    let lost: Vec<&Value> = hosts.iter().map(|host| &host["lost"]).collect();
    assert!(
        lost.contains(&&Value::from("no data for 10 s")) && lost.contains(&&Value::Null),
        "{hosts:?}"
    );
    // The far worker hears nothing either, and ends.
    near.assert_nothing_left();
}
