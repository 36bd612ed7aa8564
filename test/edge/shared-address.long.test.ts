/** Handshakes of sites and of strangers who have the same address, or hold many places. */

import { generateKeyPairSync } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import { type Centre, eventually, startCentre } from './edge-stage.ts';
import { joinRaw, RawLink } from './raw-site.ts';

/** Opens silent connections from an address until the centre refuses one, and returns their number. */
async function holdPlaces(t: ExecutionContext, centre: Centre, localAddress: string) {
  for (let count = 0; ; count += 1) {
    try {
      await RawLink.open(t, centre, {}, { localAddress });
    } catch {
      return count;
    }
  }
}

/** Connects a site once, so that the centre knows its address. */
async function admit(t: ExecutionContext, centre: Centre, name: string) {
  const identity = await joinRaw(t, centre, name);
  const link = await RawLink.signIn(t, centre, identity);
  t.true(await link.isWelcome());
  link.socket.terminate();
  return identity;
}

test('strangers of a few addresses leave places for handshakes of other addresses', async (t) => {
  const centre = await startCentre(t);
  const north = await joinRaw(t, centre, 'north');
  let held = 0;
  for (const last of [2, 3, 4, 5]) held += await holdPlaces(t, centre, `127.0.0.${last}`);
  t.is(held, 385);
  t.true(await (await RawLink.signIn(t, centre, north)).isWelcome());
});

test('a known site gets a place if strangers hold all places of its address', async (t) => {
  const centre = await startCentre(t);
  const north = await admit(t, centre, 'north');
  const south = await joinRaw(t, centre, 'south');
  t.true((await holdPlaces(t, centre, '127.0.0.1')) >= 127);
  t.true(await (await RawLink.signInAtOnce(t, centre, north)).isWelcome());
  // The centre has never admitted this site from the address.
  await t.throwsAsync(RawLink.signInAtOnce(t, centre, south), { message: 'status 503' });
});

test('a known site may connect if strangers of its address were refused too often', async (t) => {
  const centre = await startCentre(t);
  const north = await admit(t, centre, 'north');
  await eventually(async () => {
    try {
      const link = await RawLink.open(t, centre);
      link.socket.send(Buffer.from('nonsense'));
      await link.closed;
      return false;
    } catch (error) {
      return /status 429/.test(String(error));
    }
  });
  t.true(await (await RawLink.signInAtOnce(t, centre, north)).isWelcome());
  // A stranger who knows the name of the site has a limit too.
  const { privateKey: key } = generateKeyPairSync('ed25519');
  let refused = 0;
  await eventually(async () => {
    try {
      const link = await RawLink.signInAtOnce(t, centre, { name: 'north', key });
      t.is(await link.closed, 4403);
      refused += 1;
      return refused > 100;
    } catch (error) {
      return /status 429/.test(String(error));
    }
  });
  t.true(refused >= 60 && refused <= 100);
});
