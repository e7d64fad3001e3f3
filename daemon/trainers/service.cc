// See service.h.
#include "daemon/trainers/service.h"

#include <utility>

#include "daemon/trainers/session_table.h"

namespace causeway::trainers {

TrainerService::TrainerService(std::unique_ptr<SessionTable> table) : table_(std::move(table)) {}
TrainerService::~TrainerService() = default;

absl::StatusOr<std::unique_ptr<TrainerService>> TrainerService::Create(loop::Loop& loop,
                                                                       Config config,
                                                                       TrainerListener& listener) {
  auto table = std::make_unique<SessionTable>(loop, std::move(config), listener);
  absl::Status listening = table->Listen();
  if (!listening.ok()) return listening;
  return std::unique_ptr<TrainerService>(new TrainerService(std::move(table)));
}

void TrainerListener::OnShare(Session& session, const ShareRequest& request, loop::Descriptor) {
  session.SendShared(request.sequence, false, "this gateway uses no GPU");
}

void TrainerService::StopListening() { table_->StopListening(); }
std::vector<Session*> TrainerService::Sessions() const { return table_->Sessions(); }
Session* TrainerService::Find(uint64_t session) const { return table_->Find(session); }
const Counters& TrainerService::counters() const { return table_->counters(); }

}  // namespace causeway::trainers
