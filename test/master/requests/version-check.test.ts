/** Requests of too low a version: which minion, in the log, and no flood of lines. */
import { Writable } from 'node:stream';
import test from 'ava';
import { createLogger } from '../../../master/index.ts';
import { packWire, unpackWire } from '../../../minion-protocol/index.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { keys, pem } from '../../helpers/vectors.ts';

test('the log names the minion whose version is too low, once a minute', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const stream = new Writable({
    write: (line, _encoding, done) => {
      const { msg, ...fields } = JSON.parse(String(line));
      if (String(msg).includes('too low')) lines.push(fields);
      done();
    },
  });
  const master = await startVectorMaster(t, {
    config: { minimumAuthVersion: 3 },
    logger: createLogger('warning', stream),
  });
  const signIn = (id: string) => {
    const load = { cmd: '_auth', id, nonce: 'a'.repeat(32), pub: pem('minion').publicPem };
    return master.ask(packWire({ enc: 'clear', load, version: 2 }), '192.0.2.7');
  };
  for (const id of [keys.minionId, keys.minionId, 'nobody']) {
    t.is(unpackWire(await signIn(id)), 'bad load');
  }
  const line = { minion: keys.minionId, remote: '192.0.2.7', version: 2, required: 3 };
  t.is(lines.length, 1);
  t.like(lines[0], line);
  master.clock.now += 60_000;
  await signIn(keys.minionId);
  t.is(lines.length, 2);
});
