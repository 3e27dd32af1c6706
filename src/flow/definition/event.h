// Events of workflow runs as log entries. Id and topic name the event. The body has the rest:
//
//   kind        id                             body
//   started     {run}.started                  {"input":…,"key":…|null,"run","version","workflow"}
//   step        {run}.{step}.ended.{n}         {"n","outcome","output":…|"error":"…","run","step"}, for
//                                              a large output "output_in":{"key","queue","sequence"}
//   signal      {run}.signal.name:{signal}     {"body":…,"id","run","signal"}
//               {run}.signal.{id}              {"body":…,"run","signal"}, written by version 0.1
//   rate_retry  {run}.{step}.rate_retry.{n}    {"n","run","step"}
//   admit       {run}.admit.{n}                {"n","run"}
//   timer       {run}.{step}.timer.{n}         {"n","run","step"}
//               {run}.timer.{round}            {"n","run","step":null}
//   retried     {run}.retried.{round}          {"round","run","void":{"charge":3}}
//   ended       {run}.ended.{round}            {"outcome","output":…|"error":"…","round","run","step"?}
//
// Bodies are canonical and contain no times. So two writers of one event write the same bytes.
#pragma once

#include <string>
#include <string_view>

#include "flow/rules/facts.h"
#include "once/task.h"

namespace once::encoding {

// An output as JSON. Text that is not JSON becomes a string. Other bytes become {"raw":base64}.
std::string output_json(const Body& output);

// The body of the entry. Its id is event_id() and its topic is event_topic().
Body event_body(const core::FlowEvent& event);

// Code::invalid_input: the entry is not an event of a run, or this version does not know the event.
Result<core::FlowEvent> decode_event(std::string_view id, std::string_view topic, const Body& body,
                                     core::Sequence sequence, Time at);

}  // namespace once::encoding
