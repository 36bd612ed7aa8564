/** Replies of sites to statements, and repeated notifications, at the centre. */

import test, { type ExecutionContext } from 'ava';
import { publicBytesOf } from '#edge/identity/ed25519.ts';
import type { SiteIdentity } from '#edge/identity/site-identity.ts';
import { decodeFrame, encodeFrame } from '#edge/link/frames.ts';
import { signLeave } from '#edge/rehoming/leave-message.ts';
import { initKeys } from '../bundles/release-stage.ts';
import { type Centre, eventually, siteInfo, startCentre } from '../edge-stage.ts';
import { joinRaw, RawLink } from '../raw-site.ts';
import { importSites, offerOf, publishStatement, statementOf } from './rehoming-stage.ts';

/** Connects a site, and replies to the statement that the centre sends to it. */
async function holdStatement(
  t: ExecutionContext,
  centre: Centre,
  identity: SiteIdentity,
): Promise<string> {
  const link = await RawLink.signIn(t, centre, identity);
  t.true(await link.isWelcome());
  const frame = decodeFrame(await link.next());
  if (frame.kind !== 'request' || frame.name !== 'rehoming.give') {
    throw new Error('the centre has sent another message');
  }
  link.socket.send(encodeFrame({ kind: 'reply', id: frame.id, value: { state: 'held' } }));
  await eventually(
    async () => (await siteInfo(centre, 'north')).statement?.state === 'held',
    'the reply',
  );
  link.socket.terminate();
  return String(Object(frame.params).statement);
}

async function stage(t: ExecutionContext) {
  const centre = await startCentre(t);
  const keys = await initKeys(centre, 'centre-1');
  const offer = await offerOf(centre, ['http://127.0.0.1:9']);
  return { centre, keys, offer };
}

test('a site that has joined again gets the statement that the former key has acknowledged', async (t) => {
  const { centre, keys, offer } = await stage(t);
  const text = statementOf(offer, keys.root, { afterSeconds: 3600 });
  await publishStatement(centre, text);
  t.is(await holdStatement(t, centre, await joinRaw(t, centre, 'north')), text);
  // The disk of the site was replaced.
  const replaced = await joinRaw(t, centre, 'north');
  t.is((await siteInfo(centre, 'north')).statement?.state, 'waiting');
  t.is(await holdStatement(t, centre, replaced), text);
  await centre.rpc('site').call('revoke', { name: 'north' });
  t.is(await holdStatement(t, centre, await joinRaw(t, centre, 'north')), text);
});

test('a recorded notification does not release a site that has returned and holds a later statement', async (t) => {
  const { centre, keys, offer } = await stage(t);
  const issuedAt = Date.now() - 1000;
  await publishStatement(centre, statementOf(offer, keys.root, { afterSeconds: 3600, issuedAt }));
  const identity = await joinRaw(t, centre, 'north');
  await holdStatement(t, centre, identity);
  const leave = async (at: number): Promise<number> => {
    const signature = signLeave(identity.key, 'north', 'centre-1', at);
    const body = JSON.stringify({ name: 'north', issuedAt: at, signature });
    const headers = { 'content-type': 'application/json' };
    return (await fetch(`${centre.url}/site/v1/left`, { method: 'POST', headers, body })).status;
  };
  t.is(await leave(issuedAt), 200);
  t.is((await siteInfo(centre, 'north')).state, 'rehomed');
  const key = publicBytesOf(identity.key).toString('base64url');
  await importSites(centre, { centre: 'centre-1', sites: [{ name: 'north', key }] });
  const later = issuedAt + 500;
  await publishStatement(
    centre,
    statementOf(offer, keys.root, { afterSeconds: 3600, issuedAt: later }),
  );
  await holdStatement(t, centre, identity);
  t.is(await leave(issuedAt), 200);
  t.is((await siteInfo(centre, 'north')).state, 'joined');
  t.is(await leave(later), 200, 'the site leaves with the later statement');
  t.is((await siteInfo(centre, 'north')).state, 'rehomed');
});
