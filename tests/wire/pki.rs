//! Certificates for the tests, and TLS for their servers.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// The host in the URLs of the tests.
pub(crate) const HOST: &str = "127.0.0.1";

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }

    /// For a server under this name or address.
    pub(crate) fn server(&self, host: &str) -> Identity {
        self.issue(host, ExtendedKeyUsagePurpose::ServerAuth, |_| {})
    }

    /// For a server, valid until the end of 2001.
    pub(crate) fn expired_server(&self, host: &str) -> Identity {
        self.issue(host, ExtendedKeyUsagePurpose::ServerAuth, |params| {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2001, 12, 31);
        })
    }

    pub(crate) fn client(&self, name: &str) -> Identity {
        self.issue(name, ExtendedKeyUsagePurpose::ClientAuth, |_| {})
    }

    fn issue(
        &self,
        name: &str,
        purpose: ExtendedKeyUsagePurpose,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        change(&mut params);
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}

impl Identity {
    /// TLS for a server with this certificate, which offers these protocols by ALPN.
    pub(crate) fn serve(&self, alpn: &[&str]) -> ServerConfig {
        self.configure(alpn, None)
    }

    /// The same, for clients with a certificate by `clients` only.
    pub(crate) fn serve_clients_of(&self, clients: &Authority, alpn: &[&str]) -> ServerConfig {
        self.configure(alpn, Some(clients))
    }

    fn configure(&self, alpn: &[&str], clients: Option<&Authority>) -> ServerConfig {
        let chain = vec![CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(clients) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(clients.roots()), provider);
                config.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let mut config = config.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config
    }
}
