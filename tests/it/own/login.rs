//! Ways to log in: those that work, and how one is refused that does not.
//!
//! MariaDB's ed25519 plugin is not part of every package of it, so a scripted server asks for it.

use dmbench::mysql::raw::Raw;
use dmbench::mysql::{Endpoint, Flavor, Secret, Session};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::account;

#[tokio::test]
async fn accounts_of_each_flavour_log_in() {
    for (flavor, plugin) in
        [(Flavor::Mysql, "caching_sha2_password"), (Flavor::Mariadb, "mysql_native_password")]
    {
        let (pair, _guard) = super::servers(flavor).await;
        // Twice: the first login of caching_sha2_password takes another way than the next.
        let endpoint = account(pair.source(), "in", plugin, "p'\"\\@:/?#%25 é").await;
        for _ in 0..2 {
            Session::connect(&endpoint).await.expect("let in").close().await;
        }
        let endpoint = account(pair.source(), "raw", plugin, "p'\"\\@:/?#%25 é").await;
        for _ in 0..2 {
            Raw::connect(&endpoint).await.expect("let in").close().await;
        }
        let wrong = Endpoint { password: Secret::new("no"), ..endpoint };
        let error = Raw::connect(&wrong).await.expect_err("not let in");
        assert_eq!(error.code(), Some(1045), "{error}");
        let drop = ["DROP USER 'in'@'127.0.0.1'", "DROP USER 'raw'@'127.0.0.1'"];
        super::execute(pair.source(), &drop).await;
    }
}

#[tokio::test]
async fn ed25519_is_answered_and_an_unknown_plugin_is_named() {
    for raw in [false, true] {
        let (answer, _) = asked("client_ed25519", raw).await;
        assert_eq!(answer.len(), 64, "a signature");
        let (answer, error) = asked("dialog", raw).await;
        assert_eq!(answer, [0; 0]);
        assert!(error.contains("Unknown authentication plugin `dialog'"), "{error}");
        let hint = dmbench::mysql::hint(&error).expect("a hint");
        assert!(hint.contains("ALTER USER … IDENTIFIED WITH caching_sha2_password"), "{hint}");
    }
}

/// A client's answer to a server that asks for a plugin, and the error that it ends with when the
/// server then goes away.
async fn asked(plugin: &str, raw: bool) -> (Vec<u8>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let endpoint = Endpoint::tcp("127.0.0.1", port, "u", Secret::new("p"));
    let serve = async {
        let (mut stream, _) = listener.accept().await.expect("a client");
        send(&mut stream, 0, &greeting()).await;
        receive(&mut stream).await;
        send(&mut stream, 2, &[b"\xfe", plugin.as_bytes(), b"\0", &[7; 32]].concat()).await;
        receive(&mut stream).await
    };
    let log_in = async {
        match raw {
            false => Session::connect(&endpoint).await.map(drop),
            true => Raw::connect(&endpoint).await.map(drop),
        }
    };
    let (answer, let_in) = tokio::join!(serve, log_in);
    (answer, let_in.expect_err("the server goes away").to_string())
}

/// Protocol 10 of a server without TLS that knows of plugins.
fn greeting() -> Vec<u8> {
    let capabilities: u32 = 0x0001 | 0x0008 | 0x0200 | 0x2000 | 0x8000 | 0x0008_0000;
    let [a, b, c, d] = capabilities.to_le_bytes();
    let mut packet = b"\x0a11.4.2-MariaDB\0\x01\0\0\0".to_vec();
    packet.extend([7; 8]);
    packet.extend([0, a, b, 45, 2, 0, c, d, 21]);
    packet.extend([0; 10]);
    packet.extend([7; 12]);
    packet.extend(b"\0mysql_native_password\0");
    packet
}

async fn send(stream: &mut TcpStream, sequence: u8, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("short").to_le_bytes();
    let packet = [&length[..3], &[sequence], payload].concat();
    stream.write_all(&packet).await.expect("sent");
}

/// A packet's payload; empty where the client has gone.
async fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = [0; 4];
    if stream.read_exact(&mut head).await.is_err() {
        return Vec::new();
    }
    let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    stream.read_exact(&mut payload).await.expect("a whole packet");
    payload
}
