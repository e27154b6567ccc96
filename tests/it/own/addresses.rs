//! A target of several addresses.

use dmbench::lab::proxy::Proxy;
use dmbench::mysql::{Endpoint, Flavor};

use super::{BULK, Desk, servers, stream};
use crate::support::wait_until;

fn proxy(server: &Endpoint) -> Proxy {
    let address = server.address.to_string().parse().expect("an address");
    Proxy::start(address).expect("a proxy")
}

/// A desk whose target has a further address.
fn desk(source: &Endpoint, target: &Endpoint, task: &str, further: &str) -> Desk {
    let desk = Desk::of(source, target, task, "");
    let lab = desk.path().join("lab.toml");
    let text = std::fs::read_to_string(&lab).expect("read");
    let line = format!("addresses = [\"{further}\"]\n");
    std::fs::write(lab, text + &line).expect("written");
    desk
}

/// One of the two ways to the target is gone for good in the middle of a trial.
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_spread_and_an_address_that_goes_is_passed_over() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let proxy = proxy(pair.target());
        let further = proxy.address().to_string();
        let desk = desk(pair.source(), pair.target(), &stream("4s"), &further);

        let (code, stdout, stderr) =
            desk.dmbench(&["check", "t.toml", "--lab", "lab.toml", "--json"]);
        assert_eq!(code, 0, "{stderr}");
        let json: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
        let first = pair.target().address.to_string();
        assert_eq!(json["servers"]["target"]["address"], first, "its round trip is one server's");
        let found = &json["servers"]["further-targets"][0];
        assert_eq!(found["address"], further.as_str(), "{found}");
        assert!(found["round-trip"]["median-s"].as_f64() > Some(0.0), "{found}");

        let mut run = desk.start(&["run", "t.toml", "--lab", "lab.toml"]);
        wait_until("workers have connected by both ways", || {
            assert_eq!(run.try_wait().expect("a child"), None, "{}", desk.stderr());
            proxy.connection_count() >= 8
        });
        drop(proxy);
        let status = run.wait().expect("ended");
        assert_eq!(status.code(), Some(0), "{flavor}: {}", desk.stderr());
        let facts = &desk.run_json()["tasks"][0]["lab"]["target"];
        assert_eq!(facts["address"], format!("{}, {further}", pair.target().address));
        let trial = desk.trial_json();
        assert_eq!(trial["verdict"]["is"], "equal", "{trial}");
        let codes = trial["findings"].to_string();
        assert!(codes.contains("statements-not-counted"), "{codes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_two_servers_are_refused() {
    let (pair, _guard) = servers(Flavor::Mysql).await;
    let other = pair.source().address.to_string();
    let desk = desk(pair.source(), pair.target(), BULK, &other);
    let verify = ["verify", "--schemas", "mysql"];
    for command in [&["run", "t.toml"][..], &["check", "t.toml"], &verify] {
        let (code, _, stderr) = desk.dmbench(&[command, &["--lab", "lab.toml"]].concat());
        assert_eq!(code, 4, "{stderr}");
        assert!(stderr.contains("neither one server nor one cluster"), "{stderr}");
    }
}
