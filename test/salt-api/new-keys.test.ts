/** Key pairs that are made for minions. */
import { spawnSync } from 'node:child_process';
import { createPublicKey } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { packTar } from '../../salt-api/tar.ts';
import { json, password, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const credentials = { username: 'admin', password, eauth: 'sharedsecret' };

/** The files of an archive, as tar reads them. */
function unpack(t: ExecutionContext, archive: Buffer): { pub: string; pem: string } {
  const directory = temporaryDirectory(t);
  const file = path.join(directory, 'keys.tar');
  writeFileSync(file, archive);
  const { status, stderr } = spawnSync('tar', ['-xf', file, '-C', directory]);
  t.is(status, 0, String(stderr));
  const read = (name: string): string => readFileSync(path.join(directory, name), 'utf8');
  return { pub: read('minion.pub'), pem: read('minion.pem') };
}

test('an archive is one that tar reads', (t) => {
  const members = [
    { name: 'minion.pub', content: Buffer.alloc(0), mode: 0o644 },
    { name: 'minion.pem', content: Buffer.from('x'.repeat(1000)), mode: 0o400 },
  ];
  t.deepEqual(unpack(t, packTar(members, new Date(0))), { pub: '', pem: 'x'.repeat(1000) });
});

test('a key pair is made, accepted, and told to nobody else', async (t) => {
  const { ask, master, eventsDuring } = await startApi(t, { minions: [] });
  const make = (more: object): ReturnType<typeof ask> =>
    ask({ method: 'POST', path: '/keys', headers: json(), body: { ...credentials, ...more } });
  let answer: Awaited<ReturnType<typeof ask>> | undefined;
  const events = await eventsDuring(async () => {
    answer = await make({ mid: 'newbox' });
  });
  t.is(answer?.status, 200);
  t.is(answer?.headers['content-type'], 'application/x-tar');
  t.is(answer?.headers['content-disposition'], 'attachment; filename="saltkeys-newbox.tar"');
  const { pub, pem } = unpack(t, Buffer.from(answer?.text ?? ''));
  t.is(createPublicKey(pem).export({ type: 'spki', format: 'pem' }), pub);
  const [key] = await master.keys.list();
  t.like(key, { id: 'newbox', state: 'accepted' });
  t.is(key?.publicKey.trim(), pub.trim());
  t.false(JSON.stringify(events).includes('PRIVATE KEY'));
  const again = unpack(t, Buffer.from((await make({ mid: 'newbox' })).text));
  t.deepEqual(again, { pub: '', pem: '' });
  t.is((await master.keys.list())[0]?.publicKey, key?.publicKey);
  const forced = unpack(t, Buffer.from((await make({ mid: 'newbox', force: true })).text));
  t.is((await master.keys.list())[0]?.publicKey.trim(), forced.pub.trim());
  t.not(forced.pub, pub);
});

test('who may not, or asks for what cannot be, leaves no key behind', async (t) => {
  const { ask, master } = await startApi(t, { minions: [] });
  const make = async (body: object): Promise<number> =>
    (await ask({ method: 'POST', path: '/keys', headers: json(), body })).status;
  t.is(await make({ mid: 'x' }), 401);
  t.is(await make({ ...credentials, mid: 'x', password: 'wrong' }), 401);
  t.is(await make({ ...credentials, mid: 'x', username: 'limited' }), 401);
  t.is(await make({ ...credentials }), 400);
  t.is(await make({ ...credentials, mid: '../x' }), 400);
  t.is(await make({ ...credentials, mid: 'x', keysize: 512 }), 400);
  t.deepEqual(await master.keys.list(), []);
});
