#include "daemon/observe/log_line.h"

#include <time.h>

#include <cassert>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace causeway::observe {
namespace {

constexpr size_t kTailBytes = 16;  // room for cut=true and the closing brace

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

bool IsPlain(std::string_view value) {
  if (value.empty()) return false;
  for (const char c : value) {
    if (c <= ' ' || c > '~' || c == '"' || c == '=' || c == '\\') return false;
  }
  return true;
}

// Between quotes; bytes outside printable ASCII become \xNN, in JSON \u00NN.
void AppendQuoted(std::string* out, std::string_view value, LogFormat format) {
  const bool cut = value.size() > kLogValueBytesMax;
  if (cut) value = value.substr(0, kLogValueBytesMax);
  out->push_back('"');
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c == '\n') {
      out->append("\\n");
    } else if (byte >= 0x20 && byte < 0x7f) {
      out->push_back(c);
    } else if (format == LogFormat::kJson) {
      absl::StrAppendFormat(out, "\\u%04x", byte);
    } else {
      absl::StrAppendFormat(out, "\\x%02x", byte);
    }
  }
  if (cut) out->append("...");
  out->push_back('"');
}

std::string FormatValue(const Field::Value& value, LogFormat format) {
  std::string out;
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    if (format == LogFormat::kText && text->size() <= kLogValueBytesMax && IsPlain(*text)) {
      return std::string(*text);
    }
    AppendQuoted(&out, *text, format);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    absl::StrAppend(&out, *integer);
  } else if (const auto* whole = std::get_if<uint64_t>(&value)) {
    absl::StrAppend(&out, *whole);
  } else if (const auto* number = std::get_if<double>(&value)) {
    if (std::isfinite(*number)) {
      absl::StrAppend(&out, *number);
    } else {
      out = format == LogFormat::kJson ? "null" : std::isnan(*number) ? "nan" : "inf";
    }
  } else {
    out = std::get<bool>(value) ? "true" : "false";
  }
  return out;
}

// Collects key=value pairs up to the limit.
class Line {
 public:
  explicit Line(LogFormat format) : format_(format) {}

  void Raw(std::string_view text) { out_.append(text); }

  void Add(std::string_view key, const Field::Value& value) {
    const std::string formatted = FormatValue(value, format_);
    const size_t needed = key.size() + formatted.size() + 4;
    if (out_.size() + needed + kTailBytes > kLogLineBytesMax) {
      cut_ = true;
      return;
    }
    Append(key, formatted);
  }

  std::string Finish() {
    if (cut_) Append("cut", "true");
    if (format_ == LogFormat::kJson) out_.push_back('}');
    return std::move(out_);
  }

 private:
  void Append(std::string_view key, const std::string& formatted) {
    if (format_ == LogFormat::kJson) {
      absl::StrAppend(&out_, first_ ? "{\"" : ",\"", Absl(key), "\":", formatted);
    } else {
      absl::StrAppend(&out_, first_ ? "" : " ", Absl(key), "=", formatted);
    }
    first_ = false;
  }

  const LogFormat format_;
  std::string out_;
  bool first_ = true;
  bool cut_ = false;
};

// Of syslog: what journald files the line under.
std::string_view PriorityPrefix(Level level) {
  switch (level) {
    case Level::kDebug:
      return "<7>";
    case Level::kInfo:
      return "<6>";
    case Level::kWarning:
      return "<4>";
    case Level::kError:
      return "<3>";
  }
  return "<6>";
}

}  // namespace

std::string FormatUnixTimeMs(int64_t unix_time_ms) {
  const time_t seconds = unix_time_ms / 1000;
  tm parts;
  gmtime_r(&seconds, &parts);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                         parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                         unix_time_ms % 1000);
}

std::string FormatLine(LogFormat format, const LineHead& head, absl::Span<const Field> fields,
                       std::string_view text) {
  Line line(format);
  std::string time;
  if (head.journal) {
    line.Raw(PriorityPrefix(head.level));
  } else {
    time = FormatUnixTimeMs(head.unix_time_ms);
    line.Add("time", time);
  }
  line.Add("level", LevelName(head.level));
  line.Add("event", head.event);
  for (const Field& field : fields) line.Add(field.key(), field.value());
  if (!text.empty()) line.Add("text", text);
  if (head.suppressed > 0) line.Add("suppressed", head.suppressed);
  return line.Finish();
}

}  // namespace causeway::observe
