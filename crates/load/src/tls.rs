//! Sets up TLS connections.

use super::{LoadError, LoadPlaceholders, target};
use provoke_model::{HttpVersion, TargetPlan};
use provoke_words::untrusted::Untrusted as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// Name of HTTP/2 in a TLS handshake.
pub(super) const H2: &[u8] = b"h2";

/// Opens TLS connections to one host name.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) connector: TlsConnector,
    pub(super) name: ServerName<'static>,
    /// The handshake must select HTTP/2.
    pub(super) two: bool,
}

impl Tls {
    pub(super) fn new(
        plan: &TargetPlan,
        host: &str,
        fill: &LoadPlaceholders,
    ) -> Result<Self, LoadError> {
        let provider = Arc::new(ring::default_provider());
        let wrong = |problem: &str, error: &dyn std::fmt::Display| LoadError::Tls {
            what: problem.to_owned(),
            why: error.to_string(),
        };
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong("the versions of TLS", &error))?;
        let config = if plan.insecure {
            config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        } else {
            let mut roots = RootCertStore::empty();
            let system = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(system.certs);
            if let Some(file) = &plan.ca {
                for certificate in read_certificates(&target::fill_path(file, fill))? {
                    let added = roots.add(certificate);
                    added.map_err(|error| wrong(&file.to_string(), &error))?;
                }
            }
            config.with_root_certificates(roots)
        };
        let mut config = match &plan.identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = read_certificates(&target::fill_path(certificate, fill))?;
                let path = target::fill_path(key, fill);
                let key = PrivateKeyDer::from_pem_file(&path)
                    .map_err(|error| wrong(&path.to_safe().into_string(), &error))?;
                let config = config.with_client_auth_cert(chain, key);
                config.map_err(|error| wrong(&certificate.to_string(), &error))?
            }
        };
        let two = plan.http == HttpVersion::Two;
        config.alpn_protocols = vec![if two { H2 } else { b"http/1.1" }.to_vec()];
        let name = ServerName::try_from(host.to_owned());
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name: name.map_err(|error| wrong(host, &error))?,
            two,
        })
    }
}

/// Explains an error that prevents all TLS connections, and what to do; returns `None` for
/// temporary errors.
pub(super) fn tls_obstacle(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?;
    if error.is::<Http2Rejected>() {
        return Some(format!("{error}: --http 1.1"));
    }
    Some(match error.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(error) => format!(
            "its certificate is not trusted: {error}; use --ca FILE to trust its issuer, or --insecure to trust any"
        ),
        rustls::Error::InvalidMessage(_) => {
            "it does not use TLS; use http:// in the URL".to_owned()
        }
        rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            format!("{Http2Rejected}: --http 1.1")
        }
        other_error => format!("TLS connection failed: {other_error}"),
    })
}

/// The server speaks TLS, but does not accept HTTP/2.
#[derive(Debug, thiserror::Error)]
#[error("it does not support HTTP/2")]
pub(super) struct Http2Rejected;

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let wrong = |problem: String| LoadError::Tls {
        what: path.to_safe().into_string(),
        why: problem,
    };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(|error| wrong(error.to_string()))?
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(error.to_string()))?;
    if certificates.is_empty() {
        return Err(wrong(String::from("it contains no certificate")));
    }
    Ok(certificates)
}

/// Verifier that accepts every certificate, as requested; signatures must still match its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
