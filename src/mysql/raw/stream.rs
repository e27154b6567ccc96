//! The bytes' way to a server: TCP, a Unix socket, or TLS over TCP.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::mysql::endpoint::{Address, Endpoint};

/// See the module.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Socket(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Opens a plain stream.
    pub(super) async fn open(endpoint: &Endpoint) -> io::Result<Stream> {
        match &endpoint.address {
            Address::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Address::Socket(path) => Ok(Stream::Socket(UnixStream::connect(path).await?)),
        }
    }

    /// Encrypts a plain stream over TCP; leaves any other as it is.
    pub(super) async fn encrypted(
        self,
        connector: &TlsConnector,
        name: ServerName<'static>,
    ) -> io::Result<Stream> {
        match self {
            Stream::Tcp(stream) => {
                Ok(Stream::Tls(Box::new(connector.connect(name, stream).await?)))
            }
            other => Ok(other),
        }
    }

    /// Whether nobody can listen, so that a password may go over it as it is.
    pub(super) fn is_private(&self) -> bool {
        !matches!(self, Stream::Tcp(_))
    }
}

/// Calls a function of whichever stream it is.
macro_rules! of_each {
    ($self:ident, $inner:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($inner) => $call,
            Stream::Socket($inner) => $call,
            Stream::Tls($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        of_each!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        of_each!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_each!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_each!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
