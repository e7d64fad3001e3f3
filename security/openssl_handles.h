// Owning pointers for OpenSSL objects, and its error queue as text. Internal to security/: a public
// header never includes this one, so that users of security/ do not compile OpenSSL's headers.
#ifndef CAUSEWAY_SECURITY_OPENSSL_HANDLES_H_
#define CAUSEWAY_SECURITY_OPENSSL_HANDLES_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace causeway::security {

template <auto Free>
struct OpensslDeleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

using BioHandle = std::unique_ptr<BIO, OpensslDeleter<&BIO_free_all>>;
using KeyHandle = std::unique_ptr<EVP_PKEY, OpensslDeleter<&EVP_PKEY_free>>;
using CertificateHandle = std::unique_ptr<X509, OpensslDeleter<&X509_free>>;
using RequestHandle = std::unique_ptr<X509_REQ, OpensslDeleter<&X509_REQ_free>>;
using StoreHandle = std::unique_ptr<X509_STORE, OpensslDeleter<&X509_STORE_free>>;
using StoreContextHandle = std::unique_ptr<X509_STORE_CTX, OpensslDeleter<&X509_STORE_CTX_free>>;
using NamesHandle = std::unique_ptr<GENERAL_NAMES, OpensslDeleter<&GENERAL_NAMES_free>>;
using ExtensionHandle = std::unique_ptr<X509_EXTENSION, OpensslDeleter<&X509_EXTENSION_free>>;

// "<what>: <OpenSSL's newest reason>", and the queue emptied, so that no stale reason surfaces in a
// later message (or inside gRPC, which reads the same per-thread queue).
absl::Status OpensslError(absl::StatusCode code, const std::string& what);

// A read-only view of `bytes`, which must outlive it.
BioHandle ViewBytes(const std::string& bytes);

// What was written to a memory BIO.
std::string TakeBytes(BIO* bio);

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_OPENSSL_HANDLES_H_
