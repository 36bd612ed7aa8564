/** What a master leaves behind: files that only its user may read, and a log that nobody else writes. */
import { lstatSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { Writable } from 'node:stream';
import test from 'ava';
import { createLogger, createMaster, resolveMasterConfig } from '../../master/index.ts';
import { createMemoryTransport, packWire, unpackWire } from '../../minion-protocol/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories } from '../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../helpers/vector-requests.ts';
import { base64 } from '../helpers/vectors.ts';
import { askAs, HOSTILE, hostile, startSite } from './site.ts';

const signIn = unpackWire(base64(recorded('auth', 'v3 pending, different key').request_b64));

test('what a master keeps is for its own user alone, but for public keys', async (t) => {
  const directory = temporaryDirectory(t);
  const config = resolveMasterConfig(directories(directory));
  const memory = createMemoryTransport();
  const master = createMaster({ config, transports: [memory.master] });
  t.teardown(() => master.close());
  await master.start();
  await memory.dial('x').request(packWire({ ...Object(signIn) }), 10_000);
  const readable: string[] = [];
  for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    const stats = lstatSync(path.join(directory, name));
    if ((stats.mode & 0o077) !== 0 && !stats.isSocket()) readable.push(name);
  }
  t.deepEqual(readable.sort(), ['pki/master.pub', `pki/minions_pre/${HOSTILE}`]);
});

/** Texts that would end a line, begin one, or steer a terminal, if they reached the log as they are. */
const breaking = '\n{"level":50,"msg":"forged"}\r\n\u001b[2J\u0000\u2028';

test('no id, tag, job id or command writes a line of the log', async (t) => {
  const lines: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const site = await startSite(t, 'zeromq', { logger: createLogger('trace', destination) });
  const start = recorded('minion_event', 'start event v3');
  for (const text of [breaking, `web1${breaking}`]) {
    await site.door.ask(altered(start, { envelope: { id: text }, load: { id: text } }));
    await site.door.ask(
      packWire({ ...Object(signIn), load: { ...Object(signIn).load, id: text } }),
    );
    await askAs(hostile, site.door, { cmd: '_minion_event', tag: text, data: {} });
    await askAs(hostile, site.door, {
      cmd: '_return',
      jid: text.slice(0, 60),
      fun: text,
      return: text,
    });
    await askAs(hostile, site.door, { cmd: text });
    await askAs(hostile, site.door, { cmd: '_serve_file', path: text, saltenv: text, loc: 0 });
    await site.door.ask(altered(start, { load: { nonce: freshNonce(), tok: text } }));
  }
  t.true(lines.length > 5, 'the log says something');
  for (const line of lines) {
    t.is(line.indexOf('\n'), line.length - 1);
    t.not(JSON.parse(line).msg, 'forged');
    t.false(line.includes('\u001b'));
  }
  t.true(
    lines.some((line) => line.includes(HOSTILE)),
    'genuine names are there',
  );
});
