/** What no log may say, at its most talkative [THREATS C-11, G-12]. */
import { Writable } from 'node:stream';
import test from 'ava';
import { createLogger } from '../../master/index.ts';
import { isHeard } from '../helpers/genuine-minion.ts';
import { mutated, seeded } from '../helpers/mutations.ts';
import { startVectorMaster } from '../helpers/vector-master.ts';
import { altered, freshNonce, recorded, token } from '../helpers/vector-requests.ts';
import { base64, keys, pem } from '../helpers/vectors.ts';

const planted = 'planted-secret-7f3a';

test('no secret reaches the log at level trace, whatever was asked', async (t) => {
  const lines: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const master = await startVectorMaster(t, {
    logger: createLogger('trace', destination),
    pillar: async () => ({ password: planted }),
    config: { limits: { requestsPerSecond: 0 } },
  });
  const { master: running, ask } = master;
  const kwarg = { password: planted };
  for await (const { type, jid } of running.jobs.run({
    tgt: '*',
    fun: 'a.b',
    arg: [planted],
    kwarg,
  })) {
    if (type !== 'published') continue;
    const load = { jid, fun: 'a.b', return: planted, nonce: freshNonce() };
    await ask(altered(recorded('return', 'simple v3'), { load }));
  }
  const asked = [
    altered(recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1'), {
      load: { grains: { id: planted } },
    }),
    altered(recorded('minion_event', 'start event v3'), { load: { data: planted, tag: 'my/tag' } }),
    altered(recorded('minion_event', 'start event v3'), { load: { tok: planted } }),
    altered(recorded('minion_event', 'start event v3'), { load: { nonce: planted } }),
    altered(recorded('minion_event', 'start event v3'), { load: { cmd: planted } }),
    altered(recorded('minion_event', 'start event v3'), { envelope: { enc_algo: planted } }),
    altered(recorded('return', 'simple v3'), { load: { jid: planted, return: planted } }),
    base64(recorded('auth', 'v3 pending, different key').request_b64),
  ];
  for (const request of asked) await ask(request);
  const random = seeded(7);
  for (let count = 0; count < 300; count += 1) await ask(mutated(random));
  await isHeard(t, master);
  const log = lines.join('');
  t.true(lines.length > 50, 'the log says something');
  t.true(lines.every((line) => line.endsWith('\n') && JSON.parse(line) !== null));
  const privateLine = pem('master').privatePem.split('\n')[1] ?? 'no key';
  for (const secret of [planted, keys.aes, keys.session, privateLine, token.toString('base64')]) {
    t.false(log.includes(secret), `${secret.slice(0, 10)}…`);
  }
});

test('fields that hold secrets are redacted where somebody logs them all the same', (t) => {
  const lines: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const log = createLogger('trace', destination);
  log.info({ token: planted, load: { tok: planted, pillar: { a: planted }, arg: [planted] } }, 'x');
  t.false(lines.join('').includes(planted));
  t.true(lines.join('').includes('[redacted]'));
});
