//! Certificates and token of one server, made at start; clients get them in a kubeconfig.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use k8s_openapi::ByteString;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::json;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::api::store::random_uid;

/// A name in every server certificate, so that clients may use any address.
const SERVER_NAME: &str = "kubernetes.default.svc";

#[derive(Debug)]
pub(super) struct Identity {
    pub(super) token: String,
    /// The authority's certificate, PEM.
    pub(super) ca_pem: String,
}

impl Identity {
    /// Makes a CA and a token, and what serves TLS: a certificate for `ip`, loopback and the usual names.
    pub(super) fn new(ip: IpAddr) -> Result<(Self, TlsAcceptor)> {
        let names = [SERVER_NAME, "kubernetes", "localhost", "127.0.0.1", "::1", &ip.to_string()];
        let (ca_pem, certificate, key) = issue(names.map(String::from).into())?;
        let key = PrivateKeyDer::try_from(key).map_err(anyhow::Error::msg)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let token = random_uid();
        Ok((Self { token, ca_pem }, TlsAcceptor::from(Arc::new(config))))
    }

    pub(super) fn kubeconfig(&self, server: SocketAddr) -> String {
        let cluster = json!({
            "server": format!("https://{server}"),
            "certificate-authority-data": ByteString(self.ca_pem.clone().into_bytes()),
            "tls-server-name": SERVER_NAME,
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": "lab", "user": {"token": self.token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab", "namespace": "default"}}],
        });
        format!("{config:#}\n")
    }
}

fn issue(names: Vec<String>) -> Result<(String, CertificateDer<'static>, Vec<u8>), rcgen::Error> {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    ca.distinguished_name.push(DnType::CommonName, "epguard-lab");
    let ca_key = KeyPair::generate()?;
    let ca_pem = ca.self_signed(&ca_key)?.pem();

    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    let certificate = params.signed_by(&key, &Issuer::new(ca, ca_key))?;
    Ok((ca_pem, certificate.der().clone(), key.serialize_der()))
}
