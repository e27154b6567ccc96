//! Whether and how a connection is encrypted, in the words of MySQL's own clients.
//!
//! Both the driver and raw connections keep to it. What the driver cannot do is refused here by name,
//! never left out: over a Unix socket it encrypts nothing, and without a name in the certificate it
//! verifies nothing.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use mysql_async::{ClientIdentity, DriverError, IoError, SslOpts};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use tokio_rustls::TlsConnector;

/// What is asked of a connection, as MySQL's `--ssl-mode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// Plain, also where the server could encrypt.
    #[default]
    Disabled,
    /// Encrypted where the server can; no certificate is checked.
    Preferred,
    /// Encrypted or not at all; no certificate is checked.
    Required,
    /// The certificate is signed by a known authority; its names do not matter.
    VerifyCa,
    /// The certificate is signed by a known authority and names the host that was asked for.
    VerifyIdentity,
}

/// How a connection is encrypted. Plain by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tls {
    /// What is asked of it.
    #[serde(default)]
    pub mode: TlsMode,
    /// PEM file of the authorities that may sign the server's certificate; Mozilla's where none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, for accounts made with `REQUIRE X509`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file of the client's private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

impl Tls {
    /// The driver's options; `None` for a plain connection.
    pub(super) fn opts(&self) -> Option<SslOpts> {
        let is_checked = match self.mode {
            TlsMode::Disabled => return None,
            TlsMode::Preferred | TlsMode::Required => false,
            TlsMode::VerifyCa | TlsMode::VerifyIdentity => true,
        };
        let identity = self.cert.clone().zip(self.key.clone());
        let roots: Vec<_> = self.ca.iter().map(|ca| ca.clone().into()).collect();
        Some(
            SslOpts::default()
                .with_danger_accept_invalid_certs(!is_checked)
                .with_disable_built_in_roots(is_checked && self.ca.is_some())
                .with_root_certs(roots)
                .with_client_identity(
                    identity.map(|(cert, key)| ClientIdentity::new(cert.into(), key.into())),
                ),
        )
    }

    /// What encrypts a raw connection.
    ///
    /// # Errors
    /// When a file cannot be read or is not what it should be.
    pub(super) fn connector(&self) -> io::Result<TlsConnector> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(ca) => {
                for authority in CertificateDer::pem_file_iter(ca).map_err(io::Error::other)? {
                    roots.add(authority.map_err(io::Error::other)?).map_err(io::Error::other)?;
                }
            }
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        }
        let verifier = Verifier {
            mode: self.mode,
            strict: WebPkiServerVerifier::builder(Arc::new(roots))
                .build()
                .map_err(io::Error::other)?,
        };
        let config = ClientConfig::builder()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match self.cert.as_ref().zip(self.key.as_ref()) {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = CertificateDer::pem_file_iter(cert)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                    .map_err(io::Error::other)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(io::Error::other)?;
                config.with_client_auth_cert(chain, key).map_err(io::Error::other)?
            }
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// The options to try with after a failure, where another try keeps what the mode promises:
    /// plain for `preferred` and a server without TLS, and for `verify-ca` with a name that the
    /// certificate holds. The driver compares names in any case, and only after it has found the
    /// certificate to be signed by a known authority, which it checks again with that name.
    pub(super) fn after(&self, error: &mysql_async::Error) -> Option<Option<SslOpts>> {
        match self.mode {
            TlsMode::Preferred if is_without_tls(error) => Some(None),
            TlsMode::VerifyCa => {
                let name = names_in_certificate(error)?.iter().find_map(|name| usable(name))?;
                Some(Some(self.opts()?.with_danger_tls_hostname_override(Some(name))))
            }
            _ => None,
        }
    }
}

/// Looks at a server's certificate as strictly as the mode says. Signatures are checked in any case.
#[derive(Debug)]
struct Verifier {
    mode: TlsMode,
    strict: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !matches!(self.mode, TlsMode::VerifyCa | TlsMode::VerifyIdentity) {
            return Ok(ServerCertVerified::assertion());
        }
        match self.strict.verify_server_cert(certificate, chain, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.mode == TlsMode::VerifyCa => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.strict.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.strict.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.strict.supported_verify_schemes()
    }
}

/// Whether the server has no TLS.
fn is_without_tls(error: &mysql_async::Error) -> bool {
    matches!(error, mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer))
}

/// What the encryption itself failed for, as opposed to the network below it.
pub(super) fn refusal(error: &mysql_async::Error) -> Option<&rustls::Error> {
    match error {
        mysql_async::Error::Io(IoError::Tls(error)) => {
            std::error::Error::source(error).and_then(|error| error.downcast_ref())
        }
        mysql_async::Error::Io(IoError::Io(error)) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// The names of a certificate that was refused for them alone.
fn names_in_certificate(error: &mysql_async::Error) -> Option<&[String]> {
    match refusal(error)? {
        rustls::Error::InvalidCertificate(rustls::CertificateError::NotValidForNameContext {
            presented,
            ..
        }) => Some(presented),
        _ => None,
    }
}

/// A name to ask for, from one as the driver shows it: `DnsName("*.db.example")`, `IpAddress(::1)`.
fn usable(name: &str) -> Option<String> {
    let inner = |prefix: &str, suffix: &str| name.strip_prefix(prefix)?.strip_suffix(suffix);
    match (inner("DnsName(\"", "\")"), inner("IpAddress(", ")")) {
        (Some(name), _) => Some(name.replacen("*.", "any.", 1)),
        (_, address) => address.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_the_driver_shows_them() {
        for (shown, name) in [
            ("DnsName(\"db.example\")", Some("db.example")),
            ("DnsName(\"*.db.example\")", Some("any.db.example")),
            ("IpAddress(10.0.0.1)", Some("10.0.0.1")),
            ("DirectoryName", None),
        ] {
            assert_eq!(usable(shown).as_deref(), name, "{shown}");
        }
    }

    #[test]
    fn plain_means_plain() {
        assert!(Tls::default().opts().is_none());
        let required = Tls { mode: TlsMode::Required, ..Tls::default() };
        assert!(required.opts().is_some_and(|opts| opts.accept_invalid_certs()));
        let verified = Tls { mode: TlsMode::VerifyCa, ca: Some("ca.pem".into()), ..required };
        let opts = verified.opts().expect("TLS");
        assert!(!opts.accept_invalid_certs() && opts.disable_built_in_roots());
    }
}
