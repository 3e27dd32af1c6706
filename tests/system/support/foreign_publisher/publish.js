// A publisher that knows nothing of Once. Reads commands from standard input, one JSON object a line,
// and answers each with a line:
//   {"stream":CONFIG}                                  makes a stream (config as JetStream has it)
//   {"subject","data","headers","msgID"}               publishes, and awaits the acknowledgement
//   {"look":STREAM}                                    what the stream holds
// Usage: node publish.js URL
const { connect, headers } = require("nats");
const { createInterface } = require("readline");

async function obey(client, streams, command) {
  if (command.stream) {
    const made = await streams.streams.add(command.stream);
    return { made: made.config.name };
  }
  if (command.look) {
    const found = await streams.streams.info(command.look);
    return { messages: found.state.messages, last: found.state.last_seq };
  }
  const options = {};
  if (command.msgID) options.msgID = command.msgID;
  if (command.headers) {
    options.headers = headers();
    for (const [name, value] of Object.entries(command.headers)) options.headers.set(name, value);
  }
  const ack = await client.publish(command.subject, Buffer.from(command.data ?? ""), options);
  return { sequence: ack.seq, duplicate: ack.duplicate };
}

async function main() {
  const connection = await connect({ servers: process.argv[2] });
  const client = connection.jetstream();
  const streams = await connection.jetstreamManager();
  for await (const line of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await obey(client, streams, JSON.parse(line))));
  }
  await connection.drain();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
