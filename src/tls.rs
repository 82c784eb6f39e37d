//! Trusted server certificates, and TLS errors with their remedies.
//!
//! Trusts the system's certificates, and those in the file that the user names in `SSL_CERT_FILE`, even if self-signed.
//! With `--insecure`, engines on this machine are not verified.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;
use url::Url;

use crate::fault::{Fault, Result};

/// The environment variable with a file of certificates that replaces the system's.
const FILE: &str = "SSL_CERT_FILE";

/// The remedy for an untrusted certificate.
const REMEDY: &str = "name a PEM file with it, or with the certificate of its issuer: `SSL_CERT_FILE=FILE profiler …`; a server on this machine may go \
     unverified: `--insecure`";

/// The remedy if the server may not use TLS.
const NO_TLS: &str = "if it speaks no TLS, write `http://` in place of `https://`";

/// The error of a machine without certificates, and its remedy.
const NO_CERTIFICATES: &str = "this machine has no CA certificates, so no server can be verified";
const INSTALL: &str = "install the system's CA certificates (package `ca-certificates`), or name a PEM file: `SSL_CERT_FILE=FILE profiler …`; a server \
     on this machine may go unverified: `--insecure`";

/// Whether engines on this machine are not verified.
static INSECURE: AtomicBool = AtomicBool::new(false);

/// From now on, certificates of engines on this machine are not verified, and connections to engines elsewhere are
/// refused.
pub fn allow_insecure() {
    INSECURE.store(true, Ordering::Relaxed);
}

/// Whether engines on this machine are not verified.
pub fn is_insecure() -> bool {
    INSECURE.load(Ordering::Relaxed)
}

/// Checks that connecting to a server is allowed while engines are not verified.
///
/// # Errors
///
/// `usage` with `--insecure` for a server on another machine.
pub fn check_insecure(url: &Url, is_loopback: bool) -> Result<()> {
    if is_loopback || !is_insecure() {
        return Ok(());
    }
    let host = url.host_str().unwrap_or_default();
    Err(Fault::usage(format!(
        "`--insecure` is for servers on this machine, and `{host}` is not"
    ))
    .hint("leave it out; a certificate that the system does not know is trusted with `SSL_CERT_FILE=FILE`"))
}

/// TLS that verifies every server. Certificates are read only once, because there are hundreds.
///
/// # Errors
///
/// `missing` if there are none.
pub fn verified() -> Result<Arc<ClientConfig>> {
    static CONFIG: LazyLock<Result<Arc<ClientConfig>, Error>> = LazyLock::new(|| config(false));
    usable(&CONFIG)
}

/// TLS to engines.
///
/// # Errors
///
/// `missing` if there are no certificates.
pub fn to_engines() -> Result<Arc<ClientConfig>> {
    static CONFIG: LazyLock<Result<Arc<ClientConfig>, Error>> = LazyLock::new(|| config(true));
    if is_insecure() { usable(&CONFIG) } else { verified() }
}

fn usable(config: &Result<Arc<ClientConfig>, Error>) -> Result<Arc<ClientConfig>> {
    config.clone().map_err(|error| {
        Fault::missing(
            format!("TLS cannot be used: {error}"),
            match std::env::var(FILE) {
                Ok(file) => format!("`{FILE}` names `{file}`: name a PEM file with certificates, or unset it"),
                Err(_) => INSTALL.to_owned(),
            },
        )
    })
}

fn config(insecure: bool) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Certificates::new(Arc::clone(&provider), insecure)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Verifies servers like the system. A certificate that the user named needs no issuer.
#[derive(Debug)]
struct Certificates {
    /// The system's certificates; a machine without any, such as a small container, still speaks plain HTTP.
    system: Result<Verifier, Error>,
    provider: Arc<CryptoProvider>,
    named: Vec<CertificateDer<'static>>,
    /// Whether servers on this machine go unverified.
    insecure: bool,
}

impl Certificates {
    fn new(provider: Arc<CryptoProvider>, insecure: bool) -> Result<Self, Error> {
        // The system's verifier does not trust the unreadable part of the file either.
        let read = std::env::var_os(FILE).and_then(|file| CertificateDer::pem_file_iter(file).ok());
        let system = Verifier::new(Arc::clone(&provider));
        if let (Err(error), Ok(_)) = (&system, std::env::var(FILE)) {
            return Err(error.clone());
        }
        Ok(Self {
            system,
            provider,
            named: read.into_iter().flatten().filter_map(Result::ok).collect(),
            insecure,
        })
    }
}

impl ServerCertVerifier for Certificates {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext, Revoked};
        if self.insecure && is_here(name) {
            return Ok(ServerCertVerified::assertion());
        }
        let system = self
            .system
            .as_ref()
            .map_err(|_| Error::General(NO_CERTIFICATES.to_owned()))?;
        let verified = system.verify_server_cert(server, intermediates, name, ocsp, now);
        let Err(Error::InvalidCertificate(why)) = &verified else {
            return verified;
        };
        // Validity times are checked before anything else.
        let is_out_of_time = matches!(
            why,
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } | Revoked
        );
        if is_out_of_time || !self.named.iter().any(|named| named == server) {
            return verified;
        }
        verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether a server's name is this machine's own.
fn is_here(name: &ServerName<'_>) -> bool {
    match name {
        ServerName::DnsName(name) => name.as_ref() == "localhost",
        ServerName::IpAddress(ip) => std::net::IpAddr::from(*ip).to_canonical().is_loopback(),
        _ => false,
    }
}

/// A TLS error for people, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Begins with `TLS`.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        use CertificateError::{Expired, ExpiredContext, NotValidForName, NotValidForNameContext};
        let (what, remedy) = match error {
            Error::InvalidCertificate(Expired | ExpiredContext { .. }) => (
                "the server's certificate has expired".to_owned(),
                "have it renewed; a server on this machine may go unverified: `--insecure`",
            ),
            Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => (
                "the server's certificate is for another name than that of the address".to_owned(),
                "give the address by a name that the certificate has (its `subjectAltName`); a server on this machine may go unverified: `--insecure`",
            ),
            Error::InvalidCertificate(why) => {
                let why = match why {
                    CertificateError::UnknownIssuer | CertificateError::Other(_) => {
                        "it is self-signed, or this machine does not trust its issuer".to_owned()
                    }
                    why => why.to_string(),
                };
                (format!("the server's certificate is not trusted: {why}"), REMEDY)
            }
            Error::General(text) if text == NO_CERTIFICATES => (text.clone(), INSTALL),
            Error::InvalidMessage(_) => ("what answers there does not speak TLS".to_owned(), NO_TLS),
            other => (
                other.to_string(),
                "see which versions of TLS the server speaks: 1.2 and 1.3 are spoken here",
            ),
        };
        Self {
            message: format!("TLS: {what}"),
            remedy: remedy.to_owned(),
        }
    }
}

impl Problem {
    /// The TLS error among an error and its causes.
    pub fn find(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<Error>() {
                return Some(Self::from(error));
            }
            // The text of `tokio_rustls`.
            if error.to_string() == "tls handshake eof" {
                return Some(Self {
                    message: "TLS: the server closed the connection at the handshake".to_owned(),
                    remedy: NO_TLS.to_owned(),
                });
            }
            // The error that an `io::Error` wraps is not its source.
            let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            cause = match wrapped {
                Some(wrapped) => Some(wrapped),
                None => error.source(),
            };
        }
        None
    }
}
