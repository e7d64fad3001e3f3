// See certificate_parsing.h. Everything here may come from a peer: sizes first, then contents.
#include "security/certificate_parsing.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>

#include <ctime>

namespace causeway::security {
namespace {

absl::Status CheckSize(const std::string& pem, const char* what) {
  if (pem.size() <= kPemBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(what) + " has " + std::to_string(pem.size()) +
                                    " bytes, " + std::to_string(kPemBytesMax) + " are allowed");
}

// PEM_read_bio_PrivateKey asks on the terminal without a callback; a daemon must not.
int RefusePassphrase(char*, int, int, void*) { return -1; }

std::string NameText(const X509_NAME* name) {
  BioHandle bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253);
  return TakeBytes(bio.get());
}

absl::StatusOr<int64_t> TimeSeconds(const ASN1_TIME* time) {
  std::tm broken = {};
  if (ASN1_TIME_to_tm(time, &broken) != 1) {
    return OpensslError(absl::StatusCode::kInvalidArgument, "certificate with a malformed date");
  }
  return static_cast<int64_t>(timegm(&broken));
}

std::string Hexadecimal(const unsigned char* bytes, size_t size) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

absl::StatusOr<std::string> SerialText(const ASN1_INTEGER* serial) {
  constexpr int kSerialBytesMax = 64;  // RFC 5280 allows 20; some authorities use more
  if (serial == nullptr || serial->length > kSerialBytesMax) {
    return absl::InvalidArgumentError("certificate with a serial number of odd size");
  }
  std::string text = Hexadecimal(serial->data, static_cast<size_t>(serial->length));
  const size_t first = text.find_first_not_of('0');
  return first == std::string::npos ? std::string("0") : text.substr(first);
}

absl::StatusOr<std::string> PublicKeyHash(X509* certificate) {
  unsigned char* der = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
  if (size <= 0) {
    return OpensslError(absl::StatusCode::kInvalidArgument, "certificate without a public key");
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(der, static_cast<size_t>(size), digest);
  OPENSSL_free(der);
  return Hexadecimal(digest, sizeof digest);
}

}  // namespace

absl::StatusOr<std::vector<CertificateHandle>> ParseCertificates(const std::string& pem) {
  if (absl::Status status = CheckSize(pem, "certificate"); !status.ok()) return status;
  const BioHandle bio = ViewBytes(pem);
  std::vector<CertificateHandle> certificates;
  while (CertificateHandle one{PEM_read_bio_X509(bio.get(), nullptr, RefusePassphrase, nullptr)}) {
    if (certificates.size() == kChainCertificatesMax) {
      return absl::InvalidArgumentError("more than " + std::to_string(kChainCertificatesMax) +
                                        " certificates in one file");
    }
    certificates.push_back(std::move(one));
  }
  // The end of the text is reported as "no start line"; anything else is a damaged certificate.
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!ended) return OpensslError(absl::StatusCode::kInvalidArgument, "damaged certificate");
  ERR_clear_error();
  if (certificates.empty()) {
    return absl::InvalidArgumentError("no certificate in PEM form (-----BEGIN CERTIFICATE-----)");
  }
  return certificates;
}

absl::StatusOr<KeyHandle> ParsePrivateKey(const std::string& pem) {
  if (absl::Status status = CheckSize(pem, "private key"); !status.ok()) return status;
  const BioHandle bio = ViewBytes(pem);
  KeyHandle key(PEM_read_bio_PrivateKey(bio.get(), nullptr, RefusePassphrase, nullptr));
  if (key == nullptr) {
    return OpensslError(absl::StatusCode::kInvalidArgument,
                        "no unencrypted private key in PEM form (-----BEGIN PRIVATE KEY-----)");
  }
  return key;
}

absl::Status ReadAlternativeNames(const GENERAL_NAMES& names, std::vector<std::string>* uris,
                                  std::vector<std::string>* dns_names) {
  const int count = sk_GENERAL_NAME_num(&names);
  if (count > static_cast<int>(kAlternativeNamesMax)) {
    return absl::InvalidArgumentError("certificate with more than " +
                                      std::to_string(kAlternativeNamesMax) + " names");
  }
  for (int i = 0; i < count; ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(&names, i);
    if (name->type != GEN_URI && name->type != GEN_DNS) continue;
    const ASN1_IA5STRING* text =
        name->type == GEN_URI ? name->d.uniformResourceIdentifier : name->d.dNSName;
    std::string value(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                      static_cast<size_t>(ASN1_STRING_length(text)));
    for (char c : value) {
      if (c <= ' ' || c > '~') {
        return absl::InvalidArgumentError("certificate with an unprintable alternative name");
      }
    }
    (name->type == GEN_URI ? uris : dns_names)->push_back(std::move(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<CertificateInfo> Describe(X509* certificate) {
  CertificateInfo info;
  info.subject = NameText(X509_get_subject_name(certificate));
  info.issuer = NameText(X509_get_issuer_name(certificate));
  absl::StatusOr<std::string> serial = SerialText(X509_get0_serialNumber(certificate));
  if (!serial.ok()) return serial.status();
  info.serial = *std::move(serial);
  absl::StatusOr<int64_t> not_before = TimeSeconds(X509_get0_notBefore(certificate));
  if (!not_before.ok()) return not_before.status();
  absl::StatusOr<int64_t> not_after = TimeSeconds(X509_get0_notAfter(certificate));
  if (!not_after.ok()) return not_after.status();
  info.not_before_s = *not_before;
  info.not_after_s = *not_after;
  absl::StatusOr<std::string> hash = PublicKeyHash(certificate);
  if (!hash.ok()) return hash.status();
  info.spki_sha256 = *std::move(hash);
  info.is_authority = X509_check_ca(certificate) == 1;
  int critical = 0;
  const NamesHandle names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, &critical, nullptr)));
  if (names == nullptr && critical != -1) {  // -1: absent
    return OpensslError(absl::StatusCode::kInvalidArgument, "damaged alternative names");
  }
  if (names != nullptr) {
    absl::Status status = ReadAlternativeNames(*names, &info.uris, &info.dns_names);
    if (!status.ok()) return status;
  }
  return info;
}

}  // namespace causeway::security
