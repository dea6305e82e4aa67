//! What the client trusts, and how it identifies itself.

use std::fmt;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

use crate::error::{Error, InvalidOption};

/// The options for TLS, as they were given: errors are for `build`.
#[derive(Clone, Default)]
pub(super) struct Tls {
    pub(super) roots: Option<Vec<u8>>,
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) config: Option<ClientConfig>,
}

impl Tls {
    pub(super) fn build(self) -> Result<ClientConfig, Error> {
        match self {
            Self { roots: None, identity: None, config: Some(config) } => Ok(config),
            Self { config: Some(_), .. } => {
                Err(invalid("a whole TLS configuration leaves no room for other TLS options"))
            }
            Self { roots, identity, config: None } => {
                let roots =
                    roots.map(|pem| certificates(&pem, "root certificates")).transpose()?.unwrap_or_default();
                identify(trusting(roots)?, identity)
            }
        }
    }

    /// Trusts nobody, so that every TLS handshake fails.
    pub(super) fn without_roots() -> Result<ClientConfig, Error> {
        let config = ClientConfig::builder_with_provider(provider()?).with_safe_default_protocol_versions();
        Ok(config.map_err(Error::new)?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
    }
}

fn invalid(reason: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(InvalidOption::new(reason))
}

/// Chosen here, because rustls panics where it must guess between two.
fn provider() -> Result<Arc<CryptoProvider>, Error> {
    #[cfg(feature = "ring")]
    return Ok(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
    return Ok(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
    return Err(invalid("TLS needs the feature `ring` or `aws-lc-rs`, or a whole TLS configuration"));
}

/// Trusts the platform's certificates and `roots`.
fn trusting(
    roots: Vec<CertificateDer<'static>>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Error> {
    // Asked before the verifier is, which would call it the peer's certificate.
    let mut usable = RootCertStore::empty();
    for root in &roots {
        usable.add(root.clone()).map_err(|error| invalid(format!("the root certificates: {error:?}")))?;
    }
    let provider = provider()?;
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.map_err(Error::new)?;
    #[cfg(target_os = "android")]
    if !roots.is_empty() {
        return Err(invalid("on Android further root certificates need a whole TLS configuration"));
    }
    #[cfg(not(target_os = "android"))]
    let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(roots, provider);
    #[cfg(target_os = "android")]
    let verifier = rustls_platform_verifier::Verifier::new(provider);
    let verifier = verifier
        .map_err(|error| invalid(format!("the platform's certificates cannot be loaded: {error}")))?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)))
}

fn identify(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
) -> Result<ClientConfig, Error> {
    let Some((chain, key)) = identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(&chain, "client certificate")?;
    let key =
        PrivateKeyDer::from_pem_slice(&key).map_err(|error| invalid(format!("the client's key: {error}")))?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| invalid(format!("the client certificate: {error}")))
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(invalid(format!("the {what}: there is none in the PEM text")))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(invalid(format!("the {what}: {error}"))),
    }
}

/// What was given, without keys.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("roots", &self.roots.is_some())
            .field("identity", &self.identity.is_some())
            .field("config", &self.config.is_some())
            .finish()
    }
}
