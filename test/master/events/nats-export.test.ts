/**
 * Events that are sent to a real nats-server: by JetStream and core NATS, over TLS, and as an
 * account.
 */

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type NatsConnection, nkeys } from '@nats-io/transport-node';
import test from 'ava';
import type { NatsExport } from '#config';
import { createLogger } from '#master';
import { EventBus } from '#master/events/event-bus.ts';
import { EventExporter } from '#master/events/event-export.ts';
import { natsReceiver, subjectOf } from '#master/events/nats-receiver.ts';
import { createMemoryStore } from '#store';
import { makeCertificate } from '../../helpers/certificate.ts';
import { startOperatorServer } from '../../helpers/nats-accounts.ts';
import { natsTest, startNatsServer } from '../../helpers/nats-server.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

function exportTo(host: string, more: Partial<NatsExport> = {}): NatsExport {
  const servers = { nats: [`nats://${host}`], allowPlaintext: true };
  return { name: 'bus', subject: 'salt.event', timeout: 2, ...servers, ...more };
}

/** Sends an event with a new exporter. */
async function sendOne(options: NatsExport, tag = 'mine/1', data: object = {}): Promise<void> {
  const receiver = await natsReceiver(options);
  const { signal } = new AbortController();
  try {
    await receiver.send([{ sequence: 7, tag, data: { ...data } }], signal);
  } finally {
    await receiver.close?.();
  }
}

async function ask(client: NatsConnection, subject: string, body: object): Promise<unknown> {
  return (await client.request(subject, JSON.stringify(body))).json();
}

/** Returns the messages in the stream with their subjects. */
async function stored(client: NatsConnection): Promise<(readonly [string, unknown])[]> {
  const info = await ask(client, '$JS.API.STREAM.INFO.salt', {});
  const { messages } = Object(Object(info).state);
  const found: (readonly [string, unknown])[] = [];
  for (let seq = 1; seq <= messages; seq++) {
    const { message } = Object(await ask(client, '$JS.API.STREAM.MSG.GET.salt', { seq }));
    const text = Buffer.from(message.data, 'base64').toString();
    found.push([message.subject, JSON.parse(text)]);
  }
  return found;
}

function createStream(client: NatsConnection, limits: object = {}): Promise<unknown> {
  const stream = { name: 'salt', subjects: ['salt.event.>'], storage: 'file', ...limits };
  return ask(client, '$JS.API.STREAM.CREATE.salt', stream);
}

/** Returns the next message of a subject as text. */
async function nextMessage(
  client: NatsConnection,
  subject: string,
): Promise<() => Promise<string>> {
  const messages = client.subscribe(subject)[Symbol.asyncIterator]();
  await client.flush();
  return async () => (await messages.next()).value?.string() ?? '';
}

natsTest('JetStream gets every event once, including those of an outage', async (t) => {
  const server = await startNatsServer(t);
  const bus = new EventBus({ maxEventBytes: 0 });
  const exporter = await EventExporter.open({
    exports: [exportTo(server.host, { match: ['mine/*'] })],
    maxBytes: 1_000_000,
    store: createMemoryStore(),
    bus,
    log: createLogger('quiet'),
    onDropped: () => {},
  });
  t.teardown(() => exporter.close());
  // Without a stream, there are no acknowledgements.
  bus.fire('mine/web1.example.org', { i: 1 });
  bus.fire('other', {});
  while (exporter.waitingBytes === 0) await sleep(10);
  await createStream(await server.connect());
  while (exporter.waitingBytes > 0) await sleep(10);
  await server.stop();
  for (const i of [2, 3]) bus.fire('mine/x', { i });
  while (exporter.waitingBytes === 0) await sleep(10);
  await server.start();
  while (exporter.waitingBytes > 0) await sleep(10);
  const client = await server.connect();
  t.deepEqual(
    (await stored(client)).map(([subject, event]) => [subject, Object(event).data.i]),
    [
      ['salt.event.mine.web1%2Eexample%2Eorg', 1],
      ['salt.event.mine.x', 2],
      ['salt.event.mine.x', 3],
    ],
  );
});

natsTest(
  'an event is stored once, an oversized event without its data, and a full stream refuses',
  async (t) => {
    const server = await startNatsServer(t, ['max_payload: 4096']);
    const client = await server.connect();
    const options = exportTo(server.host);
    await t.throwsAsync(sendOne(options));
    await createStream(client, { max_msgs: 2, discard: 'new' });
    for (const _ of [1, 2]) await sendOne(options, 'mine/1', { big: 2n ** 60n });
    await sendOne(options, 'mine/2', { text: 'x'.repeat(5_000) });
    t.deepEqual(
      (await stored(client)).map(([, event]) => event),
      [
        { sequence: 7, tag: 'mine/1', data: { big: Number(2n ** 60n) } },
        { sequence: 7, tag: 'mine/2', data: { $too_large: 5_048 } },
      ],
    );
    await t.throwsAsync(sendOne(options, 'mine/3'), {
      code: 'ERR_EVENT_EXPORT',
      message: /maximum messages exceeded/,
    });
  },
);

natsTest(
  'without JetStream the server acknowledges, over TLS, with a key from a file',
  async (t) => {
    const [own, reader] = [nkeys.createUser(), nkeys.createUser()];
    const directory = temporaryDirectory(t);
    const { certificate: caFile, key } = makeCertificate(directory);
    const server = await startNatsServer(t, [
      `tls { cert_file: "${caFile}", key_file: "${key}", timeout: 60 }`,
      `authorization { timeout: 60, users: [
      { nkey: ${own.getPublicKey()}, permissions: { publish: ["salt.event.mine.>"] } }
      { nkey: ${reader.getPublicKey()} }
    ] }`,
    ]);
    const nkeyFile = path.join(directory, 'bus.nk');
    writeFileSync(nkeyFile, `# of the master\n${Buffer.from(own.getSeed()).toString()}\n`);
    const { nkeyAuthenticator } = await import('@nats-io/transport-node');
    const authenticator = nkeyAuthenticator(reader.getSeed());
    const client = await server.connect({ authenticator, tls: { caFile } });
    const next = await nextMessage(client, 'salt.event.>');
    const secured = { nats: [`tls://localhost:${server.port}`], jetstream: false, nkeyFile };
    const options = exportTo(server.host, { ...secured, caFile });
    await sendOne(options);
    t.deepEqual(JSON.parse(await next()), { sequence: 7, tag: 'mine/1', data: {} });
    await t.throwsAsync(sendOne(options, 'other/1'), { message: /permissions violation/i });
    const { caFile: _caFile, ...unknownAuthority } = options;
    await t.throwsAsync(sendOne(unknownAuthority), { message: /certificate/i });
    writeFileSync(nkeyFile, Buffer.from(nkeys.createUser().getSeed()));
    await t.throwsAsync(sendOne(options), { message: /authorization/i });
  },
);

natsTest('a server without TLS gets nothing if TLS is required', async (t) => {
  const server = await startNatsServer(t);
  const next = await nextMessage(await server.connect(), 'salt.event.>');
  const options = exportTo(server.host, {
    nats: [`tls://localhost:${server.port}`],
    jetstream: false,
  });
  await t.throwsAsync(sendOne(options), { message: /does not support 'tls'/ });
  await sendOne(exportTo(server.host, { jetstream: false }), 'mine/2');
  t.is(JSON.parse(await next()).tag, 'mine/2');
});

natsTest('credentials of an account are read from a file of nsc', async (t) => {
  const { server, credentialsFile } = await startOperatorServer(t);
  const options = exportTo(server.host, { jetstream: false });
  await t.notThrowsAsync(sendOne({ ...options, credentialsFile }));
  await t.throwsAsync(sendOne(options), { message: /authorization/i });
});

test('each part of a tag is one part of a subject, for any characters', (t) => {
  t.is(subjectOf('salt.event', 'salt/job/2/ret/a.b*>'), 'salt.event.salt.job.2.ret.a%2Eb%2A%3E');
  t.is(subjectOf('x', 'a//b c/ü'), 'x.a._.b%20c.%C3%BC');
  t.is(subjectOf('x', 'a'.repeat(2_000)), 'x._');
});
