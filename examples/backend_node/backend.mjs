// A platform backend in plain Node.js: a NATS client and MessagePack, nothing of Gpuyard.
//
//     npm install
//     node backend.mjs --url nats://TOKEN@127.0.0.1:4222 --gpus 2 -- python train.py
//
// Submits a job, follows its events (to stderr) and its output (to stdout); the exit code is 0 if it succeeded.
// docs/guides/backend.md explains the rules it follows.

import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { decode, encode } from "@msgpack/msgpack";
import { DeliverPolicy, jetstream } from "@nats-io/jetstream";
import { connect, createInbox } from "@nats-io/transport-node";

const FINAL = ["succeeded", "failed", "cancelled"];
const say = (text) => process.stderr.write(`${text}\n`);

// Asks until there is an answer: the same request_id never makes a second job.
async function submit(nc, spec) {
  const js = jetstream(nc);
  const inbox = createInbox();
  let answer;
  nc.subscribe(inbox, { max: 1, callback: (_error, message) => (answer = decode(message.data)) });
  const request = encode({ type: "submit", request_id: randomUUID(), spec, reply_to: inbox });
  while (!answer) {
    await js.publish("gpuyard.request.submit", request).catch((error) => say(`${error.message}; trying again`));
    for (let tries = 0; !answer && tries < 200; tries++) await pause(50);
  }
  return answer;
}

// Messages of a stream, in order and for ever. Whatever breaks, it goes on after the last one.
async function* read(nc, stream, subject) {
  for (let next = 1; !nc.isClosed(); await pause(1000)) {
    const start = { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: next };
    try {
      const consumer = await jetstream(nc).consumers.get(stream, { filter_subjects: subject, ...start });
      for await (const message of await consumer.consume()) {
        next = message.seq + 1;
        yield decode(message.data);
      }
    } catch (error) {
      if (!nc.isClosed()) say(`${error.message}; trying again`);
    }
  }
}

// Tells what happens to the job, from its first event to its last, and returns its last record.
async function followEvents(nc, job) {
  for await (const record of read(nc, "STATE", `gpuyard.state.job.${job}`)) {
    for (const event of record.events) say(`${event.kind}: ${event.message}`);
    if (FINAL.includes(record.state)) return record;
  }
}

// The lines of a job, each printed once and in order, whether it comes live or from a logger.
class Output {
  constructor(nc, job) {
    Object.assign(this, { nc, job, next: new Map(), ended: new Set() }); // keys: "attempt.rank"
  }

  // Prints lines as they appear; those the stream has lost to a logger are asked from there.
  async follow() {
    for await (const batch of read(this.nc, "LOGS", `gpuyard.log.*.${this.job}.>`)) {
      const expected = this.next.get(`${batch.attempt}.${batch.rank}`) ?? 0;
      if (batch.first_seq > expected) await this.catchUp(batch.attempt);
      this.take(batch);
    }
  }

  // Prints what is new in a batch: batches may overlap.
  take(batch) {
    const source = `${batch.attempt}.${batch.rank}`;
    const expected = this.next.get(source) ?? 0;
    let seq = batch.first_seq;
    for (const [, , data] of batch.chunks) {
      for (const line of linesOf(Buffer.from(data))) {
        if (seq++ >= expected) process.stdout.write(Buffer.concat([Buffer.from(`[${batch.rank}] `), line, NEWLINE]));
      }
    }
    this.next.set(source, Math.max(expected, batch.next_seq));
    if (batch.end) this.ended.add(source);
  }

  // Takes what a logger has stored beyond what was printed.
  async catchUp(attempt) {
    for (let page; !page?.complete; ) {
      const mine = [...this.next].filter(([source]) => source.startsWith(`${attempt}.`));
      const after = mine.map(([source, seq]) => [Number(source.split(".")[1]), seq]);
      try {
        const answer = await this.nc.request("gpuyard.query.logs", encode({ job: this.job, attempt, after }), { timeout: 10_000 });
        page = decode(answer.data);
      } catch {
        if (this.nc.isClosed()) return;
        await pause(1000); // the loggers are away; they will be back
        continue;
      }
      page.batches.forEach((batch) => this.take(batch));
      if (page.complete) page.ended.forEach((rank) => this.ended.add(`${attempt}.${rank}`));
    }
  }

  // Waits for the last lines: they may come after the news that the job has ended.
  async finish(record) {
    const ranks = (record.placement?.slots ?? []).map((slot) => `${record.attempt}.${slot.rank}`);
    const missing = () => ranks.filter((rank) => !this.ended.has(rank)).length;
    for (const deadline = Date.now() + 10_000; missing() && Date.now() < deadline; await pause(100)) {
      await this.catchUp(record.attempt);
    }
    if (missing()) say(`no end of output from ${missing()} ranks`); // they may never have started
  }
}

const NEWLINE = Buffer.from("\n");

function* linesOf(data) {
  for (let start = 0; start < data.length; ) {
    const found = data.indexOf(NEWLINE, start);
    const end = found < 0 ? data.length : found;
    yield data.subarray(start, end);
    start = end + 1;
  }
}

async function run(address, spec) {
  const { host, username, password } = new URL(address);
  const identity = password ? { user: username, pass: password } : username ? { token: username } : {};
  const nc = await connect({ servers: host, maxReconnectAttempts: -1, ...identity });
  const answer = await submit(nc, spec);
  if (answer.type === "failure") {
    say(`refused (${answer.code}): ${answer.message}. ${answer.hint}`);
    await nc.close();
    return 1;
  }
  say(`accepted: ${answer.job}`);
  const output = new Output(nc, answer.job);
  const following = output.follow();
  const record = await followEvents(nc, answer.job);
  await output.finish(record);
  await nc.close();
  await following;
  say(`ended: ${record.state}`);
  return record.state === "succeeded" ? 0 : 1;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: "string", default: process.env.GPUYARD_URL ?? "nats://127.0.0.1:4222" },
    gpus: { type: "string", default: "0" },
  },
});
process.exitCode = await run(values.url, {
  name: "backend",
  tasks: [{ command: positionals, gpus: Number(values.gpus) }],
});
