// See pki.h. One function, Sign, makes every leaf, whether its key was made here or arrived in a
// request, so that both ways give the same certificate.
#include "security/pki.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <ctime>

#include "security/certificate_parsing.h"

namespace causeway::security {
namespace {

constexpr char kCurve[] = "P-256";
constexpr char kDomainScheme[] = "spiffe://";

absl::Status Internal(const std::string& what) {
  return OpensslError(absl::StatusCode::kInternal, what);
}

absl::StatusOr<KeyHandle> MakeKey() {
  KeyHandle key(EVP_EC_gen(kCurve));
  if (key == nullptr) return Internal("cannot make a P-256 key");
  return key;
}

absl::StatusOr<std::string> KeyPem(EVP_PKEY* key) {
  const BioHandle bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return Internal("cannot write a private key");
  }
  return TakeBytes(bio.get());
}

absl::StatusOr<std::string> CertificatePem(X509* certificate) {
  const BioHandle bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(bio.get(), certificate) != 1)
    return Internal("cannot write a certificate");
  return TakeBytes(bio.get());
}

bool SetCommonName(X509_NAME* name, const std::string& text) {
  constexpr size_t kCommonNameLengthMax = 64;  // X.520's ub-common-name
  return X509_NAME_add_entry_by_txt(
             name, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(text.data()),
             static_cast<int>(std::min(text.size(), kCommonNameLengthMax)), -1, 0) == 1;
}

// 127 random bits: positive, unguessable, never twice.
bool SetSerial(X509* certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);
  return ASN1_STRING_set(X509_get_serialNumber(certificate), bytes, sizeof bytes) == 1;
}

bool SetTimes(X509* certificate, const Validity& validity) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate),
                       static_cast<time_t>(validity.not_before_s)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate),
                       static_cast<time_t>(validity.not_after_s)) != nullptr;
}

bool AddExtension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509V3_set_ctx_nodb(&context);
  const ExtensionHandle extension(X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Every name was validated before (identity.h), so no comma can smuggle a second one in.
std::string AlternativeNames(const Identity& identity, const std::vector<std::string>& dns_names) {
  std::string names = "URI:" + FormatIdentity(identity);
  for (const std::string& name : dns_names) names += ",DNS:" + name;
  return names;
}

absl::Status CheckNames(const Identity& identity, const std::vector<std::string>& dns_names) {
  if (absl::Status status = ValidateDomain(identity.domain); !status.ok()) return status;
  if (absl::Status status = ValidateClusterName(identity.cluster); !status.ok()) return status;
  if (dns_names.size() > kDnsNamesMax) {
    return absl::InvalidArgumentError(std::to_string(dns_names.size()) + " DNS names, " +
                                      std::to_string(kDnsNamesMax) + " are allowed");
  }
  for (const std::string& name : dns_names) {
    if (absl::Status status = ValidateDomain(name); !status.ok()) {
      return absl::InvalidArgumentError("DNS name: " + std::string(status.message()));
    }
  }
  return absl::OkStatus();
}

struct Signer {
  CertificateHandle certificate;
  KeyHandle key;
};

absl::StatusOr<Signer> ParseAuthority(const KeyAndCertificate& authority, const Identity& identity,
                                      const Validity& validity) {
  absl::StatusOr<std::string> domain = AuthorityDomain(authority.certificate_pem);
  if (!domain.ok()) return domain.status();
  if (*domain != identity.domain) {
    return absl::FailedPreconditionError("the authority is for domain " + *domain + ", not " +
                                         identity.domain);
  }
  if (absl::Status status = CheckKeyMatches(authority.key_pem, authority.certificate_pem);
      !status.ok()) {
    return status;
  }
  absl::StatusOr<CertificateInfo> info = DescribeCertificate(authority.certificate_pem);
  if (!info.ok()) return info.status();
  if (validity.not_after_s > info->not_after_s) {
    return absl::FailedPreconditionError("the authority ends on " + FormatTime(info->not_after_s) +
                                         ", before the certificate would; ask for fewer days or "
                                         "make a new authority");
  }
  absl::StatusOr<std::vector<CertificateHandle>> certificates =
      ParseCertificates(authority.certificate_pem);
  if (!certificates.ok()) return certificates.status();
  absl::StatusOr<KeyHandle> key = ParsePrivateKey(authority.key_pem);
  if (!key.ok()) return key.status();
  return Signer{std::move(certificates->front()), *std::move(key)};
}

absl::StatusOr<std::string> Sign(const Signer& signer, EVP_PKEY* public_key,
                                 const Identity& identity,
                                 const std::vector<std::string>& dns_names,
                                 const Validity& validity) {
  const CertificateHandle made(X509_new());
  X509* leaf = made.get();
  X509* issuer = signer.certificate.get();
  const bool complete =
      X509_set_version(leaf, X509_VERSION_3) == 1 && SetSerial(leaf) && SetTimes(leaf, validity) &&
      SetCommonName(X509_get_subject_name(leaf), identity.cluster) &&
      X509_set_issuer_name(leaf, X509_get_subject_name(issuer)) == 1 &&
      X509_set_pubkey(leaf, public_key) == 1 &&
      AddExtension(leaf, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
      AddExtension(leaf, issuer, NID_key_usage, "critical,digitalSignature") &&
      AddExtension(leaf, issuer, NID_ext_key_usage, "serverAuth,clientAuth") &&
      AddExtension(leaf, issuer, NID_subject_key_identifier, "hash") &&
      AddExtension(leaf, issuer, NID_authority_key_identifier, "keyid:always") &&
      AddExtension(leaf, issuer, NID_subject_alt_name, AlternativeNames(identity, dns_names)) &&
      X509_sign(leaf, signer.key.get(), EVP_sha256()) > 0;
  if (!complete) return Internal("cannot make a certificate for " + identity.cluster);
  return CertificatePem(leaf);
}

absl::Status CheckCurve(EVP_PKEY* key) {
  char group[64] = "";
  size_t size = 0;
  if (key != nullptr && EVP_PKEY_is_a(key, "EC") &&
      EVP_PKEY_get_group_name(key, group, sizeof group, &size) == 1 &&
      std::string(group) == "prime256v1") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("the request's key is not ECDSA P-256");
}

absl::StatusOr<RequestHandle> ParseRequest(const std::string& pem) {
  if (pem.size() > kPemBytesMax) return absl::InvalidArgumentError("signing request too large");
  const BioHandle bio = ViewBytes(pem);
  RequestHandle request(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
  if (request == nullptr) {
    return OpensslError(absl::StatusCode::kInvalidArgument,
                        "no signing request in PEM form (-----BEGIN CERTIFICATE REQUEST-----)");
  }
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  if (absl::Status status = CheckCurve(key); !status.ok()) return status;
  if (X509_REQ_verify(request.get(), key) != 1) {
    return OpensslError(absl::StatusCode::kInvalidArgument,
                        "the request is not signed by its own key");
  }
  return request;
}

void FreeExtensions(STACK_OF(X509_EXTENSION) * stack) {
  sk_X509_EXTENSION_pop_free(stack, X509_EXTENSION_free);
}
using ExtensionsHandle = std::unique_ptr<STACK_OF(X509_EXTENSION), OpensslDeleter<&FreeExtensions>>;

bool AddRequestNames(X509_REQ* request, const std::string& names) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, nullptr, nullptr, request, nullptr, 0);
  X509V3_set_ctx_nodb(&context);
  const ExtensionsHandle extensions(sk_X509_EXTENSION_new_null());
  X509_EXTENSION* san = X509V3_EXT_conf_nid(nullptr, &context, NID_subject_alt_name, names.c_str());
  if (san == nullptr || sk_X509_EXTENSION_push(extensions.get(), san) == 0) return false;
  return X509_REQ_add_extensions(request, extensions.get()) == 1;
}

absl::StatusOr<std::string> RequestPem(EVP_PKEY* key, const Identity& identity,
                                       const std::vector<std::string>& dns_names) {
  const RequestHandle request(X509_REQ_new());
  const bool complete = X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) == 1 &&
                        SetCommonName(X509_REQ_get_subject_name(request.get()), identity.cluster) &&
                        X509_REQ_set_pubkey(request.get(), key) == 1 &&
                        AddRequestNames(request.get(), AlternativeNames(identity, dns_names)) &&
                        X509_REQ_sign(request.get(), key, EVP_sha256()) > 0;
  if (!complete) return Internal("cannot make a signing request");
  const BioHandle bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509_REQ(bio.get(), request.get()) != 1) {
    return Internal("cannot write a signing request");
  }
  return TakeBytes(bio.get());
}

}  // namespace

Validity ValidityFrom(int64_t now_s, int days) {
  constexpr int64_t kHour_s = 3600;
  return {now_s - kHour_s, now_s + static_cast<int64_t>(days) * 24 * kHour_s};
}

absl::StatusOr<KeyAndCertificate> MakeAuthority(const std::string& domain,
                                                const Validity& validity) {
  if (absl::Status status = ValidateDomain(domain); !status.ok()) return status;
  absl::StatusOr<KeyHandle> key = MakeKey();
  if (!key.ok()) return key.status();
  const CertificateHandle made(X509_new());
  X509* authority = made.get();
  const bool complete =
      X509_set_version(authority, X509_VERSION_3) == 1 && SetSerial(authority) &&
      SetTimes(authority, validity) &&
      SetCommonName(X509_get_subject_name(authority), "Causeway authority " + domain) &&
      X509_set_issuer_name(authority, X509_get_subject_name(authority)) == 1 &&
      X509_set_pubkey(authority, key->get()) == 1 &&
      AddExtension(authority, authority, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
      AddExtension(authority, authority, NID_key_usage, "critical,keyCertSign,cRLSign") &&
      AddExtension(authority, authority, NID_subject_key_identifier, "hash") &&
      AddExtension(authority, authority, NID_authority_key_identifier, "keyid:always") &&
      AddExtension(authority, authority, NID_subject_alt_name, "URI:" + (kDomainScheme + domain)) &&
      X509_sign(authority, key->get(), EVP_sha256()) > 0;
  if (!complete) return Internal("cannot make an authority for " + domain);
  absl::StatusOr<std::string> key_pem = KeyPem(key->get());
  if (!key_pem.ok()) return key_pem.status();
  absl::StatusOr<std::string> certificate_pem = CertificatePem(authority);
  if (!certificate_pem.ok()) return certificate_pem.status();
  return KeyAndCertificate{*std::move(key_pem), *std::move(certificate_pem)};
}

absl::StatusOr<std::string> AuthorityDomain(const std::string& authority_certificate_pem) {
  absl::StatusOr<CertificateInfo> info = DescribeCertificate(authority_certificate_pem);
  if (!info.ok()) return info.status();
  const std::string scheme = kDomainScheme;
  if (!info->is_authority || info->uris.size() != 1 ||
      info->uris.front().compare(0, scheme.size(), scheme) != 0) {
    return absl::FailedPreconditionError("certificate " + info->subject +
                                         " is not an authority made by `causeway pki init`");
  }
  std::string domain = info->uris.front().substr(scheme.size());
  if (absl::Status status = ValidateDomain(domain); !status.ok()) return status;
  return domain;
}

absl::StatusOr<KeyAndCertificate> IssueLeaf(const KeyAndCertificate& authority,
                                            const LeafOptions& options) {
  if (absl::Status status = CheckNames(options.identity, options.dns_names); !status.ok()) {
    return status;
  }
  absl::StatusOr<Signer> signer = ParseAuthority(authority, options.identity, options.validity);
  if (!signer.ok()) return signer.status();
  absl::StatusOr<KeyHandle> key = MakeKey();
  if (!key.ok()) return key.status();
  absl::StatusOr<std::string> certificate =
      Sign(*signer, key->get(), options.identity, options.dns_names, options.validity);
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key_pem = KeyPem(key->get());
  if (!key_pem.ok()) return key_pem.status();
  return KeyAndCertificate{*std::move(key_pem), *std::move(certificate)};
}

absl::StatusOr<KeyAndRequest> MakeRequest(const Identity& identity,
                                          const std::vector<std::string>& dns_names) {
  if (absl::Status status = CheckNames(identity, dns_names); !status.ok()) return status;
  absl::StatusOr<KeyHandle> key = MakeKey();
  if (!key.ok()) return key.status();
  absl::StatusOr<std::string> request = RequestPem(key->get(), identity, dns_names);
  if (!request.ok()) return request.status();
  absl::StatusOr<std::string> key_pem = KeyPem(key->get());
  if (!key_pem.ok()) return key_pem.status();
  return KeyAndRequest{*std::move(key_pem), *std::move(request)};
}

absl::StatusOr<RequestInfo> DescribeRequest(const std::string& request_pem) {
  absl::StatusOr<RequestHandle> request = ParseRequest(request_pem);
  if (!request.ok()) return request.status();
  const ExtensionsHandle extensions(X509_REQ_get_extensions(request->get()));
  const NamesHandle names(static_cast<GENERAL_NAMES*>(
      X509V3_get_d2i(extensions.get(), NID_subject_alt_name, nullptr, nullptr)));
  if (names == nullptr) {
    return absl::InvalidArgumentError(
        "the request names no gateway; make it with "
        "`causeway pki request CLUSTER`");
  }
  CertificateInfo asked;
  asked.subject = "request";
  RequestInfo info;
  if (absl::Status status = ReadAlternativeNames(*names, &asked.uris, &info.dns_names);
      !status.ok()) {
    return status;
  }
  absl::StatusOr<Identity> identity = CertificateIdentity(asked);
  if (!identity.ok()) return identity.status();
  info.identity = *std::move(identity);
  if (absl::Status status = CheckNames(info.identity, info.dns_names); !status.ok()) return status;
  return info;
}

absl::StatusOr<std::string> SignRequest(const KeyAndCertificate& authority,
                                        const std::string& request_pem, const Validity& validity) {
  absl::StatusOr<RequestInfo> info = DescribeRequest(request_pem);
  if (!info.ok()) return info.status();
  absl::StatusOr<RequestHandle> request = ParseRequest(request_pem);
  if (!request.ok()) return request.status();
  absl::StatusOr<Signer> signer = ParseAuthority(authority, info->identity, validity);
  if (!signer.ok()) return signer.status();
  return Sign(*signer, X509_REQ_get0_pubkey(request->get()), info->identity, info->dns_names,
              validity);
}

}  // namespace causeway::security
