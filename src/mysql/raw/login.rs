//! Logging in: the handshake, encryption where it is asked for, and proving the password.

use std::io;

use mysql_async::DriverError;
use mysql_common::constants::CapabilityFlags;
use mysql_common::crypto;
use mysql_common::io::ParseBuf;
use mysql_common::packets::{
    AuthPlugin, AuthSwitchRequest, HandshakePacket, HandshakeResponse, SslRequest,
};
use mysql_common::proto::MySerialize;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::stream::Stream;
use super::{Raw, Result, lost, unexpected};
use crate::mysql::endpoint::{Address, Endpoint};
use crate::mysql::tls::TlsMode;

/// What this client can do. `CLIENT_LONG_PASSWORD` tells MariaDB that it knows no extensions.
const CAPABILITIES: CapabilityFlags = CapabilityFlags::CLIENT_PROTOCOL_41
    .union(CapabilityFlags::CLIENT_LONG_PASSWORD)
    .union(CapabilityFlags::CLIENT_SECURE_CONNECTION)
    .union(CapabilityFlags::CLIENT_TRANSACTIONS)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH);
/// Longest packet that this client says to take.
const LONGEST: u32 = 1 << 30;
/// `utf8mb4_general_ci`; the session's state sets the character set properly.
const COLLATION: u8 = 45;

/// What a server asks for in an answer to a password's proof.
const SWITCH: u8 = 0xFE;
const MORE: u8 = 0x01;
const PROVEN: u8 = 0x03;
const PASSWORD_ITSELF: u8 = 0x04;
const SEND_KEY: u8 = 0x02;

/// Connects and logs in.
pub(super) async fn log_in(endpoint: &Endpoint) -> Result<Raw> {
    let stream = Stream::open(endpoint).await.map_err(lost)?;
    let (frames, out) = Default::default();
    let mut raw = Raw { stream, frames, out, endpoint: endpoint.clone(), _seat: None, owed: true };
    let packet = raw.answer_packet().await?;
    let handshake = ParseBuf(packet).parse::<HandshakePacket<'_>>(())?;
    // Longer by its terminator.
    let mut nonce = handshake.nonce();
    nonce.resize(20, 0);
    let offered = handshake.capabilities();
    let plugin = match handshake.auth_plugin() {
        Some(AuthPlugin::CachingSha2Password) => AuthPlugin::CachingSha2Password,
        _ => AuthPlugin::MysqlNativePassword,
    };
    let capabilities = match connector(endpoint, offered)? {
        None => CAPABILITIES,
        Some((connector, name)) => {
            let capabilities = CAPABILITIES | CapabilityFlags::CLIENT_SSL;
            raw.send_struct(&SslRequest::new(capabilities, LONGEST, COLLATION)).await?;
            raw.stream = raw.stream.encrypted(&connector, name).await.map_err(lost)?;
            capabilities
        }
    };
    let proof = plugin.gen_data(Some(endpoint.password.expose()), &nonce);
    let response = HandshakeResponse::new(
        proof.as_deref(),
        (8, 0, 0),
        Some(endpoint.user.as_bytes()),
        None::<&[u8]>,
        Some(plugin.borrow()),
        capabilities,
        None,
        LONGEST,
    );
    raw.send_struct(&response).await?;
    raw.prove(plugin.into_owned(), nonce).await?;
    raw.owed = false;
    Ok(raw)
}

/// What encrypts the stream, and the server's name, where the endpoint asks for it.
fn connector(
    endpoint: &Endpoint,
    offered: CapabilityFlags,
) -> Result<Option<(TlsConnector, ServerName<'static>)>> {
    let (tls, can) = (&endpoint.tls, offered.contains(CapabilityFlags::CLIENT_SSL));
    let Address::Tcp { host, .. } = &endpoint.address else { return Ok(None) };
    match tls.mode {
        TlsMode::Disabled => return Ok(None),
        TlsMode::Preferred if !can => return Ok(None),
        _ if !can => return Err(DriverError::NoClientSslFlagFromServer.into()),
        _ => {}
    }
    let name = ServerName::try_from(host.clone()).map_err(|e| lost(io::Error::other(e)))?;
    Ok(Some((tls.connector().map_err(lost)?, name)))
}

impl Raw {
    /// Answers the server until it is convinced.
    async fn prove(&mut self, mut plugin: AuthPlugin<'static>, mut nonce: Vec<u8>) -> Result<()> {
        loop {
            let packet = self.answer_packet().await?;
            match packet {
                [0x00, ..] => return Ok(()),
                [MORE, PROVEN] => {}
                [MORE, PASSWORD_ITSELF] if plugin == AuthPlugin::CachingSha2Password => {
                    self.send_password(&nonce).await?;
                }
                [SWITCH, _, ..] => {
                    let asked = ParseBuf(packet).parse::<AuthSwitchRequest<'_>>(())?;
                    plugin = known(asked.auth_plugin())?;
                    nonce = asked.plugin_data().to_vec();
                    self.send_proof(&plugin, &nonce).await?;
                }
                packet => return Err(unexpected(packet)),
            }
        }
    }

    async fn send_proof(&mut self, plugin: &AuthPlugin<'_>, nonce: &[u8]) -> Result<()> {
        self.out.clear();
        if let Some(proof) = plugin.gen_data(Some(self.endpoint.password.expose()), nonce) {
            self.out.extend_from_slice(&proof);
        }
        self.send().await
    }

    /// Sends the password: as it is where nobody can listen, else encrypted with the server's key.
    async fn send_password(&mut self, nonce: &[u8]) -> Result<()> {
        let mut password = self.endpoint.password.expose().as_bytes().to_vec();
        password.push(0);
        if self.stream.is_private() {
            return self.send_bytes(&password).await;
        }
        self.send_bytes(&[SEND_KEY]).await?;
        let packet = self.answer_packet().await?;
        let [MORE, key @ ..] = packet else { return Err(unexpected(packet)) };
        if !key.starts_with(b"-----BEGIN") {
            return Err(unexpected(packet));
        }
        for (byte, mask) in password.iter_mut().zip(nonce.iter().cycle()) {
            *byte ^= mask;
        }
        let encrypted = crypto::encrypt(&password, key);
        self.send_bytes(&encrypted).await
    }

    async fn send_struct(&mut self, packet: &impl MySerialize) -> Result<()> {
        self.out.clear();
        packet.serialize(&mut self.out);
        self.send().await
    }

    async fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.clear();
        self.out.extend_from_slice(bytes);
        self.send().await
    }
}

/// A way to prove a password that this client knows and that does not give it away.
fn known(plugin: AuthPlugin<'_>) -> Result<AuthPlugin<'static>> {
    match plugin {
        AuthPlugin::CachingSha2Password | AuthPlugin::MysqlNativePassword | AuthPlugin::Ed25519 => {
            Ok(plugin.into_owned())
        }
        AuthPlugin::MysqlClearPassword => Err(DriverError::CleartextPluginDisabled.into()),
        AuthPlugin::MysqlOldPassword => Err(DriverError::MysqlOldPasswordDisabled.into()),
        AuthPlugin::MariadbParsec { .. } | AuthPlugin::Other(_) => {
            let name = String::from_utf8_lossy(plugin.as_bytes()).into_owned();
            Err(DriverError::UnknownAuthPlugin { name }.into())
        }
    }
}
